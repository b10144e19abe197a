"""Many cells to one: each bin's largest weight and where it is, and the mean of its weights."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .states import State, StateGrid, all_plain, counted, leaks
from .weights import FloatGrid

Pool = Literal["max", "mean"]
POOLS: tuple[Pool, ...] = ("max", "mean")


class Bins:
    """Bins of (rows, columns) cells, filled a few rows at a time: no whole grid is needed.

    `queries`: numbers of the rows, first to last; `keys`: likewise of the columns.
    """

    def __init__(
        self, queries: range, keys: range, bin_: tuple[int, int], *, means: bool = False
    ) -> None:
        self._queries, self._keys, self._bin = queries, keys, bin_
        shape = (-(-len(queries) // bin_[0]), -(-len(keys) // bin_[1]))
        self._rank: FloatGrid = np.full(shape, -np.inf, dtype=np.float32)
        self.values: FloatGrid = np.full(shape, np.nan, dtype=np.float32)
        """The weight of largest magnitude in each bin; a bin without one has its first cell's."""
        self.states: StateGrid = np.zeros(shape, dtype=np.uint8)
        """Of that cell."""
        self.query: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
        self.key: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
        self._sums = np.zeros(shape) if means else None
        self._counts = np.zeros(shape) if means else None

    def add(self, first: int, values: FloatGrid, states: StateGrid) -> None:
        """Rows from number `first` (among those of `queries`) on, all keys of each."""
        height = self._bin[0]
        start = 0
        while start < len(values):
            row, skipped = divmod(first + start, height)
            stop = min(len(values), start + height - skipped)
            part = slice(start, stop)
            self._add_maxima(row, first + start, values[part], states[part])
            self._add_sums(row, values[part], states[part])
            start = stop

    def means(self) -> FloatGrid:
        """The mean of the weights in each bin; NaN where there is none.

        A weight counts where the query may look (or has leaked), and is no padding, empty, or NaN.
        """
        assert self._sums is not None
        assert self._counts is not None
        with np.errstate(invalid="ignore"):
            mean: FloatGrid = (self._sums / self._counts).astype(np.float32)
        return mean

    def _add_maxima(self, row: int, first: int, values: FloatGrid, states: StateGrid) -> None:
        width, bins = self._bin[1], self.values.shape[1]
        rank = np.full((len(values), bins * width), -np.inf, dtype=np.float32)
        rank[:, : len(self._keys)] = _rank(values, states)
        cells = rank.reshape(len(values), bins, width).transpose(1, 0, 2).reshape(bins, -1)
        best = cells.argmax(axis=1)
        top = cells[np.arange(bins), best]
        query, key = best // width, best % width + np.arange(bins) * width
        better = top > self._rank[row]  # of equals the first
        query, key = query[better], key[better]
        self._rank[row, better] = top[better]
        self.values[row, better] = values[query, key]
        self.states[row, better] = states[query, key]
        self.query[row, better] = self._queries.start + (first + query) * self._queries.step
        self.key[row, better] = self._keys.start + key

    def _add_sums(self, row: int, values: FloatGrid, states: StateGrid) -> None:
        if self._sums is None or self._counts is None:
            return
        starts = np.arange(0, len(self._keys), self._bin[1])
        if all_plain(states):
            self._sums[row] += np.add.reduceat(values.sum(axis=0, dtype=np.float64), starts)
            widths = np.diff(np.append(starts, len(self._keys)))
            self._counts[row] += len(values) * widths
            return
        there = (counted(states) | leaks(values, states)) & ~np.isnan(values)
        sums = values.sum(axis=0, dtype=np.float64, where=there)
        self._sums[row] += np.add.reduceat(sums, starts)
        self._counts[row] += np.add.reduceat(there.sum(axis=0), starts)


def _rank(values: FloatGrid, states: StateGrid) -> FloatGrid:
    """What a bin should show first: weights by magnitude, then zeros, padding, other states."""
    rank = np.abs(values)
    if all_plain(states):
        return rank
    rank[np.isnan(rank)] = -3
    rank[(states == State.CANNOT_LOOK) & (values == 0)] = -2
    rank[(states == State.PADDING)] = -1
    return rank
