"""Scores of any head, by doing to blocks of q·kᵀ what the model did; and which heads need it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .bands import Bands, band_of, by_position, is_finite
from .operations import (
    Add,
    Cast,
    Causal,
    Divide,
    Fill,
    Lengths,
    Multiply,
    Operation,
    Tanh,
    Tile,
    Window,
)  # fmt: skip
from .plain import Plain
from .records import Rebuilt
from .scoring import LOG2_E, Blocks, Panel
from .shaping import Bias, Shaping


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


def source_of(record: Rebuilt, batch: int, head: int) -> Plain | Replayed:
    """Plain where the record is what `Plain` knows, in float32, else replayed."""
    return _plain_source(record, batch, head) or Replayed(record, batch, head)


def _plain_source(record: Rebuilt, batch: int, head: int) -> Plain | None:
    product = record.matmul_dtype or record.queries.dtype
    if product != torch.float32 or record.softmax_dtype not in (None, torch.float32):
        return None
    parts = _split(record.operations)
    if parts is None:
        return None
    factor, cap, masks = parts
    queries, keys = record.shape[2:]
    bands = by_position(masks, batch, (queries, keys))
    low, high, finite = bands.low, bands.high, False
    biases: list[Bias] = []
    # Large biases leave few digits of the scores: only where both round as in the model.
    alike = (
        cap is None
        and not any(
            isinstance(step, Divide) or step == Cast(torch.float64) for step in record.operations
        )
        and sum(isinstance(step, Multiply) for step in record.operations) < 2
    )
    for mask in masks:
        if isinstance(mask, (Fill, Add)):
            read = band_of(mask, batch, head, (queries, keys))
            if read is None and isinstance(mask, Add):
                bias = Bias.of(mask, batch, head, (queries, keys))
                if bias is None or not alike:
                    return None
                biases.append(bias)
                read = band_of(mask, batch, head, (queries, keys), biased=True)
            if read is None:
                return None
            low, high = torch.maximum(low, read.low), torch.minimum(high, read.high)
            hides = bool((read.high - read.low < keys).any())
            finite = finite or (hides and is_finite(mask))
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
    shaping = None if cap is None and not biases else Shaping(cap, biases=tuple(biases))
    return Plain(rows, own, factor, found, sink, shaping=shaping)


def _split(
    operations: tuple[Operation, ...],
) -> tuple[float, float | None, list[Operation]] | None:
    """All scales before a soft-cap's tanh and after it (None: no tanh), then masks and biases.

    None where there is anything else, or another order.
    """
    scales = [1.0]
    masks: list[Operation] = []
    for step in operations:
        if isinstance(step, (Multiply, Divide)) and not masks:
            value = step.factor if isinstance(step, Multiply) else step.divisor
            if isinstance(value, Tensor) and value.ndim:
                return None
            if isinstance(step, Multiply):
                scales[-1] *= float(value)
            else:
                scales[-1] /= float(value)
        elif isinstance(step, Tanh) and not masks and len(scales) == 1:
            scales.append(1.0)
        elif isinstance(step, (Causal, Window, Lengths, Fill, Add)):
            masks.append(step)
        elif not (isinstance(step, Cast) and step.dtype in (torch.float32, torch.float64)):
            return None
    return scales[0], scales[1] if len(scales) > 1 else None, masks
