"""What travels to the browser: the whole grid, or a pooled overview of a large one."""

from __future__ import annotations

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
    q0, q1, k0, k1 = window or (0, size[0], 0, size[1])
    values, states = values[q0:q1, k0:k1], states[q0:q1, k0:k1]
    if values.size <= WHOLE_LIMIT:
        return Tile(size, (q0, q1, k0, k1), (1, 1), values, states, None)
    pooled = overview(values, states)
    assert pooled.at is not None
    query, key = np.divmod(pooled.at, np.uint32(k1 - k0))
    at = ((query + np.uint32(q0)) * np.uint32(size[1]) + key + np.uint32(k0)).astype(np.uint32)
    return Tile(size, (q0, q1, k0, k1), pooled.bin, pooled.values, pooled.states, at)


def overview(values: FloatGrid, states: StateGrid, limit: int = OVERVIEW) -> Tile:
    """At most `limit` × `limit` cells, each the weight of largest magnitude in its bin.

    Where a bin holds a weight, that weight and its position are kept, so a lone spike stays
    visible; a bin without one takes the state of its first cell.
    """
    queries, keys = values.shape
    rows, columns = -(-queries // limit), -(-keys // limit)
    shape = (-(-queries // rows), -(-keys // columns))
    padded_keys = shape[1] * columns
    pooled = np.empty(shape, dtype=np.float32)
    pooled_states = np.empty(shape, dtype=np.uint8)
    at = np.empty(shape, dtype=np.uint32)
    for row in range(shape[0]):  # one band of queries at a time keeps the extra memory O(keys)
        first = row * rows
        band, band_states = values[first : first + rows], states[first : first + rows]
        height = len(band)
        rank = np.full((height, padded_keys), -np.inf, dtype=np.float32)
        rank[:, :keys] = _rank(band, band_states)
        bins = rank.reshape(height, shape[1], columns).transpose(1, 0, 2).reshape(shape[1], -1)
        best = bins.argmax(axis=1)
        query, key = best // columns, best % columns + np.arange(shape[1]) * columns
        pooled[row], pooled_states[row] = band[query, key], band_states[query, key]
        at[row] = (first + query) * keys + key
    whole = (0, queries, 0, keys)
    return Tile((queries, keys), whole, (rows, columns), pooled, pooled_states, at)


def _rank(values: FloatGrid, states: StateGrid) -> FloatGrid:
    """What a bin should show first: weights by magnitude, then zeros, padding, other states."""
    rank = np.abs(values)
    rank[np.isnan(rank)] = -3
    rank[(states == State.CANNOT_LOOK) & (values == 0)] = -2
    rank[(states == State.PADDING)] = -1
    return rank
