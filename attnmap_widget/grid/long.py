"""Long heads of a capture as a map reads them: numpy windows of what torch streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .grids import LongGrid, Survey
from .states import State, StateGrid, cell_states
from .tiles import OVERVIEW, Tile, Window
from .weights import BoolGrid, FloatGrid

_FOR_THREADS = 1 << 18
"""Cells of a window that several threads form sooner than one."""

if TYPE_CHECKING:
    from ..capturing.streaming import HeadStream, HeadSurvey
    from ..passes import Cancelled, Progress


class LongHead:
    """A `LongSource` over one head of a capture."""

    def __init__(self, stream: HeadStream) -> None:
        self._stream = stream
        self.shape = stream.shape

    def window(self, window: Window) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of that part, exact."""
        values = self._stream.window(*window).numpy()
        allowed = self._stream.allowed(*window)
        nothing_missing = np.zeros(values.shape, dtype=bool)
        mask = None if allowed is None else allowed.numpy()
        return values, cell_states(values, nothing_missing, mask=mask)

    def first_look(self) -> LongGrid:
        """A sample of the queries, within a fraction of the time of `read`."""
        return self._grid(self._stream.coarse(OVERVIEW))

    def read(
        self, progress: Progress = lambda _: None, cancelled: Cancelled = lambda: False
    ) -> LongGrid:
        """One pass over all the weights."""
        survey = self._stream.survey(OVERVIEW, progress=progress, cancelled=cancelled)
        return self._grid(survey)

    def _grid(self, seen: HeadSurvey) -> LongGrid:
        queries, keys = self.shape
        states = np.zeros(seen.values.shape, dtype=np.uint8)
        states[seen.values == 0] = State.ZERO
        states[seen.forbidden] = State.CANNOT_LOOK
        states[np.isnan(seen.values)] = State.NO_VALID_KEY
        whole = (0, queries, 0, keys)
        overview = Tile((queries, keys), whole, seen.bin, seen.values, states, seen.at)
        read = 1 / seen.sampled
        survey = Survey(overview, seen.row_sums, seen.row_argmax, seen.row_max, read, seen.means)
        return LongGrid(self, survey)


class LongHeads:
    """All heads of one call of a capture, as `OverHeads` reads them."""

    def __init__(self, streams: Sequence[HeadStream]) -> None:
        self._streams = streams
        self.shape, self.count = streams[0].shape, len(streams)

    def prepare(self, head: int, cancelled: Cancelled) -> bool:
        """The sums of its rows: a pass has them in a fraction of the time that windows take."""
        self._streams[head].survey(OVERVIEW, cancelled=cancelled)
        return True

    def weights(self, rows: range, keys: range) -> Iterator[FloatGrid]:
        """Of one head after the other, exact; large ones by several threads."""
        tasks = [partial(stream.rows, rows, keys) for stream in self._streams]
        if len(rows) * len(keys) < _FOR_THREADS:
            yield from (task().numpy() for task in tasks)
            return
        from ..capturing.workers import in_order

        yield from (weights.numpy() for weights in in_order(tasks))

    def allowed(self, rows: range, keys: range) -> BoolGrid | None:
        """True where one of the heads may look; None: everywhere, or not known."""
        found: BoolGrid | None = None
        for stream in self._streams:
            one = stream.allowed_rows(rows, keys)
            if one is None:
                return None
            found = one.numpy() if found is None else found | one.numpy()
            if stream.masked_alike:
                break
        return found
