"""One pass over a head: what is to be read, and what has been found."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from torch import Tensor

from .plain import Plain
from .replayed import Replayed
from .scoring import Blocks


@dataclass(slots=True)
class Found:
    """What a pass found; R × C bins of (rows, columns) cells, rows counted among those read."""

    best: Tensor
    """(R, C) log₂ of the largest weight; FAR and less: forbidden, −inf: no row with a valid key."""
    row: Tensor
    """(R, C) int64: the row, counted among those read, that holds it."""
    key: Tensor
    """(R, C) int64: its key."""
    reference: Tensor
    log_sum: Tensor
    total: Tensor
    top: Tensor
    """(rows,) log₂ of each row's largest weight."""
    top_key: Tensor
    entropy: Tensor
    mass: Tensor
    """(keys,) float64."""
    sums: Tensor
    """(R, C) float64: the weights in each bin, added up."""
    counts: Tensor
    """(R, C) float64: how many there are, where the mask lets the row look."""
    void: Tensor
    """(rows,) bool: no valid key."""
    forbidden: Tensor
    """(R, C) bool, by what the rows read may look at."""
    weights: bool = False
    """Whether ``best`` and ``top`` are weights rather than logarithms."""


@dataclass(slots=True)
class Job:
    """One pass: what is read, how it is cut, and what has been found so far."""

    source: Plain | Replayed
    rows: range
    """The rows to be read."""
    height: int
    columns: int
    """Rows (of those read) and keys in a bin."""
    panel_rows: int
    width: int
    """Keys in a block, whole bins."""
    blocks: Blocks
    found: Found
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: int = 0
    """Cells that have been read."""
    stopped: bool = False

    @property
    def tracked(self) -> bool:
        """Whether keys of maxima are noted on the way; else they are searched for afterwards."""
        return isinstance(self.source, Replayed)
