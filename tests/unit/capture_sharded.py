"""One process of a model that is sharded over two; imports little, for it is started afresh."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from attnmap_widget import capture


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(24, 24) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        def split(t: Tensor) -> Tensor:
            return t.view(*x.shape[:2], -1, 4).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(4)).softmax(-1)
        return x + self.o((weights @ v).transpose(1, 2).flatten(2))


def blocks() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block()).eval()


def shard_and_capture(rank: int, meeting: str, results: Any) -> None:
    """One of two processes: three of the six heads are here."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    model, x = blocks(), torch.linspace(-1, 1, 2 * 5 * 24).view(2, 5, 24)
    plan = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel()}
    for block in model:
        parallelize_module(block, init_device_mesh("cpu", (2,)), {**plan, "o": RowwiseParallel()})
    with torch.no_grad(), capture(model) as cap:
        model(x)
    own = cap.heads(0)
    cap.gather()
    cap.gather()  # nothing is left to gather
    read = [(cap.weights(n, None, 1), cap.value_norms(n, None, 1)) for n in cap.layers]
    results.put((rank, own, [[part.tolist() for part in layer] for layer in read]))
    dist.barrier()  # one that leaves first tears the connection from under the other
    dist.destroy_process_group()
