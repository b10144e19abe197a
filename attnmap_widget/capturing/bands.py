"""Masks that leave each query one run of keys: causal, sliding window, padding, packed sequences.

They need no (queries, keys) tensor, and say which blocks of a head need not be computed at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .operations import MASK_CONSTANT, Add, Causal, Fill, Lengths, Operation, Tile, Window

_HIDDEN = -1e9
"""Added to, or put in place of, a score, this and less leaves a weight of exactly 0."""
_MOST_BIAS = 1e6
"""A bias may not bring back what a mask of −1e9 hides."""
_MASK_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class Bands:
    """Row i may look at keys low[i] ≤ key < high[i] only; both int64 (queries,), 0 and 0: none."""

    low: Tensor
    high: Tensor

    @classmethod
    def made(cls, low: Tensor, high: Tensor, keys: int) -> Bands:
        """Bands within [0, keys], empty ones as (0, 0)."""
        low, high = low.clamp(0, keys), high.clamp(0, keys)
        empty = low >= high
        return cls(low.masked_fill(empty, 0), high.masked_fill(empty, 0))

    def rows(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Low and high of these rows, int32: half as much to compare every cell with."""
        return self.low[rows].to(torch.int32), self.high[rows].to(torch.int32)

    def span(self, rows: slice) -> tuple[int, int]:
        """The keys that any of these rows may look at lie in [first, last)."""
        low, high = self.low[rows], self.high[rows]
        last = int(high.max())
        return (int(low.masked_fill(high == 0, last).min()), last) if last else (0, 0)

    def counts(
        self, rows: range, there: Tensor, bin_: tuple[int, int], shape: tuple[int, int]
    ) -> Tensor:
        """How many cells of each bin the rows may look at, float64 ``shape``.

        Only rows that are ``there`` (bool, one for each of ``rows``); bins of (rows read, keys).
        """
        (height, columns), (_, width) = bin_, shape
        read = slice(rows.start, rows.stop, rows.step)
        bins = torch.arange(len(rows), device="cpu") // height
        ones = there.to(torch.float64)
        ends = torch.arange(width + 1, device="cpu") * columns

        def beyond(edge: Tensor) -> Tensor:
            """Σ of max(0, end − edge) over the rows of a bin, for each end: (bins, ends)."""
            into = (bins, edge // columns + 1)
            how_many, total = (
                torch.zeros(shape[0], width + 2, dtype=torch.float64, device="cpu")
                .index_put_(into, what, accumulate=True)
                .cumsum(1)[:, : width + 1]
                for what in (ones, ones * edge)
            )
            return ends * how_many - total

        return (beyond(self.low[read]) - beyond(self.high[read])).diff(dim=1)

    def forbidden(self, rows: int, columns: int, shape: tuple[int, int]) -> Tensor:
        """Bins of rows × columns cells that no row may look into, bool ``shape``."""
        height, width = shape
        counts = torch.zeros(height, width + 1, dtype=torch.int32, device="cpu")
        bins = torch.arange(len(self.low), device="cpu") // rows
        one = (self.high > 0).to(torch.int32)
        # Each band adds 1 where it begins and takes it back where it ends.
        counts.index_put_((bins, self.low // columns), one, accumulate=True)
        counts.index_put_((bins, -(-self.high // columns)), -one, accumulate=True)
        return counts.cumsum(1, dtype=torch.int32)[:, :width] == 0


def by_position(operations: Iterable[Operation], batch: int, shape: tuple[int, int]) -> Bands:
    """What causal masks, sliding windows and lengths leave open; other operations count for none.

    ``shape``: (queries, keys).
    """
    queries, keys = shape
    row = torch.arange(queries, device="cpu")
    low, high = torch.zeros_like(row), torch.full_like(row, keys)
    for step in operations:
        if isinstance(step, Causal):
            high = torch.minimum(high, row + step.offset + 1)
        elif isinstance(step, Window):
            low = torch.maximum(low, row + step.offset - step.size + 1)
        elif isinstance(step, Lengths):
            length = step.lengths[batch]
            high = high.clamp(max=length).masked_fill(row >= length, 0)
    return Bands.made(low, high, keys)


def is_finite(mask: Fill | Add) -> bool:
    """Whether the mask may hide with a number: a row of which all is hidden has weights then."""
    return isinstance(mask, Add) or math.isfinite(mask.value)


def band_of(
    mask: Fill | Add, batch: int, head: int, shape: tuple[int, int], *, biased: bool = False
) -> Bands | None:
    """The band of each row that a mask tensor leaves open; None where it is not one band.

    ``biased``: what is added may hold any numbers besides.
    """
    reads: Callable[[Tile], Tensor] | None = _fill_reader(mask) or _add_reader(mask, biased)
    if reads is None:
        return None
    queries, keys = shape
    tensor = mask.tensors()[0]
    low = torch.zeros(queries, dtype=torch.int64, device="cpu")
    high = torch.zeros_like(low)
    step = max(1, _MASK_CELLS // max(1, keys))
    for start in range(0, queries, step):
        rows = slice(start, min(queries, start + step), 1)
        allowed = reads(Tile(batch, head, rows, slice(0, keys, 1))).to("cpu")
        if not allowed.numel():
            return None
        if allowed.shape[1] == 1:
            allowed = allowed.expand(-1, keys)
        found = _runs(allowed)
        if found is None:
            return None
        low[rows], high[rows] = found
        if tensor.shape[2] == 1:  # one row for all queries
            return Bands.made(low[:1].expand(queries), high[:1].expand(queries), keys)
    return Bands.made(low, high, keys)


def _fill_reader(mask: Fill | Add) -> Callable[[Tile], Tensor] | None:
    if not isinstance(mask, Fill) or mask.value > _HIDDEN:
        return None

    def read(tile: Tile) -> Tensor:
        where = tile.pick(mask.where).to(torch.bool)
        return where if mask.keep else ~where

    return read


def _add_reader(mask: Fill | Add, biased: bool) -> Callable[[Tile], Tensor] | None:
    """Additive masks hold 0 and very negative numbers, biases anything that is no mask."""
    if not isinstance(mask, Add) or not isinstance(mask.term, Tensor) or mask.term.ndim == 0:
        return None
    term = mask.term

    def read(tile: Tile) -> Tensor:
        values = tile.pick(term) * mask.factor
        # A bias between the two constants counts as a mask and still may leave a weight.
        allowed = values > MASK_CONSTANT if biased else values == 0
        known = bool((allowed | (values <= _HIDDEN)).all())
        if biased and known and not bool(values.amax() < _MOST_BIAS):
            known = False
        return allowed if known else allowed[:0]

    return read


def _runs(allowed: Tensor) -> Tensor | None:
    """First key and end of the run of True in each row, (2, rows); None where a row has two."""
    grid = allowed.numpy()
    found = np.zeros((2, len(grid)), dtype=np.int64)
    # By rows: numpy scans the bytes of one row many at a time, and stops at the first True.
    for place, row in enumerate(grid):
        count = np.count_nonzero(row)
        first = int(row.argmax())
        if np.count_nonzero(row[first : first + count]) != count:
            return None
        if count:
            found[:, place] = first, first + count
    return torch.from_numpy(found)
