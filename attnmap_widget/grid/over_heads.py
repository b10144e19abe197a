"""Mean and maximum over heads that are too long to hold: windows of the heads, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import Stopped
from . import surveys
from .arrays import ArraySource, Masks, windowed
from .grids import LongGrid
from .states import StateGrid, cell_states
from .tiles import Window
from .weights import BoolGrid, FloatGrid

if TYPE_CHECKING:
    from ..passes import Cancelled, Progress

_PREPARING = 0.5
"""Share of a pass that goes into getting the heads ready, where that takes any time."""


class Heads(Protocol):
    """Several heads of one shape."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys) of each."""
        ...

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def prepare(self, head: int, cancelled: Cancelled) -> bool:
        """What makes reading all of that head faster; False where nothing does."""
        ...

    def weights(self, rows: range, keys: range) -> Iterable[FloatGrid]:
        """Of one head after the other, NaN where there is none; the caller may write into them."""
        ...

    def allowed(self, rows: range, keys: range) -> BoolGrid | None:
        """True where one of the heads may look; None: everywhere, or not known."""
        ...


class MappedHeads:
    """Heads of one array in a file. Where they may look is for the map's own masks to say."""

    def __init__(self, heads: Sequence[NDArray[np.generic]]) -> None:
        self._heads = [ArraySource(np.asarray(head)) for head in heads]
        self.shape, self.count = self._heads[0].shape, len(self._heads)

    def prepare(self, head: int, cancelled: Cancelled) -> bool:
        """See `Heads.prepare`."""
        return False

    def weights(self, rows: range, keys: range) -> Iterable[FloatGrid]:
        """See `Heads.weights`; ValueError where one is infinite."""
        return (head.values(rows, keys) for head in self._heads)

    def allowed(self, rows: range, keys: range) -> BoolGrid | None:
        """See `Heads.allowed`."""
        return None


class OverHeads:
    """A `LongSource`: the mean or the maximum of several heads, cell by cell.

    A head without a weight in a cell (NaN) is left out of that cell and not counted. `how` is
    "mean" or "max". `masks`: None where the heads know themselves where they may look.
    """

    def __init__(self, heads: Heads, how: str, masks: Masks | None = None) -> None:
        self._heads, self._how, self.masks = heads, how, masks
        self.shape, self.reads = heads.shape, heads.count
        self.heads = (heads.count, heads.count)
        """How many have a weight at all, as far as all were read, and how many there are."""
        self._seen: set[int] = set()

    def window(self, window: Window) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of that part, exact."""
        q0, q1, k0, k1 = window
        rows, keys = range(q0, q1), range(k0, k1)
        if self.masks is not None:
            return windowed(self._together, self.masks, rows, keys, self.shape[1])
        return self._with_states(self._together(rows, keys), rows, keys)

    def masked(self, masks: Masks) -> OverHeads:
        """The same heads under other masks."""
        return OverHeads(self._heads, self._how, masks)

    def first_look(self) -> LongGrid:
        """A sample of the queries, within a fraction of the time of `read`."""
        return LongGrid(self, surveys.first_look(self._rows, self.shape))

    def read(
        self, progress: Progress = lambda _: None, cancelled: Cancelled = lambda: False
    ) -> LongGrid:
        """One pass over the weights of all heads, some rows of each at a time."""
        count, queries = self._heads.count, self.shape[0]
        prepared = 0.0
        for head in range(count):
            if not self._heads.prepare(head, cancelled):
                break
            prepared = _PREPARING * (head + 1) / count
            progress(prepared)

        def rows(part: range) -> tuple[FloatGrid, StateGrid]:
            def tick(done: int) -> None:
                if cancelled():
                    raise Stopped
                share = (part.start + len(part) * done / count) / queries
                progress(prepared + (1 - prepared) * share)

            return self._rows(part, tick)

        found = surveys.survey(rows, self.shape, lambda _: None, cancelled)
        self.heads = (len(self._seen), count)
        return LongGrid(self, found)

    def _rows(
        self, rows: range, tick: Callable[[int], None] = lambda _: None
    ) -> tuple[FloatGrid, StateGrid]:
        keys = range(self.shape[1])
        return self._with_states(self._together(rows, keys, tick), rows, keys)

    def _with_states(
        self, values: FloatGrid, rows: range, keys: range
    ) -> tuple[FloatGrid, StateGrid]:
        if self.masks is not None:
            return values, self.masks.states(values, rows, keys)
        nothing = np.zeros(values.shape, dtype=bool)
        return values, cell_states(values, nothing, mask=self._heads.allowed(rows, keys))

    def _together(
        self, rows: range, keys: range, tick: Callable[[int], None] = lambda _: None
    ) -> FloatGrid:
        mean = self._how == "mean"
        total = np.full((len(rows), len(keys)), 0.0 if mean else -np.inf)
        counts: NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
        for head, weights in enumerate(self._heads.weights(rows, keys)):
            if weights.size and np.isnan(weights.min()):  # NaN spreads: one look tells of all
                there = ~np.isnan(weights)
                if there.any():
                    self._seen.add(head)
                counts = counts + there
                weights[~there] = 0 if mean else -np.inf
            else:
                self._seen.add(head)
                counts = counts + 1
            if mean:
                total += weights
            else:
                np.maximum(total, weights, out=total)
            tick(head + 1)
        with np.errstate(invalid="ignore"):
            return np.where(counts == 0, np.nan, total / counts if mean else total).astype(
                np.float32
            )
