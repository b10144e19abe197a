"""Everything that decides a map's picture, checked together, as one immutable value.

A change is a new `Checked` or an exception; nothing is half changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ShapeError
from . import axes, colors, schemes
from .arrays import ArraySource, Masks, is_mapped
from .axes import Axes
from .colors import Colors
from .grids import ArrayGrid, Grid, LongGrid
from .options import AXIS_OPTIONS, GRID_INPUTS, STATE_OPTIONS, Options, accept_options
from .over_heads import OverHeads
from .states import StateGrid, cell_states, counted_values
from .tiles import Tile, Window, nameable
from .tokens import Token, accept_tokens
from .weights import FloatGrid, accept, explain_shape


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
    axes: Axes
    """What rows and columns are called, and their positions."""

    @property
    def rows(self) -> tuple[Token, ...]:
        """The tokens of the rows."""
        return self.tokens if self.queries is None else self.queries

    @property
    def one_axis(self) -> bool:
        """Whether the rows are the keys: the same tokens in the same places."""
        return self.queries is None and self.axes.queries is self.axes.keys

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
    if before is None or resized or not touched.isdisjoint((*AXIS_OPTIONS, "query_offset")):
        named = axes.resolve(
            options.positions,
            options.query_offset,
            grid.shape[0],
            options.query_title,
            options.key_title,
        )
    else:
        named = before.axes
    if isinstance(grid, ArraySource):
        grid = grid.masked(_masks(options, named)).read()
    elif isinstance(grid, LongGrid):
        grid = _masked(grid, options, named)
    elif (
        before is None
        or not touched.isdisjoint((*GRID_INPUTS, *STATE_OPTIONS))
        or (options.causal and "positions" in touched)
    ):
        grid = replace(grid, states=_states(grid, options, named))
    kept = before if before is not None and grid is before.grid else None
    if kept and named is kept.axes and options.softmax == kept.options.softmax:
        found = kept.checks
    else:
        found = tuple(grid.checks(causal=options.causal, axes=named, softmax=options.softmax))
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
        painted = _paint(grid, detail or _crop(tile, options.viewport), options, named)
    return Checked(tokens, queries, grid, options, tile, detail, painted, found, named)


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


def _states(grid: ArrayGrid, options: Options, named: Axes) -> StateGrid:
    return cell_states(
        grid.values,
        grid.missing,
        mask=options.mask,
        causal=options.causal,
        query_positions=named.queries,
        key_positions=named.keys,
        padding=options.padding,
        not_yet=options.not_yet,
    )


def _masks(options: Options, named: Axes) -> Masks:
    return Masks(
        mask=options.mask,
        causal=options.causal,
        query_positions=named.queries if options.causal else None,
        key_positions=named.keys if options.causal else None,
        padding=options.padding,
        not_yet=options.not_yet,
    )


def _masked(grid: LongGrid, options: Options, named: Axes) -> LongGrid:
    """The grid under the masks that are asked for: arrays have none of their own."""
    source = grid.source
    if not isinstance(source, (ArraySource, OverHeads)) or source.masks is None:
        _refuse_for_long(options)
        return grid
    masks = _masks(options, named)
    if source.masks.same(masks):
        return grid
    other = source.masked(masks)
    return other.first_look() if grid.survey.read < 1 else other.read()


def _refuse_for_long(options: Options) -> None:
    for name in STATE_OPTIONS:
        if getattr(options, name) is not getattr(Options, name):
            raise ValueError(
                f"{name}: a grid that is not held has the mask of its source and takes no other"
            )


def _refuse_leftovers(options: Options, changes: Mapping[str, Any], shape: tuple[int, ...]) -> None:
    """Options of the grid before that do not fit this one must be given anew, not dropped."""
    for name in ("mask", "not_yet"):
        kept = getattr(options, name)
        if name not in changes and kept is not None and kept.shape != shape:
            raise ShapeError(
                f"{name}: the one set before has shape {kept.shape}, the grid is now {shape}; "
                f"give a new one or {name}=None in the same update"
            )
    for name in ("padding", "positions"):
        keys, queries = getattr(options, name) or (None, None)
        if name not in changes and any(
            along is not None and len(along) != length
            for along, length in ((keys, shape[1]), (queries, shape[0]))
        ):
            raise ShapeError(
                f"{name}: the one set before does not fit the grid of now {shape}; give a new "
                f"one or {name}=None in the same update"
            )
    if "generated" not in changes and options.generated is not None:
        ends = zip(options.generated, reversed(shape), strict=True)
        if any(index is not None and index > count for index, count in ends):
            raise ShapeError(
                f"generated: {options.generated} was set before, the grid is now {shape}; give a "
                "new one or generated=None in the same update"
            )
    if "exclude_keys" not in changes and any(key >= shape[1] for key in options.exclude_keys):
        raise ShapeError(
            f"exclude_keys: {options.exclude_keys} was set before, the grid now has {shape[1]} "
            "keys; give new ones or exclude_keys=() in the same update"
        )


def _paint(grid: Grid, shown: Tile, options: Options, named: Axes) -> Colors:
    cells = grid.cells(shown, options.exclude_keys)
    name = options.scheme
    if name is None:
        negative = bool(counted_values(cells.values, cells.states).min(initial=0) < 0)
        name = schemes.DIVERGING_DEFAULT if negative else schemes.SEQUENTIAL_DEFAULT
    return colors.resolve(
        cells,
        schemes.find(name),
        scale=options.color_scale,
        color_range=options.color_range,
        clip_percentile=options.clip_percentile,
        excluded=[named.key(key) for key in options.exclude_keys],
    )
