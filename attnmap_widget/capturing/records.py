"""What is kept of one attention call: enough to rebuild any head, or its weights."""

from __future__ import annotations

import weakref
from typing import Literal, Protocol

import torch
from torch import Tensor

from .operations import Operation, Tile

Source = Literal["rebuilt", "model"]
Shape = tuple[int, int, int, int]
# Smaller operands than this are not worth looking for a copy that is there already.
_SHARED = 1 << 12


class Record(Protocol):
    """Weights of one attention call, (batch, heads, queries, keys), any rows on demand."""

    shape: Shape
    source: Source

    @property
    def keys(self) -> Tensor | None:
        """What was looked at: (batch or 1, key heads, keys, width); None where it is not known."""
        ...

    @property
    def sizes(self) -> Tensor | None:
        """How large each value is: (batch or 1, key heads, keys) float32; None: not known."""
        ...

    def keep_sizes(self, sizes: Tensor | None) -> None:
        """Take the norms of the values, (batch or 1, key heads, keys, 1) float32."""
        ...

    def own(self, copies: Copies) -> None:
        """Copy what the model may write to later; until then a record only refers to it."""
        ...

    def continues(self, earlier: Record) -> None:
        """Share the memory of the keys with the step before, if they are the first of these."""
        ...

    def rows(self, batch: int, head: int, rows: slice) -> Tensor:
        """Weights of one head, (rows, keys), on the model's device, in the type of the softmax."""
        ...

    def allowed(self, batch: int, head: int, rows: slice, keys: slice) -> Tensor | None:
        """True where the mask lets the query look; None: not known, or nothing is masked."""
        ...

    def tensors(self) -> list[Tensor]:
        """Everything this record keeps alive."""
        ...

    def overwritten(self) -> bool:
        """Whether a tensor that this record only refers to was changed in place."""
        ...


