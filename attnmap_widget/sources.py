"""Where an explorer's maps come from: captures, layers, arrays, functions, all read alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .beams import chains
from .errors import ShapeError
from .long import LongHead
from .tiles import WHOLE_LIMIT
from .weights import FUSED, BoolGrid, as_numbers, is_nothing, refuse_infinite, shape_of

_HELD_LIMIT = 1 << 25
"""Cells of a mean or maximum over heads, which is formed in memory."""


class Choice(NamedTuple):
    """Which map: what the menus say."""

    layer: int
    head: int | str
    """A number, "mean" or "max"."""
    kind: str | None
    batch: int
    step: int | None
    """None: all steps in one map."""


class Positions(NamedTuple):
    """Where the rows and the keys of one map stand in their sequences."""

    rows: range
    keys: range
    end: int
    """Of the rows' sequence, over all steps: one more may have been generated and never run."""


class Extraction(NamedTuple):
    """One map as it was read."""

    weights: Any
    """(queries, keys), anything a map accepts."""
    allowed: Any = None
    """bool (queries, keys), True = may look; None = everywhere, or not known."""
    heads: tuple[int, int] = (1, 1)
    """Over how many heads it was taken, of how many."""
    at: Positions | None = None
    """None: one forward, or the steps have no common order."""
    padding: tuple[Any, Any] | None = None
    """Of the (keys, queries): bool, True = padding; or None for a side."""


class Offer(NamedTuple):
    """What there is to choose from in one layer, for one of its kinds."""

    kinds: list[str]
    heads: int
    items: int = 1
    """Batch items."""
    steps: int = 1


class Source(Protocol):
    """What an explorer needs to know of its source."""

    @property
    def named_layers(self) -> bool:
        """False for one stack of heads that nobody called a layer."""
        ...

    @property
    def layers(self) -> list[int]:
        """True block numbers."""
        ...

    def offer(self, layer: int, kind: str | None) -> Offer:
        """What that layer offers; `kind` None is its first kind."""
        ...

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """The map of one head; `choice.head` is a number. `held`: as an array at any size."""
        ...


def as_source(
    given: Any,
    *,
    axes: str | None = None,
    layers: Sequence[int] | None = None,
    heads: int | None = None,
    beam_indices: Any = None,
    independent: bool = False,
    kind: str | None = None,
) -> Source:
    """The source that `given` stands for; see `AttentionExplorer` for what is accepted.

    `beam_indices`: of the beam search that made it; `independent`: it is certain that there was
    none; `kind`: which attention bare steps are.

    Raises ShapeError for anything that is no stack of attention maps, or that could be two things.
    """
    if hasattr(given, "kinds") and hasattr(given, "calls"):
        if layers is not None or heads is not None:
            raise TypeError("layers and heads belong to a function source; choose layer=, head=")
        return CaptureSource(given, beam_indices)
    if hasattr(given, "named_modules"):
        raise TypeError(
            "source: got a model; explore(model, inputs) runs it and reads its attention"
        )
    from . import returned

    if returned.is_output(given):
        return returned.from_output(given, beam_indices, independent=independent)
    if callable(given) and not hasattr(given, "__array__"):
        if layers is None or heads is None:
            raise TypeError("source: a function (layer, head) -> weights needs layers=[…], heads=n")
        if not len(layers) or heads < 1:
            raise ValueError(f"source: layers={list(layers)}, heads={heads}; at least one of each")
        return FunctionSource(given, list(layers), heads)
    if layers is not None or heads is not None:
        raise TypeError("layers and heads belong to a function source; arrays say so themselves")
    if given is None or (isinstance(given, (list, tuple)) and all(map(is_nothing, given))):
        raise ShapeError(f"source: got {given!r}, no weights at all; {FUSED}")
    if axes is None and returned.is_steps(given):
        return returned.from_steps(given, beam_indices, independent=independent, kind=kind)
    if beam_indices is not None:
        raise TypeError("beam_indices belong to a capture or to what generate() returned")
    if isinstance(given, (list, tuple)) and axes is None:
        return stacked(given)
    return _from_array(given, axes)


def stacked(given: Sequence[Any]) -> StackSource:
    """A tuple of layers, as a model returns it."""
    return StackSource(_layers(given), named_layers=True)


def _layers(given: Sequence[Any]) -> list[Any]:
    """Layers as (batch, heads, queries, keys) each."""
    layers = []
    for index, item in enumerate(given):
        if is_nothing(item):
            raise ShapeError(f"source: layer {index} is {item!r}, no weights at all; {FUSED}")
        if isinstance(item, tuple):
            raise ShapeError(
                f"source: entry {index} is a tuple of {len(item)}, but not all entries are tuples "
                "of arrays, as the steps of generate() are; or capture the call: "
                "with capture(model) as cap: model.generate(…)"
            )
        layer = as_numbers(item)[0] if isinstance(item, list) else item
        shape = shape_of(layer)
        if len(shape) == 3:
            layer = layer[None]
        elif len(shape) != 4:
            raise ShapeError(
                f"source: layer {index} has shape {shape}, expected (batch, heads, queries, keys)"
                + ("; a single grid: AttentionMap(tokens, weights) draws it" if len(given) else "")
            )
        layers.append(layer)
    return layers


