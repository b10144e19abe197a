"""One head of a long capture as a map reads it: numpy windows of what torch streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .grids import LongGrid, Survey
from .passes import Cancelled, Progress
from .states import State, StateGrid, cell_states
from .tiles import OVERVIEW, Tile, Window
from .weights import FloatGrid

if TYPE_CHECKING:
    from torch import Tensor

    from .capturing.streaming import HeadStream, HeadSurvey


def _with_states(weights: Tensor, allowed: Tensor | None) -> tuple[FloatGrid, StateGrid]:
    values: FloatGrid = weights.numpy()
    nothing_missing = np.zeros(values.shape, dtype=bool)
    mask = None if allowed is None else allowed.numpy()
    return values, cell_states(values, nothing_missing, mask=mask)


class LongHead:
    """A `LongSource` over one head of a capture."""

    def __init__(self, stream: HeadStream) -> None:
        self._stream = stream
        self.shape = stream.shape

    def window(self, window: Window) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of that part, exact."""
        return _with_states(self._stream.window(*window), self._stream.allowed(*window))

    def rows(self, rows: range) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of these queries and all keys."""
        return _with_states(*self._stream.rows(rows))

    def first_look(self) -> LongGrid:
        """A sample of the queries, within a fraction of the time of `read`."""
        return self._grid(self._stream.coarse(OVERVIEW))

    def read(self, progress: Progress, cancelled: Cancelled) -> LongGrid:
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
