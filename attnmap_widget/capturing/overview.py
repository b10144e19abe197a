"""One pass over all weights of a head: pooled maxima with positions, and figures of each row.

What makes it fast: base-2 scores; pooling along an axis that is not the last; columns pooled before
rows, on scores, so that no weight is ever formed; Python threads over panels of rows, each with one
torch thread; no maximum subtracted where norms bound the scores.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import torch
from torch import Tensor

from .scoring import FAR, Blocks, Panel, Plain, Replayed

Progress = Callable[[float], None]
Cancelled_ = Callable[[], bool]

_POOLED = 32
"""Fewer pooled columns in a block make pooling slow."""
_BLOCK_KEYS = 2048
_PANEL_BYTES = 16 << 20
"""Exponentials of a panel's rows and all keys, kept until the rows' sums are known."""
_ALL_PANELS_BYTES = 64 << 20
_MOST_ROWS = 256
_FEWEST_ROWS = 16
_MOST_THREADS = 8
_THREAD_CELLS = 1 << 20
_TICK = 0.03
_SEARCH_NUMBERS = 1 << 19


class Pass:
    """One pass over ``rows`` of a head, in bins of ``bin`` = (rows, keys) cells."""

    def __init__(self, source: Plain | Replayed, rows: range, bin_: tuple[int, int]) -> None:
        self._source, self._rows = source, rows
        self._height, self._columns = bin_
        keys = source.shape[1]
        self._bins = (-(-len(rows) // bin_[0]), -(-keys // bin_[1]))
        self._threads = self._thread_count()
        self._panel_rows = self._rows_of_a_panel()
        width = max(_POOLED * self._columns, _BLOCK_KEYS)
        width = min(width, self._bins[1] * self._columns)
        self._width = max(1, width // self._columns) * self._columns
        self._slots = -(-keys // self._width)
        self._tracked = isinstance(source, Replayed)
        self._lock = threading.Lock()
        self._stop = False
        self._done = 0
        self._blocks: Blocks
        self.found: Found

    def _thread_count(self) -> int:
        """0: in the calling thread, where the model's own operations have torch's threads."""
        if isinstance(self._source, Replayed):
            return 0
        cells = len(self._rows) * self._source.shape[1]
        most = min(_MOST_THREADS, torch.get_num_threads(), cells // _THREAD_CELLS)
        return max(1, most)

    def _rows_of_a_panel(self) -> int:
        """Whole bins, or a part of one bin where that would take too much memory."""
        size = min(_PANEL_BYTES, _ALL_PANELS_BYTES // max(1, self._threads))
        count = size // (4 * max(1, self._source.shape[1]))
        # So many that each thread gets several panels.
        count = min(count, _MOST_ROWS, -(-len(self._rows) // (4 * max(1, self._threads))))
        count = max(count, _FEWEST_ROWS)
        return count // self._height * self._height or count

    def _empty(self) -> Found:
        count, dtype = len(self._rows), self._source.dtype

        def of_rows(kind: torch.dtype, value: float) -> Tensor:
            return torch.full((count,), value, dtype=kind, device="cpu")

        return Found(
            best=torch.full(self._bins, -math.inf, dtype=dtype, device="cpu"),
            row=torch.zeros(self._bins, dtype=torch.int64, device="cpu"),
            key=torch.zeros(self._bins, dtype=torch.int64, device="cpu"),
            reference=of_rows(dtype, 0.0), log_sum=of_rows(dtype, -math.inf),
            total=of_rows(dtype, 0.0), top=of_rows(dtype, FAR),
            top_key=of_rows(torch.int64, -1), entropy=of_rows(dtype, math.nan),
            mass=torch.zeros(self._source.shape[1], dtype=torch.float64, device="cpu"),
            void=of_rows(torch.bool, True),
            forbidden=torch.ones(self._bins, dtype=torch.bool, device="cpu"),
        )  # fmt: skip

    def _prepare(self) -> None:
        with torch.no_grad():
            self._blocks = self._source.blocks(self._columns, self._width)
            self.found = self._empty()

    # ------------------------------------------------------------------ the pass

    def run(self, progress: Progress | None, cancelled: Cancelled_ | None) -> Found:
        """Do it; progress and cancelled are called from this thread. Raises `Cancelled`."""
        panels = deque(self._parts())
        cells = max(1, len(self._rows) * self._source.shape[1])

        def tick() -> None:
            if cancelled is not None and cancelled():
                raise Cancelled
            if progress is not None:
                progress(min(1.0, self._done / cells))

        if not self._threads:
            self._prepare()
            space = _Space(self)
            while panels:
                self._panel(*panels.popleft(), space)
                tick()
            self._collect(space)
            self._settle()
        else:
            # All of it, also what one thread does alone: torch's own threads, waiting for each
            # other, take longer over small tensors whenever the machine does something else.
            with ThreadPoolExecutor(self._threads, initializer=_use_one_thread) as pool:
                try:
                    _finish([pool.submit(self._prepare)], tick)
                    _finish([pool.submit(self._drain, panels) for _ in range(self._threads)], tick)
                    _finish([pool.submit(self._settle)], tick)
                    searches = deque(self._searches())
                    _finish(
                        [pool.submit(self._search_all, searches) for _ in range(self._threads)],
                        tick,
                    )
                finally:
                    # Also on KeyboardInterrupt: the threads end after the block they are in.
                    self._stop = True
        if progress is not None:
            progress(1.0)
        return self.found

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Panels as (first, last + 1) among the rows read, none across two groups of bins."""
        size, total = self._panel_rows, len(self._rows)
        group = size if size >= self._height else self._height
        for begin in range(0, total, group):
            for start in range(begin, min(total, begin + group), size):
                yield start, min(total, begin + group, start + size)

    def _drain(self, panels: deque[tuple[int, int]]) -> None:
        space = _Space(self)
        with torch.no_grad():
            while not self._stop:
                try:
                    part = panels.popleft()
                except IndexError:
                    break
                self._panel(*part, space)
            self._collect(space)

    def _collect(self, space: _Space) -> None:
        mass = space.mass.T.reshape(-1)[: len(self.found.mass)]
        with self._lock:
            self.found.mass += mass

    # ------------------------------------------------------------------ one panel

    def _panel(self, start: int, stop: int, space: _Space) -> None:
        taken = self._rows[start:stop]
        panel = self._blocks.panel(slice(taken.start, taken.stop, taken.step))
        slots = []
        for slot, begin, bins in self._cut(panel):
            if self._stop:
                return
            self._block(panel, space, slot, begin, bins)
            slots.append((slot, begin, bins))
        with self._lock:
            self._done += panel.count * self._source.shape[1]
        if slots or self._source.sink is not None:
            self._finish_panel(start, panel, space, slots)

    def _cut(self, panel: Panel) -> Iterator[tuple[int, int, int]]:
        """Blocks that the panel's rows may look at, as (number, first key, pooled columns)."""
        width, columns = self._width, self._columns
        for slot in range(panel.first // width, -(-panel.last // width)):
            begin = max(slot * width, panel.first // columns * columns)
            end = min((slot + 1) * width, panel.last)
            yield slot, begin, -(-(end - begin) // columns)

    def _block(self, panel: Panel, space: _Space, slot: int, begin: int, bins: int) -> None:
        view = space.view(panel.count, slot, begin, bins)
        self._blocks.fill(view.grid, panel, begin)
        if self._tracked:
            torch.max(view.grid, 1, out=(view.pooled, view.inner))
            self._note_allowed(panel, begin, bins)
        else:
            torch.amax(view.grid, 1, out=view.pooled)
        if not panel.safe:
            reference = view.pooled.amax(1, keepdim=True).clamp_(min=self._source.lowest)
            space.references[: panel.count, slot] = reference[:, 0]
            view.scores.sub_(reference)
            if self._tracked:
                view.scores.mul_(self._source.unit).clamp_(min=FAR)
        torch.exp2(view.scores, out=view.powers)
        torch.sum(view.powers, 1, out=view.sums)
        # Σ 2^s · s, of which the entropy is made
        torch.sum(view.scores.mul_(view.powers), 1, out=view.moments)

    def _note_allowed(self, panel: Panel, begin: int, bins: int) -> None:
        assert isinstance(self._source, Replayed)
        keys = slice(begin, min(self._source.shape[1], begin + bins * self._columns), 1)
        allowed = self._source.allowed(panel.rows, keys)
        first = (panel.rows.start - self._rows.start) // self._rows.step
        rows = slice(first // self._height, -(-(first + panel.count) // self._height))
        columns = slice(begin // self._columns, begin // self._columns + bins)
        if allowed is None:
            self.found.forbidden[rows, columns] = False
            return
        height, width = (rows.stop - rows.start) * self._height, bins * self._columns
        padded = torch.zeros(height, width, dtype=torch.bool, device="cpu")
        skip = first - rows.start * self._height
        padded[skip : skip + len(allowed), : allowed.shape[1]] = allowed
        some = padded.view(-1, self._height, bins, self._columns).any(3).any(1)
        self.found.forbidden[rows, columns] &= ~some

    def _finish_panel(
        self, start: int, panel: Panel, space: _Space, slots: list[tuple[int, int, int]]
    ) -> None:
        """Put the blocks' sums together, now that all of them are known."""
        found, unit, count = self.found, self._source.unit, panel.count
        rows = slice(start, start + count)
        chosen = slice(slots[0][0], slots[-1][0] + 1) if slots else slice(0, 0)
        sums, moments = space.sums[:count, chosen], space.moments[:count, chosen]
        reference, shift, scale = self._common(space.references[:count, chosen], panel)
        if shift is not None and scale is not None:
            moments = scale * (moments + shift * sums)
            sums = scale * sums
        own = sums.sum(1, keepdim=True)
        total = own
        if self._source.sink is not None:
            total = own + ((self._source.sink - reference) * unit).exp2()
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
            view = space.view(count, slot, begin, bins)
            if broken:  # 0 · NaN is not 0
                view.powers.masked_fill_(total.isnan(), 0.0)
            mass = torch.mv(view.powers.T, factors[:, place].contiguous())
            space.mass[:, view.at] += mass.view(self._columns, bins)
        if slots:
            self._finish_maxima(start, panel, space, slots, reference, log_sum, void)

    def _common(
        self, references: Tensor, panel: Panel
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """One reference per row, and by how much each block's lies below it, and 2^ of that."""
        if panel.safe:
            return torch.zeros(panel.count, 1, dtype=self._source.dtype, device="cpu"), None, None
        sink = self._source.sink
        if not references.shape[1]:
            filled = torch.full(
                (panel.count, 1), sink or 0.0, dtype=self._source.dtype, device="cpu"
            )
            return filled, None, None
        reference = references.amax(1, keepdim=True)
        if sink is not None:
            reference.clamp_(min=sink)
        shift = ((references - reference) * self._source.unit).clamp_(min=FAR)
        return reference, shift, shift.exp2()

    def _finish_maxima(
        self,
        start: int,
        panel: Panel,
        space: _Space,
        slots: list[tuple[int, int, int]],
        reference: Tensor,
        log_sum: Tensor,
        void: Tensor,
    ) -> None:
        found, count = self.found, panel.count
        first = slots[0][1] // self._columns
        last = slots[-1][1] // self._columns + slots[-1][2]
        top = space.pooled[:count, first:last]
        if not panel.safe:
            top.sub_(reference)
            if self._source.unit != 1:
                top.mul_(self._source.unit)
        top.sub_(log_sum)
        if self._tracked:
            top.clamp_(min=FAR)
        if bool(void.any()):
            top.masked_fill_(void, -math.inf)
        rows = slice(start, start + count)
        inner = space.inner[:count, first:last] if space.inner is not None else None
        value, column = _row_maxima(top)
        found.top[rows] = value
        if inner is None:
            found.top_key[rows] = self._inner_key(space, slots, column + first)
        else:
            found.top_key[rows] = (column + first) * self._columns + inner.gather(
                1, column[:, None]
            )[:, 0]
        height = min(self._height, count)
        short = -count % height
        if short:
            top = torch.nn.functional.pad(top, (0, 0, 0, short), value=-math.inf)
        bins = len(top) // height
        best, place = top.view(bins, height, -1).max(1)
        offset = torch.arange(bins, device="cpu")[:, None] * height
        row = (place + offset).clamp_(max=count - 1)
        into = slice(start // self._height, start // self._height + bins)
        at = (into, slice(first, last))
        with self._lock:  # two panels may share a bin
            better = best > found.best[at]
            found.best[at] = torch.where(better, best, found.best[at])
            found.row[at] = torch.where(better, row + start, found.row[at])
            if inner is not None:
                key = inner.gather(0, row) + (
                    torch.arange(first, last, device="cpu") * self._columns
                )
                found.key[at] = torch.where(better, key, found.key[at])

    def _inner_key(
        self, space: _Space, slots: list[tuple[int, int, int]], column: Tensor
    ) -> Tensor:
        """The key of each row's largest exponential within one pooled column per row."""
        table = torch.tensor(
            [
                (slot * space.stride, bins * self._columns, begin // self._columns)
                for slot, begin, bins in slots
            ],
            device="cpu",
        )
        number = (column // (self._width // self._columns) - slots[0][0]).clamp_(0, len(slots) - 1)
        base, width, first = table[number].T
        start = base + torch.arange(len(column), device="cpu") * width + (column - first)
        inner = torch.arange(self._columns, device="cpu")[None]
        index = start[:, None] + inner * (width // self._columns)[:, None]
        return column * self._columns + space.powers.take(index).argmax(1)

    # ------------------------------------------------------------------ afterwards

    def _settle(self) -> None:
        """Bins that no block covered, and rows without any key."""
        found, height = self.found, self._height
        void = found.void
        found.top.masked_fill_(void, -math.inf)
        found.top_key.masked_fill_(void | (found.top <= FAR), -1)
        count = self._bins[0] * height
        some = torch.nn.functional.pad(~void, (0, count - len(void))).view(-1, height)
        uncovered = (found.best == -math.inf) & some.any(1)[:, None]
        first = torch.arange(self._bins[0], device="cpu") * height
        found.best.masked_fill_(uncovered, FAR)
        row = first + some.to(torch.uint8).argmax(1)
        empty = found.best <= FAR
        found.row = torch.where(empty, row[:, None], found.row)
        begins = torch.arange(self._bins[1], device="cpu") * self._columns
        found.key = torch.where(empty, begins[None], found.key)
        if isinstance(self._source, Plain) and self._rows.step == 1:
            found.forbidden = self._source.bands.forbidden(height, self._columns, self._bins)
        elif isinstance(self._source, Plain):
            found.forbidden = empty & (found.best == FAR)

    def _searches(self) -> Iterator[tuple[int, int]]:
        """Groups of pooled columns whose keys are still to be found, as (first, last + 1)."""
        if not isinstance(self._source, Plain):
            return
        numbers = self._bins[0] * max(self._columns, self._source.queries.shape[1])
        size = max(1, _SEARCH_NUMBERS // numbers)
        for first in range(0, self._bins[1], size):
            yield first, min(self._bins[1], first + size)

    def _search_all(self, searches: deque[tuple[int, int]]) -> None:
        with torch.no_grad():
            while not self._stop:
                try:
                    part = searches.popleft()
                except IndexError:
                    return
                self._search(part)

    def _search(self, part: tuple[int, int]) -> None:
        """Which key of the bin holds the largest weight: scores of the winning rows once more."""
        assert isinstance(self._source, Plain)
        first, last = part
        found = self.found
        wanted = (found.best[:, first:last] > FAR).any(1).nonzero()
        if not len(wanted):
            return
        rows = slice(int(wanted[0]), int(wanted[-1]) + 1)
        read = found.row[rows, first:last]
        true = (read * self._rows.step + self._rows.start).T
        key = self._source.best_key(true, first, self._columns).T
        held = found.best[rows, first:last] > FAR
        found.key[rows, first:last] = torch.where(held, key, found.key[rows, first:last])
