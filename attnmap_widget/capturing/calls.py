"""One attention call, as users see it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import CaptureError
from ..images.windows import Windows
from .memory import require
from .naming import Tower
from .records import Record, Shape, Source
from .session import SESSION

Head = int | str | None
# Scores are rebuilt in blocks of rows of at most this many cells: 16 MB in float32.
_BLOCK_CELLS = 1 << 22
_Rows = Callable[[int, int, slice], Tensor]


@dataclass(slots=True, eq=False)
class AttentionCall:
    """One call of attention: weights from queries to keys, for every head and batch item.

    layer: true block number; name: dotted name of the module that made the call ("" for code
    outside any module); step: 0 for the first forward inside the capture, 1 for the second
    (generate: one per token); kind: "self", "cross", "encoder", "decoder" or a tower's name;
    "effective" for what a model made of its weights after the softmax (talking heads, gates);
    windows: of a Swin layer, whose batch items are windows, numbered row by row; else None.
    """

    layer: int
    name: str
    step: int
    tower: Tower = field(repr=False)
    cross: bool = field(repr=False)
    part: int = field(repr=False)
    record: Record = field(repr=False)
    effective: bool = field(default=False, repr=False)
    sharded: bool = field(default=False, repr=False)
    windows: Windows | None = field(default=None, repr=False)
    kind: str = "self"

    @property
    def shape(self) -> Shape:
        """(batch, heads, queries, keys)."""
        return self.record.shape

    @property
    def source(self) -> Source:
        """Either "rebuilt" from the model's q and k on demand, or "model": its own weights."""
        return self.record.source

    def weights(
        self,
        head: Head = None,
        batch: int = 0,
        queries: slice = slice(None),
        keys: slice = slice(None),
    ) -> Tensor:
        """Softmax weights before dropout, float32 on the CPU.

        Shape (queries, keys) for one head, for "mean" and "max" over the heads; (heads, queries,
        keys) for ``head=None``. Only what is asked for is rebuilt.

        Raises ValueError for a head or batch item that does not exist and CaptureError where the
        result would not fit into memory or the model overwrote its keys in the meantime.
        """
        return self._read(self.record.rows, head, batch, queries, keys)

    def value_norms(
        self,
        head: Head = None,
        batch: int = 0,
        queries: slice = slice(None),
        keys: slice = slice(None),
    ) -> Tensor:
        """How much each key adds to the head's output: ‖αᵢⱼ·vⱼ‖, weight times size of the value.

        A large weight on a small value adds little (Kobayashi et al. 2020, "Attention is Not Only a
        Weight: Analyzing Transformers with Vector Norms", before the output projection). Shapes and
        choices as for `weights`; rows do not sum to 1. With grouped keys each head has its group's
        values.

        Raises like `weights`, and CaptureError where the values of the call are not known.
        """
        sizes = self.record.sizes
        if sizes is None:
            raise CaptureError(
                f"how large the values of {self._title()} are is not known: its weights did not "
                "meet them in a way that a capture follows"
            )
        sizes = sizes.to("cpu")

        def rows(batch: int, head: int, rows: slice) -> Tensor:
            own = sizes[batch if len(sizes) > 1 else 0, head * sizes.shape[1] // self.shape[1]]
            return self.record.rows(batch, head, rows).to(own) * own

        return self._read(rows, head, batch, queries, keys)

    def _read(self, source: _Rows, head: Head, batch: int, queries: slice, keys: slice) -> Tensor:
        batch = self._index("batch item", batch, self.shape[0])
        rows, columns = span("queries", queries, self.shape[2]), span("keys", keys, self.shape[3])
        chosen = self._head(head)
        if self.record.overwritten():
            raise CaptureError(
                f"the model has overwritten the queries or keys of {self._title()} in place since "
                "the capture, so its weights are gone; read them before the model runs again"
            )
        size, heads = (len(rows), len(columns)), self.shape[1]
        require((heads if chosen is None else 1, *size))
        out = torch.empty((heads, *size) if chosen is None else size)
        with self._reading():
            if chosen is None:
                for index in range(heads):
                    self._fill(partial(source, batch, index), out[index], rows, columns)
            elif isinstance(chosen, int):
                self._fill(partial(source, batch, chosen), out, rows, columns)
            else:
                self._reduce(partial(source, batch), out, chosen, rows, columns)
        return out

    def allowed(
        self,
        head: int = 0,
        batch: int = 0,
        queries: slice = slice(None),
        keys: slice = slice(None),
    ) -> Tensor | None:
        """Where the model's own mask lets a query look at a key: bool (queries, keys) on the CPU.

        None where the record cannot know (source "model") or where everything in the window is
        allowed. A score of -inf, of the type's most negative number or of another mask constant
        means "may not look".
        """
        batch = self._index("batch item", batch, self.shape[0])
        chosen = self._head(head)
        index = chosen if isinstance(chosen, int) else 0
        rows, columns = span("queries", queries, self.shape[2]), span("keys", keys, self.shape[3])
        parts = [slice(part.start, part.stop, part.step) for part in (rows, columns)]
        with self._reading():
            allowed = self.record.allowed(batch, index, *parts)
            return None if allowed is None else allowed.to("cpu")

    # ------------------------------------------------------------------ inside

    def _fill(
        self, source: Callable[[slice], Tensor], out: Tensor, rows: range, keys: range
    ) -> None:
        for block, part in self._blocks(rows):
            weights = source(part)
            out[block] = weights[:, keys.start : keys.stop : keys.step].to(out)

    def _reduce(
        self,
        source: Callable[[int, slice], Tensor],
        out: Tensor,
        how: Literal["mean", "max"],
        rows: range,
        keys: range,
    ) -> None:
        """Over the heads; one without a weight in a cell (NaN) is left out of that cell."""
        for block, part in self._blocks(rows):
            shape = (len(range(part.start, part.stop, part.step)), len(keys))
            total = torch.full(shape, 0.0 if how == "mean" else torch.nan)
            count = torch.zeros(shape)
            for head in range(self.shape[1]):
                weights = source(head, part)[:, keys.start : keys.stop : keys.step]
                weights = weights.to(total)
                if how == "mean":
                    total += weights.nan_to_num(0.0)
                    count += ~weights.isnan()
                else:
                    total = torch.fmax(total, weights)
            out[block] = total / count if how == "mean" else total

    def _blocks(self, rows: range) -> Iterator[tuple[slice, slice]]:
        """Blocks of rows: where they go in the result, and which rows of the call they are."""
        count = max(1, _BLOCK_CELLS // max(1, self.shape[3]))
        for start in range(0, len(rows), count):
            part = rows[start : start + count]
            yield slice(start, start + len(part)), slice(part.start, part.stop, part.step)

    def _head(self, head: Head) -> int | Literal["mean", "max"] | None:
        count = self.shape[1]
        if head is None:
            return None
        if isinstance(head, str):
            if head == "mean":
                return "mean"
            if head == "max":
                return "max"
            raise ValueError(
                f'head {head!r}: {self._title()} takes 0 to {count - 1}, "mean" or "max"'
            )
        return self._index("head", head, count)

    def _index(self, what: str, value: object, count: int) -> int:
        index = as_index(value)
        if index is None:
            raise ValueError(
                f"{what} {value!r} is not a number; {self._title()} has 0 to {count - 1}"
            )
        if not 0 <= index < count:
            raise ValueError(f"{what} {value}: {self._title()} has 0 to {count - 1}")
        return index

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Rebuilding is not part of what is captured; autocast and autograd have no say in it."""
        device = self.record.tensors()[0].device.type
        with SESSION.quiet(), torch.autocast(device, enabled=False):
            yield

    def _title(self) -> str:
        return f"layer {self.layer} ({self.name or 'code outside any module'})"


def as_index(value: Any) -> int | None:
    """A whole number of any library, numpy's and torch's too; None for everything else."""
    # bool is an int to Python; True as a head is a slip, not head 1.
    if isinstance(value, bool) or "bool" in str(getattr(value, "dtype", "")):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def span(what: str, part: slice, length: int) -> range:
    """The positions that a forward slice picks out of ``length``; ValueError for others."""
    if not isinstance(part, slice):
        raise ValueError(f"{what}={part!r}: give a slice, such as slice(-8, None)")
    found = range(*part.indices(length))
    if found.step < 0:
        raise ValueError(f"{what}={part!r}: the step must be positive")
    return found if found else range(0)
