"""A softmax is attention if its scores come from two activations and its weights meet values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnmap_widget import CaptureError, capture

WIDTH, TOKENS = 16, 5


class Attention(nn.Module):
    num_heads = 2

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (self.q(x), self.k(x), x))
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Model(nn.Module):
    """Attention or none, and then another softmax."""

    def __init__(self, then: Callable[[Model, Tensor], Tensor], attends: bool) -> None:
        super().__init__()
        self.then, self.first = then, Attention() if attends else nn.Identity()
        self.w, self.sim = (nn.Parameter(torch.randn(4, WIDTH)) for _ in range(2))
        self.square, self.bias = (
            nn.Parameter(torch.randn(WIDTH, WIDTH)),
            nn.Parameter(torch.ones(1)),
        )
        self.register_buffer("codes", torch.randn(12, WIDTH))
        self.register_buffer("adjacency", torch.rand(TOKENS, TOKENS))

    def forward(self, x: Tensor) -> Tensor:
        return self.then(self, self.first(x))


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


def graph(m: Model, x: Tensor) -> Tensor:
    return (m.adjacency @ (x @ m.square) + m.bias).softmax(-1)


EXPERTS, VALUES = torch.randn(TOKENS, 4, WIDTH), torch.randn(4, 3)
OTHERS: dict[str, Callable[[Model, Tensor], Tensor]] = {
    "cast weight": lambda m, x: (x @ m.w.float().t()).softmax(-1),
    "cast weight, twice": lambda m, x: (x @ m.w.double().t().float()).softmax(-1) @ VALUES,
    "graph convolution": graph,
    "two graph convolutions": lambda m, x: graph(m, graph(m, x)),
    "graph after the softmax": lambda m, x: m.adjacency @ graph(m, x),
    "cosine router": lambda m, x: (unit(x) @ unit(m.sim).T * 10).softmax(-1),
    "router and experts": lambda m, x: torch.einsum(
        "bte,ted->btd", (unit(x) @ unit(m.sim).T).softmax(-1), EXPERTS
    ),
    "cosine by hand": lambda m, x: (
        x @ (m.sim / m.sim.norm(dim=-1, keepdim=True)).T
    ).softmax(-1) @ VALUES,
    "codebook": lambda m, x: (x @ m.codes.T).softmax(-1) @ m.codes,
    "contrastive": lambda m, x: (unit(x[:, 0]) @ unit(x[:, 1]).T / 0.1).softmax(-1),
    "features": lambda m, x: (x.mT @ x).softmax(-1),
    "next token": lambda m, x: torch.multinomial((x[:, -1] @ m.square.data.T).softmax(-1), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("attends", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_other_softmaxes_are_not_attention(name: str, attends: bool, named: bool) -> None:
    model = Model(OTHERS[name], attends)
    with torch.no_grad(), capture(model if named else None) as cap:
        model(torch.randn(2, TOKENS, WIDTH))
    assert [call.name for call in cap.calls] == (["first"] if attends else [])


def test_sampling_after_a_model_in_an_open_capture() -> None:
    model, head = Attention(), torch.randn(WIDTH, 30)
    with torch.no_grad(), capture() as cap:
        hidden = model(torch.randn(2, TOKENS, WIDTH))
        torch.multinomial((hidden[:, -1] @ head).softmax(-1), 1)
    assert [call.shape for call in cap.calls] == [(2, 2, TOKENS, TOKENS)]


def test_a_learner_who_stops_at_the_weights() -> None:
    q, k = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)
    with capture() as cap:
        first = torch.softmax(q @ k.T / math.sqrt(WIDTH), -1)
        second = torch.softmax(q @ k.T, -1)
        assert cap.layers == [0, 1]
    assert cap.layers == [0, 1]
    assert torch.equal(cap.weights(0, 0), first)
    assert torch.equal(cap.weights(1, 0), second)
    with capture() as cap:
        torch.softmax(q @ k.T / math.sqrt(WIDTH), -1)
        torch.softmax(q @ k.T, -1) @ k  # now it is known what is attention
    assert torch.equal(cap.weights(0, 0), second)


def test_a_module_that_stops_at_the_weights_must_be_called_attention() -> None:
    class Scorer(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return (q @ k.mT).softmax(-1)

    class SelfAttention(Scorer):
        pass

    q, k = torch.randn(3, TOKENS, WIDTH), torch.randn(3, TOKENS, WIDTH)
    with capture(model := SelfAttention()) as cap:
        weights = model(q, k)
    assert torch.equal(cap.weights(0, 2), weights[2])
    with capture(model := nn.ModuleDict({"pick": Scorer()})) as cap:
        model["pick"](q, k)
    with pytest.raises(CaptureError, match=r"meet no values.*: pick"):
        _ = cap.layers


APPLIED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "matmul": lambda p, v: p @ v,
    "cast": lambda p, v: p.double() @ v.double(),
    "from the right": lambda p, v: v.mT @ p.mT,
    "bmm": torch.bmm,
    "baddbmm": lambda p, v: torch.baddbmm(torch.zeros(3, TOKENS, WIDTH), p, v),
    "einsum": lambda p, v: torch.einsum("hqk,hkd->qhd", p, v),
    "head by head": lambda p, v: [p[h] @ v[h] for h in range(3)],
    "split": lambda p, v: [part @ v[:1] for part in p.split(1)],
    "summed by hand": lambda p, v: (p[..., None] * v[:, None]).sum(-2),
    "gated": lambda p, v: (p * torch.rand(3, 1, 1)) @ v,
    "two maps": lambda p, v: (p - 0.2 * p.flip(-1)) @ v,
}


@pytest.mark.parametrize("name", APPLIED)
def test_ways_to_apply_weights(name: str) -> None:
    class Pooler(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            weights = (q @ k.mT).softmax(-1)
            APPLIED[name](weights, k)
            return weights

    q, k = torch.randn(3, TOKENS, WIDTH), torch.randn(3, TOKENS, WIDTH)
    with torch.no_grad(), capture(model := Pooler()) as cap:
        weights = model(q, k)
    assert torch.equal(cap.weights(0, 1), weights[1])


def test_both_maps_of_differential_attention() -> None:
    q, k = torch.randn(2, 3, TOKENS, WIDTH), torch.randn(2, 3, TOKENS, WIDTH)
    with capture() as cap:
        first, second = (q @ k.mT).softmax(-1), (k @ q.mT).softmax(-1)
        (first - 0.3 * second) @ k
    assert torch.equal(cap.weights(0, None, kind="self"), first[0])
    assert torch.equal(cap.weights(1, None), second[0])
    effective = cap.weights(0, None, kind="effective")
    assert torch.equal(effective, (first - 0.3 * second)[0])


def test_keys_in_a_buffer_that_is_a_cache() -> None:
    """A buffer is taken for a codebook, unless it is written to."""

    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(2, 9, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            self.cache[:, :TOKENS] = x
            keys = self.cache[:, :TOKENS]
            return (x @ keys.mT).softmax(-1) @ keys

    x = torch.randn(2, TOKENS, WIDTH)
    with torch.no_grad(), capture(model := Cached()) as cap:
        model(x)
    model.cache.zero_()
    assert torch.allclose(cap.weights(0, 1), (x @ x.mT).softmax(-1)[1], atol=1e-6)
