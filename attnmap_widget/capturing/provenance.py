"""Where do the scores of a softmax come from? q·kᵀ, followed through torch functions.

A softmax whose scores cannot be traced to a product of two activations is not attention
(classifiers and routers get theirs from a linear layer), so provenance is also the filter. It is a
table from tensors to what is known of them; entries vanish with their tensors, so nothing is kept
alive for longer than the model does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from . import functions as fn
from .operations import Operation

Stage = Literal["scores", "exp", "sum", "log"]


@dataclass(frozen=True, slots=True)
class Step:
    """An operation and the shape of the scores then, which its operands broadcast to."""

    operation: Operation
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """What is known of one tensor of scores.

    queries (…, queries, width) and keys (…, keys, width) are the factors; ``steps`` what happened
    since. ``exact`` is False where something happened that cannot be replayed: then it is
    attention all the same, but only the model's own weights will do. ``transposed``: the tensor is
    laid out (…, keys, queries).
    """

    queries: Tensor
    keys: Tensor
    shape: tuple[int, ...]
    dtype: torch.dtype
    steps: tuple[Step, ...] = ()
    sink: Step | None = None
    exact: bool = True
    core: tuple[int, int] | None = None
    stage: Stage = "scores"

    def then(self, operation: Operation, out: Tensor) -> Scores:
        """These scores after one more operation."""
        shape = tuple(out.shape)
        return replace(self, steps=(*self.steps, Step(operation, shape)), shape=shape)

    def inexact(self, out: Tensor, cut: bool = False) -> Scores:
        """Scores that still are attention but can no longer be replayed.

        ``cut``: rows or keys were left out, so the matrix has another size from here on.
        """
        shape = tuple(out.shape)
        core = self._core() if not cut else (shape[-2], shape[-1])
        return replace(self, exact=False, shape=shape, core=core)

    def upright(self) -> bool:
        """Tell whether the last two axes are queries and keys, not heads being mixed."""
        return self.sink is not None or self.shape[-2:] == self._core()

    def _core(self) -> tuple[int, int]:
        return self.core or (self.shape[-2], self.shape[-1])

    def transposed(self) -> Scores:
        """Swap the roles of queries and keys (a softmax over the axis before the last)."""

        def swap(step: Step) -> Step:
            turned = step.operation.with_tensors(lambda t: t.mT if t.ndim > 1 else t.unsqueeze(-1))
            return Step(turned, swapped(step.shape))

        return replace(
            self,
            queries=self.keys,
            keys=self.queries,
            shape=swapped(self.shape),
            steps=tuple(map(swap, self.steps)),
            exact=self.exact and self.sink is None,
            core=None if self.core is None else (self.core[1], self.core[0]),
        )


def swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Give the shape with the last two axes changed over."""
    return (*shape[:-2], shape[-1], shape[-2])


class TensorTable:
    """A table from live tensors to notes about them; a tensor that dies takes its entry along."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Tensor], Any]] = {}

    def get(self, tensor: object) -> Any:
        """The note about this very tensor, or None."""
        entry = self._entries.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def put(self, tensor: Tensor, note: Any) -> None:
        """Note something about a tensor."""
        key, entries = id(tensor), self._entries

        def forget(reference: weakref.ref[Tensor]) -> None:
            entry = entries.get(key)
            if entry is not None and entry[0] is reference:
                del entries[key]

        entries[key] = (weakref.ref(tensor, forget), note)

    def drop(self, tensor: object) -> None:
        """Forget a tensor."""
        self._entries.pop(id(tensor), None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


# What a function does to scores: (provenance, args, kwargs, the function's result).
Rule = Callable[["Provenance", Sequence[Any], dict[str, Any], Tensor], None]


class Provenance:
    """Follows scores from the product that forms them; one per capturing thread."""

    def __init__(self, rules: Mapping[fn.Function, Rule]) -> None:
        self._rules = rules
        self.scores = TensorTable()
        self.weights = TensorTable()
        self.parameters = TensorTable()
        self.written = TensorTable()

    def clear(self) -> None:
        """Forget everything."""
        for table in (self.scores, self.weights, self.parameters, self.written):
            table.clear()

    def known(self, tensor: object) -> Scores | None:
        """What is known of a tensor, or None."""
        note: Scores | None = self.scores.get(tensor)
        return note

    def mark(self, tensor: Tensor, scores: Scores, stage: Stage) -> None:
        """Note that a tensor is these scores at a later stage of a softmax spelled out."""
        self.scores.put(tensor, replace(scores, stage=stage))

    def is_parameter(self, tensor: Tensor) -> bool:
        """Tell whether this is a trained weight or a view of one: ``x @ W`` projects."""
        base = tensor._base
        return (
            isinstance(tensor, nn.Parameter)
            or isinstance(base, nn.Parameter)
            or (tensor.is_leaf and tensor.requires_grad)
            or (base is not None and base.is_leaf and base.requires_grad)
            or self.parameters.get(tensor) is not None
        )

    def follow(
        self, function: fn.Function, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Take note of what ``out = function(*args, **kwargs)`` did to tracked scores."""
        rule = self._rules.get(function)
        if rule is not None and isinstance(out, Tensor):
            rule(self, args, kwargs, out)

    def write_to(self, tensor: object) -> None:
        """Note that a tensor had content written into it in place."""
        # Tensors inside vmap and grad transforms have no memory of their own.
        if isinstance(tensor, Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(
            tensor
        ):
            scores = self.known(tensor)
            if scores is not None:
                self.scores.put(tensor, scores.inexact(tensor))
            self.written.put(tensor, tensor.untyped_storage().data_ptr())

    def is_cache(self, tensor: Tensor) -> bool:
        """Tell whether this memory is written piece by piece (a static key cache)."""
        pointer = tensor.untyped_storage().data_ptr()
        return any(pointer == note for _, note in list(self.written._entries.values()))