def _from_array(given: Any, axes: str | None) -> StackSource:
    array = as_numbers(given)[0] if isinstance(given, (list, tuple)) else given
    shape = shape_of(array)
    if axes is not None:
        return _with_axes(array, shape, axes)
    if len(shape) == 3:
        return StackSource([array[None]], named_layers=False)
    if len(shape) == 4 and shape[0] == 1:
        return StackSource([array], named_layers=False)
    if len(shape) == 4:
        raise ShapeError(
            f"source: got shape {shape}; 4 axes may be layers or a batch, which look alike. Say "
            'axes="layer head query key" or axes="batch head query key"'
        )
    if len(shape) == 2:
        raise ShapeError(f"source: got one grid {shape}; AttentionMap(tokens, weights) draws it")
    raise ShapeError(
        f"source: got shape {shape}; expected (heads, queries, keys), 4 axes with axes=…, a tuple "
        "of layers, a capture, or a function (layer, head)"
    )


def _with_axes(array: Any, shape: tuple[int, ...], axes: str) -> StackSource:
    accepted = {
        "head query key": lambda: StackSource([array[None]], named_layers=False),
        "batch head query key": lambda: StackSource([array], named_layers=False),
        "layer head query key": lambda: StackSource([a[None] for a in array], named_layers=True),
        "layer batch head query key": lambda: StackSource(list(array), named_layers=True),
    }
    names = " ".join(axes.replace(",", " ").split())
    if names not in accepted:
        raise ValueError(f"axes: got {axes!r}, accepted are {', '.join(map(repr, accepted))}")
    if len(names.split()) != len(shape):
        raise ShapeError(f"source: got shape {shape}, but axes={axes!r} names {len(names.split())}")
    return accepted[names]()


@dataclass(frozen=True)
class StackSource:
    """Layers that are there already, each (batch, heads, queries, keys)."""

    stack: list[Any]
    named_layers: bool
    """False for one stack of heads that nobody called a layer."""
    hidden: dict[int, int] = field(default_factory=dict)
    """Of a layer, how many slots of a static cache were left out."""

    @property
    def layers(self) -> list[int]:
        """Numbered from 0."""
        return list(range(len(self.stack)))

    def offer(self, layer: int, kind: str | None) -> Offer:
        """Heads and batch items by the layer's own shape."""
        items, heads, *_ = shape_of(self.stack[layer])
        return Offer(["self"], heads, items)

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """One head of one batch item, by indexing."""
        return Extraction(self.stack[choice.layer][choice.batch][choice.head])

    def without_slots(self, queries: int, keys: int) -> StackSource:
        """Without the slots of a static cache beyond the last token, where all of them are zero."""
        stack, hidden = list(self.stack), {}
        for number, layer in enumerate(stack):
            *_, rows, columns = shape_of(layer)
            if rows != queries or columns <= keys or keys < queries:
                continue
            if not (as_numbers(layer[..., keys:])[0] != 0).any():
                stack[number] = layer[..., :keys]
                hidden[number] = columns - keys
        return StackSource(stack, self.named_layers, hidden)

    def refuse_misfit(self, queries: int | None, keys: int | None) -> None:
        """ShapeError, with all axes in the message, if the first layer does not fit the tokens."""
        shape = shape_of(self.stack[0])
        for axis, name, wanted in ((-1, "keys", keys), (-2, "queries", queries)):
            if wanted is None or shape[axis] == wanted:
                continue
            text = (
                f"source: got shape {shape} = (batch, heads, queries, keys), so {shape[axis]} "
                f"{name}, but there are {wanted} tokens"
            )
            if wanted in shape[:-2]:
                text += f"; {wanted} found on axis {shape.index(wanted)}, expected on the last two"
            raise ShapeError(text)


@dataclass(frozen=True)
class FunctionSource:
    """`function(layer, head) -> weights` for the layers and heads that exist."""

    function: Callable[[int, int], Any]
    layers: list[int]
    heads: int
    named_layers = True

    def offer(self, layer: int, kind: str | None) -> Offer:
        """As many heads in every layer."""
        return Offer(["self"], self.heads)

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """Whatever the function returns."""
        return Extraction(self.function(choice.layer, int(choice.head)))


