"""One pass over all weights of a head: pooled maxima with positions, and figures of each row.

What makes it fast: base-2 scores; pooling along an axis that is not the last; columns pooled before
rows, on scores, so that no weight is ever formed; Python threads over panels of rows, each with one
torch thread; no maximum subtracted where norms bound the scores.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from ..errors import Stopped
from .job import Found, Job
from .panels import POOLED, PanelReader
from .plain import Plain
from .replayed import Replayed
from .scoring import FAR
from .workers import MOST_THREADS, finish, use_one_thread

Progress = Callable[[float], None]
Cancelled = Callable[[], bool]
Part = tuple[int, int]

_BLOCK_KEYS = 2048
_PANEL_BYTES = 16 << 20
"""Exponentials of a panel's rows and all keys, kept until the rows' sums are known."""
_ALL_PANELS_BYTES = 64 << 20
_MOST_ROWS = 256
_FEWEST_ROWS = 16
_THREAD_CELLS = 1 << 20
_SEARCH_NUMBERS = 1 << 19


class Pass:
    """One pass over ``rows`` of a head, in bins of ``bin_`` = (rows read, keys) cells."""

    def __init__(self, source: Plain | Replayed, rows: range, bin_: tuple[int, int]) -> None:
        self._source, self._rows = source, rows
        self._height, self._columns = bin_
        self._bins = (-(-len(rows) // bin_[0]), -(-source.shape[1] // bin_[1]))
        self._threads = self._thread_count()
        self._panel_rows = self._rows_of_a_panel()
        self._job: Job

    def _thread_count(self) -> int:
        """0: in the calling thread, where the model's own operations have torch's threads."""
        if isinstance(self._source, Replayed):
            return 0
        cells = len(self._rows) * self._source.shape[1]
        return max(1, min(MOST_THREADS, torch.get_num_threads(), cells // _THREAD_CELLS))

    def _rows_of_a_panel(self) -> int:
        """Whole bins, or a part of one bin where that would take too much memory."""
        threads = max(1, self._threads)
        size = min(_PANEL_BYTES, _ALL_PANELS_BYTES // threads)
        count = size // (4 * max(1, self._source.shape[1]))
        # So many that each thread gets several panels.
        count = min(count, _MOST_ROWS, -(-len(self._rows) // (4 * threads)))
        count = max(count, _FEWEST_ROWS)
        return count // self._height * self._height or count

    def _prepare(self) -> None:
        width = min(max(POOLED * self._columns, _BLOCK_KEYS), self._bins[1] * self._columns)
        width = max(1, width // self._columns) * self._columns
        with torch.no_grad():
            self._job = Job(
                self._source, self._rows, self._height, self._columns, self._panel_rows, width,
                self._source.blocks(self._columns, width), self._empty(),
            )  # fmt: skip

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
            sums=torch.zeros(self._bins, dtype=torch.float64, device="cpu"),
            counts=torch.zeros(self._bins, dtype=torch.float64, device="cpu"),
            void=of_rows(torch.bool, True),
            forbidden=torch.ones(self._bins, dtype=torch.bool, device="cpu"),
        )  # fmt: skip

    # ------------------------------------------------------------------ the pass

    def run(self, progress: Progress | None, cancelled: Cancelled | None) -> Found:
        """Do it; progress and cancelled are called from this thread. Raises `Stopped`."""
        cells = max(1, len(self._rows) * self._source.shape[1])

        def tick() -> None:
            if cancelled is not None and cancelled():
                raise Stopped
            if progress is not None:
                progress(min(1.0, self._job.done / cells))

        if not self._threads:
            self._prepare()
            reader = PanelReader(self._job)
            for part in self._parts():
                reader.read(*part)
                tick()
            reader.close()
            self._settle()
        else:
            self._run_threads(tick)
        if progress is not None:
            progress(1.0)
        return self._job.found

    def _run_threads(self, tick: Callable[[], None]) -> None:
        # All of it, also what one thread does alone: torch's own threads, waiting for each other,
        # take longer over small tensors whenever the machine does something else.
        with ThreadPoolExecutor(self._threads, initializer=use_one_thread) as pool:
            finish([pool.submit(self._prepare)])
            try:
                panels = deque(self._parts())
                finish([pool.submit(self._drain, panels) for _ in range(self._threads)], tick)
                finish([pool.submit(self._settle)])
                found = deque(self._searches())
                finish([pool.submit(self._search_all, found) for _ in range(self._threads)], tick)
            finally:
                # Also on KeyboardInterrupt: the threads end after the block they are in.
                self._job.stopped = True

    def _parts(self) -> Iterator[Part]:
        """Panels as (first, last + 1) among the rows read, none across two groups of bins."""
        size, total = self._panel_rows, len(self._rows)
        group = max(size, self._height)
        for begin in range(0, total, group):
            for start in range(begin, min(total, begin + group), size):
                yield start, min(total, begin + group, start + size)

    def _drain(self, panels: deque[Part]) -> None:
        with torch.no_grad():
            reader = PanelReader(self._job)
            for part in self._taken(panels):
                reader.read(*part)
            reader.close()

    def _taken(self, parts: deque[Part]) -> Iterator[Part]:
        """Parts that no other thread has taken."""
        while not self._job.stopped:
            try:
                part = parts.popleft()
            except IndexError:
                return
            yield part

    # ------------------------------------------------------------------ afterwards

    def _settle(self) -> None:
        """Bins that no block covered, and rows without any key."""
        with torch.no_grad():
            self._settle_bins()

    def _settle_bins(self) -> None:
        found, height = self._job.found, self._height
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
        if isinstance(self._source, Plain):
            found.counts = self._source.bands.counts(
                self._rows, ~void, (height, self._columns), self._bins
            )
        if isinstance(self._source, Plain) and self._rows.step == 1:
            found.forbidden = self._source.bands.forbidden(height, self._columns, self._bins)
        elif isinstance(self._source, Plain):
            found.forbidden = empty & (found.best == FAR)

    def _searches(self) -> Iterator[Part]:
        """Groups of pooled columns whose keys are still to be found, as (first, last + 1)."""
        if not isinstance(self._source, Plain):
            return
        numbers = self._bins[0] * max(self._columns, self._source.queries.shape[1])
        size = max(1, _SEARCH_NUMBERS // numbers)
        for first in range(0, self._bins[1], size):
            yield first, min(self._bins[1], first + size)

    def _search_all(self, searches: deque[Part]) -> None:
        with torch.no_grad():
            for part in self._taken(searches):
                self._search(part)

    def _search(self, part: Part) -> None:
        """Which key of the bin holds the largest weight: scores of the winning rows once more."""
        assert isinstance(self._source, Plain)
        first, last = part
        found = self._job.found
        wanted = (found.best[:, first:last] > FAR).any(1).nonzero()
        if not len(wanted):
            return
        rows = slice(int(wanted[0]), int(wanted[-1]) + 1)
        read = found.row[rows, first:last]
        true = (read * self._rows.step + self._rows.start).T
        key = self._source.best_key(true, first, self._columns).T
        held = found.best[rows, first:last] > FAR
        found.key[rows, first:last] = torch.where(held, key, found.key[rows, first:last])
