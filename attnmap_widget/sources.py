"""Where an explorer's maps come from: captures, layers, arrays, functions, all read alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .arrays import ArraySource, Masks, is_mapped
from .errors import ShapeError
from .long import LongHead, LongHeads
from .over_heads import MappedHeads, OverHeads
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


class Extraction(NamedTuple):
    """One map as it was read."""

    weights: Any
    """(queries, keys), anything a map accepts."""
    allowed: Any = None
    """bool (queries, keys), True = may look; None = everywhere, or not known."""
    heads: tuple[int, int] = (1, 1)
    """Over how many heads it was taken, of how many."""


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
) -> Source:
    """The source that `given` stands for; see `AttentionExplorer` for what is accepted.

    Raises ShapeError for anything that is no stack of attention maps, or that could be two things.
    """
    if hasattr(given, "kinds") and hasattr(given, "calls"):
        if layers is not None or heads is not None:
            raise TypeError("layers and heads belong to a function source; choose layer=, head=")
        return CaptureSource(given)
    if hasattr(given, "named_modules"):
        raise TypeError(
            "source: got a model; explore(model, inputs) runs it and reads its attention"
        )
    if hasattr(given, "attentions"):
        raise TypeError("source: got a model's outputs; give its attentions, or capture the model")
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
    if isinstance(given, (list, tuple)) and axes is None:
        return StackSource(_layers(given), named_layers=True)
    return _from_array(given, axes)


def _layers(given: Sequence[Any]) -> list[Any]:
    """Layers as (batch, heads, queries, keys) each."""
    layers = []
    for index, item in enumerate(given):
        if is_nothing(item):
            raise ShapeError(f"source: layer {index} is {item!r}, no weights at all; {FUSED}")
        if isinstance(item, tuple):
            raise ShapeError(
                f"source: entry {index} is a tuple of {len(item)}: the steps of generate()? "
                "Capture the call instead: with capture(model) as cap: model.generate(…)"
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
            self.capture.batch_size(layer, kind),
            self.capture.steps(layer, kind),
        )

    def long_heads(self, choice: Choice) -> LongHeads | None:
        """All heads of one call that is too large for their mean to be formed in memory."""
        calls = self.capture.find(choice.layer, choice.kind)
        if len(calls) > 1 or math.prod(calls[0].shape[2:]) <= _HELD_LIMIT:
            return None
        from .capturing.streaming import HeadStream

        heads = range(calls[0].shape[1])
        return LongHeads([HeadStream(calls[0].record, choice.batch, head) for head in heads])

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """The head's weights and where the model's own mask lets it look."""
        calls = self.capture.find(choice.layer, choice.kind)
        size = math.prod(calls[0].shape[2:])
        if held and size > _HELD_LIMIT:
            raise ValueError("a mean or maximum over heads this long is not held; choose one head")
        if len(calls) == 1 and size > WHOLE_LIMIT and not held:
            from .capturing.streaming import HeadStream

            return Extraction(LongHead(HeadStream(calls[0].record, choice.batch, int(choice.head))))
        where = {"batch": choice.batch, "kind": choice.kind, "step": choice.step}
        return Extraction(
            self.capture.weights(choice.layer, choice.head, **where),
            self.capture.allowed(choice.layer, choice.head, **where),
        )


def _over_long_heads(source: Source, choice: Choice, how: str) -> OverHeads | None:
    """Where the heads are too long to form their mean in memory, and can be read in windows."""
    if isinstance(source, CaptureSource):
        long = source.long_heads(choice)
        return None if long is None else OverHeads(long, how)
    if isinstance(source, StackSource):
        heads = source.stack[choice.layer][choice.batch]
        if math.prod(shape_of(heads)[1:]) > _HELD_LIMIT and all(map(is_mapped, heads)):
            return OverHeads(MappedHeads(heads), how, Masks())
    return None


def read(source: Source, choice: Choice) -> Extraction:
    """The map of `choice`; for "mean" and "max" over the heads, in O(queries · keys) memory.

    Heads without a weight in a cell (NaN) are left out of that cell's mean and not counted.
    """
    if not isinstance(choice.head, str):
        found = source.read(choice)
        if len(shape_of(found.weights)) == 2 and is_mapped(found.weights):
            return found._replace(weights=ArraySource(np.asarray(found.weights)))
        return found
    together = _over_long_heads(source, choice, choice.head)
    if together is not None:
        return Extraction(together, heads=together.heads)
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
    return Extraction(total, None if everywhere else allowed, (used, heads))
