"""Long sequences: windows and overviews of one head in O(queries · width) memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import CaptureError
from .job import Found
from .memory import require
from .overview import Pass
from .plain import Plain
from .records import Rebuilt, Record
from .replayed import source_of
from .scoring import ScoreSource, row_sums
from .session import SESSION
from .weighed import survey_weights

__all__ = ["HeadStream", "HeadSurvey"]

_LIMIT = 512
_SAMPLED = 128
"""A first picture reads about one query in this many, or one in each bin of more."""
_KNOWN_ROWS = 512


@dataclass(frozen=True, slots=True)
class HeadSurvey:
    """What one pass over a head's weights tells: R × C bins, and figures of each query.

    A weight is exact to float32 rounding. Rows are never renormalised: with a sink they sum to less
    than 1, and so do their entropies' terms.
    """

    shape: tuple[int, int]
    """(queries, keys) of the head."""
    bin: tuple[int, int]
    """Queries and keys per cell."""
    values: NDArray[np.float32]
    """(R, C) the largest weight in each bin; NaN where no query of the bin has a valid key."""
    at: NDArray[np.int64]
    """(R, C) query · keys + key of that weight; of the bin's first cell where none is there."""
    means: NDArray[np.float32]
    """(R, C) the mean of the weights in each bin, of the cells that the mask leaves open; NaN where
    there is none."""
    forbidden: NDArray[np.bool_]
    """(R, C) True where the mask hides every cell of the bin."""
    row_sums: NDArray[np.float64]
    """(queries,) 0 where there is no valid key."""
    row_max: NDArray[np.float32]
    """(queries,) the largest weight; NaN where there is no valid key."""
    row_argmax: NDArray[np.int64]
    """(queries,) its key; −1 where there is none."""
    row_entropy: NDArray[np.float32]
    """(queries,) −Σ w·log₂ w over the keys, in bits; NaN where there is no valid key."""
    column_mass: NDArray[np.float64]
    """(keys,) Σ of the weights that all queries give to the key."""
    no_valid_key: NDArray[np.bool_]
    """(queries,) True where the mask leaves the query nothing, or its scores are not numbers."""
    sampled: int = 1
    """One query in so many was read: 1 is all of them. Above 1, a bin shows a query of its own
    where one was read, else the next one read (``at`` says which); figures of other queries are
    NaN, −1 and False, and `column_mass` is scaled up from those read."""


