"""Put the heads of a model together that torch's tensor parallelism spread over processes.

Each process computes, and so captures, its own heads. Gathering is collective: every process of
the group calls it, which is why it is asked for and never done in passing.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .records import Held, Rebuilt, Record


def is_sharded(module: nn.Module | None) -> bool:
    """Tell whether this module's parameters are spread over processes."""
    if module is None or not (dist.is_available() and dist.is_initialized()):
        return False
    from torch.distributed.tensor import DTensor, Shard

    return any(
        isinstance(parameter, DTensor)
        and any(isinstance(placement, Shard) for placement in parameter.placements)
        for parameter in module.parameters()
    )


def gathered(record: Record, group: dist.ProcessGroup | None) -> Record:
    """The record of all heads, in the order of the processes; on every process."""
    whole = _gathered(record, group)
    if record.sizes is not None:
        whole.keep_sizes(_heads(record.sizes[..., None], group))
    return whole


def _gathered(record: Record, group: dist.ProcessGroup | None) -> Record:
    batch, heads, queries, keys = record.shape
    shape = (batch, heads * dist.get_world_size(group), queries, keys)
    if isinstance(record, Held):
        looked_at = None if record.keys is None else _heads(record.keys, group)
        return Held(_heads(record.weights, group), shape, looked_at)
    assert isinstance(record, Rebuilt)
    # Operands with one entry for all heads are the same everywhere.
    steps = tuple(
        step.with_tensors(
            lambda t: _heads(t, group) if t.ndim == 4 and t.shape[1] == heads > 1 else t
        )
        for step in record.operations
    )
    return Rebuilt(
        _heads(record.queries, group),
        _heads(record.keys, group),
        steps,
        shape,
        sinks=None if record.sinks is None else _heads(record.sinks[None], group)[0],
        matmul_dtype=record.matmul_dtype,
        softmax_dtype=record.softmax_dtype,
        out_dtype=record.out_dtype,
    )


def _heads(local: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Concatenate along axis 1."""
    local = local.contiguous()
    parts = [torch.empty_like(local) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, local, group=group)
    return torch.cat(parts, 1)
