"""Reading a map in numbers and words: row sums, leans, the lesson's text grid."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .states import State, StateGrid, all_plain, counted, leaks
from .weights import FloatGrid


class Lean(NamedTuple):
    """Where one row leans: its largest weight (-1 is smaller than 0.5; the first of equals)."""

    query: int
    key: int
    weight: float


def row_sums(values: FloatGrid) -> NDArray[np.float64]:
    """(queries,) float64: what is there in each row, added up; 0.0 where there is nothing."""
    sums: NDArray[np.float64] = np.nansum(values, axis=1, dtype=np.float64)
    return sums


def largest_of_rows(values: FloatGrid, states: StateGrid) -> tuple[NDArray[np.int64], FloatGrid]:
    """The key of each row's largest weight and that weight; NaN for a row without any."""
    rows = np.arange(len(values))
    if all_plain(states):
        keys = values.argmax(axis=1)
        return keys.astype(np.int64), values[rows, keys]
    there = ~np.isnan(values) & (states != State.PADDING)
    keys = np.where(there, values, -np.inf).argmax(axis=1)
    largest: FloatGrid = np.where(there[rows, keys], values[rows, keys], np.float32(np.nan))
    return keys.astype(np.int64), largest


def leans(values: FloatGrid, states: StateGrid) -> list[Lean | None]:
    """One `Lean` per row, None for a row with no weight outside padding."""
    return as_leans(*largest_of_rows(values, states))


def as_leans(keys: NDArray[np.int64], weights: FloatGrid) -> list[Lean | None]:
    """The same of what `largest_of_rows` found: (queries,) keys and weights."""
    return [
        None if np.isnan(weight) else Lean(query, int(key), float(weight))
        for query, (key, weight) in enumerate(zip(keys, weights, strict=True))
    ]


def largest_keys(
    values: FloatGrid, states: StateGrid, count: int
) -> tuple[NDArray[np.int64], FloatGrid]:
    """The `count` largest weights but zeros of one row (keys,) and their keys, in falling order."""
    there = np.flatnonzero((counted(states) | leaks(values, states)) & (values != 0))
    order = np.argsort(-values[there], kind="stable")[:count]
    keys = there[order].astype(np.int64)
    return keys, values[keys]


def text_grid(
    queries: Sequence[str], keys: Sequence[str], values: FloatGrid, states: StateGrid
) -> str:
    """The lesson's grid: key labels on top, then a query label and its weights a line.

    Two decimals. "·": this query cannot look at this key; a cell without a weight is blank, a row
    without a valid key says nan. A weight that is where none may be is written like any other.
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
    if state == State.CANNOT_LOOK and not weight > 0 and not weight < 0:
        return "·"
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
