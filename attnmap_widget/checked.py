"""Everything that decides a map's picture, checked together, as one immutable value.

A change is a new `Checked` or an exception; nothing is half changed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from . import colors, schemes
from .arrays import ArraySource, Masks, is_mapped
from .colors import Colors
from .errors import ShapeError
from .grids import ArrayGrid, Grid, LongGrid
from .over_heads import OverHeads
from .pooling import POOLS, Pool
from .states import StateGrid, cell_states
from .tiles import Tile, Window, nameable
from .tokens import Token, accept_tokens
from .weights import BoolGrid, FloatGrid, accept, accept_bool, explain_shape

Cell = tuple[int, int]


@dataclass(frozen=True)
class Options:
    """What was asked for, each in its accepted form."""

    scheme: str | None = None
    color_range: tuple[float, float] | None = None
    color_scale: str = "linear"
    clip_percentile: float | None = None
    pool: Pool = "max"
    mask: BoolGrid | None = None
    causal: bool = False
    padding: tuple[BoolGrid, BoolGrid | None] | None = None
    exclude_keys: tuple[int, ...] = ()
    query_offset: int = 0
    not_yet: BoolGrid | None = None
    selection: Cell | None = None
    hover: Cell | None = None
    viewport: Window | None = None
    """None: everything."""


@dataclass(frozen=True)
class Checked:
    """One map: the data, the options, and what follows from them."""

    tokens: tuple[Token, ...]
    queries: tuple[Token, ...] | None
    """None: the same as `tokens`."""
    grid: Grid
    options: Options
    tile: Tile
    """The whole map as the browser gets it."""
    detail: Tile | None
    """The viewport, where `tile` is too coarse for it."""
    colors: Colors
    checks: tuple[str, ...]

    @property
    def rows(self) -> tuple[Token, ...]:
        """The tokens of the rows."""
        return self.tokens if self.queries is None else self.queries

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        return self.grid.shape

    @property
    def values(self) -> FloatGrid:
        """(queries, keys) float32, NaN where there is no weight."""
        return self._held().values

    @property
    def states(self) -> StateGrid:
        """(queries, keys) uint8, by the codes of `State`."""
        return self._held().states

    def _held(self) -> ArrayGrid:
        if isinstance(self.grid, LongGrid):
            queries, keys = self.shape
            raise ValueError(
                f"{queries} × {keys} weights are not held; read a part: weights[q0:q1, k0:k1]"
            )
        return self.grid


GRID_INPUTS = ("tokens", "queries", "weights")
_STATE_OPTIONS = ("mask", "causal", "padding", "query_offset", "not_yet")
_COLOR_OPTIONS = ("scheme", "color_range", "color_scale", "clip_percentile", "exclude_keys")
_PLACE_OPTIONS = ("selection", "hover", "viewport")
INPUTS = (*GRID_INPUTS, *_STATE_OPTIONS, *_COLOR_OPTIONS, "pool", *_PLACE_OPTIONS)


def check(before: Checked | None, changes: Mapping[str, Any]) -> Checked:
    """`before` with `changes` (names of `INPUTS`) applied.

    Raises ShapeError, TypeError or ValueError, naming the input, when they do not fit together.
    """
    tokens, queries, grid = _grid(before, changes)
    if not nameable(grid.shape):
        raise ShapeError(
            f"weights: {grid.shape[0]} × {grid.shape[1]} are too many to name each by its place; a "
            "map takes up to 33 554 432 × 33 554 432: give a part of the queries or keys"
        )
    resized = before is not None and before.shape != grid.shape
    options = before.options if before is not None else Options()
    if resized:  # a pinned cell of another grid is not a cell of this one
        options = replace(options, selection=None, hover=None, viewport=None)
    options = replace(options, **accept_options(changes, grid.shape, one_list=queries is None))
    if before is not None and (resized or "queries" in changes):
        _refuse_leftovers(options, changes, grid.shape)

    touched = set(changes)
    if isinstance(grid, ArraySource):
        grid = grid.masked(_masks(options)).read()
    elif isinstance(grid, LongGrid):
        grid = _masked(grid, options)
    elif before is None or not touched.isdisjoint((*GRID_INPUTS, *_STATE_OPTIONS)):
        grid = replace(grid, states=_states(grid, options))
    kept = before if before is not None and grid is before.grid else None
    found = kept.checks if kept else tuple(grid.checks(causal=options.causal))
    alike = kept if kept and kept.options.pool == options.pool else None
    tile = alike.tile if alike else grid.tile(None, options.pool)
    if alike and options.viewport == alike.options.viewport:
        detail = alike.detail
    elif options.viewport and tile.at is not None:
        detail = grid.tile(options.viewport, options.pool)
    else:
        detail = None
    if kept and touched <= {"selection", "hover"}:
        painted = kept.colors
    else:
        painted = _paint(grid, detail or _crop(tile, options.viewport), options)
    return Checked(tokens, queries, grid, options, tile, detail, painted, found)


def _crop(tile: Tile, window: Window | None) -> Tile:
    """The part of a tile that is in view, as far as its bins go."""
    if window is None:
        return tile
    (rows, columns), (q0, q1, k0, k1) = tile.bin, window
    top, left = q0 // rows, k0 // columns
    part = (slice(top, -(-q1 // rows)), slice(left, -(-k1 // columns)))
    queries, keys = tile.size
    covered = (
        top * rows,
        min(part[0].stop * rows, queries),
        left * columns,
        min(part[1].stop * columns, keys),
    )
    return replace(tile, values=tile.values[part], states=tile.states[part], window=covered)


def _grid(
    before: Checked | None, changes: Mapping[str, Any]
) -> tuple[tuple[Token, ...], tuple[Token, ...] | None, Grid | ArraySource]:
    """Tokens, rows and weights that fit; the states of an array are still to be found."""
    tokens = (
        accept_tokens("tokens", changes["tokens"])
        if "tokens" in changes or before is None
        else before.tokens
    )
    queries = before.queries if before is not None else None
    if "queries" in changes:
        given = changes["queries"]
        queries = None if given is None else accept_tokens("queries", given)
    shape = (len(tokens if queries is None else queries), len(tokens))
    weights = changes.get("weights")
    kept = before is not None and ("weights" not in changes or weights is before.grid.weights)
    if before is None or not kept:
        return tokens, queries, _accept_grid(weights, shape)
    if before.shape == shape:
        return tokens, queries, before.grid
    has = "×".join(map(str, before.shape))
    name = "tokens" if "tokens" in changes else "queries"
    raise ShapeError(
        f"{name}: these make {shape[0]}×{shape[1]} (queries × keys), the weights are {has}; "
        f"change both at once: update({name}=…, weights=…)"
    )


def _accept_grid(weights: Any, shape: tuple[int, int]) -> Grid | ArraySource:
    if isinstance(weights, LongGrid):
        if weights.shape != shape:
            raise ShapeError(explain_shape(weights.shape, *shape))
        return weights
    if is_mapped(weights):
        array = weights.reshape(shape) if weights.shape == (math.prod(shape),) else weights
        if array.shape == shape:
            return ArraySource(np.asarray(array))
    values, missing = accept(weights, *shape)
    return ArrayGrid(values, missing, np.zeros(shape, dtype=np.uint8))


def _states(grid: ArrayGrid, options: Options) -> StateGrid:
    return cell_states(
        grid.values,
        grid.missing,
        mask=options.mask,
        causal=options.causal,
        query_offset=options.query_offset,
        padding=options.padding,
        not_yet=options.not_yet,
    )


def _masks(options: Options) -> Masks:
    return Masks(**{name: getattr(options, name) for name in _STATE_OPTIONS})


def _masked(grid: LongGrid, options: Options) -> LongGrid:
    """The grid under the masks that are asked for: arrays have none of their own."""
    source = grid.source
    if not isinstance(source, (ArraySource, OverHeads)) or source.masks is None:
        _refuse_for_long(options)
        return grid
    masks = _masks(options)
    if source.masks.same(masks):
        return grid
    other = source.masked(masks)
    return other.first_look() if grid.survey.read < 1 else other.read()


def _refuse_for_long(options: Options) -> None:
    for name in _STATE_OPTIONS:
        if getattr(options, name) is not getattr(Options, name):
            raise ValueError(
                f"{name}: a grid that is not held has the mask of its source and takes no other"
            )


def accept_options(
    changes: Mapping[str, Any], shape: tuple[int, ...], *, one_list: bool
) -> dict[str, Any]:
    """The options among `changes` in their accepted form, for a grid of `shape`; raises if none."""
    accepted: dict[str, Any] = {}
    for name in (*_STATE_OPTIONS, *_COLOR_OPTIONS, "pool", *_PLACE_OPTIONS):
        if name not in changes:
            continue
        given = changes[name]
        match name:
            case "mask" | "not_yet":
                value: Any = None if given is None else accept_bool(name, given, shape)
            case "causal":
                value = _flag(name, given)
            case "padding":
                value = None if given is None else _padding(given, shape, one_list=one_list)
            case "query_offset":
                value = _whole(name, given, 0, 1 << 40)
            case "exclude_keys":
                value = _keys(given, shape[1])
            case "scheme":
                value = None if given is None else schemes.find(given).name
            case "color_range":
                value = None if given is None else _range(given)
            case "color_scale":
                value = _scale(given)
            case "clip_percentile":
                value = None if given is None else _percentile(given)
            case "pool":
                value = _pool(given)
            case "viewport":
                value = None if given is None else _window(given, shape)
            case _:
                value = None if given is None else _cell(name, given, shape)
        accepted[name] = value
    return accepted


def _refuse_leftovers(options: Options, changes: Mapping[str, Any], shape: tuple[int, ...]) -> None:
    """Options of the grid before that do not fit this one must be given anew, not dropped."""
    for name in ("mask", "not_yet"):
        kept = getattr(options, name)
        if name not in changes and kept is not None and kept.shape != shape:
            raise ShapeError(
                f"{name}: the one set before has shape {kept.shape}, the grid is now {shape}; "
                f"give a new one or {name}=None in the same update"
            )
    if "padding" not in changes and options.padding is not None:
        keys, queries = options.padding
        if len(keys) != shape[1] or (queries is not None and len(queries) != shape[0]):
            raise ShapeError(
                f"padding: the one set before does not fit the grid of now {shape}; give a new "
                "one or padding=None in the same update"
            )
    if "exclude_keys" not in changes and any(key >= shape[1] for key in options.exclude_keys):
        raise ShapeError(
            f"exclude_keys: {options.exclude_keys} was set before, the grid now has {shape[1]} "
            "keys; give new ones or exclude_keys=() in the same update"
        )


def _paint(grid: Grid, shown: Tile, options: Options) -> Colors:
    cells = grid.cells(shown, options.exclude_keys)
    name = options.scheme
    if name is None:
        counts = cells.values[cells.states == 0]
        negative = bool(counts.size) and bool((counts < 0).any())
        name = schemes.DIVERGING_DEFAULT if negative else schemes.SEQUENTIAL_DEFAULT
    return colors.resolve(
        cells,
        schemes.find(name),
        scale=options.color_scale,
        color_range=options.color_range,
        clip_percentile=options.clip_percentile,
        exclude_keys=options.exclude_keys,
    )


def _padding(
    given: Any, shape: tuple[int, ...], *, one_list: bool
) -> tuple[BoolGrid, BoolGrid | None]:
    """(keys,) or a pair ((keys,), (queries,)); one token list is padded on both axes."""
    if isinstance(given, tuple) and len(given) == 2 and _has_length(given[0]):
        keys = accept_bool("padding of the keys", given[0], (shape[1],))
        return keys, accept_bool("padding of the queries", given[1], (shape[0],))
    keys = accept_bool("padding", given, (shape[1],))
    return keys, keys if one_list else None


def _has_length(item: Any) -> bool:
    return hasattr(item, "__len__") and getattr(item, "ndim", 1) == 1


def _flag(name: str, given: Any) -> bool:
    if isinstance(given, bool) or type(given).__name__ in ("bool_", "bool"):
        return bool(given)
    raise TypeError(f"{name}: got {given!r}, expected True or False")


def _keys(given: Any, count: int) -> tuple[int, ...]:
    if given is None:
        return ()
    try:
        keys = list(given)
    except TypeError:
        raise TypeError(f"exclude_keys: got {given!r}, expected a list of key indices") from None
    return tuple(dict.fromkeys(_whole("exclude_keys", key, 0, count) for key in keys))


def _whole(name: str, given: Any, low: int, end: int) -> int:
    """An integer of any kind in [low, end)."""
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}: got {given!r}, expected an integer") from None
    if isinstance(given, bool) or not low <= number < end:
        raise ValueError(f"{name}: got {given!r}, accepted is {low} to {end - 1}")
    return number


def _cell(name: str, given: Any, shape: tuple[int, ...]) -> Cell:
    try:
        query, key = given
    except (TypeError, ValueError):
        raise ValueError(f"{name}: got {given!r}, expected (query, key) or None") from None
    return (
        _whole(f"{name}: query", query, 0, shape[0]),
        _whole(f"{name}: key", key, 0, shape[1]),
    )


def _window(given: Any, shape: tuple[int, ...]) -> Window | None:
    """Part of the grid; None when it is all of it."""
    try:
        q0, q1, k0, k1 = given
    except (TypeError, ValueError):
        raise ValueError(f"viewport: got {given!r}, expected (q0, q1, k0, k1) or None") from None
    window = (
        _whole("viewport: q0", q0, 0, shape[0]),
        _whole("viewport: q1", q1, 1, shape[0] + 1),
        _whole("viewport: k0", k0, 0, shape[1]),
        _whole("viewport: k1", k1, 1, shape[1] + 1),
    )
    if window[0] >= window[1] or window[2] >= window[3]:
        raise ValueError(f"viewport: {given!r} is empty; the ends are not included")
    return None if window == (0, shape[0], 0, shape[1]) else window


def _range(given: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        raise ValueError(f"color_range: got {given!r}, expected (low, high) or None") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"color_range: got {given!r}, expected finite numbers with low < high")
    return low, high


def _scale(given: Any) -> str:
    if given not in colors.SCALES:
        raise ValueError(f"color_scale: got {given!r}, accepted are {', '.join(colors.SCALES)}")
    return str(given)


def _pool(given: Any) -> Pool:
    for known in POOLS:
        if given == known:
            return known
    raise ValueError(f"pool: got {given!r}, accepted are {', '.join(POOLS)}")


def _percentile(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 < float(given) <= 100:
        raise ValueError(f"clip_percentile: got {given!r}, expected a number above 0, up to 100")
    return float(given)


_ELSEWHERE = {
    "cmap": "scheme", "colormap": "scheme", "palette": "scheme",
    "vmin": "color_range=(low, high)", "vmax": "color_range=(low, high)",
    "annot": "show_values", "xticklabels": "tokens", "yticklabels": "queries",
}  # fmt: skip
"""What other plotting libraries call it."""


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    """TypeError naming the first unknown option and the close ones."""
    import difflib

    known = sorted(known)
    for name in names:
        if name in _ELSEWHERE:
            raise TypeError(f"unknown option {name!r}; here it is {_ELSEWHERE[name]}")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
            raise TypeError(f"unknown option {name!r}; {hint}")
