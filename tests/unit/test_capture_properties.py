"""Whatever the shapes and the order of the steps: captured is what the softmax gave."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from capture_support import largest_difference
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnmap_widget import capture

Shape = tuple[int, int, int, int]
shapes = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(1, 7))


def per_head(shape: Shape, layout: str) -> Tensor:
    batch, heads, _, keys = shape
    bias = torch.randn(heads, 1, keys)
    return bias.repeat(batch, 1, 1) if layout == "merged" else bias


def hidden(shape: Shape) -> Tensor:
    """Every row keeps its first key."""
    mask = torch.rand(shape[2], shape[3]) < 0.4
    mask[:, 0] = False
    return mask


STEPS: dict[str, Callable[[Tensor, Shape, str], Tensor]] = {
    "multiply": lambda s, shape, layout: s * 0.3,
    "divide": lambda s, shape, layout: s / math.sqrt(7),
    "bias": lambda s, shape, layout: s + per_head(shape, layout),
    "bias first": lambda s, shape, layout: per_head(shape, layout) + s,
    "minus": lambda s, shape, layout: s - torch.randn(shape[3]),
    "mask": lambda s, shape, layout: s + hidden(shape).float() * -1e9,
    "fill": lambda s, shape, layout: s.masked_fill(hidden(shape), -1e9),
    "where": lambda s, shape, layout: torch.where(hidden(shape), -torch.inf, s),
    "cap": lambda s, shape, layout: torch.tanh(s / 5) * 5,
    "clamp": lambda s, shape, layout: s.clamp(-3, 3),
    "scale of rows": lambda s, shape, layout: s * torch.rand(shape[2], 1),
    "double": lambda s, shape, layout: s.double(),
    "in place": lambda s, shape, layout: s.mul_(0.7).add_(0.1),
}


@settings(max_examples=60)
@given(
    shape=shapes,
    width=st.integers(1, 5),
    layout=st.sampled_from(["four axes", "merged", "heads", "grouped"]),
    steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=5),
    seed=st.integers(0, 10_000),
)
def test_any_chain(shape: Shape, width: int, layout: str, steps: list[str], seed: int) -> None:
    torch.manual_seed(seed)
    batch, heads, queries, keys = shape
    if layout == "heads":
        shape = (1, *shape[1:])
        batch = 1
    q, k = torch.randn(batch, heads, queries, width), torch.randn(batch, heads, keys, width)
    if layout == "grouped":
        k = k[:, :1]
    if layout in ("merged", "heads"):
        q, k = q.flatten(0, 1), k.flatten(0, 1)

    class Attention(torch.nn.Module):  # weights alone: the name has to say what they are
        num_heads = heads

        def forward(self, scores: Tensor) -> Tensor:
            for step in steps:
                scores = STEPS[step](scores, shape, layout)
            return scores.softmax(-1)

    class Whole(torch.nn.Module):
        num_heads = heads

        def __init__(self) -> None:
            super().__init__()
            self.inner = Attention()

        def forward(self) -> Tensor:
            return self.inner(q @ k.transpose(-2, -1))

    with torch.no_grad(), capture(model := Whole()) as cap:
        weights = model().view(shape)
    assert cap.calls[0].shape == shape
    for item in range(batch):
        # float32 read-outs of float64 weights are rounded once more
        assert (
            largest_difference(cap.weights(0, None, item).double(), weights[item].double()) <= 1e-6
        )
        window = cap.weights(0, heads - 1, item, queries=slice(queries // 2, None))
        assert largest_difference(window, weights[item, -1, queries // 2 :].float()) <= 2e-6
