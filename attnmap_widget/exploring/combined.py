"""Mean, maximum and rollout over the heads and layers of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import aggregates
from ..errors import ShapeError
from ..grid.arrays import ArraySource, is_mapped
from ..grid.weights import BoolGrid, FloatGrid, as_numbers, shape_of
from .sources import Choice, Extraction, Offer, Source, over_long_heads

OVER_LAYERS = ("mean", "max", "rollout")
"""What `layer` may be beside a number: over all layers that have the chosen kind."""
OVER_HEADS = ("mean", "max")
Tick = Callable[[], None]


def layers_of(source: Source, kind: str | None) -> list[int]:
    """The layers that have that kind of attention; all for None."""
    return [n for n in source.layers if kind is None or kind in source.offer(n, None).kinds]


def offer(source: Source, layer: int | str, kind: str | None) -> Offer:
    """What there is to choose from in a layer, or over all layers."""
    if not isinstance(layer, str):
        return source.offer(layer, kind)
    kinds = list(dict.fromkeys(k for n in source.layers for k in source.offer(n, None).kinds))
    kind = kinds[0] if kind is None else kind
    offers = [source.offer(n, kind) for n in layers_of(source, kind)]
    shared = [m for m in offers[0].measures if all(m in other.measures for other in offers)]
    return Offer(
        kinds,
        heads=max(each.heads for each in offers),
        items=min(each.items for each in offers),
        steps=max(each.steps for each in offers),
        measures=shared[:1] if layer == "rollout" else shared,
    )


def read(source: Source, choice: Choice, tick: Tick = lambda: None) -> Extraction:
    """The map of `choice`; over heads and layers in O(queries · keys) memory.

    Maps without a weight in a cell (NaN) are left out of that cell and not counted. Before each
    head of several is read `tick` is called, which may raise to give it up.
    """
    if not isinstance(choice.layer, str):
        return _in_windows(source, choice) or _Reading(source, tick).heads(choice)
    choices = [choice._replace(layer=n) for n in layers_of(source, choice.kind)]
    if choice.layer == "rollout":
        return _rollout(source, choices, tick)
    reading = _Reading(source, tick)
    if choice.head == choice.layer or not isinstance(choice.head, str):
        each = [one for layer in choices for one in reading.heads_of(layer)]
        return reading.reduced(choice.layer, each, "map")
    found = aggregates.reduce(
        "mean" if choice.layer == "mean" else "max",
        (reading.heads(layer).weights for layer in choices),
        "layer",
    )
    return reading.whole(found.values, (found.given, found.given))


def _in_windows(source: Source, choice: Choice) -> Extraction | None:
    """Of an array in a file, and of heads that are too long to form their mean in memory."""
    if isinstance(choice.head, str):
        long = choice.measure == "weights" and over_long_heads(source, choice, choice.head)
        return Extraction(long, heads=long.heads) if long else None
    found = source.read(choice)
    if len(shape_of(found.weights)) == 2 and is_mapped(found.weights):
        return found._replace(weights=ArraySource(np.asarray(found.weights)))
    return found


class _Reading:
    """Reads maps one by one and notes where any of them may look, and where all of them stand."""

    def __init__(self, source: Source, tick: Tick) -> None:
        self._source, self._tick = source, tick
        self._allowed: BoolGrid | None = None
        self._everywhere = False
        self._first: Extraction | None = None

    def heads_of(self, choice: Choice) -> list[Choice]:
        count = self._source.offer(int(choice.layer), choice.kind).heads
        return [choice._replace(head=head) for head in range(count)]

    def heads(self, choice: Choice) -> Extraction:
        """One layer: a head, or the mean or maximum over them."""
        if not isinstance(choice.head, str):
            return self._source.read(choice)
        return self.reduced(choice.head, self.heads_of(choice), "head")

    def reduced(self, how: str, choices: Sequence[Choice], what: str) -> Extraction:
        """The mean or maximum of single heads."""
        reduction: aggregates.Reduction = "mean" if how == "mean" else "max"
        found = aggregates.reduce(reduction, self._weights(choices), what)
        return self.whole(found.values, (found.used, found.given))

    def whole(self, values: FloatGrid, heads: tuple[int, int]) -> Extraction:
        """What was made of all that was read."""
        assert self._first is not None
        return self._first._replace(weights=values, allowed=self.mask(), heads=heads)

    def note(self, one: Extraction) -> None:
        """Remember where its rows and keys stand; ShapeError where those before stand elsewhere."""
        if self._first is None:
            self._first = one._replace(weights=None)
        elif one.at != self._first.at:
            raise ShapeError(
                "the layers' rows and keys stand at different positions, as with a sliding window: "
                "choose one layer"
            )

    def mask(self) -> BoolGrid | None:
        """Where any of the maps that were read may look; None: everywhere, or not known."""
        return None if self._everywhere else self._allowed

    def _weights(self, choices: Sequence[Choice]) -> Iterator[Any]:
        for choice in choices:
            self._tick()
            one = self._source.read(choice, held=True)
            self.note(one)
            if one.allowed is None:
                self._everywhere = True
            else:
                allowed = as_numbers(one.allowed)[0].astype(bool)
                self._allowed = allowed if self._allowed is None else self._allowed | allowed
            yield one.weights


def _rollout(source: Source, choices: Sequence[Choice], tick: Tick) -> Extraction:
    """Attention rollout of what `choice.head` makes of each layer's heads."""
    if choices[0].crossing:
        raise ShapeError(
            "rollout: cross attention has different lists of queries and keys, so its layers "
            "cannot be multiplied up"
        )
    reach: Any = None
    noted = _Reading(source, tick)

    def layers() -> Iterator[FloatGrid]:
        nonlocal reach
        for choice in choices:
            held = choice if isinstance(choice.head, str) else choice._replace(head="mean")
            one = _Reading(source, tick).heads(held)
            noted.note(one)
            weights = np.array(one.weights)
            several = source.offer(int(choice.layer), choice.kind).steps > 1
            if several and choice.step is not None and weights.shape[0] != weights.shape[1]:
                raise ShapeError(
                    f"rollout: step {choice.step} is {'×'.join(map(str, weights.shape))}, and only "
                    "square maps (tokens × tokens) can be multiplied up: choose step all"
                )
            if several:
                # A key that did not exist yet had no weight at that step.
                some = ~np.isnan(weights).all(axis=1)
                weights[some] = np.nan_to_num(weights[some])
            yield weights
            step = np.ones(weights.shape, bool) if one.allowed is None else one.allowed
            step = (step | np.eye(len(weights), dtype=bool)).astype(np.float32)
            reach = step if reach is None else np.minimum(step @ reach, 1)

    values = aggregates.rollout(layers())
    allowed = reach > 0
    count = len(choices)
    whole = noted.whole(values, (count, count))
    return whole._replace(allowed=None if allowed.all() else allowed)
