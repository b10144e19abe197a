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
from .provenance import Provenance, Rule, Scores, Step, swapped

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
    if self.is_parameter(right) or self.weights.get(left) is not None:
        return  # a projection, or weights times values
    scores = Scores(left, right.transpose(-1, -2), tuple(out.shape), out.dtype)
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
        self.scores.put(out, Scores(*factors, tuple(out.shape), out.dtype))


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
        if found is None or found[0].stage != "scores":
            return
        scores, other = found
        if tuple(out.shape[-2:]) != tuple(scores.shape[-2:]):
            return
        self.scores.put(out, scores.then(operation(other), out))

    return rule


_for(fn.MULTIPLY)(_combine(Multiply))


@_for(fn.ADD)
def _add(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    alpha = float(kwargs.get("alpha", 1))
    found = _tracked(self, args, kwargs)
    if found is None or found[0].stage != "scores" or out.shape[-2:] != found[0].shape[-2:]:
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
    if scores is None or scores.stage != "scores" or out.shape[-2:] != scores.shape[-2:]:
        return
    per_row = isinstance(other, Tensor) and other.ndim >= 2 and other.shape[-1] == 1
    if per_row and other.shape[-2] == out.shape[-2]:
        # Minus the row's maximum: no softmax notices, and it would keep another tensor alive.
        self.scores.put(out, replace(scores, shape=tuple(out.shape)))
    else:
        self.scores.put(out, scores.then(Add(other, -float(kwargs.get("alpha", 1))), out))


@_for(fn.DIVIDE)
def _divide(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    scores = self.known(_argument(args, kwargs, 0, "input", "self"))
    if scores is None or scores.stage != "scores" or kwargs.get("rounding_mode") is not None:
        return
    if tuple(out.shape[-2:]) == tuple(scores.shape[-2:]):
        self.scores.put(out, scores.then(Divide(_argument(args, kwargs, 1, "other")), out))


@_for(fn.MASKED_FILL)
def _masked_fill(
    self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor
) -> None:
    scores = self.known(args[0])
    if scores is not None:
        where = _argument(args, kwargs, 1, "mask")
        value = scalar(_argument(args, kwargs, 2, "value"))
        self.scores.put(out, scores.then(Fill(where, value), out))


@_for(fn.WHERE)
def _where(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    if len(args) != 3 or not all(isinstance(part, Tensor) for part in args[:2]):
        if len(args) == 3 and isinstance(args[2], Tensor) and self.known(args[2]) is not None:
            self.scores.put(out, self.scores.get(args[2]).then(Fill(args[0], scalar(args[1])), out))
        return
    # Tensor.where(self, condition, other) and torch.where(condition, input, other)
    condition, chosen, other = args
    if condition.dtype != torch.bool and chosen.dtype == torch.bool:
        condition, chosen = chosen, condition
    scores, rest = self.known(chosen), self.known(other)
    if scores is not None:
        self.scores.put(out, scores.then(Fill(condition, scalar(other), keep=True), out))
    elif rest is not None:
        self.scores.put(out, rest.then(Fill(condition, scalar(chosen)), out))


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
    if scores is not None and isinstance(other, Tensor) and other.numel() == 1:
        self.scores.put(out, scores.then(Clamp(low=scalar(other)), out))


@_for(fn.SAME)
def _same(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    for table in (self.scores, self.parameters):
        note = table.get(args[0]) if args else None
        if note is not None:
            table.put(out, note)


@_for(fn.VIEW)
def _view(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    source = _argument(args, kwargs, 0, "input", "self")
    scores = self.known(source)
    if scores is not None and tuple(out.shape[-2:]) == tuple(scores.shape[-2:]):
        self.scores.put(out, replace(scores, shape=tuple(out.shape)))


@_for(fn.TRANSPOSE)
def _transpose(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    source = args[0] if args else kwargs.get("input")
    if not isinstance(source, Tensor):
        return
    if self.is_parameter(source):
        self.parameters.put(out, True)
        return
    scores = self.known(source)
    if scores is None:
        return
    if tuple(out.shape) == swapped(scores.shape) and _swaps_last_two(source, out):
        self.scores.put(out, scores.transposed())
    elif scores.stage == "scores":
        self.scores.put(out, scores.inexact(out))  # axes changed places, perhaps to mix heads


def _swaps_last_two(source: Tensor, out: Tensor) -> bool:
    strides = source.stride()
    return out.stride() == (*strides[:-2], strides[-1], strides[-2])


@_for(fn.CONCATENATE)
def _sink(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    parts = _argument(args, kwargs, 0, "tensors")
    dim = _argument(args, kwargs, 1, "dim", "axis") or 0
    if len(parts) != 2 or dim not in (-1, parts[0].ndim - 1) or parts[1].shape[-1] != 1:
        return
    scores = self.known(parts[0])
    if scores is not None and scores.sink is None:
        sink = Step(Add(parts[1]), (*out.shape[:-1], 1))
        self.scores.put(out, replace(scores, sink=sink, shape=tuple(out.shape)))


@_for(fn.INDEX, fn.ELEMENTWISE)
def _lost(self: Provenance, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> None:
    """It stays attention, but from here on only the model's own weights will do."""
    scores = self.known(args[0] if args else kwargs.get("input"))
    if scores is not None and scores.stage == "scores" and out.ndim >= 2:
        self.scores.put(out, scores.inexact(out, cut=out.shape != scores.shape))


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
        self.scores.put(out, replace(scores, stage="sum"))
