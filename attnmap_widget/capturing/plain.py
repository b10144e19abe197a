"""Scores of a head that are scale · q·kᵀ under a mask of bands: what long sequences mostly are.

A soft-cap or position biases may come between (`Shaping`). Without biases scores are in base 2;
with them they stay the model's own until a reference has been taken off, see `scoring`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from .bands import Bands
from .scoring import FAR, LOG2_E, Panel
from .shaping import Shaping

_SAFE = 100.0
"""Base-2 scores of at most this size need no reference: sums stay within float32."""


class Plain:
    """scale · q·kᵀ, shaped, and a band of keys for each row; float32."""

    dtype = torch.float32
    lowest = FAR / 2

    def __init__(
        self,
        queries: Tensor,
        keys: Tensor,
        factor: float,
        bands: Bands,
        sink: float | None,
        *,
        shaping: Shaping | None = None,
    ) -> None:
        self.shape = (queries.shape[0], keys.shape[0])
        self.queries, self.keys, self.bands = queries, keys, bands
        self.shaping, self.factor, self.unit = shaping, factor * LOG2_E, 1.0
        self.sink = None if sink is None else sink * LOG2_E
        if shaping is not None and shaping.biases:
            self.factor, self.unit, self.sink = 1.0, LOG2_E, sink
            self.shaping = replace(shaping, scale=factor)
        elif shaping is not None and shaping.cap is not None:
            self.factor = factor
            self.shaping = replace(shaping, cap=shaping.cap * LOG2_E)

    def scores(self, rows: slice, keys: slice, more: Tensor | None = None) -> Tensor:
        """See `ScoreSource.scores`; ``more`` (rows,) is added to each row."""
        queries, keys_ = _plain(self.queries[rows]) * self.factor, _plain(self.keys[keys]).T
        if self.shaping is not None:
            found = queries @ keys_
            self.shaping.tile(found, rows, keys)
            if more is not None:
                found += more[:, None]
        elif more is not None:
            # Added by the product itself, which saves a walk through all scores.
            found = torch.addmm(more[:, None], queries, keys_)
        else:
            found = queries @ keys_
        low, high = self.bands.rows(rows)
        panel = Panel(
            rows, len(low), 0, 0,
            low=low, high=high, below=int(low.max()), above=int(high.min()),
        )  # fmt: skip
        hide(found[:, None], panel, keys.start, -math.inf)
        return found

    def blocks(self, columns: int, width: int) -> PlainBlocks:
        """See `ScoreSource.blocks`."""
        return PlainBlocks(self, columns, width)

    def best_key(self, rows: Tensor, first: int, columns: int) -> Tensor:
        """Key of the highest score of given rows within given bins; rows and result (bins, many).

        Bin number first + b holds ``columns`` keys and is read for rows[b]; the first of equals.
        """
        bins, many = rows.shape
        start = first * columns
        keys = torch.zeros(bins * columns, self.keys.shape[1], dtype=self.dtype, device="cpu")
        there = self.keys[start : start + bins * columns]
        torch.mul(_plain(there), self.factor, out=keys[: len(there)])
        # The reduced axis is not the last one: see `Blocks.fill`.
        chosen = self.queries.index_select(0, rows.reshape(-1))
        found = torch.bmm(
            keys.view(bins, columns, -1), _plain(chosen).view(bins, many, -1).transpose(1, 2)
        )
        begin = torch.arange(start, start + bins * columns, columns, device="cpu")[:, None]
        if self.shaping is not None:
            key = (begin + torch.arange(columns, device="cpu"))[:, :, None]
            self.shaping.cells(found, rows[:, None], key)
        low, high = self.bands.low[rows] - begin, self.bands.high[rows] - begin
        cut = (low > 0) | (high < columns)
        if bool(cut.any()):
            bin_, place = cut.nonzero(as_tuple=True)
            key = torch.arange(columns, device="cpu")[None]
            outside = (key < low[cut][:, None]) | (key >= high[cut][:, None])
            found[bin_, :, place] = found[bin_, :, place].masked_fill(outside, -math.inf)
        return found.max(1).indices + begin


class PlainBlocks:
    """`Blocks` of plain scores: one matmul each, on keys that were put in order beforehand."""

    def __init__(self, source: Plain, columns: int, width: int) -> None:
        keys = source.keys.shape[0]
        self._source, self._columns, self._width = source, columns, width
        count = -(-keys // width)
        padded = torch.zeros(count * width, source.keys.shape[1], dtype=torch.float32, device="cpu")
        torch.mul(_plain(source.keys), source.factor, out=padded[:keys])
        self._norm = float(padded.norm(dim=1).max())
        # (blocks, columns, bins, d): slot r · bins + j of a block holds its key j · columns + r
        self._keys = padded.view(count, width // columns, columns, -1).transpose(1, 2).contiguous()

    def panel(self, rows: slice) -> Panel:
        """See `Blocks.panel`."""
        source = self._source
        queries = _plain(source.queries[rows]).contiguous()
        low, high = source.bands.rows(rows)
        first, last = source.bands.span(rows)
        # |q·k| ≤ ‖q‖ ‖k‖ (Cauchy–Schwarz)
        bound = float(queries.norm(dim=1).max()) * self._norm
        if source.shaping is not None and source.shaping.cap is not None:
            bound = min(bound, 1.0) * abs(source.shaping.cap)  # |tanh s| ≤ |s| and < 1
        bound = max(bound, abs(source.sink or 0.0))
        return Panel(
            rows, len(queries), first, last,
            safe=source.unit == 1 and bound < _SAFE, queries=queries,
            low=low, high=high, below=int(low.max()), above=int(high.min()),
        )  # fmt: skip

    def fill(self, out: Tensor, panel: Panel, start: int) -> None:
        """See `Blocks.fill`."""
        count, columns, bins = out.shape
        block, offset = divmod(start, self._width)
        keys = self._keys[block]
        if bins < keys.shape[1]:
            skip = offset // columns
            keys = keys[:, skip : skip + bins].reshape(columns * bins, -1)
        else:
            keys = keys.view(columns * bins, -1)
        assert panel.queries is not None
        torch.mm(panel.queries, keys.T, out=out.view(count, columns * bins))
        if self._source.shaping is not None:
            self._source.shaping.grid(out, panel.rows, start, self._source.shape[1])
        hide(out, panel, start, FAR)


def hide(grid: Tensor, panel: Panel, start: int, value: float) -> None:
    """Put ``value`` outside the panel's bands; grid and start as in `Blocks.fill`."""
    assert panel.low is not None
    assert panel.high is not None
    columns, bins = grid.shape[1:]
    if start + columns * bins > panel.above:
        skip = max(0, panel.above - start) // columns
        keys = _keys(start + skip * columns, columns, bins - skip)
        grid[:, :, skip:].masked_fill_(keys >= panel.high[:, None, None], value)
    if start < panel.below:
        stop = min(bins, -(-(panel.below - start) // columns))
        keys = _keys(start, columns, stop)
        grid[:, :, :stop].masked_fill_(keys < panel.low[:, None, None], value)


def _keys(start: int, columns: int, bins: int) -> Tensor:
    positions = torch.arange(start, start + columns * bins, dtype=torch.int32, device="cpu")
    return positions.view(bins, columns).T[None]


def _plain(tensor: Tensor) -> Tensor:
    return tensor.to("cpu", torch.float32)
