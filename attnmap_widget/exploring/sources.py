"""Where an explorer's maps come from: captures, layers, arrays, functions, all read alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..errors import ShapeError
from ..grid.arrays import Masks, is_mapped
from ..grid.long import LongHead, LongHeads
from ..grid.over_heads import MappedHeads, OverHeads
from ..grid.tiles import WHOLE_LIMIT
from ..grid.weights import FUSED, BoolGrid, as_numbers, is_nothing, shape_of
from ..images.windows import Windows
from .beams import chains

_HELD_LIMIT = 1 << 25
"""Cells of a mean or maximum over heads, which is formed in memory."""


MEASURES = ("weights", "value norms")
"""What a map is of: softmax weights, or how much each key adds to the output, ‖αᵢⱼ·vⱼ‖."""


class Choice(NamedTuple):
    """Which map: what the menus say."""

    layer: int | str
    """A true block number; "mean", "max" or "rollout" over all of them."""
    head: int | str
    """A number, "mean" or "max"."""
    kind: str | None
    batch: int
    step: int | None
    """None: all steps in one map."""
    measure: str = "weights"
    """One of `MEASURES`."""

    @property
    def crossing(self) -> bool:
        """Whether rows and keys are of two sequences: a decoder that looks at an encoder."""
        return (self.kind or "").endswith("cross")

    @property
    def of_decoder(self) -> bool:
        """Whether the rows are the tokens of the decoder in an encoder-decoder model."""
        return self.crossing or self.kind == "decoder"


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
    windows: Windows | None = None
    """Where the items are windows of a picture, or of several."""
    measures: Sequence[str] = MEASURES[:1]

    @property
    def item_labels(self) -> list[str]:
        """One per item: its number, or the place of its window."""
        if self.windows is None:
            return [str(item) for item in range(self.items)]
        images = self.items // self.windows.count
        return [
            self.windows.title(item)
            + (f" of image {item // self.windows.count}" if images > 1 else "")
            for item in range(self.items)
        ]


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
        """The map of one head; `choice` has numbers. `held`: as an array at any size."""
        ...


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
        if 0 in shape:
            raise ShapeError(f"source: layer {index} has shape {shape}; nothing is in it")
        layers.append(layer)
    return layers


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
        return Extraction(self.stack[int(choice.layer)][choice.batch][choice.head])

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
        return Extraction(self.function(int(choice.layer), int(choice.head)))


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
        first = self.capture.find(layer, kind)[0]
        beams = None if self.beam_indices is None else len(chains(self.beam_indices))
        return Offer(
            kinds,
            heads=self.capture.heads(layer, kind),
            items=self.capture.batch_size(layer, kind) if beams is None else beams,
            steps=self.capture.steps(layer, kind),
            windows=first.windows,
            measures=MEASURES if first.record.sizes is not None else MEASURES[:1],
        )

    def long_heads(self, choice: Choice) -> LongHeads | None:
        """All heads of one call that is too large for their mean to be formed in memory."""
        calls = self.capture.find(choice.layer, choice.kind)
        if len(calls) > 1 or math.prod(calls[0].shape[2:]) <= _HELD_LIMIT:
            return None
        from ..capturing.streaming import HeadStream

        record, item = calls[0].record, self.rows(choice).item
        return LongHeads([HeadStream(record, item, head) for head in range(calls[0].shape[1])])

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """The head's weights and where the model's own mask lets it look."""
        calls = self.capture.find(choice.layer, choice.kind)
        size = math.prod(calls[0].shape[2:])
        if held and size > _HELD_LIMIT:
            raise ValueError("a mean or maximum over heads this long is not held; choose one head")
        norms = choice.measure == "value norms"
        if norms and size > _HELD_LIMIT:
            raise ValueError(
                "value norms of a head this long are not held; read a part: value_norms(layer, "
                "head, queries=slice(…), keys=slice(…)) of the capture"
            )
        if len(calls) == 1 and size > WHOLE_LIMIT and not (held or norms):
            from ..capturing.streaming import HeadStream

            record, item = calls[0].record, self.rows(choice).item
            return Extraction(LongHead(HeadStream(record, item, int(choice.head))))
        where = {**self.where(choice), "step": choice.step}
        values = self.capture.value_norms if norms else self.capture.weights
        weights = values(choice.layer, choice.head, **where)
        windows: Windows | None = calls[0].windows
        if windows is not None:
            return _in_window(weights, windows.allowed(choice.batch % windows.count))
        at = self.positions(choice)
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

    def rows(self, choice: Choice) -> Any:
        """All heads of the choice's layer as `Capture.rows` gives them."""
        return self.capture.rows(choice.layer, step=choice.step, **self.where(choice))

    def where(self, choice: Choice) -> dict[str, Any]:
        """Which sequence of which kind, as a capture is asked for it."""
        return {
            "batch": choice.batch,
            "kind": choice.kind,
            "beam_indices": self.beam_indices,
        }

    def positions(self, choice: Choice) -> Positions | None:
        """As in `Extraction.at`."""
        where = self.where(choice)
        if self.capture.steps(choice.layer, choice.kind) == 1:
            return None
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


def _in_window(weights: Any, allowed: BoolGrid | None) -> Extraction:
    """Weights inside one shifted window, with the mask that its layer adds to the scores.

    The layer adds -100, which leaves weights too small for a normal float32: those are read as 0.
    """
    values = weights.numpy().copy()
    if allowed is not None:
        values[~allowed & (np.abs(values) < np.finfo(np.float32).tiny)] = 0
    return Extraction(values, allowed)


def over_long_heads(source: Source, choice: Choice, how: str) -> OverHeads | None:
    """Where the heads are too long to form their mean in memory, and can be read in windows."""
    if isinstance(source, CaptureSource):
        long = source.long_heads(choice)
        return None if long is None else OverHeads(long, how)
    if isinstance(source, StackSource):
        heads = source.stack[int(choice.layer)][choice.batch]
        if math.prod(shape_of(heads)[1:]) > _HELD_LIMIT and all(map(is_mapped, heads)):
            return OverHeads(MappedHeads(heads), how, Masks())
    return None
