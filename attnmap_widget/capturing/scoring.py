"""Scores of one head in blocks: straight from q and k where that is all there is, else replayed.

Scores come in a unit of their own: a weight is 2^(unit · (score − reference) − log_sum). Plain
scores have log₂ e folded into the scale (unit 1, one multiplication less for every cell), replayed
ones are the model's own (unit log₂ e).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .bands import Bands

LOG2_E = math.log2(math.e)
FAR = -1e30
"""Far below any score and still finite: 2^FAR is 0, and so is FAR · 2^FAR (−inf would give NaN)."""
_ROW_KEYS = 2048


@dataclass(slots=True)
class Panel:
    """A few rows on their way through all their keys, which lie in [first, last)."""

    rows: slice
    count: int
    first: int
    last: int
    safe: bool = False
    """Scores are so small that 2^score needs no reference."""
    queries: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None
    below: int = 0
    """No row looks at keys before its band, which begins here at the latest."""
    above: int = 0
    """Every row's band reaches up to here at least."""


class Blocks(Protocol):
    """One head's scores cut for pooling: blocks of whole bins of ``columns`` keys."""

    def panel(self, rows: slice) -> Panel:
        """Get these rows ready."""
        ...

    def fill(self, out: Tensor, panel: Panel, start: int) -> None:
        """Scores of the panel's rows with the keys from ``start`` on.

        ``out``: (rows, columns, bins), where [i, r, j] is row i with key start + j · columns + r:
        so pooling reduces an axis that is not the last one, which is ten times faster.
        """
        ...


class ScoreSource(Protocol):
    """One head's scores, wherever they come from."""

    shape: tuple[int, int]
    unit: float
    dtype: torch.dtype
    lowest: float
    """References lie above this: it stands in for those of rows that are hidden altogether."""
    sink: float | None
    """An extra score per row that takes part in the softmax and is dropped, in this unit."""
    bands: Bands

    def scores(self, rows: slice, keys: slice) -> Tensor:
        """Scores (rows, keys) on the CPU, −inf where the mask is."""
        ...

    def blocks(self, columns: int, width: int) -> Blocks:
        """For pooling ``columns`` keys into one, in blocks of at most ``width`` keys."""
        ...


def row_sums(source: ScoreSource, rows: slice) -> tuple[Tensor, Tensor]:
    """Reference and log₂ of the softmax's sum relative to it, for each row; see the module.

    Both in the source's type; the log is −inf or NaN where a row has no valid key.
    """
    first, last = source.bands.span(rows)
    count = len(range(rows.start, rows.stop, rows.step))
    lowest = source.lowest
    start = lowest if source.sink is None else source.sink
    reference = torch.full((count, 1), start, dtype=source.dtype, device="cpu")
    total = torch.full_like(reference, 0.0 if source.sink is None else 1.0)
    for begin in range(first, last, _ROW_KEYS):
        scores = source.scores(rows, slice(begin, min(last, begin + _ROW_KEYS), 1))
        higher = torch.maximum(reference, scores.amax(1, keepdim=True).clamp_(min=lowest))
        total *= ((reference - higher) * source.unit).exp2_()
        total += scores.sub_(higher).mul_(source.unit).exp2_().sum(1, keepdim=True)
        reference = higher
    return reference[:, 0], total.log2_()[:, 0]
