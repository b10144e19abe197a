"""Attention without a library: tensor code, in a module or in none."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from capture_support import largest_difference
from torch import Tensor, nn
from torch.nn import functional as F

from attnmap_widget import CaptureError, capture

torch.manual_seed(0)
QUERIES, KEYS, WIDTH = 5, 7, 16
Q, K, V = (
    torch.randn(2, 3, QUERIES, WIDTH),
    torch.randn(2, 3, KEYS, WIDTH),
    torch.randn(2, 3, KEYS, WIDTH),
)
HIDDEN = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(3)


def exp_over_sum(scores: Tensor) -> Tensor:
    weights = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return weights / weights.sum(-1, keepdim=True)


def in_place(scores: Tensor) -> Tensor:
    scores *= 0.25
    scores += torch.zeros(QUERIES, KEYS).masked_fill(HIDDEN, -1e9)
    return F.softmax(scores, dim=-1)


def assigned(scores: Tensor) -> Tensor:
    scores = scores / 4
    scores[..., HIDDEN] = -math.inf
    return scores.softmax(-1)


SPELLINGS: dict[str, Callable[[], Tensor]] = {
    "matmul, mT": lambda: torch.softmax(Q @ K.mT * 0.25, -1),
    "transpose": lambda: (Q.matmul(K.transpose(-2, -1)) / 4).softmax(dim=-1),
    "einsum": lambda: torch.einsum("bhqd,bhkd->bhqk", Q, K).div(4).softmax(-1),
    "einsum, heads inside": lambda: torch.einsum(
        "bqhd,bkhd->bhqk", Q.transpose(1, 2), K.transpose(1, 2)
    ).mul(0.25).softmax(-1),
    "einsum, ellipsis": lambda: torch.einsum("...qd,...kd->...qk", Q, K).softmax(-1),
    "masked_fill": lambda: torch.softmax((Q @ K.mT / 4).masked_fill(HIDDEN, -math.inf), -1),
    "where": lambda: F.softmax(torch.where(HIDDEN, torch.tensor(-1e9), Q @ K.mT / 4), -1),
    "additive mask": lambda: nn.Softmax(-1)(Q @ K.mT / 4 + HIDDEN.float() * -1e4),
    "mask + scores": lambda: (HIDDEN.float() * -1e4 + Q @ K.mT / 4).softmax(-1),
    "upcast": lambda: (Q @ K.mT / 4).double().softmax(-1).float(),
    "soft-cap": lambda: (torch.tanh(Q @ K.mT / 20) * 20).softmax(-1),
    "cosine": lambda: torch.softmax(F.normalize(Q, dim=-1) @ F.normalize(K, dim=-1).mT * 10, -1),
    "exp over sum": lambda: exp_over_sum(Q @ K.mT / 4),
    "log_softmax": lambda: torch.log_softmax(Q @ K.mT / 4, -1).exp(),
    "in place": lambda: in_place(Q @ K.mT),
    "key-major": lambda: torch.softmax(K @ Q.mT / 4, -2).mT,
    "turned round": lambda: (K @ Q.mT / 4).transpose(-1, -2).softmax(-1),
    "split scale": lambda: torch.softmax((Q / 2) @ (K / 2).mT, -1),
    "clamped": lambda: (Q @ K.mT).clamp(-2, 2).softmax(-1),
    "plus a bias": lambda: (Q @ K.mT + torch.arange(KEYS) * -0.1).softmax(-1),
    "minus a bias": lambda: (Q @ K.mT - torch.arange(KEYS) * 0.1).softmax(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_are_rebuilt(name: str) -> None:
    with capture() as cap:
        weights = SPELLINGS[name]()
        weights @ V
    (call,) = cap.calls
    assert call.shape == (2, 3, QUERIES, KEYS)
    assert call.source == "rebuilt"
    for item in range(2):
        assert largest_difference(cap.weights(0, None, batch=item), weights[item]) <= 1e-6


def test_unknown_steps_keep_the_models_own_weights() -> None:
    with capture() as cap:
        weights = assigned(Q @ K.mT)
    assert cap.calls[0].source == "model"
    assert largest_difference(cap.weights(0, None, batch=1), weights[1]) == 0
    assert cap.allowed(0) is None


def test_dropout_in_place_does_not_reach_the_record() -> None:
    with capture() as cap:
        weights = assigned(Q @ K.mT)
        before = weights.clone()
        F.dropout(weights, 0.9, training=True, inplace=True)
    assert largest_difference(cap.weights(0, None), before[0]) == 0


def test_lesson_without_a_module() -> None:
    tokens, width = 6, 8
    q, k, v = (torch.randn(tokens, width) for _ in range(3))
    mask = torch.full((tokens, tokens), -math.inf).triu(1)
    with capture() as cap:
        scores = q @ k.T / math.sqrt(width)
        weights = torch.softmax(scores + mask, -1)
        out = weights @ v
    assert cap.layers == [0]
    assert cap.kinds(0) == ["self"]
    assert cap.calls[0].shape == (1, 1, tokens, tokens)
    assert cap.calls[0].name == ""
    assert torch.equal(cap.weights(0, 0), weights)
    assert torch.equal(cap.allowed(0, 0), torch.ones(tokens, tokens).tril().bool())
    assert torch.equal(out, torch.softmax(scores + mask, -1) @ v)


def test_calls_outside_modules_are_layers_in_order() -> None:
    with capture() as cap:
        for scale in (0.1, 0.2, 0.3):
            torch.softmax(Q @ K.mT * scale, -1) @ V
    assert cap.layers == [0, 1, 2]
    assert largest_difference(cap.weights(2, 1), torch.softmax(Q @ K.mT * 0.3, -1)[0, 1]) <= 1e-6


def test_projections_and_routers_are_not_attention() -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(WIDTH, 4)
            self.weight = nn.Parameter(torch.randn(4, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return self.gate(x).softmax(-1) + (x @ self.weight.T).softmax(-1)

    router = Router()
    plain_weight = torch.randn(WIDTH, 4, requires_grad=True)
    with torch.no_grad(), capture() as cap:
        router(Q)
        torch.softmax(Q @ plain_weight, -1)
        torch.softmax(torch.randn(3, 4), -1)
    assert cap.calls == []
    with pytest.raises(CaptureError):
        _ = cap.layers


class Block(nn.Module):
    """A tutorial's attention: nothing keeps the weights."""

    def __init__(self, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.drop = nn.Dropout(0.5)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape

        def split(t: Tensor) -> Tensor:
            return t.view(batch, tokens, self.heads, -1).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        mask = torch.full((tokens, tokens), -math.inf).triu(1)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(width // self.heads) + mask, -1)
        self.seen.append(weights)
        return (self.drop(weights) @ v).transpose(1, 2).reshape(batch, tokens, width)


class MergedBlock(Block):
    """The same with batch and heads on one axis, as bmm wants it."""

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape

        def split(t: Tensor) -> Tensor:
            t = t.view(batch, tokens, self.heads, -1).transpose(1, 2)
            return t.reshape(batch * self.heads, tokens, -1)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        bias = torch.zeros(batch * self.heads, tokens, tokens)
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=0.3)
        weights = scores.softmax(-1)
        self.seen.append(weights.view(batch, self.heads, tokens, tokens))
        return torch.bmm(weights, v).view(batch, self.heads, tokens, -1).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("block", [Block, MergedBlock])
@pytest.mark.parametrize("called", ["module", "forward", "nobody named"])
def test_modules_without_a_library(block: type[Block], called: str) -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList([block(), block()])})
    x = torch.randn(2, 5, 24)
    with torch.no_grad(), capture(None if called == "nobody named" else model) as cap:
        for layer in model["layers"]:
            x = layer.forward(x) if called == "forward" else layer(x)
    assert cap.layers == [0, 1]
    if called != "nobody named":
        assert [call.name for call in cap.calls] == ["layers.0", "layers.1"]
    for number, layer in enumerate(model["layers"]):
        for item in range(2):
            got = cap.weights(number, None, batch=item)
            assert largest_difference(got, layer.seen[0][item]) <= 1e-6


