"""One pass over a grid that is read a few rows at a time: overview, sums and leans. Numpy only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Stopped
from . import checking
from .grids import Survey
from .pooling import Bins
from .states import StateGrid
from .tiles import Tile, bin_of
from .weights import FloatGrid

if TYPE_CHECKING:
    from ..passes import Cancelled, Progress

ReadRows = Callable[[range], tuple[FloatGrid, StateGrid]]
"""Weights and states of these rows, all keys of each."""

_AT_ONCE = 1 << 21
"""Cells that are read at once, about."""
_SAMPLED = 128
"""A first look reads one query in this many, or fewer."""


def survey(
    read: ReadRows,
    shape: tuple[int, int],
    progress: Progress,
    cancelled: Cancelled,
) -> Survey:
    """All rows, read once and in order, in O(queries + keys) memory beside a few of them.

    Whatever `read` raises ends the pass.
    """
    queries, keys = shape
    bin_ = bin_of(shape)
    bins = Bins(range(queries), range(keys), bin_, means=True)
    tally = checking.Tally(shape)
    step = max(1, _AT_ONCE // keys)
    if step > bin_[0]:
        step -= step % bin_[0]
    for first in range(0, queries, step):
        if cancelled():
            raise Stopped
        rows = range(first, min(first + step, queries))
        values, states = read(rows)
        bins.add(first, values, states)
        tally.add(first, values, states)
        progress(rows.stop / queries)
    at = bins.query * keys + bins.key
    overview = Tile(shape, (0, queries, 0, keys), bin_, bins.values, bins.states, at)
    return Survey(
        overview, tally.sums, tally.lean_keys, tally.lean_weights,
        means=bins.means(), tally=tally,
    )  # fmt: skip


def first_look(read: ReadRows, shape: tuple[int, int]) -> Survey:
    """A sample of the rows, the last one and every so many before it: exact for those.

    Each bin shows the first row that was read at or after its last one.
    """
    queries, keys = shape
    bin_ = bin_of(shape)
    step = max(bin_[0], _SAMPLED)
    rows = range((queries - 1) % step, queries, step)
    values, states = read(rows)
    bins = Bins(rows, range(keys), (1, bin_[1]), means=True)
    bins.add(0, values, states)
    last = np.arange(bin_[0] - 1, queries + bin_[0] - 1, bin_[0]).clip(max=queries - 1)
    place = -((rows.start - last) // step)
    at = (bins.query * keys + bins.key)[place]
    whole = (0, queries, 0, keys)
    overview = Tile(shape, whole, bin_, bins.values[place], bins.states[place], at)
    tally = checking.Tally((len(rows), keys))
    tally.add(0, values, states)

    def spread(found: NDArray[Any], missing: float) -> NDArray[Any]:
        full = np.full(queries, missing, dtype=found.dtype)
        full[rows.start :: step] = found
        return full

    return Survey(
        overview, spread(tally.sums, np.nan), spread(tally.lean_keys, -1),
        spread(tally.lean_weights, np.nan), 1 / step, bins.means()[place],
    )  # fmt: skip
