"""Scores and weights that are edited on the way: what is captured is what the softmax gave."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from capture_support import largest_difference
from torch import Tensor
from torch.nn import functional as F

from attnmap_widget import capture

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 5, 7, 8
torch.manual_seed(0)
Q, K = torch.randn(BATCH, HEADS, QUERIES, WIDTH), torch.randn(BATCH, HEADS, KEYS, WIDTH)
HIDDEN = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(3)
MODES = [torch.enable_grad, torch.no_grad, torch.inference_mode]


def after(*edits: Callable[[Tensor], object]) -> Callable[[Tensor], Tensor]:
    """The softmax of scores that were edited in place."""

    def form(scores: Tensor) -> Tensor:
        for edit in edits:
            edit(scores)
        return scores.softmax(-1)

    return form


def one_head_unbound(scores: Tensor) -> Tensor:
    scores.unbind(1)[1].mul_(3)
    return scores.softmax(-1)


def written_from_numpy(scores: Tensor) -> Tensor:
    scores.numpy()[0, 1, 2] = 1.0
    return scores.softmax(-1)


def edited_exponential(scores: Tensor) -> Tensor:
    raised = scores.exp()
    raised[:, 1, 0] *= torch.arange(KEYS) + 1.0
    return raised / raised.sum(-1, keepdim=True)


def edited_logarithm(scores: Tensor) -> Tensor:
    logs = scores.log_softmax(-1)
    logs[:, 1, 1] = -1.0
    return logs.exp()


def masked_exponential(scores: Tensor) -> Tensor:
    raised = scores.exp() * ~HIDDEN
    return raised / (raised.sum(-1)[..., None] + 1e-9)


def in_a_buffer(scores: Tensor) -> Tensor:
    buffer = torch.empty(BATCH, HEADS, QUERIES, KEYS)
    for head in range(HEADS):
        buffer[:, head] = Q[:, head] @ K[:, head].mT
    return buffer.softmax(-1)


# Each changes one head or a few cells, away from the rows that are compared as a sample, or is a
# step without a rule of its own.
EDITS: dict[str, Callable[[Tensor], Tensor]] = {
    "one head": after(lambda s: s[:, 1].add_(torch.arange(float(KEYS)))),
    "one item": after(lambda s: s[1][..., 3:].fill_(-math.inf)),
    "one item, assigned": after(lambda s: s[1].__setitem__((..., slice(3, None)), -math.inf)),
    "view": after(lambda s: s.view(-1, QUERIES, KEYS)[4].masked_fill_(HIDDEN, -1e9)),
    "index_fill_": after(lambda s: s.index_fill_(2, torch.tensor([1]), 0.0)),
    "one row": after(lambda s: s[:, :, 1].fill_(0)),
    "out=": after(lambda s: torch.mul(s[:, 1], torch.arange(float(KEYS)), out=s[:, 1])),
    "relu, in place": after(lambda s: F.relu(s[:, 1], inplace=True)),
    "unbind": one_head_unbound,
    "data": after(lambda s: s.data[:, 1, 2].fill_(1.0)),
    "numpy": written_from_numpy,
    "added to itself": after(lambda s: s.add_(s)),
    "exponential": edited_exponential,
    "logarithm": edited_logarithm,
    "masked exponential": masked_exponential,
    "where": lambda s: torch.where(HIDDEN, torch.full_like(s, -1e9), s).softmax(-1),
    "where not": lambda s: s.where(~HIDDEN, torch.full_like(s, -1e9)).softmax(-1),
    "stacked heads": lambda s: torch.stack(
        [Q[:, h] @ K[:, h].mT for h in range(HEADS)], 1
    ).softmax(-1),
    "concatenated heads": lambda s: torch.cat(
        [Q[:, h : h + 1] @ K[:, h : h + 1].mT for h in range(HEADS)], 1
    ).softmax(-1),
    "heads in a buffer": in_a_buffer,
    "tril": lambda s: (s.tril(2) + torch.zeros_like(s).masked_fill(HIDDEN, -math.inf)).softmax(-1),
    "dropout": lambda s: F.dropout(s, 0.5, True).softmax(-1),
    "larger of two": lambda s: torch.maximum(s, s.detach().roll(1, 0)).softmax(-1),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EDITS)
def test_edited_scores_are_not_taken_for_others(name: str, mode: Any) -> None:
    with mode(), capture() as cap:
        weights = EDITS[name](Q @ K.mT)
        weights @ K
    (call,) = cap.calls
    assert call.source == "model"
    for item in range(BATCH):
        assert largest_difference(cap.weights(0, None, item), weights[item].detach()) == 0
    assert cap._recorder.problems == []


@pytest.mark.parametrize("mode", MODES)
def test_edits_with_a_rule_are_still_rebuilt(mode: Any) -> None:
    with mode(), capture() as cap:
        scores = Q @ K.mT
        scores.mul_(0.3).masked_fill_(HIDDEN, -1e9)
        weights = F.dropout(scores, 0.5, training=False).softmax(-1)
        weights @ K
    assert cap.calls[0].source == "rebuilt"
    assert largest_difference(cap.weights(0, None), weights[0].detach()) <= 1e-6


def thresholded(weights: Tensor) -> Tensor:
    weights[weights < 0.2] = 0
    return weights


def largest_two(weights: Tensor) -> Tensor:
    values, keys = weights.topk(2, -1)
    return torch.zeros_like(weights).scatter(-1, keys, values)


def largest_two_in_place(weights: Tensor) -> Tensor:
    values, keys = weights.topk(2, -1)
    kept = torch.zeros_like(weights)
    kept.scatter_(-1, keys, values)
    return kept


def halved_head(weights: Tensor) -> Tensor:
    weights[:, 1].mul_(0.5)
    return weights


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "threshold": thresholded,
    "topk and scatter": largest_two,
    "topk and scatter_": largest_two_in_place,
    "normalize": lambda p: F.normalize(p**2, p=1, dim=-1),
    "one head off": lambda p: p * torch.tensor([1.0, 0.0, 1.0]).view(3, 1, 1),
    "one head, in place": halved_head,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CHANGES)
def test_changed_weights_are_the_effective_map(name: str, mode: Any) -> None:
    with mode(), capture() as cap:
        formed = (Q @ K.mT).softmax(-1)
        before = formed.detach().clone()
        applied = CHANGES[name](formed)
        applied @ K
    base, effective = (call.kind for call in cap.calls)
    assert effective.endswith("effective")
    for item in range(BATCH):
        assert largest_difference(cap.weights(0, None, item, base), before[item]) <= 1e-6
        assert (
            largest_difference(cap.weights(0, None, item, effective), applied[item].detach()) == 0
        )


def zeroed(tensor: Tensor) -> None:
    tensor.zero_()


def zeroed_unnoticed(tensor: Tensor) -> None:
    """No version counts this."""
    tensor.data.zero_()


@pytest.mark.parametrize("overwrite", [zeroed, zeroed_unnoticed])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("inside", [False, True])
def test_what_the_model_overwrites_later_does_not_reach_the_record(
    overwrite: Any, mode: Any, inside: bool
) -> None:
    with mode():
        q, k, buffer = torch.randn(3, 5, 8), torch.randn(3, 7, 8), torch.randn(3, 9, 8)
        mask = torch.randn(3, 5, 7)
        cache = buffer[:, 1:8]  # a cache written by hand, reused after the capture
        expected = torch.softmax(q @ k.mT / math.sqrt(8) + mask, -1)
        cached = torch.softmax(q @ cache.mT, -1)
        with capture() as cap:
            F.scaled_dot_product_attention(q, k, k, mask)
            torch.softmax(q @ cache.mT, -1) @ cache
            for tensor in (q, k, mask, buffer) if inside else ():
                overwrite(tensor)
        for tensor in (q, k, mask, buffer):
            overwrite(tensor)
    for head in range(3):
        assert largest_difference(cap.weights(0, head), expected[head]) <= 1e-6
        assert largest_difference(cap.weights(1, head), cached[head]) <= 1e-6


@pytest.mark.parametrize("overwrite", [zeroed, zeroed_unnoticed])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("part", ["queries", "keys", "mask"])
def test_what_is_overwritten_between_scores_and_softmax(
    overwrite: Any, mode: Any, part: str
) -> None:
    """Only one head's memory changes, and none of the sampled rows is in it."""
    with mode():
        q, k, mask = torch.randn(3, 5, 8), torch.randn(3, 7, 8), torch.randn(3, 5, 7)
        with capture() as cap:
            scores = q @ k.mT + mask
            overwrite({"queries": q, "keys": k, "mask": mask}[part][1])
            weights = scores.softmax(-1)
            weights @ k
    assert largest_difference(cap.weights(0, None), weights) <= 1e-6


def test_masks_are_kept_once() -> None:
    """Twelve layers share a mask; a mask that is written to in between is another one."""
    q, k, mask = torch.randn(2, 64, 8), torch.randn(2, 96, 8), torch.randn(64, 96)
    expected = []
    with capture() as cap:
        for layer in range(12):
            if layer == 6:
                mask.mul_(2)
            F.scaled_dot_product_attention(q, k, k, mask)
            expected.append(torch.softmax(q @ k.mT / math.sqrt(8) + mask, -1))
    kept = {c.record.operations[1].term.untyped_storage().data_ptr() for c in cap.calls}
    assert len(kept) == 2
    for layer, weights in enumerate(expected):
        assert largest_difference(cap.weights(layer, None), weights) <= 1e-6
