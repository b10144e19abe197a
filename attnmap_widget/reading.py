"""Reading a map in numbers and words: row sums, leans, what looks wrong, the lesson's text grid."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .states import State, StateGrid, all_plain, counted, leaks
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


def checks(values: FloatGrid, states: StateGrid, *, causal: bool = False) -> list[str]:
    """Sentences on what looks wrong with a (queries, keys) grid; empty when nothing does."""
    found = []
    weights = values[counted(states)]
    negative = weights[weights < 0]
    if negative.size:
        found.append(_say_negative(negative.size, float(negative.min())))
    found += _check_sums(values, states, negative=bool(negative.size))
    leaked = leaks(values, states)
    if leaked.any():
        query, key = (int(i) for i in np.argwhere(leaked)[0])
        mass = float(np.abs(values[leaked], dtype=np.float64).sum())
        found.append(_say_leaks(mass, int(leaked.sum()), (query, key), causal=causal))
    hopeless = np.flatnonzero((states == State.NO_VALID_KEY).any(axis=1))
    if hopeless.size:
        found.append(_say_hopeless(hopeless))
    if _all_uniform(values, states):
        found.append(
            "all rows are uniform, as in a model that was not trained or whose weights were not "
            "loaded"
        )
    return found


def _check_sums(values: FloatGrid, states: StateGrid, *, negative: bool) -> list[str]:
    """Rows are judged where each of their cells is known."""
    unknown = (states == State.EMPTY) | (states == State.NO_VALID_KEY)
    padding_row = (states == State.PADDING).all(axis=1)
    known = ~unknown.any(axis=1) & ~padding_row
    if not known.any():
        return []
    columns: NDArray[np.float64] | None = None
    if known.all():
        columns = np.nansum(values, axis=0, dtype=np.float64)
    return _say_sums(row_sums(values)[known], columns, negative=negative)


def _say_sums(
    sums: NDArray[np.float64], columns: NDArray[np.float64] | None, *, negative: bool
) -> list[str]:
    """On rows that do not sum to 1; `columns` are the sums of the keys where all are known."""
    off = np.abs(sums - 1) > _SUM_TOLERANCE
    if not off.any():
        return []
    spread = f"{sums[off].min():.2f} to {sums[off].max():.2f}"
    rows = f"{int(off.sum())} of {_count(sums.size, 'row')}"
    if columns is not None and (np.abs(columns - 1) <= _SUM_TOLERANCE).all():
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


class Tally:
    """What `checks` needs to know of a (queries, keys) grid that is read a few rows at a time."""

    def __init__(self, shape: tuple[int, int]) -> None:
        queries, keys = shape
        self.sums: NDArray[np.float64] = np.zeros(queries)
        self.lean_keys: NDArray[np.int64] = np.zeros(queries, dtype=np.int64)
        self.lean_weights: FloatGrid = np.full(queries, np.nan, dtype=np.float32)
        self._known = np.zeros(queries, dtype=bool)
        self._hopeless = np.zeros(queries, dtype=bool)
        self._columns = np.zeros(keys)
        self._below, self._lowest = 0, np.float32(0)
        self._leaks, self._leaked, self._first_leak = 0, 0.0, (0, 0)

    def add(self, first: int, values: FloatGrid, states: StateGrid) -> None:
        """Rows from number `first` on."""
        rows = slice(first, first + len(values))
        self.lean_keys[rows], self.lean_weights[rows] = largest_of_rows(values, states)
        if all_plain(states):
            self.sums[rows] = values.sum(axis=1, dtype=np.float64)
            self._columns += values.sum(axis=0, dtype=np.float64)
            self._known[rows] = True
            lowest = values.min()
            if lowest < 0:
                self._below += int((values < 0).sum())
                self._lowest = min(self._lowest, lowest)
            return
        self.sums[rows] = row_sums(values)
        self._columns += np.nansum(values, axis=0, dtype=np.float64)
        unknown = (states == State.EMPTY) | (states == State.NO_VALID_KEY)
        self._known[rows] = ~(unknown.any(axis=1) | (states == State.PADDING).all(axis=1))
        self._hopeless[rows] = (states == State.NO_VALID_KEY).any(axis=1)
        below = (values < 0) & counted(states)
        if below.any():
            self._below += int(below.sum())
            self._lowest = min(self._lowest, values[below].min())
        leaked = leaks(values, states)
        if leaked.any():
            if not self._leaks:
                row, key = (int(i) for i in np.argwhere(leaked)[0])
                self._first_leak = first + row, key
            self._leaks += int(leaked.sum())
            self._leaked += float(np.abs(values[leaked], dtype=np.float64).sum())

    def sentences(self, *, causal: bool) -> tuple[str, ...]:
        """What looks wrong, in the words of `checks`."""
        found = [] if not self._below else [_say_negative(self._below, float(self._lowest))]
        if self._known.any():
            columns = self._columns if self._known.all() else None
            found += _say_sums(self.sums[self._known], columns, negative=self._below > 0)
        if self._leaks:
            found.append(_say_leaks(self._leaked, self._leaks, self._first_leak, causal=causal))
        hopeless = np.flatnonzero(self._hopeless)
        return (*found, *([_say_hopeless(hopeless)] if hopeless.size else []))


def _say_negative(count: int, lowest: float) -> str:
    return (
        f"{_count(count, 'weight')} below 0 (lowest {lowest:.2f}): scores before softmax, or a "
        "difference?"
    )


def _say_leaks(mass: float, count: int, first: tuple[int, int], *, causal: bool) -> str:
    where = "above the diagonal" if causal else "where the query cannot look"
    query, key = first
    return f"mass {where} {mass:.2f} in {_count(count, 'cell')}, first at query {query}, key {key}"


def _say_hopeless(rows: NDArray[np.intp]) -> str:
    return f"{_count(rows.size, 'row')} with no valid key (NaN): {_some(rows)}"


def check_long(sums: NDArray[np.float64], largest: FloatGrid) -> list[str]:
    """Sentences on a grid that is known by its rows: (queries,) sums and largest weights."""
    found = []
    hopeless = np.flatnonzero(np.isnan(largest))
    sums = sums[~np.isnan(largest)]
    off = np.abs(sums - 1) > _SUM_TOLERANCE
    if off.any():
        spread = f"{sums[off].min():.2f} to {sums[off].max():.2f}"
        rows = f"{int(off.sum())} of {_count(sums.size, 'row')}"
        found.append(f"{rows} do not sum to 1 ({spread}): a sink, or keys that are not shown?")
    if hopeless.size:
        found.append(_say_hopeless(hopeless))
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


def _some(indices: NDArray[np.intp], limit: int = 8) -> str:
    shown = ", ".join(str(index) for index in indices[:limit])
    return f"{shown}, …" if indices.size > limit else shown
