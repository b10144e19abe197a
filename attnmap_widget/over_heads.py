"""Mean and maximum over heads that are too long to hold: windows of the heads, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from . import surveys
from .arrays import Masks, windowed
from .grids import LongGrid
from .passes import Cancelled, Progress
from .states import State, StateGrid, cell_states
from .tiles import Window
from .weights import BoolGrid, FloatGrid

Read = Callable[["Head"], tuple[FloatGrid, StateGrid]]


class Head(Protocol):
    """One of the heads."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        ...

    def window(self, window: Window) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of that part."""
        ...

    def rows(self, rows: range) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of these rows."""
        ...


class OverHeads:
    """A `LongSource`: the mean or the maximum of several heads of one shape, cell by cell.

    A head without a weight in a cell (NaN) is left out of that cell and not counted. `masks`: None
    where the heads know where they may look; then a cell is open where one of them may.
    """

    def __init__(self, members: Sequence[Head], how: str, masks: Masks | None = None) -> None:
        self._members, self._how, self.masks = members, how, masks
        self.shape = members[0].shape
        self.heads = (len(members), len(members))
        """How many have a weight at all, as far as all were read, and how many there are."""
        self._seen: set[int] = set()

    @property
    def reads(self) -> int:
        """How many grids are read for a window of this one."""
        return len(self._members)

    def window(self, window: Window) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of that part, exact."""
        q0, q1, k0, k1 = window
        if self.masks is None:
            return self._together(lambda head: head.window(window))

        def values(rows: range, keys: range) -> FloatGrid:
            part = (rows.start, rows.stop, keys.start, keys.stop)
            return self._together(lambda head: head.window(part))[0]

        return windowed(values, self.masks, range(q0, q1), range(k0, k1), self.shape[1])

    def masked(self, masks: Masks) -> OverHeads:
        """The same heads under other masks."""
        return OverHeads(self._members, self._how, masks)

    def first_look(self) -> LongGrid:
        """A sample of the queries, within a fraction of the time of `read`."""
        return LongGrid(self, surveys.first_look(self._rows, self.shape))

    def read(
        self, progress: Progress = lambda _: None, cancelled: Cancelled = lambda: False
    ) -> LongGrid:
        """One pass over the weights of all heads, some rows of each at a time."""
        queries = self.shape[0]

        def rows(part: range) -> tuple[FloatGrid, StateGrid]:
            def tick(done: int) -> None:
                if cancelled():
                    raise surveys.Stopped
                progress((part.start + len(part) * done / len(self._members)) / queries)

            return self._rows(part, tick)

        causal = self.masks is not None and self.masks.causal
        found = surveys.survey(rows, self.shape, lambda _: None, cancelled, causal=causal)
        self.heads = (len(self._seen), len(self._members))
        progress(1.0)
        return LongGrid(self, found)

    def _rows(
        self, rows: range, tick: Callable[[int], None] = lambda _: None
    ) -> tuple[FloatGrid, StateGrid]:
        values, states = self._together(lambda head: head.rows(rows), tick)
        if self.masks is not None:
            states = self.masks.states(values, rows, range(self.shape[1]))
        return values, states

    def _together(
        self, read: Read, tick: Callable[[int], None] = lambda _: None
    ) -> tuple[FloatGrid, StateGrid]:
        total: NDArray[np.float64] | None = None
        for number, head in enumerate(self._members):
            weights, states = read(head)
            there = ~np.isnan(weights)
            if there.any():
                self._seen.add(number)
            if total is None:
                total = np.full(weights.shape, 0.0 if self._how == "mean" else -np.inf)
                count = np.zeros(weights.shape, dtype=np.int32)
                closed: BoolGrid = np.ones(weights.shape, dtype=bool)
            if self._how == "mean":
                np.add(total, weights, out=total, where=there)
            else:
                np.fmax(total, weights, out=total)
            count += there
            closed &= states == State.CANNOT_LOOK
            tick(number + 1)
        assert total is not None
        if self._how == "mean":
            with np.errstate(invalid="ignore"):
                total /= count
        total[count == 0] = np.nan
        values = total.astype(np.float32)
        nothing = np.zeros(values.shape, dtype=bool)
        return values, cell_states(values, nothing, mask=~closed if closed.any() else None)
