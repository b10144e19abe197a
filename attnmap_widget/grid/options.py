"""The options of a map, each in its accepted form."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from . import axes, colors, schemes
from .axes import IntArray
from .pooling import POOLS, Pool
from .tiles import Window
from .weights import BoolGrid, accept_bool

Cell = tuple[int, int]

GRID_INPUTS = ("tokens", "queries", "weights")
STATE_OPTIONS = ("mask", "causal", "padding", "query_offset", "not_yet")
AXIS_OPTIONS = ("positions", "generated", "query_title", "key_title")
_COLOR_OPTIONS = ("scheme", "color_range", "color_scale", "clip_percentile", "exclude_keys")
_PLACE_OPTIONS = ("selection", "hover", "viewport")
INPUTS = (
    *GRID_INPUTS,
    *STATE_OPTIONS,
    "softmax",
    "value_title",
    *AXIS_OPTIONS,
    *_COLOR_OPTIONS,
    "pool",
    *_PLACE_OPTIONS,
)


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
    positions: tuple[IntArray | None, IntArray | None] | None = None
    """(keys, queries); None: the index, of rows from `query_offset` on."""
    not_yet: BoolGrid | None = None
    softmax: bool = True
    generated: tuple[int | None, int | None] | None = None
    """From which (key, query) on the tokens were generated; None: no mark on that axis."""
    selection: Cell | None = None
    hover: Cell | None = None
    viewport: Window | None = None
    """None: everything."""
    query_title: str = axes.QUERY
    key_title: str = axes.KEY
    value_title: str = axes.VALUE


def accept_options(
    changes: Mapping[str, Any], shape: tuple[int, ...], *, one_list: bool
) -> dict[str, Any]:
    """The options among `changes` in their accepted form, for a grid of `shape`; raises if none."""
    accepted: dict[str, Any] = {}
    for name in INPUTS[len(GRID_INPUTS) :]:
        if name not in changes:
            continue
        given = changes[name]
        match name:
            case "mask" | "not_yet":
                value: Any = None if given is None else accept_bool(name, given, shape)
            case "causal" | "softmax":
                value = _flag(name, given)
            case "padding":
                value = None if given is None else _padding(given, shape, one_list=one_list)
            case "query_offset":
                value = _whole(name, given, 0, 1 << 31)
            case "positions":
                value = (
                    None
                    if given is None
                    else axes.accept_positions(given, shape, one_list=one_list)
                )
            case "generated":
                value = None if given is None else _marks(given, shape, one_list=one_list)
            case "query_title" | "key_title" | "value_title":
                value = axes.accept_title(name, given)
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


def _padding(
    given: Any, shape: tuple[int, ...], *, one_list: bool
) -> tuple[BoolGrid, BoolGrid | None]:
    """(keys,) or a pair ((keys,), (queries,)); one token list is padded on both axes."""
    if isinstance(given, tuple) and len(given) == 2 and _has_length(given[0]):
        keys = accept_bool("padding of the keys", given[0], (shape[1],))
        return keys, accept_bool("padding of the queries", given[1], (shape[0],))
    keys = accept_bool("padding", given, (shape[1],))
    return keys, keys if one_list else None


def _marks(
    given: Any, shape: tuple[int, ...], *, one_list: bool
) -> tuple[int | None, int | None] | None:
    """A key index, of the rows too where those are the same tokens; or a pair (key, query)."""
    if isinstance(given, tuple) and len(given) == 2:
        ends = zip(("key", "query"), given, reversed(shape), strict=True)
        key, query = (
            None if index is None else _whole(f"generated: {name}", index, 0, count + 1)
            for name, index, count in ends
        )
        return None if key is None and query is None else (key, query)
    key = _whole("generated", given, 0, shape[1] + 1)
    return key, key if one_list else None


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
        raise ValueError(f"clip_percentile: got {given!r}, expected a number above 1, up to 100")
    if given <= 1:
        raise ValueError(
            f"clip_percentile: got {given!r}; it is in percent: for a share of {given:g} give "
            f"{100 * given:g}"
        )
    return float(given)


_ELSEWHERE = {
    "cmap": "scheme", "colormap": "scheme", "palette": "scheme",
    "vmin": "color_range=(low, high)", "vmax": "color_range=(low, high)",
    "annot": "show_values", "xticklabels": "tokens", "yticklabels": "queries",
}  # fmt: skip
"""What other plotting libraries call it."""


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    """TypeError naming the first unknown option and the close ones."""
    known = sorted(known)
    for name in names:
        if name in _ELSEWHERE:
            raise TypeError(f"unknown option {name!r}; here it is {_ELSEWHERE[name]}")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
            raise TypeError(f"unknown option {name!r}; {hint}")
