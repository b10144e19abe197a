"""What each torch function does to scores that are being followed (see ``provenance``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from . import functions as fn
from .contraction import attention_operands
from .operations import Add, Cast, Clamp, Divide, Fill, Multiply, Operation, Tanh
from .provenance import Provenance, Rule, Scores, Step, operands, swaps_last_two

RULES: dict[fn.Function, Rule] = {}


def _for(*groups: frozenset[fn.Function]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for group in groups:
            RULES.update(dict.fromkeys(group, rule))
        return rule

    return register


def _argument(args: Sequence[Any], kwargs: dict[str, Any], place: int, *names: str) -> Any:
    if len(args) > place:
        return args[place]
    return next((kwargs[name] for name in names if name in kwargs), None)


def scalar(value: Any) -> float:
    """A number from a Python or one-element tensor value; ValueError otherwise."""
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError("not a single value")
        return float(value.item())
    return float(value)


@_for(fn.MATMUL)
def _matmul(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    left = _argument(args, kwargs, 0, "input", "self")
    right = _argument(args, kwargs, 1, "other", "mat2")
    _product(self, left, right, out)


def _product(
    self: Provenance, left: Tensor, right: Tensor, out: Tensor, *before: Operation
) -> None:
    if (
        left.ndim < 2
        or right.ndim < 2
        or not out.is_floating_point()
        or out.layout != torch.strided
    ):
        return
    if self.is_parameter(right) or any(self.weights.get(t) is not None for t in (left, right)):
        return  # a projection, or weights times values
    scores = Scores.of(left, right.transpose(-1, -2), out)
    for operation in before:
        scores = scores.then(operation, out)
    self.scores.put(out, scores)


@_for(fn.INNER)
def _inner(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    left, right = args[0], _argument(args, kwargs, 1, "other")
    if left.ndim == right.ndim == 2:
        _product(self, left, right.transpose(0, 1), out)


@_for(fn.BADDBMM)
def _baddbmm(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    bias = _argument(args, kwargs, 0, "input", "self")
    left, right = _argument(args, kwargs, 1, "batch1"), _argument(args, kwargs, 2, "batch2")
    alpha, beta = float(kwargs.get("alpha", 1)), float(kwargs.get("beta", 1))
    before: list[Operation] = [] if alpha == 1 else [Multiply(alpha)]
    if beta != 0:  # with beta 0 the bias is not even read (it may hold NaN)
        before.append(Add(bias, beta))
    _product(self, left, right, out, *before)


@_for(fn.EINSUM)
def _einsum(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    operands = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
    if len(operands) != 2 or not isinstance(args[0], str):
        return
    if any(self.weights.get(operand) is not None for operand in operands):
        return
    if any(map(self.is_parameter, operands)):
        known = [scores for scores in map(self.known, operands) if scores is not None]
        if known and out.ndim >= 3:
            self.scores.put(out, known[0].inexact(out))  # heads are mixed by a matrix
        return
    factors = attention_operands(args[0], *operands)
    if factors is not None:
        self.scores.put(out, Scores.of(*factors, out))


def _tracked(
    self: Provenance, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Scores, Any] | None:
    """The scores among the first two arguments, and the other argument."""
    first = _argument(args, kwargs, 0, "input", "self")
    second = _argument(args, kwargs, 1, "other")
    known = self.known(first)
    if known is not None:
        return known, second
    known = self.known(second)
    return None if known is None else (known, first)


def _combine(
    operation: Callable[[Any], Operation],
) -> Rule:
    def rule(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
        found = _tracked(self, args, kwargs)
        if found is None or tuple(out.shape[-2:]) != tuple(found[0].shape[-2:]):
            return
        scores, other = found
        self.scores.put(out, scores.then(operation(other), out))

    return rule


_for(fn.MULTIPLY)(_combine(Multiply))


@_for(fn.ADD)
def _add(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    alpha = float(kwargs.get("alpha", 1))
    found = _tracked(self, args, kwargs)
    if found is None or out.shape[-2:] != found[0].shape[-2:]:
        return
    scores, other = found
    if alpha != 1 and other is args[0]:
        self.scores.put(out, scores.inexact(out))  # other + alpha × scores
    else:
        self.scores.put(out, scores.then(Add(other, alpha), out))


@_for(fn.SUBTRACT)
def _subtract(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores = self.known(_argument(args, kwargs, 0, "input", "self"))
    other = _argument(args, kwargs, 1, "other")
    if scores is None or out.shape[-2:] != scores.shape[-2:]:
        return
    per_row = isinstance(other, Tensor) and other.ndim >= 2 and other.shape[-1] == 1
    if scores.stage == "scores" and per_row and other.shape[-2] == out.shape[-2]:
        # Minus the row's maximum: no softmax notices, and it would keep another tensor alive.
        self.scores.put(out, replace(scores, shape=tuple(out.shape)))
    else:
        self.scores.put(out, scores.then(Add(other, -float(kwargs.get("alpha", 1))), out))


@_for(fn.DIVIDE)
def _divide(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores = self.known(_argument(args, kwargs, 0, "input", "self"))
    if scores is None or kwargs.get("rounding_mode") is not None:
        return
    if tuple(out.shape[-2:]) == tuple(scores.shape[-2:]):
        self.scores.put(out, scores.then(Divide(_argument(args, kwargs, 1, "other")), out))


@_for(fn.MASKED_FILL)
def _masked_fill(
    self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor
) -> None:
    scores = self.known(args[0])
    if scores is None:
        return
    where, value = _argument(args, kwargs, 1, "mask"), _argument(args, kwargs, 2, "value")
    self.scores.put(out, scores.then(Fill(where, scalar(value)), out))


@_for(fn.WHERE)
def _where(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    # Tensor.where(self, condition, other) and torch.where(condition, input, other)
    condition, chosen, other = args
    if isinstance(chosen, Tensor) and chosen.dtype == torch.bool != condition.dtype:
        condition, chosen = chosen, condition
    scores, rest = self.known(chosen), self.known(other)
    if scores is not None and _is_single(other):
        self.scores.put(out, scores.then(Fill(condition, scalar(other), keep=True), out))
    elif rest is not None and _is_single(chosen):
        self.scores.put(out, rest.then(Fill(condition, scalar(chosen)), out))
    elif (known := scores or rest) is not None and out.shape[-2:] == known.shape[-2:]:
        self.scores.put(out, known.inexact(out))


def _is_single(value: Any) -> bool:
    return not isinstance(value, Tensor) or value.numel() == 1


def _after(operation: Callable[[Sequence[Any], dict[str, Any], Tensor], Operation]) -> Rule:
    """A rule for functions of the scores alone."""

    def rule(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
        scores = self.known(_argument(args, kwargs, 0, "input", "self"))
        if scores is None:
            return
        self.scores.put(out, scores.then(operation(args, kwargs, out), out))

    return rule


_for(fn.TANH)(_after(lambda args, kwargs, out: Tanh()))
_for(fn.CAST)(_after(lambda args, kwargs, out: Cast(out.dtype)))


@_for(fn.CLAMP)
def _clamp(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores = self.known(args[0])
    if scores is not None:
        low, high = _argument(args, kwargs, 1, "min"), _argument(args, kwargs, 2, "max")
        limits = (None if limit is None else scalar(limit) for limit in (low, high))
        self.scores.put(out, scores.then(Clamp(*limits), out))


@_for(fn.MAXIMUM)
def _maximum(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores, other = self.known(args[0]), _argument(args, kwargs, 1, "other")
    if scores is not None and isinstance(other, Tensor) and out.shape[-2:] == scores.shape[-2:]:
        known = scores.then(Clamp(low=scalar(other)), out) if _is_single(other) else None
        self.scores.put(out, known or scores.inexact(out))


@_for(fn.SAME)
def _same(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    note = self.known(args[0]) if args else None
    if note is not None:
        self.scores.put(out, note)


@_for(fn.DROPOUT)
def _dropout(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores = self.known(_argument(args, kwargs, 0, "input"))
    if scores is not None:
        rate, on = _argument(args, kwargs, 1, "p"), _argument(args, kwargs, 2, "training", "train")
        self.scores.put(out, scores.inexact(out) if rate != 0 and on is not False else scores)


@_for(fn.VIEW)
def _view(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    source = _argument(args, kwargs, 0, "input", "self")
    scores = self.known(source)
    if scores is not None and (
        scores.stage == "sum" or tuple(out.shape[-2:]) == tuple(scores.shape[-2:])
    ):
        self.scores.put(out, replace(scores, shape=tuple(out.shape)))


@_for(fn.TRANSPOSE)
def _transpose(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    source = args[0] if args else kwargs["input"]
    scores = self.known(source)
    if scores is None:
        return
    if swaps_last_two(source, out):
        self.scores.put(out, scores.transposed())
    elif scores.stage == "scores":
        self.scores.put(out, scores.inexact(out))  # axes changed places, perhaps to mix heads


@_for(fn.CONCATENATE)
def _concatenated(
    self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor
) -> None:
    """A column of sinks beside the scores, or heads put together, or more keys."""
    parts = _argument(args, kwargs, 0, "tensors")
    dim = (_argument(args, kwargs, 1, "dim", "axis") or 0) % out.ndim
    known = next(filter(None, map(self.known, operands(parts, {}))), None)
    if known is None or out.ndim < 2 or known.stage != "scores":
        return
    first = self.known(parts[0])
    sunk = len(parts) == 2 and dim == out.ndim - 1 and parts[1].shape[-1] == 1
    if sunk and first is not None and first.sink is None:
        sink = Step(Add(parts[1]), (*out.shape[:-1], 1))
        seen = first.then(sink.operation, out).seen
        self.scores.put(out, replace(first, sink=sink, shape=tuple(out.shape), seen=seen))
    else:
        self.scores.put(out, known.inexact(out, cut=dim >= out.ndim - 2))


@_for(fn.INDEX, fn.ELEMENTWISE)
def _lost(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    """It stays attention, but from here on only the model's own weights will do."""
    scores = self.known(args[0] if args else kwargs.get("input"))
    if scores is not None and out.ndim >= 2:
        cut = scores.stage == "scores" and out.shape != scores.shape
        self.scores.put(out, scores.inexact(out, cut=cut))


@_for(fn.LINEAR, fn.CONVOLUTION)
def _mix(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    """Talking heads: a linear layer over the head axis, put last, or a 1×1 convolution."""
    scores = self.known(args[0] if args else kwargs.get("input"))
    weight = _argument(args, kwargs, 1, "weight")
    if scores is None or scores.stage != "scores" or out.ndim < 3:
        return
    pointwise = weight.ndim == 4 and tuple(weight.shape[2:]) == (1, 1)
    if pointwise or (weight.ndim == 2 and not scores.upright()):
        self.scores.put(out, scores.inexact(out))


@_for(fn.EXP)
def _exp(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores = self.known(args[0])
    if scores is not None and scores.stage == "scores" and scores.sink is None:
        self.scores.put(out, replace(scores, stage="exp"))


@_for(fn.SUM)
def _sum(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores = self.known(args[0])
    dim = _argument(args, kwargs, 1, "dim", "axis")
    dim = dim[0] if isinstance(dim, (list, tuple)) and len(dim) == 1 else dim
    if scores is not None and scores.stage == "exp" and dim in (-1, len(scores.shape) - 1):
        self.scores.put(out, replace(scores, shape=tuple(out.shape), stage="sum"))
