"""Reading a map in numbers and words: row sums, leans, what looks wrong, the lesson's text grid."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .axes import PLAIN, Axes
from .states import State, StateGrid, counted, leaks
from .weights import FloatGrid

_SUM_TOLERANCE = 0.015
"""Rows of half-precision models and of grids typed with two decimals are this far from 1."""
_UNIFORM_TOLERANCE = 1e-3


class Lean(NamedTuple):
    """Where one row leans: its largest weight (-1 is smaller than 0.5; the first of equals)."""

    query: int
    key: int
    weight: float


def row_sums(values: FloatGrid) -> NDArray[np.float64]:
    """(queries,) float64: what is there in each row, added up; 0.0 where there is nothing."""
    sums: NDArray[np.float64] = np.nansum(values, axis=1, dtype=np.float64)
    return sums


def leans(values: FloatGrid, states: StateGrid) -> list[Lean | None]:
    """One `Lean` per row, None for a row with no weight outside padding."""
    there = ~np.isnan(values) & (states != State.PADDING)
    ranked = np.where(there, values, -np.inf)
    keys = ranked.argmax(axis=1)
    return [
        Lean(query, int(key), float(values[query, key])) if there[query, key] else None
        for query, key in enumerate(keys)
    ]


def largest_keys(
    values: FloatGrid, states: StateGrid, count: int
) -> tuple[NDArray[np.int64], FloatGrid]:
    """The `count` largest weights but zeros of one row (keys,) and their keys, in falling order."""
    there = np.flatnonzero((counted(states) | leaks(values, states)) & (values != 0))
    order = np.argsort(-values[there], kind="stable")[:count]
    keys = there[order].astype(np.int64)
    return keys, values[keys]


def checks(
    values: FloatGrid, states: StateGrid, *, causal: bool = False, axes: Axes = PLAIN
) -> list[str]:
    """Sentences on what looks wrong with a (queries, keys) grid; empty when nothing does.

    What is true of attention alone (rows sum to 1, no weight below 0) is asked of attention alone,
    not where `axes` say that rows and columns are something else.
    """
    found = _check_attention(values, states) if axes.attention else []
    leaked = leaks(values, states)
    if leaked.any():
        by_index = causal and axes.queries is None and axes.keys is None
        where = "above the diagonal" if by_index else "where the query cannot look"
        where = where if axes.attention else "in masked cells"
        query, key = (int(i) for i in np.argwhere(leaked)[0])
        found.append(
            f"mass {where} {np.abs(values[leaked], dtype=np.float64).sum():.2f} in "
            f"{_count(int(leaked.sum()), 'cell')}, first at {axes.query(query)}, {axes.key(key)}"
        )
    hopeless = np.flatnonzero((states == State.NO_VALID_KEY).any(axis=1))
    if hopeless.size:
        found.append(_without_key(hopeless, axes))
    if axes.attention and _all_uniform(values, states):
        found.append(
            "all rows are uniform, as in a model that was not trained or whose weights were not "
            "loaded"
        )
    return found


def _check_attention(values: FloatGrid, states: StateGrid) -> list[str]:
    found = []
    weights = values[counted(states)]
    negative = weights[weights < 0]
    if negative.size:
        found.append(
            f"{_count(negative.size, 'weight')} below 0 (lowest {negative.min():.2f}): scores "
            "before softmax, or a difference?"
        )
    return found + _check_sums(values, states, negative=bool(negative.size))


def _check_sums(values: FloatGrid, states: StateGrid, *, negative: bool) -> list[str]:
    """Rows are judged where each of their cells is known."""
    unknown = (states == State.EMPTY) | (states == State.NO_VALID_KEY)
    padding_row = (states == State.PADDING).all(axis=1)
    known = ~unknown.any(axis=1) & ~padding_row
    if not known.any():
        return []
    sums = row_sums(values)[known]
    off = np.abs(sums - 1) > _SUM_TOLERANCE
    if not off.any():
        return []
    spread = f"{sums[off].min():.2f} to {sums[off].max():.2f}"
    rows = f"{int(off.sum())} of {_count(sums.size, 'row')}"
    columns = np.nansum(values, axis=0, dtype=np.float64)
    if known.all() and (np.abs(columns - 1) <= _SUM_TOLERANCE).all():
        return [
            f"columns sum to 1 and {rows} do not ({spread}): transposed? Rows should be queries"
        ]
    if negative or sums.max() > 1 + _SUM_TOLERANCE:
        cause = (
            "raw scores before softmax?"
            if negative or sums.max() > 1.5
            else "raw scores, or dropout?"
        )
        return [f"{rows} do not sum to 1 ({spread}): {cause}"]
    return [f"{rows} sum to less than 1 ({spread}): a sink, dropout, or keys that are not shown?"]


def check_long(sums: NDArray[np.float64], largest: FloatGrid, axes: Axes = PLAIN) -> list[str]:
    """Sentences on a grid that is known by its rows: (queries,) sums and largest weights."""
    found = []
    hopeless = np.flatnonzero(np.isnan(largest))
    sums = sums[~np.isnan(largest)]
    off = np.abs(sums - 1) > _SUM_TOLERANCE
    if axes.attention and off.any():
        spread = f"{sums[off].min():.2f} to {sums[off].max():.2f}"
        rows = f"{int(off.sum())} of {_count(sums.size, 'row')}"
        found.append(f"{rows} do not sum to 1 ({spread}): a sink, or keys that are not shown?")
    if hopeless.size:
        found.append(_without_key(hopeless, axes))
    return found


def _all_uniform(values: FloatGrid, states: StateGrid) -> bool:
    counts = counted(states)
    choices = counts.sum(axis=1)
    rows = choices > 1
    if not rows.any():
        return False
    top = np.where(counts, values, -np.inf).max(axis=1)
    bottom = np.where(counts, values, np.inf).min(axis=1)
    spread = (top - bottom)[rows]
    return bool((spread <= _UNIFORM_TOLERANCE * np.abs(top[rows])).all() and (top[rows] > 0).all())


def text_grid(
    queries: Sequence[str], keys: Sequence[str], values: FloatGrid, states: StateGrid
) -> str:
    """The lesson's grid: key labels on top, then a query label and its weights a line.

    Two decimals; a cell without a weight is blank, a row without a valid key says nan.
    """
    widths = [max(5, _width(key) + 1) if _width(key) > 4 else 5 for key in keys]
    margin = max([4, *(_width(query) for query in queries)])
    lines = [" " * margin + "".join(_right(key, w) for key, w in zip(keys, widths, strict=True))]
    for query, row, row_states in zip(queries, values, states, strict=True):
        cells = [
            _right(_number(weight, state), width)
            for weight, state, width in zip(row, row_states, widths, strict=True)
        ]
        lines.append((_right(query, margin) + "".join(cells)).rstrip())
    return "\n".join(lines)


def _number(weight: np.float32, state: np.uint8) -> str:
    if np.isnan(weight):
        return "nan" if state == State.NO_VALID_KEY else ""
    return f"{weight:.2f}"


def _width(text: str) -> int:
    """Columns that `text` takes in a fixed-width font."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.combining(character) != 0 for character in text)
    return len(text) + wide - marks


def _right(text: str, width: int) -> str:
    return " " * (width - _width(text)) + text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _without_key(rows: NDArray[np.intp], axes: Axes, limit: int = 8) -> str:
    shown = ", ".join(str(axes.query_at(int(row))) for row in rows[:limit])
    more = ", …" if rows.size > limit else ""
    return f"{_count(rows.size, 'row')} with {axes.no_key} (NaN): {shown}{more}"
