"""What travels to the browser: the whole grid, or a pooled overview of a large one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .states import State, StateGrid
from .weights import FloatGrid

WHOLE_LIMIT = 1 << 20
"""Grids up to this many cells travel whole."""
OVERVIEW = 512
"""Rows and columns of an overview, at most."""


@dataclass(frozen=True)
class Tile:
    """Cells as they are drawn; with a bin above 1, each cell is the largest weight of its bin."""

    size: tuple[int, int]
    """Queries and keys of the whole grid."""
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
            "window": [0, self.size[0], 0, self.size[1]],
            "bin": list(self.bin),
            "data": self.values.astype("<f4", copy=False).tobytes(),
            "states": None if plain else self.states.tobytes(),
            "at": None if self.at is None else self.at.astype("<u4", copy=False).tobytes(),
        }


def tile(values: FloatGrid, states: StateGrid) -> Tile:
    """The grid itself up to `WHOLE_LIMIT` cells, above that its max-pooled overview."""
    queries, keys = values.shape
    if queries * keys <= WHOLE_LIMIT:
        return Tile((queries, keys), (1, 1), values, states, None)
    return overview(values, states)


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
    return Tile((queries, keys), (rows, columns), pooled, pooled_states, at)


def _rank(values: FloatGrid, states: StateGrid) -> FloatGrid:
    """What a bin should show first: weights by magnitude, then zeros, padding, other states."""
    rank = np.abs(values)
    rank[np.isnan(rank)] = -3
    rank[(states == State.CANNOT_LOOK) & (values == 0)] = -2
    rank[(states == State.PADDING)] = -1
    return rank
