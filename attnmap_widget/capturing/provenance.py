"""Where do the scores of a softmax come from? q·kᵀ, followed through torch functions.

A softmax whose scores cannot be traced to a product of two activations is not attention
(classifiers and routers get theirs from a learned matrix), so provenance is also the first filter;
the second is in ``mixing``. It is a table from tensors to what is known of them; entries vanish
with their tensors, so nothing is kept alive for longer than the model does.

A note is worth what the tensor still holds. Every tensor counts the writes to it and to its views,
so an entry remembers that count, and so do the scores for q, k and each mask: where one has changed
and no rule says how, the scores are no longer exact. Two kinds of tensors do not count: those of
``inference_mode`` and those whose memory was handed out (``.data``, ``.numpy()``). What depends on
them is doubtful, and compared in full with what the model formed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from . import functions as fn
from .memory import storage_pointer
from .operations import Operation

Stage = Literal["scores", "exp", "sum", "log"]


def operands(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors among a function's arguments, also those in lists."""
    found: list[Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [part for part in value if isinstance(part, Tensor)]
    return found


def results(out: Any) -> list[Tensor]:
    """The tensors of real numbers among a function's results."""
    return [part for part in operands((out,), {}) if part.is_floating_point()]


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
    attention all the same, but only the model's own weights will do. ``seen``: the tensors that
    took part, each with its version then.
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
    seen: tuple[tuple[Tensor, int], ...] = ()

    @classmethod
    def of(cls, queries: Tensor, keys: Tensor, out: Tensor) -> Scores:
        """``out`` is queries · keysᵀ."""
        seen = tuple((tensor, version(tensor)) for tensor in (queries, keys))
        return cls(queries, keys, tuple(out.shape), out.dtype, seen=seen)

    def then(self, operation: Operation, out: Tensor) -> Scores:
        """These scores after one more operation."""
        shape, terms = tuple(out.shape), operation.tensors()
        memory = storage_pointer(out)
        # Exponentials are not replayed; in s.add_(s) the operand is gone by now.
        if self.stage != "scores" or any(storage_pointer(term) == memory for term in terms):
            return self.inexact(out)
        return replace(
            self,
            steps=(*self.steps, Step(operation, shape)),
            shape=shape,
            seen=(*self.seen, *((term, version(term)) for term in terms)),
        )

    def inexact(self, out: Tensor, cut: bool = False) -> Scores:
        """Scores that still are attention but can no longer be replayed.

        ``cut``: rows or keys were left out or added, so the matrix has another size from here on.
        """
        shape = tuple(out.shape)
        core = self._core() if not cut else (shape[-2], shape[-1])
        return replace(self, exact=False, shape=shape, core=core)

    def checked(self) -> Scores:
        """These scores, inexact if q, k or a mask was written to since it took part."""
        if self.exact and any(version(tensor) != then for tensor, then in self.seen):
            return replace(self, exact=False, core=self._core())
        return self

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


def swaps_last_two(source: Tensor, out: Tensor) -> bool:
    """Tell whether ``out`` is ``source`` with its last two axes changed over."""
    strides = source.stride()
    return tuple(out.shape) == swapped(tuple(source.shape)) and out.stride() == swapped(strides)


def version(tensor: Tensor) -> int:
    """How often a tensor was written to; -1 for those of inference_mode, which do not count."""
    return -1 if tensor.is_inference() else tensor._version


class TensorTable:
    """A table from live tensors to notes about them; a tensor that dies takes its entry along."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Tensor], Any, int]] = {}

    def get(self, tensor: object) -> Any:
        """The note about this very tensor, or None."""
        entry = self._entries.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def stale(self, tensor: Tensor) -> bool:
        """Tell whether there is a note and the tensor was written to after it was made."""
        entry = self._entries.get(id(tensor))
        return entry is not None and entry[0]() is tensor and version(tensor) != entry[2]

    def put(self, tensor: Tensor, note: Any) -> None:
        """Note something about a tensor."""
        key, entries = id(tensor), self._entries

        def forget(reference: weakref.ref[Tensor]) -> None:
            entry = entries.get(key)
            if entry is not None and entry[0] is reference:
                del entries[key]

        entries[key] = (weakref.ref(tensor, forget), note, version(tensor))

    def values(self) -> list[Any]:
        """All notes."""
        return [entry[1] for entry in list(self._entries.values())]

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
        self._learned: dict[int, weakref.ref[Tensor]] = {}
        self._modules: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._escaped: set[int] = set()

    def clear(self) -> None:
        """Forget everything."""
        for table in (self.scores, self.weights, self.parameters, self.written):
            table.clear()
        self._learned.clear()
        self._modules.clear()
        self._escaped.clear()

    @property
    def busy(self) -> bool:
        """Whether scores or weights are being followed right now."""
        return bool(len(self.scores) or len(self.weights))

    def known(self, tensor: object) -> Scores | None:
        """What is known of a tensor, or None."""
        note: Scores | None = self.scores.get(tensor)
        return note

    def mark(self, tensor: Tensor, scores: Scores, stage: Stage) -> None:
        """Note that a tensor is these scores at a later stage of a softmax spelled out."""
        self.scores.put(tensor, replace(scores, stage=stage))

    # ------------------------------------------------------------------ what is learned

    def learn(self, module: nn.Module) -> None:
        """Remember where the module's parameters and buffers lie."""
        if module in self._modules:
            return
        self._modules.add(module)
        tensors: Iterable[Tensor] = (*module.parameters(), *module.buffers())
        for tensor in tensors:
            pointer = storage_pointer(tensor)
            if pointer:
                self._learned[pointer] = weakref.ref(tensor)

    def is_parameter(self, tensor: Tensor) -> bool:
        """Tell whether this is a learned matrix: ``x @ W`` projects.

        A parameter, a buffer that is no cache (codebooks, prototypes), a view of one, or what was
        made of such tensors entry by entry (casts, scales, normalised rows).
        """
        base = tensor._base
        if (
            isinstance(tensor, nn.Parameter)
            or isinstance(base, nn.Parameter)
            or (tensor.is_leaf and tensor.requires_grad)
            or (base is not None and base.is_leaf and base.requires_grad)
            or self.parameters.get(tensor) is not None
        ):
            return True
        owner = self._learned.get(storage_pointer(tensor))
        return owner is not None and owner() is not None and not self.is_cache(tensor)

    # ------------------------------------------------------------------ what is written to

    def settle(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Before a function runs: what was written to behind the rules' back is inexact now."""
        for tensor in operands(args, kwargs):
            if self.scores.stale(tensor):
                self.scores.put(tensor, self.scores.get(tensor).inexact(tensor))
            if self.weights.stale(tensor):
                self.weights.put(tensor, self.weights.get(tensor).change())

    def doubtful(self, *tensors: Tensor) -> bool:
        """Tell whether one of these may have been written to without its version telling."""
        return any(t.is_inference() or storage_pointer(t) in self._escaped for t in tensors)

    def is_cache(self, tensor: Tensor) -> bool:
        """Tell whether this memory is written piece by piece (a static key cache)."""
        pointer = storage_pointer(tensor)
        return any(pointer == note for note in self.written.values())

    # ------------------------------------------------------------------ following

    def follow(
        self, function: fn.Function, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Take note of what ``out = function(*args, **kwargs)`` did to tracked tensors."""
        if function in fn.ESCAPE:
            self._escaped.add(storage_pointer(args[0]))
            return
        if function in fn.WRITE:
            out = args[0]
            self.written.put(out, storage_pointer(out))
        if function in fn.ENTRYWISE and isinstance(out, Tensor):
            given = operands(args, kwargs)
            if given and all(map(self.is_parameter, given)):
                self.parameters.put(out, True)
        rule = self._rules.get(function)
        if rule is None:
            self._assume(function, args, kwargs, out)
        elif isinstance(out, Tensor):
            try:
                rule(self, args, kwargs, out)
            except (ValueError, TypeError, IndexError, RuntimeError):
                self._assume(function, args, kwargs, out)
                raise

    def _assume(
        self, function: fn.Function, args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        """No rule says what this does: scores stay scores, but the model's own weights will do."""
        if function in fn.UNRELATED or not len(self.scores):
            return
        known = next(filter(None, map(self.known, operands(args, kwargs))), None)
        if known is None:
            return
        for part in results(out):
            if part.ndim >= 2 and tuple(part.shape[-2:]) == known.shape[-2:]:
                self.scores.put(part, known.inexact(part))
