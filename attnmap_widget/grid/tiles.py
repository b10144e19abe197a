"""What travels to the browser: the whole grid, or a pooled overview of a large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .pooling import Bins, Pool
from .states import State, StateGrid
from .weights import FloatGrid

Window = tuple[int, int, int, int]
"""(q0, q1, k0, k1): queries q0 to q1 and keys k0 to k1, ends not included."""

WHOLE_LIMIT = 1 << 20
"""Grids and windows up to this many cells travel whole."""
OVERVIEW = 512
"""Rows and columns of an overview, at most."""
_AT_ONCE = 1 << 22
"""Cells that are pooled at once, about."""


Read = Callable[[Window], tuple[FloatGrid, StateGrid]]
"""Weights and states of a window."""


@dataclass(frozen=True)
class Tile:
    """Cells as they are drawn; with a bin above 1, each is the largest or the mean of its bin."""

    size: tuple[int, int]
    """Queries and keys of the whole grid."""
    window: Window
    """The part of the grid that is in it."""
    bin: tuple[int, int]
    """Queries and keys per cell."""
    values: FloatGrid
    states: StateGrid
    at: NDArray[np.int64] | None
    """query * keys + key of the largest weight in each cell; None when every bin is one cell."""
    pool: Pool = "max"
    """How the cells of a bin, and those that share a pixel, become one."""

    def to_wire(self) -> dict[str, Any]:
        """As the front end's `WireTile`: bytes, never lists of numbers.

        A pooled tile is what travels first of a long map, and every byte of it is waited for: its
        states go two to a byte, and positions count from their bin, which takes 2 bytes each as
        long as bins have up to 65 536 cells.
        """
        plain = bool((self.states <= State.ZERO).all())
        states = self.states.ravel()
        if self.at is not None:
            states = _halves(states)
        return {
            "size": list(self.size),
            "shape": list(self.values.shape),
            "window": list(self.window),
            "bin": list(self.bin),
            "pool": self.pool,
            "data": self.values.astype("<f4", copy=False).tobytes(),
            "states": None if plain else states.tobytes(),
            "at": None if self.at is None else self._offsets(self.at).tobytes(),
        }

    def _offsets(self, at: NDArray[np.int64]) -> NDArray[np.uint16 | np.uint32]:
        """Of each position from the start of its bin: row * columns of the bin + column.

        A first look shows a query that was read for others that were not: it may lie below its bin.
        """
        (rows, columns), (q0, _, k0, _) = self.bin, self.window
        queries, keys = np.divmod(at.astype(np.int64), self.size[1])
        queries -= q0 + np.arange(at.shape[0])[:, None] * rows
        keys -= k0 + np.arange(at.shape[1]) * columns
        offsets = queries * columns + keys
        kind = "<u2" if offsets.max(initial=0) < 1 << 16 else "<u4"
        narrow: NDArray[np.uint16 | np.uint32] = offsets.astype(kind)
        return narrow


def _halves(states: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Two states a byte, the first in its low half."""
    even = np.append(states, np.zeros(len(states) % 2, dtype=np.uint8))
    return even[::2] | np.left_shift(even[1::2], 4, dtype=np.uint8)


def bin_of(size: tuple[int, int], limit: int = OVERVIEW) -> tuple[int, int]:
    """Queries and keys per cell of an overview."""
    return max(1, -(-size[0] // limit)), max(1, -(-size[1] // limit))


def nameable(size: tuple[int, int]) -> bool:
    """Whether each cell of a bin has a number of 32 bits: else positions would wrap around."""
    rows, columns = bin_of(size)
    return rows * columns <= 1 << 32


def tile(
    values: FloatGrid, states: StateGrid, window: Window | None = None, pool: Pool = "max"
) -> Tile:
    """The grid, or that window of it: whole up to `WHOLE_LIMIT` cells, else pooled."""
    size = (values.shape[0], values.shape[1])

    def read(part: Window) -> tuple[FloatGrid, StateGrid]:
        q0, q1, k0, k1 = part
        return values[q0:q1, k0:k1], states[q0:q1, k0:k1]

    return read_tile(read, size, window or (0, size[0], 0, size[1]), pool)


def read_tile(read: Read, size: tuple[int, int], window: Window, pool: Pool = "max") -> Tile:
    """That window of a grid of `size`: whole up to `WHOLE_LIMIT` cells, else pooled."""
    q0, q1, k0, k1 = window
    if (q1 - q0) * (k1 - k0) > WHOLE_LIMIT:
        return pooled(read, size, window, pool=pool)
    values, states = read(window)
    return Tile(size, window, (1, 1), values, states, None, pool)


def pooled(
    read: Read, size: tuple[int, int], window: Window, limit: int = OVERVIEW, pool: Pool = "max"
) -> Tile:
    """At most `limit` × `limit` cells, each the weight of largest magnitude in its bin.

    Where a bin holds a weight, that weight and its position are kept, so a lone spike stays
    visible; a bin without one takes the state of its first cell. With `pool` "mean" each cell is
    the mean of the weights in its bin, and position and state are still those of the largest.
    """
    q0, q1, k0, k1 = window
    bin_ = bin_of((q1 - q0, k1 - k0), limit)
    bins = Bins(range(q0, q1), range(k0, k1), bin_, means=pool == "mean")
    # A part of a band of bins at a time keeps the extra memory O(keys).
    step = max(1, min(bin_[0], _AT_ONCE // (k1 - k0)))
    for first in range(q0, q1, step):
        bins.add(first - q0, *read((first, min(first + step, q1), k0, k1)))
    at = bins.query * size[1] + bins.key
    values = bins.values if pool == "max" else averaged(bins.means(), bins.values)
    return Tile(size, window, bin_, values, bins.states, at, pool)


def averaged(means: FloatGrid, largest: FloatGrid) -> FloatGrid:
    """Cells of a mean-pooled tile: a bin without a weight shows what it does with the largest."""
    shown: FloatGrid = np.where(np.isnan(means), largest, means)
    return shown
