"""Weights that are mixed before or after the softmax: both maps are offered."""

from __future__ import annotations

import pytest
import torch
from capture_support import largest_difference
from torch import Tensor, nn
from torch.nn import functional as F

from attnmap_widget import capture

HEADS, TOKENS, WIDTH = 3, 5, 8


class TalkingHeads(nn.Module):
    """As in CaiT: linear layers over the head axis on both sides of the softmax."""

    num_heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(HEADS, HEADS), nn.Linear(HEADS, HEADS)
        self.drop = nn.Dropout(0.5)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q * 0.3) @ k.transpose(-2, -1)
        scores = self.before(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        self.softmax = scores.softmax(dim=-1)
        self.mixed = self.after(self.softmax.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return (self.drop(self.mixed) @ v).transpose(1, 2).flatten(2)


class Convolved(TalkingHeads):
    """The same with 1×1 convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(HEADS, HEADS, 1), nn.Conv2d(HEADS, HEADS, 1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.softmax = self.before(q @ k.transpose(-2, -1)).softmax(-1)
        self.mixed = self.after(self.softmax)
        return torch.einsum("bhqk,bhkd->bqhd", self.mixed, v)


class Matrix(TalkingHeads):
    """The same with a matrix of heads by heads and einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(2, HEADS, HEADS))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        self.softmax = torch.einsum("bhqk,hg->bgqk", scores, self.mix[0]).softmax(-1)
        self.mixed = torch.einsum("bhqk,hg->bgqk", self.softmax, self.mix[1])
        return self.mixed @ v


class Gated(nn.Module):
    """As in ConViT: content weights blended with positional ones, then normalised again."""

    num_heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.position = (
            nn.Parameter(torch.randn(HEADS)),
            torch.randn(1, HEADS, TOKENS, 7),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.softmax = (q @ k.transpose(-2, -1)).softmax(-1)
        gate = torch.sigmoid(self.gate).view(1, -1, 1, 1)
        blend = (1.0 - gate) * self.softmax + gate * self.position.softmax(-1)
        self.mixed = blend / blend.sum(dim=-1).unsqueeze(-1)
        return self.mixed @ v


@pytest.mark.parametrize("kind", [TalkingHeads, Convolved, Matrix, Gated])
@pytest.mark.parametrize("train", [False, True])
def test_softmax_and_effective_map(kind: type[nn.Module], train: bool) -> None:
    torch.manual_seed(0)
    model = kind().train(train)
    q, k, v = (torch.randn(2, HEADS, n, WIDTH) for n in (TOKENS, 7, 7))
    with torch.no_grad(), capture(model) as cap:
        model(q, k, v)
    assert len(cap.calls) == 2
    base, effective = (call.kind for call in cap.calls)
    assert effective.endswith("effective")
    for item in range(2):
        assert largest_difference(cap.weights(0, None, item), model.softmax[item]) <= 1e-6
        assert largest_difference(cap.weights(0, None, item, base), model.softmax[item]) <= 1e-6
        assert largest_difference(cap.weights(0, None, item, effective), model.mixed[item]) == 0


def test_what_changes_nothing_is_not_offered_twice() -> None:
    q, k = torch.randn(2, HEADS, TOKENS, WIDTH), torch.randn(2, HEADS, 7, WIDTH)
    with capture() as cap:
        weights = (q @ k.mT).softmax(-1) * torch.ones(HEADS, 1, 1)
        F.dropout(weights.float().contiguous(), 0.5, True) @ k
    assert len(cap.calls) == 1


def test_features_of_a_gram_matrix_are_not_scores() -> None:
    x, layer = torch.randn(2, TOKENS, WIDTH), nn.Linear(TOKENS, 7)
    with torch.no_grad(), capture() as cap:
        layer(x @ x.mT).softmax(-1)
        layer((x @ x.mT).permute(0, 2, 1)).softmax(-1)
    assert cap.calls == []
