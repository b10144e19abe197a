"""What travels to the browser: the whole grid, or a pooled overview of a large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .states import State, StateGrid
from .weights import FloatGrid

Window = tuple[int, int, int, int]
"""(q0, q1, k0, k1): queries q0 to q1 and keys k0 to k1, ends not included."""

WHOLE_LIMIT = 1 << 20
"""Grids and windows up to this many cells travel whole."""
OVERVIEW = 512
"""Rows and columns of an overview, at most."""


Read = Callable[[Window], tuple[FloatGrid, StateGrid]]
"""Weights and states of a window."""


@dataclass(frozen=True)
class Tile:
    """Cells as they are drawn; with a bin above 1, each cell is the largest weight of its bin."""

    size: tuple[int, int]
    """Queries and keys of the whole grid."""
    window: Window
    """The part of the grid that is in it."""
    bin: tuple[int, int]
    """Queries and keys per cell."""
    values: FloatGrid
    states: StateGrid
    at: NDArray[np.uint32] | None
    """query * keys + key of the largest weight in each cell; None when every bin is one cell."""

    def to_wire(self) -> dict[str, Any]:
        """As the front end's `WireTile`: bytes, never lists of numbers."""
        plain = bool((self.states <= State.ZERO).all())
        return {
            "size": list(self.size),
            "shape": list(self.values.shape),
            "window": list(self.window),
            "bin": list(self.bin),
            "data": self.values.astype("<f4", copy=False).tobytes(),
            "states": None if plain else self.states.tobytes(),
            "at": None if self.at is None else self.at.astype("<u4", copy=False).tobytes(),
        }


def tile(values: FloatGrid, states: StateGrid, window: Window | None = None) -> Tile:
    """The grid, or that window of it: whole up to `WHOLE_LIMIT` cells, else max-pooled."""
    size = (values.shape[0], values.shape[1])

    def read(part: Window) -> tuple[FloatGrid, StateGrid]:
        q0, q1, k0, k1 = part
        return values[q0:q1, k0:k1], states[q0:q1, k0:k1]

    return read_tile(read, size, window or (0, size[0], 0, size[1]))


def read_tile(read: Read, size: tuple[int, int], window: Window) -> Tile:
    """That window of a grid of `size`: whole up to `WHOLE_LIMIT` cells, else max-pooled."""
    q0, q1, k0, k1 = window
    if (q1 - q0) * (k1 - k0) > WHOLE_LIMIT:
        return pooled(read, size, window)
    values, states = read(window)
    return Tile(size, window, (1, 1), values, states, None)


def pooled(read: Read, size: tuple[int, int], window: Window, limit: int = OVERVIEW) -> Tile:
    """At most `limit` × `limit` cells, each the weight of largest magnitude in its bin.

    Where a bin holds a weight, that weight and its position are kept, so a lone spike stays
    visible; a bin without one takes the state of its first cell.
    """
    q0, q1, k0, k1 = window
    rows, columns = -(-(q1 - q0) // limit), -(-(k1 - k0) // limit)
    shape = (-(-(q1 - q0) // rows), -(-(k1 - k0) // columns))
    weights = np.empty(shape, dtype=np.float32)
    states = np.empty(shape, dtype=np.uint8)
    at = np.empty(shape, dtype=np.uint32)
    for row in range(shape[0]):  # one band of queries at a time keeps the extra memory O(keys)
        first = q0 + row * rows
        band, band_states = read((first, min(first + rows, q1), k0, k1))
        rank = np.full((len(band), shape[1] * columns), -np.inf, dtype=np.float32)
        rank[:, : k1 - k0] = _rank(band, band_states)
        bins = rank.reshape(len(band), shape[1], columns).transpose(1, 0, 2)
        best = bins.reshape(shape[1], -1).argmax(axis=1)
        query, key = best // columns, best % columns + np.arange(shape[1]) * columns
        weights[row], states[row] = band[query, key], band_states[query, key]
        at[row] = (first + query) * size[1] + k0 + key
    return Tile(size, window, (rows, columns), weights, states, at)


def _rank(values: FloatGrid, states: StateGrid) -> FloatGrid:
    """What a bin should show first: weights by magnitude, then zeros, padding, other states."""
    rank = np.abs(values)
    if states.max() <= State.ZERO:
        return rank
    rank[np.isnan(rank)] = -3
    rank[(states == State.CANNOT_LOOK) & (values == 0)] = -2
    rank[(states == State.PADDING)] = -1
    return rank