class HeadStream:
    """One head of one captured call, read in windows: no (queries, keys) tensor is ever formed.

    record: that of an attention call; batch, head: numbers within its shape. Everything raises
    CaptureError where the model overwrote, in place, the tensors that the record refers to.
    """

    def __init__(self, record: Record, batch: int, head: int) -> None:
        for what, value, count in (
            ("batch item", batch, record.shape[0]),
            ("head", head, record.shape[1]),
        ):
            if not 0 <= value < count:
                raise ValueError(f"{what} {value}: there are 0 to {count - 1}")
        self.shape: tuple[int, int] = (record.shape[2], record.shape[3])
        self._record, self._batch, self._head = record, batch, head
        with self._reading():
            self._source = source_of(record, batch, head) if isinstance(record, Rebuilt) else None
        self._out_dtype = record.out_dtype if isinstance(record, Rebuilt) else None
        if self._source is not None:
            queries, dtype = self.shape[0], self._source.dtype
            self._reference = torch.zeros(queries, dtype=dtype, device="cpu")
            self._log_sum = torch.zeros_like(self._reference)
            self._known = torch.zeros(queries, dtype=torch.bool, device="cpu")

    # ------------------------------------------------------------------ windows

    def window(self, q0: int, q1: int, k0: int, k1: int) -> Tensor:
        """Weights of queries q0 … q1 − 1 and keys k0 … k1 − 1, float32 on the CPU.

        Rows without a valid key are NaN. Where the rows' softmax sums are not known yet (from a
        survey or an earlier window), they are computed, for these rows only.

        Raises ValueError for a window that reaches beyond the head, CaptureError for one that does
        not fit into memory.
        """
        rows, keys = self._window(q0, q1, k0, k1)
        require((1, q1 - q0, k1 - k0))
        with self._reading():
            if self._source is None:
                return self._record.rows(self._batch, self._head, rows)[:, keys].to(
                    "cpu", torch.float32, copy=True
                )
            source = self._source
            if not range(q0, q1) or not range(k0, k1):
                return torch.empty(q1 - q0, k1 - k0, dtype=torch.float32, device="cpu")
            self._learn(q0, q1)
            return self._exact(source, rows, keys, self._reference[rows], self._log_sum[rows])

    def rows(self, rows: range, keys: range) -> Tensor:
        """As `window`, for queries that may lie apart (ascending)."""
        _, inner = self._window(rows.start, rows.stop, keys.start, keys.stop)
        require((1, len(rows), len(keys)))
        part = slice(rows.start, rows.stop, rows.step)
        with self._reading():
            if self._source is None:
                weights = self._record.rows(self._batch, self._head, part)[:, inner]
                return weights.to("cpu", torch.float32, copy=True)
            if rows.step == 1:
                self._learn(rows.start, rows.stop)
            else:
                found = row_sums(self._source, part)
                self._reference[part], self._log_sum[part] = found
                self._known[part] = True
            sums = self._reference[part], self._log_sum[part]
            return self._exact(self._source, part, inner, *sums)

    def allowed_rows(self, rows: range, keys: range) -> Tensor | None:
        """As `allowed`, for queries that may lie apart (ascending)."""
        _, inner = self._window(rows.start, rows.stop, keys.start, keys.stop)
        part = slice(rows.start, rows.stop, rows.step)
        with self._reading():
            found = self._record.allowed(self._batch, self._head, part, inner)
            return None if found is None else found.to("cpu")

    @property
    def masked_alike(self) -> bool:
        """Whether every head of the call has the same mask."""
        steps = self._record.operations if isinstance(self._record, Rebuilt) else ()
        return all(
            tensor.ndim < 4 or tensor.shape[1] == 1 for step in steps for tensor in step.tensors()
        )

    def _exact(
        self, source: ScoreSource, rows: slice, keys: slice, reference: Tensor, log_sum: Tensor
    ) -> Tensor:
        """Weights, from the sums of these rows; scores only where one of them may look."""
        first, last = source.bands.span(rows)
        first, last = max(first, keys.start), min(last, keys.stop)
        inside = slice(first, max(first, last), 1)
        if inside == keys:
            weights = self._formed(source, rows, keys, reference, log_sum)
        else:
            count = len(reference)
            weights = torch.zeros(count, keys.stop - keys.start, dtype=torch.float32, device="cpu")
            if inside.start < inside.stop:
                there = slice(inside.start - keys.start, inside.stop - keys.start)
                weights[:, there] = self._formed(source, rows, inside, reference, log_sum)
        void = ~(log_sum > -torch.inf)
        if bool(void.any()):
            weights[void] = torch.nan
        return weights

    def _formed(
        self, source: ScoreSource, rows: slice, keys: slice, reference: Tensor, log_sum: Tensor
    ) -> Tensor:
        if isinstance(source, Plain) and source.unit == 1:
            return self._rounded(source.scores(rows, keys, -(reference + log_sum)).exp2_())
        # The two apart: a reference of −3·10³⁸ (a mask constant) swallows the other.
        scores = (source.scores(rows, keys) - reference[:, None]) * source.unit
        return self._rounded(scores.sub_(log_sum[:, None]).exp2_())

    def allowed(self, q0: int, q1: int, k0: int, k1: int) -> Tensor | None:
        """Where the mask lets a query of the window look: bool on the CPU, as `window` is laid out.

        None where the record cannot know, or where everything in the window is allowed.
        """
        return self.allowed_rows(range(q0, q1), range(k0, k1))

    # ------------------------------------------------------------------ overviews

    def survey(
        self,
        limit: int = _LIMIT,
        *,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> HeadSurvey:
        """One pass over all weights, pooled to at most limit × limit bins.

        ``progress`` gets a number from 0 to 1, and ``cancelled`` is asked, about thirty times a
        second and from the calling thread; `Stopped` is raised once it says True. Afterwards
        windows know their rows' sums.
        """
        return self._survey(self._bins(limit), 1, progress, cancelled)

    def coarse(self, limit: int = _LIMIT) -> HeadSurvey:
        """A first picture from a sample of queries, exact for those, in a small part of the time.

        See `HeadSurvey.sampled`. The sample holds the last query and every so many before it, a
        whole number of bins: so one in so many bins has a query of its own.
        """
        bin_ = self._bins(limit)
        return self._survey(bin_, max(1, round(_SAMPLED / bin_[0])) * bin_[0], None, None)

    def _survey(
        self,
        bin_: tuple[int, int],
        step: int,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> HeadSurvey:
        queries, keys = self.shape
        if not queries or not keys:
            raise ValueError(f"a head of {queries} queries and {keys} keys has no weights")
        rows = range((queries - 1) % step, queries, step)
        height = bin_[0] if step == 1 else 1
        with self._reading():
            if self._source is None:
                found = survey_weights(
                    lambda part: self._record.rows(self._batch, self._head, part),
                    keys, rows, (height, bin_[1]), progress=progress, cancelled=cancelled,
                )  # fmt: skip
            else:
                found = Pass(self._source, rows, (height, bin_[1])).run(progress, cancelled)
                read = slice(rows.start, rows.stop, rows.step)
                self._reference[read], self._log_sum[read] = found.reference, found.log_sum
                self._known[read] = True
        return self._told(found, rows, bin_)

    def _told(self, found: Found, rows: range, bin_: tuple[int, int]) -> HeadSurvey:
        queries, keys = self.shape
        values = self._weights(found, found.best)
        at = found.row.numpy() * (rows.step * keys)
        at += found.key.numpy()
        at += rows.start * keys
        forbidden = found.forbidden.numpy()
        with np.errstate(invalid="ignore"):
            means = (found.sums.numpy() / found.counts.numpy()).astype(np.float32)
        if rows.step > 1:
            # Each bin shows its own query where one was read, else the next one read.
            first = np.arange(0, queries, bin_[0])
            place = -((rows.start - first) // rows.step)
            values, at, forbidden = values[place], at[place], forbidden[place]
            means = means[place]

        def of_queries(read: NDArray[Any], missing: float, kind: type) -> NDArray[Any]:
            if rows.step == 1:
                return read.astype(kind)
            spread: NDArray[Any] = np.full(queries, missing, dtype=kind)
            spread[rows.start :: rows.step] = read
            return spread

        return HeadSurvey(
            shape=self.shape,
            bin=bin_,
            values=values,
            at=at,
            means=means,
            forbidden=forbidden,
            row_sums=of_queries(found.total.numpy(), np.nan, np.float64),
            row_max=of_queries(self._weights(found, found.top), np.nan, np.float32),
            row_argmax=of_queries(found.top_key.numpy(), -1, np.int64),
            row_entropy=of_queries(found.entropy.numpy(), np.nan, np.float32),
            column_mass=found.mass.numpy() * rows.step,
            no_valid_key=of_queries(found.void.numpy(), False, np.bool_),
            sampled=rows.step,
        )

    # ------------------------------------------------------------------ inside

    def _bins(self, limit: int) -> tuple[int, int]:
        if limit < 1:
            raise ValueError(f"limit={limit}: at least 1 bin is needed")
        queries, keys = self.shape
        return max(1, -(-queries // limit)), max(1, -(-keys // limit))

    def _weights(self, found: Found, logs: Tensor) -> NDArray[np.float32]:
        """Weights of their base-2 logarithms; −inf is no weight at all."""
        # In numpy, as all of `_told`: it takes no threads for these small arrays.
        values = logs.numpy()
        if not found.weights:
            values = np.where(values == -np.inf, np.nan, np.exp2(values))
        single: NDArray[np.float32] = values.astype(np.float32)
        return self._rounded(torch.from_numpy(single)).numpy()

    def _rounded(self, weights: Tensor) -> Tensor:
        """As the model's softmax gives them: rounded to its type."""
        if self._out_dtype not in (None, torch.float32, torch.float64):
            weights = weights.to(self._out_dtype)
        return weights.to(torch.float32)

    def _learn(self, q0: int, q1: int) -> None:
        """Compute the softmax sums of rows that are not known."""
        missing = (~self._known[q0:q1]).nonzero()
        if self._source is None or not len(missing):
            return
        first, last = q0 + int(missing[0]), q0 + int(missing[-1]) + 1
        for start in range(first, last, _KNOWN_ROWS):
            rows = slice(start, min(last, start + _KNOWN_ROWS), 1)
            self._reference[rows], self._log_sum[rows] = row_sums(self._source, rows)
            self._known[rows] = True

    def _window(self, q0: int, q1: int, k0: int, k1: int) -> tuple[slice, slice]:
        for what, start, stop, count in (
            ("queries", q0, q1, self.shape[0]),
            ("keys", k0, k1, self.shape[1]),
        ):
            if not 0 <= start <= stop <= count:
                raise ValueError(f"{what} {start} to {stop}: the head has 0 to {count}")
        return slice(q0, q1, 1), slice(k0, k1, 1)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Nothing here is captured; autocast and autograd have no say in it."""
        if self._record.overwritten():
            raise CaptureError(
                "the model has overwritten the queries or keys of this head in place since the "
                "capture, so its weights are gone; read them before the model runs again"
            )
        device = self._record.tensors()[0].device.type
        with SESSION.quiet(), torch.autocast(device, enabled=False):
            yield