class Copies:
    """Copies of masks and biases, one of each however many records refer to it."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], list[weakref.ref[Tensor]]] = {}

    def own(self, tensor: Tensor) -> Tensor:
        """A tensor of the same content that nobody else writes to."""
        if tensor.numel() < _SHARED:
            return copied(tensor)
        made = self._made.setdefault((tensor.shape, tensor.dtype, tensor.device), [])
        for reference in made:
            copy = reference()
            if copy is not None and torch.equal(copy, tensor):
                return copy
        copy = copied(tensor)
        made[:] = [reference for reference in made if reference() is not None]
        made.append(weakref.ref(copy))
        return copy


def copied(tensor: Tensor) -> Tensor:
    """A copy without autograd's graph; axes that are broadcast stay so."""
    tensor = tensor.detach()
    broadcast = [
        length > 1 and not step for length, step in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    part = tensor[tuple(slice(0, 1) if flat else slice(None) for flat in broadcast)].clone()
    return part.expand(tensor.shape) if any(broadcast) else part


class KeyStore:
    """What several records look at, (…, keys, ·): a later step's begin with an earlier one's."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class _Looking:
    """The keys of a record, and how large their values are."""

    __slots__ = ("_length", "_sizes", "_store", "shape")
    _store: KeyStore | None
    _sizes: KeyStore | None
    _length: int
    shape: Shape

    def _look_at(self, keys: Tensor | None) -> None:
        self._store = None if keys is None else KeyStore(keys.detach())
        self._length = 0 if keys is None else keys.shape[2]

    @property
    def keys(self) -> Tensor | None:
        """See `Record.keys`."""
        return None if self._store is None else self._store.tensor[:, :, : self._length]

    def continues(self, earlier: Record) -> None:
        """See `Record.continues`. Without it a generate would keep 1 + 2 + … + n keys."""
        if isinstance(earlier, _Looking):
            self._store = _joined(self._store, earlier._store, earlier._length)
            self._sizes = _joined(self._sizes, earlier._sizes, earlier.shape[3])

    @property
    def sizes(self) -> Tensor | None:
        """See `Record.sizes`."""
        return None if self._sizes is None else self._sizes.tensor[:, :, : self.shape[3], 0]

    def keep_sizes(self, sizes: Tensor | None) -> None:
        """See `Record.keep_sizes`."""
        self._sizes = None if sizes is None else KeyStore(sizes)

    def _measured(self) -> list[Tensor]:
        return [] if self._sizes is None else [self._sizes.tensor]


def _joined(ours: KeyStore | None, earlier: KeyStore | None, length: int) -> KeyStore | None:
    """The earlier store, grown to hold ours, where ours begins with it; else ours as it is."""
    if ours is None or earlier is None or earlier.tensor.shape[2] != length:
        return ours
    first, theirs = ours.tensor[:, :, :length], earlier.tensor
    if first.shape == theirs.shape and first.dtype == theirs.dtype and torch.equal(first, theirs):
        earlier.tensor = ours.tensor
        return earlier
    return ours


class Rebuilt(_Looking):
    """softmax over the keys of operations(q·kᵀ), from the model's own q and k.

    queries: (batch or 1, heads or 1, queries, width); keys: (batch or 1, key heads, keys, width),
    where each key head serves heads // key heads query heads (grouped keys). ``sinks``: one extra
    logit per head that takes part in the softmax and is dropped (gpt-oss). ``matmul_dtype``: the
    type in which q·kᵀ is taken; float32 for fused kernels, which accumulate in it whatever the type
    of q.
    """

    __slots__ = (
        "_versions", "matmul_dtype", "operations", "out_dtype", "queries", "sinks",
        "softmax_dtype", "source",
    )  # fmt: skip

    def __init__(
        self,
        queries: Tensor,
        keys: Tensor,
        operations: tuple[Operation, ...],
        shape: Shape,
        *,
        sinks: Tensor | None = None,
        matmul_dtype: torch.dtype | None = None,
        softmax_dtype: torch.dtype | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> None:
        # No autograd graph is kept: detached tensors share their memory with the model's.
        self.queries = queries.detach()
        self._look_at(keys)
        self._sizes = None
        self.operations = tuple(step.with_tensors(Tensor.detach) for step in operations)
        self.shape = shape
        self.sinks = None if sinks is None else sinks.detach()
        self.matmul_dtype, self.softmax_dtype = matmul_dtype, softmax_dtype
        self.out_dtype = out_dtype
        self.source: Source = "rebuilt"
        self._versions = [_version(tensor) for tensor in self._referred()]

    @property
    def keys(self) -> Tensor:
        """See `Record.keys`."""
        found = super().keys
        assert found is not None
        return found

    def own(self, copies: Copies) -> None:
        """See `Record.own`."""
        self.queries = copied(self.queries)
        self._look_at(copied(self.keys))
        self.operations = tuple(step.with_tensors(copies.own) for step in self.operations)
        self.sinks = None if self.sinks is None else copied(self.sinks)
        self._versions = []

    def rows(self, batch: int, head: int, rows: slice) -> Tensor:
        """See `Record.rows`."""
        keys = slice(0, self.shape[3], 1)
        scores = self.scores(Tile(batch, head, rows, keys))
        if self.softmax_dtype is not None:
            scores = scores.to(self.softmax_dtype)
        if self.sinks is None:
            weights = torch.softmax(scores, -1)
        else:
            sink = self.sinks[head].to(scores.dtype).expand(scores.shape[0], 1)
            weights = torch.softmax(torch.cat([scores, sink], -1), -1)[:, :-1]
        return weights if self.out_dtype is None else weights.to(self.out_dtype)

    def scores(self, tile: Tile) -> Tensor:
        """Scores of a tile just before the softmax, (rows, keys)."""
        group = self.shape[1] // self.keys.shape[1]
        queries = self.queries[
            tile.batch if self.queries.shape[0] > 1 else 0,
            tile.head if self.queries.shape[1] > 1 else 0,
            tile.rows,
        ]
        keys = self.keys[tile.batch if self.keys.shape[0] > 1 else 0, tile.head // group, tile.keys]
        if self.matmul_dtype is not None:
            queries, keys = queries.to(self.matmul_dtype), keys.to(self.matmul_dtype)
        scores = queries @ keys.transpose(0, 1)
        for step in self.operations:
            scores = step.apply(scores, tile)
        return scores

    def allowed(self, batch: int, head: int, rows: slice, keys: slice) -> Tensor | None:
        """See `Record.allowed`."""
        tile, device = Tile(batch, head, rows, keys), self.queries.device
        shape = (
            len(range(rows.start, rows.stop, rows.step)),
            len(range(keys.start, keys.stop, keys.step)),
        )
        forbidden: Tensor | None = None
        for step in self.operations:
            part = step.forbids(tile, device)
            if part is not None:
                forbidden = part if forbidden is None else forbidden | part
        if forbidden is None or not bool(forbidden.any()):
            return None
        return (~forbidden).expand(shape)

    def tensors(self) -> list[Tensor]:
        """See `Record.tensors`."""
        return [*self._referred(), *self._measured()]

    def _referred(self) -> list[Tensor]:
        """What is, or was before `own`, the model's."""
        assert self._store is not None
        steps = (tensor for step in self.operations for tensor in step.tensors())
        kept = [self._store.tensor, self.queries, *steps]
        return kept if self.sinks is None else [*kept, self.sinks]

    def overwritten(self) -> bool:
        """See `Record.overwritten`; what the record owns nobody writes to."""
        then = self._versions
        return bool(then) and then != [_version(tensor) for tensor in self._referred()]


class Held(_Looking):
    """The weights that the model itself formed, (batch, heads, queries, keys), copied.

    ``keys``: what was looked at, (batch or 1, key heads, keys, width), where it is known.
    """

    __slots__ = ("source", "weights")

    def __init__(self, weights: Tensor, shape: Shape, keys: Tensor | None = None) -> None:
        self.weights, self.shape = weights, shape
        self.source: Source = "model"
        self._look_at(keys)
        self._sizes = None

    @classmethod
    def copy(cls, weights: Tensor, keys: Tensor | None = None) -> Held:
        """Keep a copy: the model may apply dropout or a gate to the same tensor in place."""
        batch, heads, queries, count = weights.shape
        kept = weights.detach().clone(memory_format=torch.contiguous_format)
        return cls(kept, (batch, heads, queries, count), keys)

    def own(self, copies: Copies) -> None:
        """See `Record.own`."""
        self._look_at(None if self.keys is None else copied(self.keys))

    def rows(self, batch: int, head: int, rows: slice) -> Tensor:
        """See `Record.rows`."""
        return self.weights[batch, head, rows]

    def allowed(self, batch: int, head: int, rows: slice, keys: slice) -> Tensor | None:
        """See `Record.allowed`."""
        return None

    def tensors(self) -> list[Tensor]:
        """See `Record.tensors`."""
        kept = [self.weights] if self._store is None else [self.weights, self._store.tensor]
        return [*kept, *self._measured()]

    def overwritten(self) -> bool:
        """See `Record.overwritten`."""
        return False


def _version(tensor: Tensor) -> int | None:
    """How often a tensor was written to; None for those of inference_mode, which do not count."""
    return None if tensor.is_inference() else tensor._version


def storage_bytes(records: list[Record]) -> int:
    """Bytes of memory that these records keep alive, each storage counted once."""
    sizes: dict[int, int] = {}
    for record in records:
        for tensor in record.tensors():
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
