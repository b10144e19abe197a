"""A large array in a file, read in windows: what `numpy.load(path, mmap_mode="r")` gives.

An array in memory is copied, because an edit in place would never reach the screen. A file that was
opened for reading only cannot be edited by this program, so it need not be: what is looked at is
read when it is looked at. (Another program may still write to it; nothing here would notice.)
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import surveys
from .axes import IntArray
from .grids import LongGrid
from .states import StateGrid, cell_states
from .tiles import Window
from .weights import BoolGrid, FloatGrid

if TYPE_CHECKING:
    from ..passes import Cancelled, Progress

LARGE = 1 << 22
"""Cells of an array that is worth reading in windows."""


def is_mapped(given: Any) -> bool:
    """Whether it is a large array of numbers in a file that was opened for reading only."""
    if not isinstance(given, np.ndarray) or isinstance(given, np.ma.MaskedArray):
        return False
    if given.size <= LARGE or given.dtype.kind not in "biuf" or given.flags.writeable:
        return False
    base: Any = given
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap) and memoryview(base).readonly


@dataclass(frozen=True, eq=False)
class Masks:
    """What decides a cell's state beside its weight: the options of `cell_states`, whole."""

    mask: BoolGrid | None = None
    causal: bool = False
    padding: tuple[BoolGrid, BoolGrid | None] | None = None
    query_positions: IntArray | None = None
    key_positions: IntArray | None = None
    """Where they stand, for `causal`; None: their indices."""
    not_yet: BoolGrid | None = None

    def same(self, other: Masks) -> bool:
        """Whether they are the very same; arrays are read-only, so the same ones are equal."""
        pairs = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return all(a is b or (isinstance(a, (bool, int)) and a == b) for a, b in pairs)

    def states(self, values: FloatGrid, rows: range, keys: range) -> StateGrid:
        """The states of these rows and keys, as far as can be told without the other keys."""
        part = (slice(rows.start, rows.stop, rows.step), slice(keys.start, keys.stop))
        padding = None
        if self.padding is not None:
            padded, rows_padded = self.padding
            padding = padded[part[1]], None if rows_padded is None else rows_padded[part[0]]
        of_rows, of_keys = self.query_positions, self.key_positions
        return cell_states(
            values,
            np.zeros(values.shape, dtype=bool),
            mask=None if self.mask is None else self.mask[part],
            causal=self.causal,
            query_positions=np.asarray(rows) if of_rows is None else of_rows[part[0]],
            key_positions=np.asarray(keys) if of_keys is None else of_keys[part[1]],
            padding=padding,
            not_yet=None if self.not_yet is None else self.not_yet[part],
        )


@dataclass(frozen=True, eq=False)
class ArraySource:
    """A `LongSource` over an array of (queries, keys) numbers of any type."""

    array: NDArray[Any]
    masks: Masks = field(default_factory=Masks)

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, keys)."""
        return (self.array.shape[0], self.array.shape[1])

    def window(self, window: Window) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of that part, exact."""
        q0, q1, k0, k1 = window
        return windowed(self.values, self.masks, range(q0, q1), range(k0, k1), self.shape[1])

    def rows(self, rows: range) -> tuple[FloatGrid, StateGrid]:
        """Weights and states of these rows and all keys."""
        keys = range(self.shape[1])
        values = self.values(rows, keys)
        return values, self.masks.states(values, rows, keys)

    def values(self, rows: range, keys: range) -> FloatGrid:
        """Weights, copied; ValueError where one is infinite."""
        part = self.array[rows.start : rows.stop : rows.step, keys.start : keys.stop]
        with np.errstate(over="ignore"):
            values = np.array(part, dtype=np.float32)
        bad = np.isinf(values)
        if bad.any():
            row, key = (int(i) for i in np.argwhere(bad)[0])
            raise ValueError(
                f"weights: infinite at query {rows[row]}, key {keys[key]}; scores before softmax, "
                "masked with -inf? Take their softmax over the keys first"
            )
        return values

    def masked(self, masks: Masks) -> ArraySource:
        """The same array under other masks."""
        return replace(self, masks=masks)

    def first_look(self) -> LongGrid:
        """A sample of the queries, within a fraction of the time of `read`."""
        return LongGrid(self, surveys.first_look(self.rows, self.shape))

    def read(
        self, progress: Progress = lambda _: None, cancelled: Cancelled = lambda: False
    ) -> LongGrid:
        """One pass over all the weights; ValueError where one of them is infinite."""
        found = surveys.survey(self.rows, self.shape, progress, cancelled)
        return LongGrid(self, found)


def windowed(
    read: Any, masks: Masks, rows: range, keys: range, width: int
) -> tuple[FloatGrid, StateGrid]:
    """Weights of a window, by `read(rows, keys)`, and their states under these masks.

    What NaN means, no weight or no valid key, is decided by the whole row of `width` keys.
    """
    values: FloatGrid = read(rows, keys)
    states = masks.states(values, rows, keys)
    unsure = np.flatnonzero(np.isnan(values).any(axis=1)) if len(keys) < width else ()
    if len(unsure):
        states = states.copy()
        for row in unsure:
            one, whole = range(rows[row], rows[row] + 1), range(width)
            states[row] = masks.states(read(one, whole), one, whole)[0, keys.start : keys.stop]
    return values, states
