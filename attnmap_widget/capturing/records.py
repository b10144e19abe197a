"""What is kept of one attention call: enough to rebuild any head, or its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from .operations import Operation, Tile

Source = Literal["rebuilt", "model"]
Shape = tuple[int, int, int, int]
# Memory may be this many times what a record uses of it before the record takes a copy.
_SLACK = 1.3


class Record(Protocol):
    """Weights of one attention call, (batch, heads, queries, keys), any rows on demand."""

    shape: Shape
    source: Source

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
        """Whether the model changed, in place, a tensor that this record only refers to."""
        ...


class KeyStore:
    """Keys that several records look at: a later step's begin with an earlier one's."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.put(tensor)

    def put(self, tensor: Tensor) -> None:
        """Hold this tensor, and no other any more."""
        self.tensor = tensor
        self.version = _version(tensor)


class Rebuilt:
    """softmax over the keys of operations(q·kᵀ), from the model's own q and k.

    queries: (batch or 1, heads or 1, queries, width); keys: (batch or 1, key heads, keys, width),
    where each key head serves heads // key heads query heads (grouped keys). ``sinks``: one extra
    logit per head that takes part in the softmax and is dropped (gpt-oss). ``matmul_dtype``: the
    type in which q·kᵀ is taken; float32 for fused kernels, which accumulate in it whatever the type
    of q.
    """

    __slots__ = (
        "__weakref__", "_length", "_store", "_versions", "matmul_dtype", "operations",
        "out_dtype", "queries", "shape", "sinks", "softmax_dtype", "source",
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
        self.queries, kept_keys = _alone(queries.detach(), keys.detach())
        self._store, self._length = KeyStore(kept_keys), keys.shape[2]
        self.operations = tuple(step.with_tensors(_settled) for step in operations)
        self.shape = shape
        self.sinks = None if sinks is None else _settled(sinks)
        self.matmul_dtype, self.softmax_dtype = matmul_dtype, softmax_dtype
        self.out_dtype = out_dtype
        self.source: Source = "rebuilt"
        self._versions = [(tensor, _version(tensor)) for tensor in self._small_tensors()]

    @property
    def keys(self) -> Tensor:
        """(batch or 1, key heads, keys, width)."""
        return self._store.tensor[:, :, : self._length]

    def continues(self, earlier: Rebuilt) -> None:
        """Share memory with the step before, if its keys are the first of these.

        Without this the steps of a generate would keep 1 + 2 + … + n keys.
        """
        store = earlier._store
        if store is self._store or store.tensor.shape[2] != earlier._length:
            return
        ours, theirs = self.keys[:, :, : earlier._length], earlier.keys
        if ours.shape == theirs.shape and ours.dtype == theirs.dtype and torch.equal(ours, theirs):
            store.put(self._store.tensor)
            self._store = store

    def part_from(self, pointer: int) -> None:
        """Copy what lies in this storage: the model is about to write to it."""

        def own(tensor: Tensor) -> Tensor:
            shared = tensor.untyped_storage().data_ptr() == pointer
            return tensor.clone() if shared else tensor

        self.queries = own(self.queries)
        self._store.put(own(self._store.tensor))
        self.operations = tuple(step.with_tensors(own) for step in self.operations)
        self.sinks = None if self.sinks is None else own(self.sinks)
        self._versions = [(tensor, _version(tensor)) for tensor in self._small_tensors()]

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
        return [self._store.tensor, *self._small_tensors()]

    def _small_tensors(self) -> list[Tensor]:
        kept = [self.queries, *(t for step in self.operations for t in step.tensors())]
        return kept if self.sinks is None else [*kept, self.sinks]

    def overwritten(self) -> bool:
        """See `Record.overwritten`."""
        kept = [*self._versions, (self._store.tensor, self._store.version)]
        return any(_version(tensor) != version for tensor, version in kept)


@dataclass(slots=True)
class Held:
    """The weights that the model itself formed, (batch, heads, queries, keys), copied."""

    weights: Tensor
    shape: Shape
    source: Source = "model"

    @classmethod
    def copy(cls, weights: Tensor) -> Held:
        """Keep a copy: the model may apply dropout or a gate to the same tensor in place."""
        batch, heads, queries, keys = weights.shape
        kept = weights.detach().clone(memory_format=torch.contiguous_format)
        return cls(kept, (batch, heads, queries, keys))

    def rows(self, batch: int, head: int, rows: slice) -> Tensor:
        """See `Record.rows`."""
        return self.weights[batch, head, rows]

    def allowed(self, batch: int, head: int, rows: slice, keys: slice) -> Tensor | None:
        """See `Record.allowed`."""
        return None

    def tensors(self) -> list[Tensor]:
        """See `Record.tensors`."""
        return [self.weights]

    def overwritten(self) -> bool:
        """See `Record.overwritten`."""
        return False


def _alone(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys; copies where they are views of more, which they would keep alive.

    A projection to q, k and v at once is one block of memory: without the copy v would stay too.
    """
    used: dict[int, int] = {}
    for tensor in (queries, keys):
        pointer = tensor.untyped_storage().data_ptr()
        used[pointer] = used.get(pointer, 0) + tensor.numel() * tensor.element_size()

    def alone(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        return tensor.clone() if storage.nbytes() > _SLACK * used[storage.data_ptr()] else tensor

    return alone(queries), alone(keys)


def _settled(tensor: Tensor) -> Tensor:
    """Detached; a copy of a parameter, which the next step of an optimizer would overwrite."""
    kept = tensor.detach()
    learned = isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter)
    return kept.clone() if learned else kept


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
