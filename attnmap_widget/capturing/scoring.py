"""Scores of one head in blocks: straight from q and k where that is all there is, else replayed.

Scores come in a unit of their own: a weight is 2^(unit · (score − reference) − log_sum). Plain
scores have log₂ e folded into the scale (unit 1, one multiplication less for every cell), replayed
ones are the model's own (unit log₂ e).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .bands import Bands, band_of, by_position, is_finite
from .operations import Add, Cast, Causal, Divide, Fill, Lengths, Multiply, Operation, Tile, Window
from .records import Rebuilt

LOG2_E = math.log2(math.e)
FAR = -1e30
"""Far below any score and still finite: 2^FAR is 0, and so is FAR · 2^FAR (−inf would give NaN)."""
_SAFE = 100.0
"""Base-2 scores of at most this size need no reference: sums stay within float32."""
_ROW_KEYS = 2048


@dataclass(slots=True)
class Panel:
    """A few rows on their way through all their keys, which lie in [first, last)."""

    rows: slice
    count: int
    first: int
    last: int
    safe: bool = False
    """Scores are so small that 2^score needs no reference."""
    queries: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None
    below: int = 0
    """No row looks at keys before its band, which begins here at the latest."""
    above: int = 0
    """Every row's band reaches up to here at least."""


class Blocks(Protocol):
    """One head's scores cut for pooling: blocks of whole bins of ``columns`` keys."""

    def panel(self, rows: slice) -> Panel:
        """Get these rows ready."""
        ...

    def fill(self, out: Tensor, panel: Panel, start: int) -> None:
        """Scores of the panel's rows with the keys from ``start`` on.

        ``out``: (rows, columns, bins), where [i, r, j] is row i with key start + j · columns + r:
        so pooling reduces an axis that is not the last one, which is ten times faster.
        """
        ...


class ScoreSource(Protocol):
    """One head's scores, wherever they come from."""

    shape: tuple[int, int]
    unit: float
    dtype: torch.dtype
    lowest: float
    """References lie above this: it stands in for those of rows that are hidden altogether."""
    sink: float | None
    """An extra score per row that takes part in the softmax and is dropped, in this unit."""
    bands: Bands

    def scores(self, rows: slice, keys: slice) -> Tensor:
        """Scores (rows, keys) on the CPU, −inf where the mask is."""
        ...

    def blocks(self, columns: int, width: int) -> Blocks:
        """For pooling ``columns`` keys into one, in blocks of at most ``width`` keys."""
        ...


# ------------------------------------------------------------------ plain


