"""What is kept of one attention call: enough to rebuild any head, or its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from .operations import Operation, Tile

Source = Literal["rebuilt", "model"]
Shape = tuple[int, int, int, int]


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


@dataclass(slots=True)
class Rebuilt:
    """softmax over the keys of operations(q·kᵀ), from the model's own q and k.

    queries: (batch or 1, heads or 1, queries, width); keys: (batch or 1, key heads, keys, width),
    where each key head serves heads // key heads query heads (grouped keys). ``sinks``: one extra
    logit per head that takes part in the softmax and is dropped (gpt-oss). ``matmul_dtype``: the
    type in which q·kᵀ is taken; float32 for fused kernels, which accumulate in it whatever the
    type of q.
    """

    queries: Tensor
    keys: Tensor
    operations: tuple[Operation, ...]
    shape: Shape
    sinks: Tensor | None = None
    matmul_dtype: torch.dtype | None = None
    softmax_dtype: torch.dtype | None = None
    out_dtype: torch.dtype | None = None
    source: Source = "rebuilt"
    _versions: list[tuple[Tensor, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # No autograd graph is kept: detached tensors share their memory with the model's.
        self.queries, self.keys = self.queries.detach(), self.keys.detach()
        self.sinks = None if self.sinks is None else self.sinks.detach()
        self.operations = tuple(step.with_tensors(torch.Tensor.detach) for step in self.operations)
        self._versions = list(_versions(self.tensors()))

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
        kept = [self.queries, self.keys] + [t for step in self.operations for t in step.tensors()]
        return kept if self.sinks is None else [*kept, self.sinks]

    def overwritten(self) -> bool:
        """See `Record.overwritten`."""
        return any(tensor._version != version for tensor, version in self._versions)


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


def _versions(tensors: list[Tensor]) -> Iterator[tuple[Tensor, int]]:
    for tensor in tensors:
        # Tensors made under inference_mode carry no version counter.
        if not tensor.is_inference():
            yield tensor, tensor._version


def storage_bytes(records: list[Record]) -> int:
    """Bytes of memory that these records keep alive, each storage counted once."""
    sizes: dict[int, int] = {}
    for record in records:
        for tensor in record.tensors():
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
