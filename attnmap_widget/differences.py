"""b − a of two maps: what may be subtracted, what each cell is, where it is largest.

Pure: from two `Checked` maps to the inputs of three.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .errors import ShapeError
from .grid import labels, schemes
from .grid.checked import Checked, check
from .grid.grids import LongGrid
from .grid.options import Options
from .grid.states import State, counted, leaks
from .grid.tokens import Token
from .grid.weights import FloatGrid

_HELD_LIMIT = 1 << 25
"""Cells of a grid that is read whole to be compared."""
_SHARED = ("scheme", "color_scale", "clip_percentile")


class Difference(NamedTuple):
    """One cell in which two maps differ."""

    query: int
    key: int
    a: float
    b: float
    difference: float
    """b − a."""


def held(name: str, given: Checked) -> Checked:
    """The same map with its weights in memory; ValueError where they are too many."""
    if not isinstance(given.grid, LongGrid):
        return given
    queries, keys = given.shape
    if queries * keys > _HELD_LIMIT:
        raise ValueError(
            f"compare: {name} has {queries} × {keys} weights, which are not held; compare a part: "
            "(tokens[k0:k1], cap.weights(layer, head, queries=slice(q0, q1), keys=slice(k0, k1)), "
            "tokens[q0:q1])"
        )
    values, states = given.grid.source.window((0, queries, 0, keys))
    cannot = states == State.CANNOT_LOOK
    inputs = {"tokens": given.tokens, "queries": given.queries, "weights": values}
    options = {"mask": ~cannot if cannot.any() else None}
    return check(None, {**inputs, **_options(given.options), **options})


def refuse_misfit(a: Checked, b: Checked) -> None:
    """ShapeError with both counts, and where the tokens diverge, unless both have as many."""
    one_list = a.queries is None and b.queries is None
    sides = [("key", a.tokens, b.tokens)]
    if not one_list:
        sides.append(("query", a.rows, b.rows))
    found = [text for axis, first, second in sides if (text := _diverging(axis, first, second))]
    if found:
        raise ShapeError(
            f"compare: {'; '.join(found)}. A difference is taken cell by cell, so both maps need "
            "as many queries and keys"
        )


def _diverging(axis: str, a: tuple[Token, ...], b: tuple[Token, ...]) -> str:
    if len(a) == len(b):
        return ""
    many = "keys" if axis == "key" else "queries"
    counts = f"{len(a)} {many} against {len(b)}"
    for index, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return f"{counts}: they diverge at {axis} {index} ({one!r} against {other!r})"
    first = min(len(a), len(b))
    rest = a if len(a) > len(b) else b
    return f"{counts}: the longer list goes on at {axis} {first} ({rest[first]!r})"


def on_one_range(a: Checked, b: Checked) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of both maps, with one scheme and scale and one colour range.

    Where the two ask for different ones, a's holds; the range covers both, also ranges that were
    given.
    """
    default = Options()
    shared = {}
    for name in _SHARED:
        mine, theirs = getattr(a.options, name), getattr(b.options, name)
        shared[name] = theirs if mine == getattr(default, name) else mine
    if shared["scheme"] is None:
        negative = any((c.values[counted(c.states)] < 0).any() for c in (a, b))
        shared["scheme"] = schemes.DIVERGING_DEFAULT if negative else schemes.SEQUENTIAL_DEFAULT
    inputs = [{**_inputs(checked), **shared} for checked in (a, b)]
    if shared["color_scale"] != "row":
        ranges = [check(None, given).colors.range for given in inputs]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        for given in inputs:
            given["color_range"] = (low, high)
    return inputs[0], inputs[1]