def test_train_mode_gives_weights_before_dropout() -> None:
    model, x = Block().train(), torch.randn(2, 5, 24)
    torch.manual_seed(4)
    plain = model(x)
    torch.manual_seed(4)
    with capture(model) as cap:
        captured = model(x)
    assert model.training
    assert torch.equal(plain, captured)
    sums = cap.weights(0, None).sum(-1)
    assert largest_difference(sums, torch.ones_like(sums)) <= 1e-6


def test_one_module_per_head() -> None:
    """Lectures build heads as modules: the leading axis of each is the batch."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.key, self.query = nn.Linear(24, 8), nn.Linear(24, 8)

        def forward(self, x: Tensor) -> Tensor:
            return (self.query(x) @ self.key(x).transpose(-2, -1) * 8**-0.5).softmax(-1) @ x

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList([Head(), Head(), Head()])

        def forward(self, x: Tensor) -> Tensor:
            return sum(head(x) for head in self.heads)

    with capture(model := Heads()) as cap:
        model(torch.randn(2, 5, 24))
    assert {call.shape for call in cap.calls} == {(2, 1, 5, 5)}


@pytest.mark.parametrize("attribute", ["h", "num_heads", "heads"])
@pytest.mark.parametrize("fused", [True, False])
def test_two_leading_axes_are_batch_and_heads(attribute: str, fused: bool) -> None:
    """Whatever a module calls its height: 2 × 4 matrices are not 8 heads."""

    class Attention(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            if fused:
                return F.scaled_dot_product_attention(q, k, k, scale=1)
            return (q @ k.mT).softmax(-1) @ k

    model = Attention()
    setattr(model, attribute, 8)
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 6, 8)
    with capture(model) as cap:
        model(q, k)
    assert cap.calls[0].shape == (2, 4, 5, 6)
    assert largest_difference(cap.weights(0, None, 1), (q @ k.mT).softmax(-1)[1]) <= 1e-6


@pytest.mark.parametrize("fused", [True, False])
def test_block_with_a_fused_flag(fused: bool) -> None:
    class Attention(nn.Module):
        fused_attn = fused
        num_heads = 3

        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if self.fused_attn:
                return F.scaled_dot_product_attention(q, k, v, scale=0.3)
            return (q * 0.3 @ k.transpose(-2, -1)).softmax(-1) @ v

    model = Attention()
    with capture(model) as cap:
        model(Q, K, V)
    assert model.fused_attn is fused
    assert cap.kinds(0) == ["cross"]
    expected = torch.softmax(Q @ K.mT * 0.3, -1)
    for item in range(2):
        assert largest_difference(cap.weights(0, None, batch=item), expected[item]) <= 1e-6


def test_a_residual_added_in_place_is_no_loss() -> None:
    """The record refers to x; before the model writes to it, the record gets its own copy."""
    x = torch.randn(5, 8)
    with torch.no_grad(), capture() as cap:
        for _ in range(2):
            weights = (x @ x.T / 3).softmax(-1)
            x += weights @ x
            x[2:4] = 0
    assert [call.source for call in cap.calls] == ["rebuilt", "rebuilt"]
    assert largest_difference(cap.weights(1, 0), weights) <= 1e-6


def test_a_learned_bias_may_go_on_learning() -> None:
    bias = nn.Parameter(torch.randn(5, 7))
    q, k = torch.randn(5, 8), torch.randn(7, 8)
    with capture() as cap:
        weights = (q @ k.T + bias).softmax(-1)
    with torch.no_grad():
        bias.add_(1 + torch.arange(7))
    assert largest_difference(cap.weights(0, 0), weights.detach()) <= 1e-6
