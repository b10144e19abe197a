"""What looks wrong with a grid of weights, in sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .axes import PLAIN, Axes
from .reading import largest_of_rows, row_sums
from .states import State, StateGrid, all_plain, counted, leaks
from .weights import FloatGrid

_SUM_TOLERANCE = 0.015
"""Rows of half-precision models and of grids typed with two decimals are this far from 1."""
_UNIFORM_TOLERANCE = 1e-3


def checks(
    values: FloatGrid,
    states: StateGrid,
    *,
    causal: bool = False,
    axes: Axes = PLAIN,
    softmax: bool = True,
) -> list[str]:
    """Sentences on what looks wrong with a (queries, keys) grid; empty when nothing does.

    What is true of attention alone (rows sum to 1, no weight below 0) is asked of attention alone,
    not where `axes` say that rows and columns are something else. Without `softmax` the weights
    may be of any sign and sum, as norms and differences are.
    """
    tally = Tally((values.shape[0], values.shape[1]))
    tally.add(0, values, states)
    found = tally.checks(causal=causal, axes=axes, softmax=softmax)
    if axes.attention and softmax and _all_uniform(values, states):
        found.append(
            "all rows are uniform, as in a model that was not trained or whose weights were not "
            "loaded"
        )
    return found


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

    def checks(self, *, causal: bool, axes: Axes, softmax: bool) -> list[str]:
        """As the function of that name, which also looks for rows that are all uniform."""
        found = []
        if axes.attention and softmax:
            if self._below:
                found.append(_say_negative(self._below, float(self._lowest)))
            if self._known.any():
                columns = self._columns if self._known.all() else None
                sums = self.sums[self._known]
                found += _say_sums(sums, columns, negative=self._below > 0, axes=axes)
        if self._leaks:
            found.append(_say_leaks(self._leaked, self._leaks, self._first_leak, causal, axes))
        hopeless = np.flatnonzero(self._hopeless)
        return [*found, *([_without_key(hopeless, axes)] if hopeless.size else [])]


def _say_negative(count: int, lowest: float) -> str:
    return (
        f"{_count(count, 'weight')} below 0 (lowest {lowest:.2f}): scores before softmax, or a "
        "difference?"
    )


def _say_sums(
    sums: NDArray[np.float64], columns: NDArray[np.float64] | None, *, negative: bool, axes: Axes
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
    cause = (
        "the rest is with keys that were left out?"
        if axes.skips_keys
        else "a sink, dropout, or keys that are not shown?"
    )
    return [f"{rows} sum to less than 1 ({spread}): {cause}"]


def _say_leaks(mass: float, count: int, first: tuple[int, int], causal: bool, axes: Axes) -> str:
    by_index = causal and axes.queries is None and axes.keys is None
    where = "above the diagonal" if by_index else "where the query cannot look"
    where = where if axes.attention else "in masked cells"
    query, key = first
    cells = _count(count, "cell")
    return f"mass {where} {mass:.2f} in {cells}, first at {axes.query(query)}, {axes.key(key)}"


def check_long(
    sums: NDArray[np.float64], largest: FloatGrid, axes: Axes = PLAIN, *, softmax: bool = True
) -> list[str]:
    """Sentences on a grid that is known by its rows: (queries,) sums and largest weights."""
    found = []
    hopeless = np.flatnonzero(np.isnan(largest))
    sums = sums[~np.isnan(largest)]
    off = np.abs(sums - 1) > _SUM_TOLERANCE
    if axes.attention and softmax and off.any():
        spread = f"{sums[off].min():.2f} to {sums[off].max():.2f}"
        rows = f"{int(off.sum())} of {_count(sums.size, 'row')}"
        found.append(f"{rows} do not sum to 1 ({spread}): a sink, or keys that are not shown?")
    if hopeless.size:
        found.append(_without_key(hopeless, axes))
    return found


def _all_uniform(values: FloatGrid, states: StateGrid) -> bool:
    probe = 64
    if len(values) > probe and not _may_be_uniform(values[:probe], states[:probe]):
        return False
    return _may_be_uniform(values, states) and bool((counted(states).sum(axis=1) > 1).any())


def _may_be_uniform(values: FloatGrid, states: StateGrid) -> bool:
    """No row of several weights has unequal ones."""
    counts = counted(states)
    choices = counts.sum(axis=1)
    rows = choices > 1
    top = np.where(counts, values, -np.inf).max(axis=1)
    bottom = np.where(counts, values, np.inf).min(axis=1)
    spread = (top - bottom)[rows]
    return bool((spread <= _UNIFORM_TOLERANCE * np.abs(top[rows])).all() and (top[rows] > 0).all())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _without_key(rows: NDArray[np.intp], axes: Axes, limit: int = 8) -> str:
    shown = ", ".join(str(axes.query_at(int(row))) for row in rows[:limit])
    more = ", …" if rows.size > limit else ""
    return f"{_count(rows.size, 'row')} with {axes.no_key} (NaN): {shown}{more}"