@dataclass(frozen=True)
class CaptureSource:
    """What `capture` recorded; a head is rebuilt when it is read."""

    capture: Any
    beam_indices: Any = None
    """After beam search: which beam gave each token. Batch items are then returned sequences."""
    named_layers = True

    @property
    def layers(self) -> list[int]:
        """True block numbers; CaptureError if nothing was captured."""
        return list(self.capture.layers)

    def offer(self, layer: int, kind: str | None) -> Offer:
        """As recorded for that layer and kind."""
        kinds = list(self.capture.kinds(layer))
        kind = kinds[0] if kind is None else kind
        return Offer(
            kinds,
            self.capture.heads(layer, kind),
            self.capture.batch_size(layer, kind)
            if self.beam_indices is None
            else len(chains(self.beam_indices)),
            self.capture.steps(layer, kind),
        )

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """The head's weights and where the model's own mask lets it look."""
        calls = self.capture.find(choice.layer, choice.kind)
        size = math.prod(calls[0].shape[2:])
        if held and size > _HELD_LIMIT:
            raise ValueError("a mean or maximum over heads this long is not held; choose one head")
        if len(calls) == 1 and size > WHOLE_LIMIT and not held:
            from .capturing.streaming import HeadStream

            return Extraction(LongHead(HeadStream(calls[0].record, choice.batch, int(choice.head))))
        where = {**self.where(choice), "step": choice.step}
        at = self._positions(choice) if len(calls) > 1 else None
        weights = self.capture.weights(choice.layer, choice.head, **where)
        allowed = self.capture.allowed(choice.layer, choice.head, **where)
        padding = self.capture.padding(choice.layer, **where)
        if at is not None and len(at.rows) < len(weights):
            # Drafts that were rejected are no tokens of the text: what stands is all that is shown.
            rows, keys = slice(0, len(at.rows)), slice(0, len(at.keys))
            if bool((weights[rows, keys.stop :] != 0).any()):
                raise ValueError("this step looked ahead at drafts that were rejected")
            weights = weights[rows, keys]
            allowed = None if allowed is None else allowed[rows, keys]
            sides = zip(padding, (keys, rows), strict=True)
            padding = tuple(None if side is None else side[part] for side, part in sides)
        return Extraction(weights, allowed, at=at, padding=padding)

    def where(self, choice: Choice) -> dict[str, Any]:
        """Which sequence of which kind, as a capture is asked for it."""
        return {
            "batch": choice.batch,
            "kind": choice.kind,
            "beam_indices": self.beam_indices,
        }

    def _positions(self, choice: Choice) -> Positions | None:
        where = self.where(choice)
        found = self.capture.positions(choice.layer, step=choice.step, **where)
        if found is None:
            return None
        rows, keys = found
        steps = self.capture.step_rows(choice.layer, **where)
        if not steps:
            return Positions(rows, keys, rows.stop)
        if choice.step is not None:
            lost = len(rows) - len(steps[choice.step])
            if not self.capture.find(choice.layer, choice.kind)[0].cross:
                keys = keys[: len(keys) - lost]
            rows = steps[choice.step]
        return Positions(rows, keys, steps[-1].stop)


def read(source: Source, choice: Choice) -> Extraction:
    """The map of `choice`; for "mean" and "max" over the heads, in O(queries · keys) memory.

    Heads without a weight in a cell (NaN) are left out of that cell's mean and not counted.
    """
    if not isinstance(choice.head, str):
        return source.read(choice)
    heads = source.offer(choice.layer, choice.kind).heads
    total: NDArray[np.float64] | None = None
    allowed: BoolGrid | None = None
    everywhere, used = False, 0
    for head in range(heads):
        one = source.read(choice._replace(head=head), held=True)
        weights = as_numbers(one.weights)[0]
        refuse_infinite(weights)
        if total is not None and weights.shape != total.shape:
            raise ShapeError(f"head {head} is {weights.shape}, head 0 is {total.shape}")
        there = ~np.isnan(weights)
        if total is None:
            total = np.full(weights.shape, 0.0 if choice.head == "mean" else -np.inf)
            count = np.zeros(weights.shape, dtype=np.int64)
            allowed = np.zeros(weights.shape, dtype=bool)
        if choice.head == "mean":
            total[there] += weights[there]
        else:
            np.fmax(total, weights, out=total)
        count += there
        used += bool(there.any())
        if one.allowed is None:
            everywhere = True
        else:
            allowed = allowed | as_numbers(one.allowed)[0].astype(bool)
    if total is None:
        raise ShapeError(f"layer {choice.layer} has no heads")
    if choice.head == "mean":
        with np.errstate(invalid="ignore"):
            total /= count
    total[count == 0] = np.nan
    whole = None if everywhere else allowed
    return one._replace(weights=total, allowed=whole, heads=(used, heads))
