"""What each cell of a map is: a weight, or one of the reasons why there is none."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .weights import BoolGrid, FloatGrid

StateGrid = NDArray[np.uint8]


class State(IntEnum):
    """The state of a cell; the front end knows these numbers."""

    WEIGHT = 0
    ZERO = 1
    EMPTY = 2
    """No weight was given for this cell."""
    CANNOT_LOOK = 3
    """The mask keeps this query from this key. A weight found here is drawn and reported."""
    NO_VALID_KEY = 4
    """The softmax of this row had no key to choose from and gave NaN."""
    PADDING = 5
    NOT_YET = 6
    """The key did not exist when this query was computed (generation step by step)."""


def cell_states(
    values: FloatGrid,
    missing: BoolGrid,
    *,
    mask: BoolGrid | None = None,
    causal: bool = False,
    query_offset: int = 0,
    padding: tuple[BoolGrid, BoolGrid | None] | None = None,
    not_yet: BoolGrid | None = None,
) -> StateGrid:
    """The `State` of every cell of a (queries, keys) grid, as uint8.

    `mask` and `not_yet` are (queries, keys); `padding` is (keys,) with, where rows can be padding
    too, (queries,). With `causal`, a query at position `query_offset + row` sees keys up to there.
    """
    states = np.zeros(values.shape, dtype=np.uint8)
    nan = np.isnan(values)
    states[values == 0] = State.ZERO
    states[nan] = State.EMPTY
    forbidden = forbidden_cells(values.shape, mask=mask, causal=causal, query_offset=query_offset)
    if forbidden is not None:
        states[forbidden] = State.CANNOT_LOOK
    if nan.any():
        may_look = ~forbidden if forbidden is not None else np.ones(values.shape, dtype=bool)
        # All that such a row may look at is NaN, and NaN is what was given: its softmax had no key.
        computed = nan & ~missing
        hopeless = np.all(computed | ~may_look, axis=1) & np.any(computed, axis=1)
        states[computed & may_look & hopeless[:, None]] = State.NO_VALID_KEY
        # Where nothing at all may be looked at, NaN is the whole story of the row.
        nowhere = hopeless & ~np.any(may_look, axis=1)
        states[computed & nowhere[:, None]] = State.NO_VALID_KEY
    if not_yet is not None:
        states[not_yet] = State.NOT_YET
    if padding is not None:
        keys, queries = padding
        states[:, keys] = State.PADDING
        if queries is not None:
            states[queries] = State.PADDING
    states.flags.writeable = False
    return states


def forbidden_cells(
    shape: tuple[int, ...], *, mask: BoolGrid | None, causal: bool, query_offset: int
) -> BoolGrid | None:
    """(queries, keys), True where the query may not look at the key; None if it may everywhere."""
    if mask is None and not causal:
        return None
    forbidden = np.zeros(shape, dtype=bool) if mask is None else ~mask
    if causal:
        positions = np.arange(shape[0])[:, None] + query_offset
        forbidden = forbidden | (np.arange(shape[1])[None, :] > positions)
    return forbidden


def all_plain(states: StateGrid) -> bool:
    """Whether every cell is a weight or zero: then none is NaN, and what asks for less is fast."""
    return int(states.max(initial=0)) <= State.ZERO


def counted(states: StateGrid) -> BoolGrid:
    """(queries, keys), True where the cell is a weight (or zero) that the query may give."""
    return states <= State.ZERO


def leaks(values: FloatGrid, states: StateGrid) -> BoolGrid:
    """(queries, keys), True where weight was found although the query cannot look there."""
    found: BoolGrid = (states == State.CANNOT_LOOK) & (values != 0) & ~np.isnan(values)
    return found