class Plain:
    """scale · q·kᵀ in base 2 and a band of keys for each row; float32."""

    unit = 1.0
    dtype = torch.float32
    lowest = FAR / 2

    def __init__(
        self, queries: Tensor, keys: Tensor, factor: float, bands: Bands, sink: float | None
    ) -> None:
        self.shape = (queries.shape[0], keys.shape[0])
        self.queries, self.keys, self.factor = queries, keys, factor * LOG2_E
        self.bands = bands
        self.sink = None if sink is None else sink * LOG2_E

    def scores(self, rows: slice, keys: slice) -> Tensor:
        """See `ScoreSource.scores`."""
        queries = _plain(self.queries[rows]) * self.factor
        found = queries @ _plain(self.keys[keys]).T
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
        bound = max(float(queries.norm(dim=1).max()) * self._norm, abs(source.sink or 0.0))
        return Panel(
            rows, len(queries), first, last,
            safe=bound < _SAFE, queries=queries,
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


# ------------------------------------------------------------------ replayed


class Replayed:
    """The record's own scores after all its operations: soft-caps, biases, any mask."""

    unit = LOG2_E

    def __init__(self, record: Rebuilt, batch: int, head: int) -> None:
        self.shape = record.shape[2:]
        self.record, self.batch, self.head = record, batch, head
        sinks = record.sinks
        self.sink = None if sinks is None else float(sinks[head])
        one = self._scores(slice(0, 1, 1), slice(0, 1, 1))
        self.dtype = torch.float64 if one.dtype == torch.float64 else torch.float32
        self.lowest = torch.finfo(self.dtype).min
        # Only what is known by position, to leave out blocks that nothing looks at.
        self.bands = by_position(record.operations, batch, self.shape)

    def _scores(self, rows: slice, keys: slice) -> Tensor:
        found = self.record.scores(Tile(self.batch, self.head, rows, keys))
        dtype = self.record.softmax_dtype
        return found if dtype is None else found.to(dtype)

    def scores(self, rows: slice, keys: slice) -> Tensor:
        """See `ScoreSource.scores`."""
        return self._scores(rows, keys).to("cpu", self.dtype)

    def blocks(self, columns: int, width: int) -> Blocks:
        """See `ScoreSource.blocks`."""
        return self

    def panel(self, rows: slice) -> Panel:
        """See `Blocks.panel`."""
        return Panel(rows, len(range(rows.start, rows.stop, rows.step)), *self.bands.span(rows))

    def fill(self, out: Tensor, panel: Panel, start: int) -> None:
        """See `Blocks.fill`."""
        count, columns, bins = out.shape
        stop = min(self.shape[1], start + columns * bins)
        found = self.scores(panel.rows, slice(start, stop, 1))
        if stop - start < columns * bins:
            found = torch.nn.functional.pad(
                found, (0, columns * bins - (stop - start)), value=-math.inf
            )
        out.copy_(found.view(count, bins, columns).transpose(1, 2))

    def allowed(self, rows: slice, keys: slice) -> Tensor | None:
        """See `Record.allowed`, on the CPU."""
        found = self.record.allowed(self.batch, self.head, rows, keys)
        return None if found is None else found.to("cpu")


# ------------------------------------------------------------------ which of the two


def source_of(record: Rebuilt, batch: int, head: int) -> Plain | Replayed:
    """Plain where the record is a scaled q·kᵀ in float32 under a mask of bands, else replayed."""
    return _plain_source(record, batch, head) or Replayed(record, batch, head)


def _plain_source(record: Rebuilt, batch: int, head: int) -> Plain | None:
    product = record.matmul_dtype or record.queries.dtype
    if product != torch.float32 or record.softmax_dtype not in (None, torch.float32):
        return None
    factor, masks = _split(record.operations)
    if factor is None:
        return None
    queries, keys = record.shape[2:]
    bands = by_position(masks, batch, (queries, keys))
    low, high, finite = bands.low, bands.high, False
    for mask in masks:
        if isinstance(mask, (Fill, Add)):
            read = band_of(mask, batch, head, (queries, keys))
            if read is None:
                return None
            low, high = torch.maximum(low, read.low), torch.minimum(high, read.high)
            finite = finite or is_finite(mask)
    found = Bands.made(low, high, keys)
    # Where all keys of a row are hidden by a finite number, its softmax still gives weights.
    if finite and bool((found.high == 0).any()):
        return None
    own = record.keys[
        batch if record.keys.shape[0] > 1 else 0,
        head // (record.shape[1] // record.keys.shape[1]),
    ]
    rows = record.queries[
        batch if record.queries.shape[0] > 1 else 0, head if record.queries.shape[1] > 1 else 0
    ]
    sink = None if record.sinks is None else float(record.sinks[head])
    return Plain(rows, own, factor, found, sink)


def _split(operations: tuple[Operation, ...]) -> tuple[float | None, list[Operation]]:
    """The product of all scales, then the masks; None where there is anything else between."""
    factor, masks = 1.0, []
    for step in operations:
        if isinstance(step, (Multiply, Divide)) and not masks:
            value = step.factor if isinstance(step, Multiply) else step.divisor
            if isinstance(value, Tensor) and value.ndim:
                return None, []
            factor = factor * float(value) if isinstance(step, Multiply) else factor / float(value)
        elif isinstance(step, (Causal, Window, Lengths, Fill, Add)):
            masks.append(step)
        elif not (isinstance(step, Cast) and step.dtype in (torch.float32, torch.float64)):
            return None, []
    return factor, masks


# ------------------------------------------------------------------ softmax sums of a few rows


def row_sums(source: ScoreSource, rows: slice) -> tuple[Tensor, Tensor]:
    """Reference and log₂ of the softmax's sum relative to it, for each row; see the module.

    Both in the source's type; the log is −inf or NaN where a row has no valid key.
    """
    first, last = source.bands.span(rows)
    count = len(range(rows.start, rows.stop, rows.step))
    lowest = source.lowest
    start = lowest if source.sink is None else source.sink
    reference = torch.full((count, 1), start, dtype=source.dtype, device="cpu")
    total = torch.full_like(reference, 0.0 if source.sink is None else 1.0)
    for begin in range(first, last, _ROW_KEYS):
        scores = source.scores(rows, slice(begin, min(last, begin + _ROW_KEYS), 1))
        higher = torch.maximum(reference, scores.amax(1, keepdim=True).clamp_(min=lowest))
        total *= ((reference - higher) * source.unit).exp2_()
        total += scores.sub_(higher).mul_(source.unit).exp2_().sum(1, keepdim=True)
        reference = higher
    return reference[:, 0], total.log2_()[:, 0]
