"""What each cell of a map is: a weight, or one of the reasons why there is none."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .axes import IntArray
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
    query_positions: IntArray | None = None,
    key_positions: IntArray | None = None,
    padding: tuple[BoolGrid, BoolGrid | None] | None = None,
    not_yet: BoolGrid | None = None,
) -> StateGrid:
    """The `State` of every cell of a (queries, keys) grid, as uint8.

    `mask` and `not_yet` are (queries, keys); `padding` is (keys,) with, where rows can be padding
    too, (queries,). With `causal`, a query sees the keys whose position is not after its own; a
    position that is not given is the index.
    """
    states: StateGrid = np.where(values == 0, np.uint8(State.ZERO), np.uint8(State.WEIGHT))
    forbidden = forbidden_cells(
        values.shape,
        mask=mask,
        causal=causal,
        query_positions=query_positions,
        key_positions=key_positions,
    )
    nan = np.isnan(values)
    if nan.any():
        _mark_nan(states, nan, nan & ~missing, forbidden)
    elif forbidden is not None:
        states[forbidden] = State.CANNOT_LOOK
    if not_yet is not None:
        states[not_yet] = State.NOT_YET
    if padding is not None:
        keys, queries = padding
        states[:, keys] = State.PADDING
        if queries is not None:
            states[queries] = State.PADDING
    states.flags.writeable = False
    return states


def _mark_nan(
    states: StateGrid, nan: BoolGrid, computed: BoolGrid, forbidden: BoolGrid | None
) -> None:
    """Tell cells without a weight from rows whose softmax had no key, and from forbidden cells."""
    states[nan] = State.EMPTY
    may_look = ~forbidden if forbidden is not None else np.ones(states.shape, dtype=bool)
    # All that such a row may look at is NaN, and NaN is what was given: its softmax had no key.
    hopeless = np.all(computed | ~may_look, axis=1) & np.any(computed, axis=1)
    states[computed & may_look & hopeless[:, None]] = State.NO_VALID_KEY
    if forbidden is not None:
        states[forbidden] = State.CANNOT_LOOK
        # Where nothing at all may be looked at, NaN is the whole story of the row.
        nowhere = hopeless & ~np.any(may_look, axis=1)
        states[computed & nowhere[:, None]] = State.NO_VALID_KEY


def forbidden_cells(
    shape: tuple[int, ...],
    *,
    mask: BoolGrid | None,
    causal: bool,
    query_positions: IntArray | None,
    key_positions: IntArray | None,
) -> BoolGrid | None:
    """(queries, keys), True where the query may not look at the key; None if it may everywhere."""
    if mask is None and not causal:
        return None
    forbidden = np.zeros(shape, dtype=bool) if mask is None else ~mask
    if causal:
        queries = np.arange(shape[0]) if query_positions is None else query_positions
        keys = np.arange(shape[1]) if key_positions is None else key_positions
        forbidden = forbidden | (keys[None, :] > queries[:, None])
    return forbidden


def all_plain(states: StateGrid) -> bool:
    """Whether every cell is a weight or zero: then none is NaN, and what asks for less is fast."""
    return int(states.max(initial=0)) <= State.ZERO


def counted(states: StateGrid) -> BoolGrid:
    """(queries, keys), True where the cell is a weight (or zero) that the query may give."""
    return states <= State.ZERO


def leaks(values: FloatGrid, states: StateGrid) -> BoolGrid:
    """(queries, keys), True where weight was found although the query cannot look there."""
    found: BoolGrid = states == State.CANNOT_LOOK
    if found.any():
        found &= (values != 0) & ~np.isnan(values)
    return found


def counted_values(values: FloatGrid, states: StateGrid) -> FloatGrid:
    """Those weights one after the other; without a copy where they are all there is."""
    counts = counted(states)
    return values.ravel() if counts.all() else values[counts]