def subtract(a: Checked, b: Checked) -> dict[str, Any]:
    """The inputs of the map b − a, in a diverging scheme around 0.

    A cell without a weight in either is empty, never zero. "Cannot look", "not yet" and "no valid
    key" stay where they hold for both; padding of either is padding.
    """
    refuse_misfit(a, b)
    with np.errstate(over="ignore"):
        values: FloatGrid = b.values - a.values
    if (beyond := np.argwhere(np.isinf(values))).size:
        query, key = beyond[0].tolist()
        raise ValueError(
            f"compare: the difference at query {query}, key {key} is more than float32 holds; "
            "divide both maps by the same number"
        )
    both = {
        state: (a.states == state) & (b.states == state)
        for state in (State.CANNOT_LOOK, State.NOT_YET, State.NO_VALID_KEY)
    }
    # A row without a valid key in both is NaN all over, padding included.
    hopeless = both[State.NO_VALID_KEY].any(axis=1, keepdims=True)
    empty = np.isnan(values) & ~(hopeless & np.isnan(a.values) & np.isnan(b.values))
    inputs: dict[str, Any] = {
        "tokens": _both(a.tokens, b.tokens),
        "queries": None if a.queries is None and b.queries is None else _both(a.rows, b.rows),
        "weights": np.ma.MaskedArray(values, mask=empty),
        "mask": ~both[State.CANNOT_LOOK] if both[State.CANNOT_LOOK].any() else None,
        "not_yet": both[State.NOT_YET] if both[State.NOT_YET].any() else None,
        "padding": _padding(a, b),
        "exclude_keys": tuple(dict.fromkeys((*a.options.exclude_keys, *b.options.exclude_keys))),
        "query_title": _title("query_title", a, b),
        "key_title": _title("key_title", a, b),
        "positions": _positions(a, b),
        "query_offset": 0,
        "softmax": False,
        "value_title": "difference",
        "scheme": schemes.DIVERGING_DEFAULT,
        "color_scale": "symmetric",
        "color_range": None,
    }
    return inputs


def largest(a: Checked, b: Checked, difference: Checked, count: int) -> list[Difference]:
    """The cells that differ most, by |b − a|; of equals the first row by row. No zeros."""
    values = difference.values
    there = counted(difference.states) | leaks(values, difference.states)
    places = np.flatnonzero(there & (values != 0) & ~np.isnan(values))
    order = np.argsort(-np.abs(values.ravel()[places]), kind="stable")[:count]
    keys = values.shape[1]
    return [
        Difference(
            int(place) // keys,
            int(place) % keys,
            *(float(c.values.flat[place]) for c in (a, b, difference)),
        )
        for place in places[order]
    ]


def _both(a: tuple[Token, ...], b: tuple[Token, ...]) -> list[Token]:
    """The tokens where both have the same, as read by people; "big | small" where they differ."""
    if a == b:
        return list(a)
    pairs = zip(labels.readable(a), labels.readable(b), strict=True)
    return [one if one == other else f"{one} | {other}" for one, other in pairs]


def _title(name: str, a: Checked, b: Checked) -> str:
    """What both call an axis; both names where they differ."""
    first, second = (getattr(c.options, name) for c in (a, b))
    return str(first) if first == second else f"{first} | {second}"


def _positions(a: Checked, b: Checked) -> Any:
    """Where keys and queries stand in both maps; the index along an axis where they differ."""
    sides = []
    for of_a, of_b, count in (
        (a.axes.keys, b.axes.keys, a.shape[1]),
        (a.axes.queries, b.axes.queries, a.shape[0]),
    ):
        first, second = (np.arange(count) if at is None else at for at in (of_a, of_b))
        given = of_a is not None or of_b is not None
        sides.append(first if given and np.array_equal(first, second) else None)
    if sides[0] is None and sides[1] is None:
        return None
    return sides[0] if a.one_axis and b.one_axis else (sides[0], sides[1])


def _padding(a: Checked, b: Checked) -> Any:
    given = [c.options.padding for c in (a, b) if c.options.padding is not None]
    if not given:
        return None
    queries = np.zeros(a.shape[0], dtype=bool)
    keys = np.zeros(a.shape[1], dtype=bool)
    for columns, rows in given:
        keys = keys | columns
        queries = queries if rows is None else queries | rows
    return keys, queries


def _inputs(given: Checked) -> dict[str, Any]:
    assert not isinstance(given.grid, LongGrid)
    weights = np.ma.MaskedArray(given.values, mask=given.grid.missing)
    return {
        "tokens": given.tokens,
        "queries": given.queries,
        "weights": weights,
        **_options(given.options),
    }


def _options(options: Options) -> dict[str, Any]:
    """All but the places, which are the reader's."""
    kept = replace(options, selection=None, hover=None, viewport=None)
    found = {n: v for n, v in vars(kept).items() if n not in ("selection", "hover", "viewport")}
    if kept.padding is not None and kept.padding[1] is None:
        found["padding"] = kept.padding[0]
    return found
