"""What a map draws from: an array in memory, or a source too large for it, read in windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from . import checking, reading, tiles
from .axes import Axes
from .pooling import Pool
from .reading import Lean
from .states import StateGrid, counted
from .tiles import Tile, Window
from .weights import BoolGrid, FloatGrid

if TYPE_CHECKING:
    from ..passes import Cancelled, Progress

_READ_AT_ONCE = 1 << 26
"""Cells of a window that is read within a moment; a larger one shows the overview."""


class LongSource(Protocol):
    """A grid of weights that is not held: any window of it is exact, on demand."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        ...

    def window(self, window: Window) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of that part."""
        ...


@runtime_checkable
class Streamed(LongSource, Protocol):
    """A long source that can tell what one pass over it finds."""

    def first_look(self) -> LongGrid:
        """A sample of the queries, within a fraction of the time of `read`."""
        ...

    def read(self, progress: Progress = ..., cancelled: Cancelled = ...) -> LongGrid:
        """One pass over all the weights."""
        ...


@dataclass(frozen=True)
class Survey:
    """What one pass over a long source finds."""

    overview: Tile
    row_sums: NDArray[np.float64]
    """(queries,)."""
    lean_keys: NDArray[np.int64]
    """(queries,) the key of each row's largest weight."""
    lean_weights: FloatGrid
    """(queries,) that weight, NaN for a row without any."""
    read: float = 1.0
    """The share of the queries that was read; below 1 it is a first look, NaN for the others."""
    means: FloatGrid | None = None
    """As `overview`: the mean of the weights in each bin, NaN where there is none."""
    tally: checking.Tally | None = None
    """What to check; None: what the rows' sums and largest weights tell."""


class Cells(NamedTuple):
    """What a colour range is taken from."""

    values: FloatGrid
    states: StateGrid
    exclude: tuple[int, ...] = ()
    """Columns that are out of the range."""
    others: FloatGrid = np.empty(0, dtype=np.float32)
    """Further weights in the range, of bins that are excluded in part."""
    pooled: bool = False
    """Whether smaller weights may stand behind each value."""


@dataclass(frozen=True)
class ArrayGrid:
    """A grid in memory."""

    values: FloatGrid
    missing: BoolGrid
    states: StateGrid

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        return (self.values.shape[0], self.values.shape[1])

    @property
    def weights(self) -> FloatGrid:
        """What `AttentionMap.weights` reads back."""
        return self.values

    def tile(self, window: Window | None = None, pool: Pool = "max") -> Tile:
        """What the browser gets of that part."""
        return tiles.tile(self.values, self.states, window, pool)

    def row_sums(self) -> NDArray[np.float64]:
        """(queries,)."""
        return reading.row_sums(self.values)

    def leans(self) -> list[Lean | None]:
        """One a row."""
        return reading.leans(self.values, self.states)

    def checks(self, *, causal: bool, axes: Axes, softmax: bool) -> list[str]:
        """Sentences on what looks wrong."""
        return checking.checks(self.values, self.states, causal=causal, axes=axes, softmax=softmax)

    def largest_keys(self, query: int, count: int) -> tuple[NDArray[np.int64], FloatGrid]:
        """The largest weights of that row and their keys, in falling order."""
        return reading.largest_keys(self.values[query], self.states[query], count)

    def row(self, query: int) -> tuple[FloatGrid, StateGrid]:
        """(keys,) weights and states of one query."""
        return self.values[query], self.states[query]

    def cells(self, shown: Tile, exclude: tuple[int, ...]) -> Cells:
        """What the colour range of the window of `shown` is taken from."""
        q0, q1, k0, k1 = shown.window
        if shown.pool == "mean" and max(shown.bin) > 1:
            return Cells(shown.values, shown.states, _columns(shown, exclude))
        columns = tuple(key - k0 for key in exclude if k0 <= key < k1)
        return Cells(self.values[q0:q1, k0:k1], self.states[q0:q1, k0:k1], columns)


class LongWeights:
    """The weights of a long grid, read like an array: `weights[q0:q1, k0:k1]` is exact float32."""

    def __init__(self, source: LongSource) -> None:
        self._source = source
        self.shape = source.shape
        self.dtype = np.dtype(np.float32)
        self.ndim = 2

    def __getitem__(self, part: Any) -> Any:
        """Integers and forward slices of step 1, as in numpy."""
        rows, keys = part if isinstance(part, tuple) else (part, slice(None))
        (q0, q1), (k0, k1) = (
            _span(index, length) for index, length in zip((rows, keys), self.shape, strict=True)
        )
        values, _ = self._source.window((q0, q1, k0, k1))
        picked = tuple(slice(None) if isinstance(index, slice) else 0 for index in (rows, keys))
        return values[picked]

    def __array__(self, dtype: Any = None, copy: Any = None) -> FloatGrid:
        """The whole grid, where that is no accident."""
        gigabytes = 4 * self.shape[0] * self.shape[1] / 1e9
        if gigabytes > 1:
            raise MemoryError(
                f"all {self.shape[0]} × {self.shape[1]} weights take {gigabytes:.1f} GB; read a "
                "part: weights[q0:q1, k0:k1]"
            )
        values: FloatGrid = np.asarray(self[:, :], dtype=dtype)
        return values

    def __repr__(self) -> str:
        return f"<weights, {self.shape[0]} queries × {self.shape[1]} keys, read in windows>"


