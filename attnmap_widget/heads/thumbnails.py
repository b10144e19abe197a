"""One head as a thumbnail: pooled to a few cells, each a level of one byte. Knows numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..grid.states import State, StateGrid, counted, leaks
from ..grid.weights import FloatGrid

FIRST, STEPS = 8, 246
"""Levels from FIRST to FIRST + STEPS are weights; one below FIRST is the `State` it spells."""
LARGEST = 32
"""Cells of a thumbnail's longer side, at most."""
_SMALLEST = 8
_ALL_CELLS = 1 << 18
"""Cells of all thumbnails together, as far as `_SMALLEST` lets them."""
_NARROWEST = 4
"""A map more than so many times as long as wide is drawn wider than it is."""

# What a bin without any weight shows: what is missing before what is meant to be missing.
_FAINT_FIRST = (
    State.CANNOT_LOOK, State.PADDING, State.NOT_YET, State.EMPTY, State.NO_VALID_KEY,
)  # fmt: skip
_RANK = np.zeros(len(State), dtype=np.uint8)
_RANK[list(_FAINT_FIRST)] = range(1, len(_FAINT_FIRST) + 1)
_STATE_OF_RANK = np.array([State.EMPTY, *_FAINT_FIRST], dtype=np.uint8)


class Thumbnail(NamedTuple):
    """One head, small."""

    levels: NDArray[np.uint8]
    """(rows, columns)."""
    low: float
    high: float
    """The weights that the levels FIRST and FIRST + STEPS stand for; those beyond are clipped."""
    shape: tuple[int, int]
    """(queries, keys) of the head."""
    pooled: tuple[int, int]
    """Queries and keys per cell."""


def side(heads: int) -> int:
    """Cells of the longer side of each of so many thumbnails."""
    return int(np.clip(np.sqrt(_ALL_CELLS / max(1, heads)), _SMALLEST, LARGEST))


def thumbnail(
    values: FloatGrid,
    states: StateGrid,
    longest: int,
    *,
    exclude_keys: Sequence[int] = (),
    scale: tuple[int, int] = (1, 1),
) -> Thumbnail:
    """(queries, keys) weights and their states as at most longest × longest levels.

    A cell is the weight of largest magnitude in its bin, so that a lone spike stays; without any
    weight it is a state, never zero. Bins are square, so a rectangular map keeps its shape, down to
    1 : 4. Levels run from 0, or from minus the largest magnitude where weights are negative, to
    the largest weight, those of `exclude_keys` left out. `scale`: cells that each value stands for.
    """
    seen = counted(states) | leaks(values, states)
    weights = np.where(seen, values, np.float32(np.nan))
    ranked = weights
    if len(exclude_keys):
        ranked = weights.copy()
        ranked[:, list(exclude_keys)] = np.nan
    there = ranked[~np.isnan(ranked)]
    high = float(there.max(initial=0.0))
    low = float(there.min(initial=0.0))
    if low < 0:
        high = max(-low, high)
        low = -high
    bin_ = _bin(weights.shape, longest)
    largest = _pool(weights, bin_, signed=bool(np.fmin.reduce(weights, axis=None, initial=0.0) < 0))
    levels = _levels(largest, low, high)
    empty = np.isnan(largest)
    if empty.any():
        levels[empty] = _STATE_OF_RANK[_reduced(np.maximum, _RANK[states], bin_)[empty]]
    queries, keys = values.shape
    return Thumbnail(
        levels,
        low,
        high,
        (queries * scale[0], keys * scale[1]),
        (bin_[0] * scale[0], bin_[1] * scale[1]),
    )


def coarser(levels: NDArray[np.uint8], factor: int, *, signed: bool) -> NDArray[np.uint8]:
    """The levels pooled again, the one of largest magnitude in each factor × factor."""
    bin_ = (factor, factor)
    highest: NDArray[np.uint8] = _reduced(np.maximum, levels, bin_)
    if not signed:
        return highest
    weights = np.where(levels < FIRST, np.uint8(FIRST + STEPS), levels)
    lowest = _reduced(np.minimum, weights, bin_)
    middle = FIRST + STEPS // 2
    below = middle - lowest.astype(int) > np.abs(highest.astype(int) - middle)
    return np.where((highest >= FIRST) & below, lowest, highest)


def _bin(shape: tuple[int, ...], longest: int) -> tuple[int, int]:
    """Rows and columns of a bin."""
    square = max(1, -(-max(shape) // longest))
    fewest = max(1, longest // _NARROWEST)
    rows, columns = (min(square, max(1, -(-length // fewest))) for length in shape)
    return rows, columns


def _pool(weights: FloatGrid, bin_: tuple[int, int], *, signed: bool) -> FloatGrid:
    """The weight of largest magnitude of each bin, NaN where it has none."""
    highest = _reduced(np.fmax, weights, bin_)
    if not signed:
        return highest
    lowest = _reduced(np.fmin, weights, bin_)
    return np.where(-lowest > highest, lowest, highest)


def _reduced(by: np.ufunc, grid: NDArray[Any], bin_: tuple[int, int]) -> NDArray[Any]:
    for axis, length in enumerate(bin_):
        if length > 1:
            grid = by.reduceat(grid, np.arange(0, grid.shape[axis], length), axis=axis)
    return grid


def _levels(weights: FloatGrid, low: float, high: float) -> NDArray[np.uint8]:
    span = high - low or 1.0
    shares = np.clip((np.nan_to_num(weights).astype(np.float64) - low) / span, 0.0, 1.0)
    return (FIRST + np.rint(shares * STEPS)).astype(np.uint8)
