"""A few rows at a time through all their keys: what `overview` does again and again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .job import Job
from .replayed import Replayed
from .scoring import FAR, Panel

Slots = list[tuple[int, int, int]]
"""Blocks as (number, first key, pooled columns)."""
POOLED = 32
"""Fewer pooled columns in a block make pooling slow."""


@dataclass(slots=True)
class _View:
    """One block's part of a thread's memory."""

    scores: Tensor
    grid: Tensor
    powers: Tensor
    pooled: Tensor
    inner: Tensor | None
    sums: Tensor
    moments: Tensor
    at: slice


class PanelReader:
    """Reads panels into ``job.found``, with memory that is used again for each; one per thread."""

    def __init__(self, job: Job) -> None:
        self._job = job
        rows, width, dtype = job.panel_rows, job.width, job.source.dtype
        slots = -(-job.source.shape[1] // width)
        bins = slots * (width // job.columns)

        def new(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.empty(shape, dtype=dtype, device="cpu")

        self._stride = rows * width
        self._scores, self._powers = new(self._stride), new(slots * self._stride)
        self._pooled = new(rows, bins)
        self._inner = new(rows, bins, dtype=torch.int64) if job.tracked else None
        self._sums, self._moments, self._references = (new(rows, slots) for _ in range(3))
        self._mass = torch.zeros(job.columns, bins, dtype=torch.float64, device="cpu")
        self._known: dict[tuple[int, int], _View] = {}

    def close(self) -> None:
        """Hand over what was summed up over all panels."""
        found = self._job.found
        mass = self._mass.T.reshape(-1)[: len(found.mass)]
        with self._job.lock:
            found.mass += mass

    def read(self, start: int, stop: int) -> None:
        """Read rows start … stop − 1, counted among those to be read."""
        taken = self._job.rows[start:stop]
        panel = self._job.blocks.panel(slice(taken.start, taken.stop, taken.step))
        slots = []
        for slot, begin, bins in self._cut(panel):
            if self._job.stopped:
                return
            self._block(panel, slot, begin, bins)
            slots.append((slot, begin, bins))
        with self._job.lock:
            self._job.done += panel.count * self._job.source.shape[1]
        if slots or self._job.source.sink is not None:
            self._finish(start, panel, slots)

    def _cut(self, panel: Panel) -> Iterator[tuple[int, int, int]]:
        """Blocks that the panel's rows may look at, as (number, first key, pooled columns)."""
        width, columns = self._job.width, self._job.columns
        for slot in range(panel.first // width, -(-panel.last // width)):
            begin = max(slot * width, panel.first // columns * columns)
            end = min((slot + 1) * width, panel.last)
            yield slot, begin, -(-(end - begin) // columns)

    def _block(self, panel: Panel, slot: int, begin: int, bins: int) -> None:
        view = self._view(panel.count, slot, begin, bins)
        self._job.blocks.fill(view.grid, panel, begin)
        if view.inner is not None:
            torch.max(view.grid, 1, out=(view.pooled, view.inner))
            self._note_allowed(panel, begin, bins)
        else:
            torch.amax(view.grid, 1, out=view.pooled)
        if not panel.safe:
            reference = view.pooled.amax(1, keepdim=True).clamp_(min=self._job.source.lowest)
            self._references[: panel.count, slot] = reference[:, 0]
            view.scores.sub_(reference)
            if self._job.source.unit != 1:
                view.scores.mul_(self._job.source.unit).clamp_(min=FAR)
        torch.exp2(view.scores, out=view.powers)
        torch.sum(view.powers, 1, out=view.sums)
        # Σ 2^s · s, of which the entropy is made
        torch.sum(view.scores.mul_(view.powers), 1, out=view.moments)

    def _note_allowed(self, panel: Panel, begin: int, bins: int) -> None:
        assert isinstance(self._job.source, Replayed)
        keys = slice(begin, min(self._job.source.shape[1], begin + bins * self._job.columns), 1)
        allowed = self._job.source.allowed(panel.rows, keys)
        first = (panel.rows.start - self._job.rows.start) // self._job.rows.step
        rows = slice(first // self._job.height, -(-(first + panel.count) // self._job.height))
        columns = slice(begin // self._job.columns, begin // self._job.columns + bins)
        if allowed is None:
            self._job.found.forbidden[rows, columns] = False
            return
        height, width = (rows.stop - rows.start) * self._job.height, bins * self._job.columns
        padded = torch.zeros(height, width, dtype=torch.bool, device="cpu")
        skip = first - rows.start * self._job.height
        padded[skip : skip + len(allowed), : allowed.shape[1]] = allowed
        some = padded.view(-1, self._job.height, bins, self._job.columns).any(3).any(1)
        self._job.found.forbidden[rows, columns] &= ~some

    def _finish(self, start: int, panel: Panel, slots: Slots) -> None:
        """Put the blocks' sums together, now that all of them are known."""
        found, unit, count = self._job.found, self._job.source.unit, panel.count
        rows = slice(start, start + count)
        chosen = slice(slots[0][0], slots[-1][0] + 1) if slots else slice(0, 0)
        sums, moments = self._sums[:count, chosen], self._moments[:count, chosen]
        reference, shift, scale = self._common(self._references[:count, chosen], panel)
        if shift is not None and scale is not None:
            moments = scale * (moments + shift * sums)
            sums = scale * sums
        own = sums.sum(1, keepdim=True)
        total = own
        if self._job.source.sink is not None:
            total = own + ((self._job.source.sink - reference) * unit).exp2()
        void = ~(total > 0)
        log_sum, inverse = total.log2(), total.reciprocal().masked_fill_(void, 0.0)
        share = own * inverse
        found.reference[rows], found.log_sum[rows] = reference[:, 0], log_sum[:, 0]
        found.total[rows], found.void[rows] = share.masked_fill(void, 0.0)[:, 0], void[:, 0]
        # −Σ p log₂ p with p = 2^(s − log_sum)
        entropy = share * log_sum - moments.sum(1, keepdim=True) * inverse
        found.entropy[rows] = entropy[:, 0]
        factors = inverse if scale is None else scale * inverse
        factors = factors.masked_fill(void, 0.0).expand(-1, len(slots))
        broken = bool(total.isnan().any())
        for place, (slot, begin, bins) in enumerate(slots):
            view = self._view(count, slot, begin, bins)
            if broken:  # 0 · NaN is not 0
                view.powers.masked_fill_(total.isnan(), 0.0)
            self._add_up(start, panel, view, factors[:, place])
        if slots:
            self._finish_maxima(start, panel, slots, reference=reference, log_sum=log_sum)

    def _add_up(self, start: int, panel: Panel, view: _View, factors: Tensor) -> None:
        """Add a block's weights, powers times a factor for each row, to the bins' and keys' sums.

        Both from one product for each bin's rows: weights are never formed.
        """
        found, height, columns = self._job.found, self._job.height, self._job.columns
        bins = view.grid.shape[2]
        whole = panel.count // height * height
        parts = [(0, whole, height)] if whole else []
        if whole < panel.count:
            parts.append((whole, panel.count, panel.count - whole))
        for first, stop, rows in parts:
            powers = view.powers[first:stop].view(-1, rows, view.powers.shape[1])
            factor = factors[first:stop].reshape(-1, 1, rows)
            mass = torch.bmm(factor, powers).view(-1, columns, bins)
            self._mass[:, view.at] += mass.sum(0)
            row = (start + first) // height
            with self._job.lock:  # two panels may share a bin
                found.sums[row : row + len(mass), view.at] += mass.sum(1)
        if self._job.tracked:
            self._count(start, panel, view, factors)

    def _count(self, start: int, panel: Panel, view: _View, factors: Tensor) -> None:
        """Cells that rows may look at, and weights that are found elsewhere."""
        assert isinstance(self._job.source, Replayed)
        height, columns = self._job.height, self._job.columns
        begin, bins = view.at.start * columns, view.grid.shape[2]
        keys = slice(begin, min(self._job.source.shape[1], begin + bins * columns), 1)
        allowed = self._job.source.allowed(panel.rows, keys)
        # Not where the factor is 0: that may be a weight too small for a number.
        there = ~self._job.found.void[start : start + panel.count, None, None]
        if allowed is None:
            first = torch.arange(begin, begin + bins * columns, columns, device="cpu")
            inner = (keys.stop - first).clamp(max=columns).to(torch.float64)
            counts = there[:, 0].to(torch.float64) * inner
        else:
            short = bins * columns - allowed.shape[1]
            grid = torch.nn.functional.pad(allowed, (0, short)).view(-1, bins, columns)
            weights = view.powers.view(view.grid.shape) * factors[:, None, None]
            counts = ((grid.transpose(1, 2) | (weights > 0)) & there).sum(1).to(torch.float64)
        place = (torch.arange(panel.count, device="cpu") + start) // height
        with self._job.lock:
            self._job.found.counts[:, view.at].index_add_(0, place, counts)

    def _common(
        self, references: Tensor, panel: Panel
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """One reference per row, and by how much each block's lies below it, and 2^ of that."""
        sink, dtype = self._job.source.sink, self._job.source.dtype
        if panel.safe or not references.shape[1]:
            own = 0.0 if panel.safe or sink is None else sink
            return torch.full((panel.count, 1), own, dtype=dtype, device="cpu"), None, None
        reference = references.amax(1, keepdim=True)
        if sink is not None:
            reference.clamp_(min=sink)
        shift = ((references - reference) * self._job.source.unit).clamp_(min=FAR)
        return reference, shift, shift.exp2()

    def _finish_maxima(
        self, start: int, panel: Panel, slots: Slots, *, reference: Tensor, log_sum: Tensor
    ) -> None:
        found, count = self._job.found, panel.count
        first = slots[0][1] // self._job.columns
        last = slots[-1][1] // self._job.columns + slots[-1][2]
        top = self._pooled[:count, first:last]
        if not panel.safe:
            top.sub_(reference)
            if self._job.source.unit != 1:
                top.mul_(self._job.source.unit)
        top.sub_(log_sum)
        if self._job.source.unit != 1:
            top.clamp_(min=FAR)
        rows = slice(start, start + count)
        void = found.void[rows]
        if bool(void.any()):
            top.masked_fill_(void[:, None], -math.inf)
        inner = self._inner[:count, first:last] if self._inner is not None else None
        value, column = _row_maxima(top)
        found.top[rows] = value
        if inner is None:
            found.top_key[rows] = self._inner_key(slots, column + first)
        else:
            found.top_key[rows] = (column + first) * self._job.columns + inner.gather(
                1, column[:, None]
            )[:, 0]
        height = min(self._job.height, count)
        short = -count % height
        if short:
            top = torch.nn.functional.pad(top, (0, 0, 0, short), value=-math.inf)
        bins = len(top) // height
        best, place = top.view(bins, height, -1).max(1)
        offset = torch.arange(bins, device="cpu")[:, None] * height
        row = (place + offset).clamp_(max=count - 1)
        into = slice(start // self._job.height, start // self._job.height + bins)
        at = (into, slice(first, last))
        with self._job.lock:  # two panels may share a bin
            better = best > found.best[at]
            found.best[at] = torch.where(better, best, found.best[at])
            found.row[at] = torch.where(better, row + start, found.row[at])
            if inner is not None:
                key = inner.gather(0, row) + (
                    torch.arange(first, last, device="cpu") * self._job.columns
                )
                found.key[at] = torch.where(better, key, found.key[at])

    def _inner_key(self, slots: Slots, column: Tensor) -> Tensor:
        """The key of each row's largest exponential within one pooled column per row."""
        table = torch.tensor(
            [
                (slot * self._stride, bins * self._job.columns, begin // self._job.columns)
                for slot, begin, bins in slots
            ],
            device="cpu",
        )
        number = column // (self._job.width // self._job.columns) - slots[0][0]
        number.clamp_(0, len(slots) - 1)
        base, width, first = table[number].T
        start = base + torch.arange(len(column), device="cpu") * width + (column - first)
        inner = torch.arange(self._job.columns, device="cpu")[None]
        index = start[:, None] + inner * (width // self._job.columns)[:, None]
        return column * self._job.columns + self._powers.take(index).argmax(1)

    def _view(self, count: int, slot: int, begin: int, bins: int) -> _View:
        """Where a block of ``bins`` pooled columns from key ``begin`` on goes."""
        whole = bins * self._job.columns == self._job.width
        if whole and (count, slot) in self._known:
            return self._known[count, slot]
        size = bins * self._job.columns
        scores = self._scores[: count * size].view(count, size)
        powers = self._powers[slot * self._stride :][: count * size].view(count, size)
        first = begin // self._job.columns
        at = slice(first, first + bins)
        found = _View(
            scores, scores.view(count, self._job.columns, bins), powers, self._pooled[:count, at],
            None if self._inner is None else self._inner[:count, at],
            self._sums[:count, slot], self._moments[:count, slot], at,
        )  # fmt: skip
        if whole:
            self._known[count, slot] = found
        return found


def _row_maxima(values: Tensor) -> tuple[Tensor, Tensor]:
    """The same as ``values.max(1)``, which is slow over long rows: in two steps."""
    count, length = values.shape
    outer = length // POOLED
    if outer < 2:
        return values.max(1)
    head = values[:, : outer * POOLED].view(count, outer, POOLED)
    value, inner = head.amax(1).max(1)
    column = head[torch.arange(count, device="cpu"), :, inner].argmax(1) * POOLED + inner
    if outer * POOLED < length:
        rest, place = values[:, outer * POOLED :].max(1)
        more = rest > value
        value = torch.where(more, rest, value)
        column = torch.where(more, place + outer * POOLED, column)
    return value, column