def _span(index: Any, length: int) -> tuple[int, int]:
    if isinstance(index, slice):
        start, stop, step = index.indices(length)
        if step != 1:
            raise ValueError("weights of a long grid are read by slices of step 1")
        return start, max(start, stop)
    position = int(index) + (length if index < 0 else 0)
    if not 0 <= position < length:
        raise IndexError(f"index {index} is out of range for {length}")
    return position, position + 1


@dataclass(frozen=True)
class LongGrid:
    """A grid that is not held: its survey, and windows on demand."""

    source: LongSource
    survey: Survey

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        return self.source.shape

    @cached_property
    def weights(self) -> LongWeights:
        """What `AttentionMap.weights` reads back."""
        return LongWeights(self.source)

    def tile(self, window: Window | None = None, pool: Pool = "max") -> Tile:
        """The overview; a window that is read within a moment is read anew."""
        q0, q1, k0, k1 = window or (0, self.shape[0], 0, self.shape[1])
        at_once = _READ_AT_ONCE // getattr(self.source, "reads", 1)
        if window is None or (q1 - q0) * (k1 - k0) > max(at_once, tiles.WHOLE_LIMIT):
            return self._overview(pool)
        return tiles.read_tile(self.source.window, self.shape, window, pool)

    def _overview(self, pool: Pool) -> Tile:
        overview, means = self.survey.overview, self.survey.means
        if pool == "max":
            return overview
        if means is None:
            raise ValueError("pool: this grid came without means; accepted is 'max'")
        return replace(overview, values=tiles.averaged(means, overview.values), pool=pool)

    def row_sums(self) -> NDArray[np.float64]:
        """(queries,)."""
        return self.survey.row_sums

    def leans(self) -> list[Lean | None]:
        """One a row."""
        return reading.as_leans(self.survey.lean_keys, self.survey.lean_weights)

    def checks(self, *, causal: bool, axes: Axes, softmax: bool) -> list[str]:
        """Sentences on what looks wrong."""
        if self.survey.read < 1:
            return []  # a first look is no ground to find fault on
        if self.survey.tally is not None:
            return self.survey.tally.checks(causal=causal, axes=axes, softmax=softmax)
        sums, largest = self.survey.row_sums, self.survey.lean_weights
        return checking.check_long(sums, largest, axes, softmax=softmax)

    def largest_keys(self, query: int, count: int) -> tuple[NDArray[np.int64], FloatGrid]:
        """The largest weights of that row and their keys, in falling order."""
        values, states = self.source.window((query, query + 1, 0, self.shape[1]))
        return reading.largest_keys(values[0], states[0], count)

    def row(self, query: int) -> tuple[FloatGrid, StateGrid]:
        """(keys,) weights and states of one query, read anew."""
        values, states = self.source.window((query, query + 1, 0, self.shape[1]))
        return values[0], states[0]

    def cells(self, shown: Tile, exclude: tuple[int, ...]) -> Cells:
        """What the colour range is taken from: the largest weight of each bin of `shown`.

        Where a bin holds keys that are out of the range, its other keys are read one by one.
        """
        q0, q1, k0, k1 = shown.window
        width = shown.bin[1]
        columns = _columns(shown, exclude)
        others = np.empty(0, dtype=np.float32)
        largest = max(shown.bin) > 1 and shown.pool == "max"
        if width > 1 and largest and self.survey.read == 1:
            for column in columns:
                first = k0 + column * width
                end = min(first + width, k1)
                values, states = self.source.window((q0, q1, first, end))
                kept = [key - first for key in range(first, end) if key not in exclude]
                counts = counted(states[:, kept])
                others = np.append(others, values[:, kept][counts])
        return Cells(shown.values, shown.states, columns, others, largest)


def _columns(shown: Tile, exclude: tuple[int, ...]) -> tuple[int, ...]:
    """The columns of a tile that hold one of these keys."""
    _, _, k0, k1 = shown.window
    return tuple(dict.fromkeys((key - k0) // shown.bin[1] for key in exclude if k0 <= key < k1))


Grid = ArrayGrid | LongGrid
