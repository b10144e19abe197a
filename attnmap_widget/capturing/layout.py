"""Which leading axes of a stack of score matrices are batch and which are heads.

Models lay the stack out as (batch, heads, …), (batch·heads, …), (batch, key heads, group, …),
(heads, …) or with no leading axis at all; records always have (batch, heads, queries, keys).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .operations import Operation
from .provenance import Scores, Step
from .records import Rebuilt, Shape

_HEAD_COUNTS = (
    "num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "nheads",
    "num_attention_heads_per_partition", "encoder_attention_heads",
)  # fmt: skip
_MODULES_ASKED = 3


def heads_of(modules: Iterable[nn.Module]) -> int | None:
    """The head count that the innermost modules or their configs declare, or None."""
    for module, _ in zip(modules, range(_MODULES_ASKED), strict=False):
        for owner in (module, getattr(module, "config", None)):
            for name in _HEAD_COUNTS:
                count = getattr(owner, name, None)
                if isinstance(count, int) and not isinstance(count, bool) and count > 0:
                    return count
    return None


@dataclass(frozen=True, slots=True)
class Layout:
    """A stack's leading axes read as ``batch`` items of ``heads`` heads each."""

    batch: int
    heads: int
    heads_first: bool = False

    @classmethod
    def of(cls, lead: tuple[int, ...], heads: int | None, lone_batch: bool = False) -> Layout:
        """Read leading axes, with the declared head count where there is one.

        Two leading axes are (batch, heads) whatever is declared, unless only the first has the
        declared count. A single one without a declared head count is heads, or the batch with
        ``lone_batch``.
        """
        total = math.prod(lead)
        if len(lead) == 2:
            first, second = lead
            turned = heads == first != second
            return cls(second, first, heads_first=True) if turned else cls(first, second)
        if heads is not None:
            for place in range(len(lead) - 1, -1, -1):
                if math.prod(lead[place:]) == heads:
                    return cls(math.prod(lead[:place]), heads)
            if len(lead) == 1 and total % heads == 0:
                return cls(total // heads, heads)
        if len(lead) == 1 and lone_batch:
            return cls(total, 1)
        count = lead[-1] if lead else 1
        return cls(total // count if count else 0, count)

    def fits(self, tensor: Tensor) -> bool:
        """Tell whether a (…, queries, keys) tensor has this many matrices."""
        lead = tuple(tensor.shape[:-2])
        return (
            lead == (self.heads, self.batch)
            if self.heads_first
            else (math.prod(lead) == self.batch * self.heads)
        )

    def stacked(self, tensor: Tensor) -> Tensor:
        """A full (…, queries, keys) tensor as (batch, heads, queries, keys)."""
        if self.heads_first:
            return tensor.transpose(0, 1)
        return tensor.reshape(self.batch, self.heads, *tensor.shape[-2:])

    def lift(self, operand: Tensor, lead: tuple[int, ...]) -> Tensor:
        """Give an operand that broadcasts to (*lead, ·, ·) four axes, the first two full or 1.

        Views where it can be; a copy only where batch axes are partly broadcast (windows of a
        mask). Raises ValueError where the leading axes hold another number of matrices than this
        layout.
        """
        if operand.ndim < 2:
            operand = operand.reshape(*(1,) * (2 - operand.ndim), *operand.shape)
        own = (1,) * (len(lead) + 2 - operand.ndim) + tuple(operand.shape[:-2])
        operand = operand.reshape(*own, *operand.shape[-2:])
        if all(size == 1 for size in own):
            return operand.reshape(1, 1, *operand.shape[-2:])
        if math.prod(lead) != self.batch * self.heads or self.heads_first:
            raise ValueError("leading axes do not line up")
        split = self._split(lead)
        if split is None:
            if own != lead:
                raise ValueError("leading axes do not line up")
            return operand.reshape(self.batch, self.heads, *operand.shape[-2:])
        batch, heads = own[:split], own[split:]
        batch_full = (1,) * split if all(size == 1 for size in batch) else lead[:split]
        heads_full = (1,) * len(heads) if all(size == 1 for size in heads) else lead[split:]
        operand = operand.expand(*batch_full, *heads_full, *operand.shape[-2:])
        return operand.reshape(math.prod(batch_full), math.prod(heads_full), *operand.shape[-2:])

    def _split(self, lead: tuple[int, ...]) -> int | None:
        """Where the batch axes end and the head axes begin; None where one axis holds both."""
        for place in range(len(lead), -1, -1):
            if math.prod(lead[place:]) == self.heads:
                return place
        return None


def rebuild(scores: Scores, layout: Layout, shape: Shape, out_dtype: torch.dtype) -> Rebuilt | None:
    """Turn followed scores into a record; None where their stack does not fit the layout."""
    if not scores.exact:
        return None
    lead = _broadcast(scores.queries.shape[:-2], scores.keys.shape[:-2])
    try:
        queries = layout.lift(scores.queries, lead)
        keys = layout.lift(scores.keys, lead)
        steps = tuple(_lifted(step, layout) for step in scores.steps)
        sinks = None
        if scores.sink is not None:
            sink = _lifted(scores.sink, layout).tensors()[0]
            if sink.shape[0] != 1 and not bool((sink == sink[:1]).all()):
                return None
            sinks = sink[0, :, 0, 0].expand(shape[1])
    except (ValueError, RuntimeError):
        return None
    for axis, full in ((queries.shape[2], shape[2]), (keys.shape[2], shape[3])):
        if axis != full:
            return None
    return Rebuilt(
        queries, keys, steps, shape,
        sinks=sinks, matmul_dtype=scores.dtype, softmax_dtype=out_dtype, out_dtype=out_dtype,
    )  # fmt: skip


def keys_of(scores: Scores, layout: Layout, count: int) -> Tensor | None:
    """The keys of scores that cannot be rebuilt, four axes; None where they do not line up."""
    keys = scores.keys
    if layout.heads_first:
        return keys.transpose(0, 1) if keys.ndim == 4 and keys.shape[2] == count else None
    try:
        keys = layout.lift(
            scores.keys, _broadcast(scores.queries.shape[:-2], scores.keys.shape[:-2])
        )
    except (ValueError, RuntimeError):
        return None
    return keys if keys.shape[2] == count else None


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def _lifted(step: Step, layout: Layout) -> Operation:
    lead = step.shape[:-2]
    return step.operation.with_tensors(lambda t: t if t.ndim == 0 else layout.lift(t, lead))


def heavy(record: Rebuilt) -> bool:
    """Whether the operations' own operands outweigh the weights: then those are kept instead.

    Operands that are the same for all heads or all batch items are left out: they are masks and
    position biases, which layers share, and often the model's own buffers.
    """
    batch, heads, queries, keys = record.shape
    own = [
        tensor.numel()
        for step in record.operations
        for tensor in step.tensors()
        if tensor.ndim == 4 and tensor.shape[:2] == (batch, heads)
    ]
    return sum(own) > batch * heads * queries * keys
