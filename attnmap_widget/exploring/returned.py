"""Attention as transformers returns it: steps of layers after `generate`, and several kinds.

Such tuples have no keys to tell where a step belongs, so it is read from lengths and from zeros:
causal attention always gives the own token some weight and slots of a static cache that are not
filled yet none. Where these two do not agree, the step is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..grid.weights import FUSED, as_numbers, is_nothing, shape_of
from .beams import chains, scaled
from .sources import Choice, Extraction, Offer, Positions, Source, stacked

_INSTEAD = "Or capture the run: with capture(model) as cap: model.generate(…)"


class _Step(NamedTuple):
    """Where a step goes: positions of its first query and first key, and how many keys count."""

    query: int
    key: int
    rows: int
    keys: int


@dataclass(frozen=True)
class StepsSource:
    """Steps of layers, each (batch, heads, queries, keys)."""

    steps: list[list[Any]]
    name: str = "self"
    """Of its kind in the menu."""
    kind: str | None = None
    """None: nobody said which it is."""
    independent: bool = False
    """Whether each item of the batch is certainly a sequence of its own, not a beam."""
    chains: list[list[int]] | None = None
    """Of each returned sequence the item of the batch at each step."""
    named_layers = True
    _known: dict[tuple[int, int], list[_Step]] = field(default_factory=dict)

    @property
    def layers(self) -> list[int]:
        """Numbered from 0."""
        return list(range(len(self.steps[0])))

    def offer(self, layer: int, kind: str | None) -> Offer:
        """By the shapes of the layer."""
        items, heads, *_ = shape_of(self.steps[0][layer])
        items = items if self.chains is None else len(self.chains)
        return Offer([self.name], heads, items, len(self.steps))

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """One head of one sequence, of one step or of all in one map."""
        chain = self._chain(choice.batch)
        if len(self.steps) == 1:
            return Extraction(self._weights(choice, 0, chain[0]))
        try:
            placed = self._placed(int(choice.layer), choice.batch)
        except ShapeError:
            if choice.step is None:
                raise
            return Extraction(self._weights(choice, choice.step, chain[choice.step]))
        end = placed[-1].query + placed[-1].rows
        if choice.step is None:
            return self._assembled(choice, placed, chain, end)
        if choice.step >= len(placed):
            raise ValueError(f"step {choice.step}: this sequence ended after {len(placed)} steps")
        one = placed[choice.step]
        weights = self._weights(choice, choice.step, chain[choice.step])[:, : one.keys]
        rows, keys = range(one.query, one.query + one.rows), range(one.key, one.key + one.keys)
        return Extraction(weights, at=Positions(rows, keys, end))

    def step_rows(self, choice: Choice) -> list[range]:
        """Positions of the rows of each step; empty where they are not known."""
        try:
            placed = self._placed(int(choice.layer), choice.batch) if len(self.steps) > 1 else []
        except ShapeError:
            return []
        return [range(step.query, step.query + step.rows) for step in placed]

    def _assembled(
        self, choice: Choice, placed: list[_Step], chain: list[int], end: int
    ) -> Extraction:
        first, keys = placed[0].query, max(step.key + step.keys for step in placed)
        out = np.full((end - first, keys), np.nan)
        for number, (step, item) in enumerate(zip(placed, chain, strict=True)):
            part = self._weights(choice, number, item)[:, : step.keys]
            rows = slice(step.query - first, step.query - first + step.rows)
            out[rows, step.key : step.key + step.keys] = part
        return Extraction(out, at=Positions(range(first, end), range(keys), end))

    def _chain(self, item: int) -> list[int]:
        return [item] * len(self.steps) if self.chains is None else self.chains[item]

    def _weights(self, choice: Choice, step: int, item: int) -> Any:
        return as_numbers(self.steps[step][int(choice.layer)][item][choice.head])[0]

    def _placed(self, layer: int, item: int) -> list[_Step]:
        if (layer, item) not in self._known:
            self._known[layer, item] = self._place(layer, item)
        return self._known[layer, item]

    def _place(self, layer: int, item: int) -> list[_Step]:
        steps = [step[layer] for step in self.steps]
        shapes = [shape_of(step) for step in steps]
        if len({shape[:2] for shape in shapes}) > 1:
            raise self._refused(layer, "differ in batch size or heads")
        if shapes[0][0] > 1 and self.chains is None and not self.independent:
            raise self._refused(
                layer,
                f"hold {shapes[0][0]} items: beams, or sequences of their own? Give the whole "
                "output of generate(…, return_dict_in_generate=True), which says so",
            )
        chain = self._chain(item)
        used = [_used(step[one]) for step, one in zip(steps, chain, strict=False)]
        steady = len(used) > 1 and len(set(used)) == 1
        if steady and self.kind is None:
            raise self._refused(
                layer,
                f"all look at {used[0]} keys: cross attention? Then say kind='cross', or name the "
                "rows with queries=…",
            )
        placed: list[_Step] = []
        for number, one in enumerate(chain):
            queries, keys = shapes[number][2:]
            seen = placed[-1].query + placed[-1].rows if placed else 0
            if self.kind == "cross":
                if keys != shapes[0][3]:
                    raise self._refused(layer, "look at different keys")
                placed.append(_Step(seen, 0, queries, keys))
                continue
            weights, filled = steps[number][one], used[number]
            at = seen if placed else filled - queries
            # A cache from before the first step tells its length only while it grows.
            known = bool(placed) or at == 0 or not steady
            fits = at >= 0 and (filled == at + queries or (filled == keys < at + queries))
            if not known or not fits or (filled < keys and _any(weights[..., filled:])):
                raise self._refused(
                    layer,
                    f"cannot be put together: step {number} has {queries} × {keys} weights with "
                    f"{filled} keys in use, after {seen} positions",
                )
            placed.append(_Step(at, at + queries - filled, queries, filled))
        return placed

    def _refused(self, layer: int, why: str) -> ShapeError:
        last = len(self.steps) - 1
        return ShapeError(
            f"source: the steps of layer {layer} {why}. {_INSTEAD}; or choose step= from 0 to "
            f"{last}"
        )


def _used(weights: Any) -> int:
    """Up to which key the last query of (heads, queries, keys) looks, in any head."""
    there = (as_numbers(weights[:, -1])[0] != 0).any(axis=0).nonzero()[0]
    return int(there[-1]) + 1 if len(there) else 0


def _any(weights: Any) -> bool:
    return bool((as_numbers(weights)[0] != 0).any())


@dataclass(frozen=True)
class KindsSource:
    """Several kinds of attention of one model, each with layers of its own."""

    kinds: dict[str, StepsSource]
    named_layers = True

    @property
    def layers(self) -> list[int]:
        """Those of any kind."""
        return sorted({layer for source in self.kinds.values() for layer in source.layers})

    def offer(self, layer: int, kind: str | None) -> Offer:
        """What that kind offers, and which kinds have that layer."""
        there = [name for name, source in self.kinds.items() if layer in source.layers]
        own = self.kinds[there[0] if kind is None else kind].offer(layer, None)
        return own._replace(kinds=there)

    def read(self, choice: Choice, *, held: bool = False) -> Extraction:
        """From the source of that kind."""
        return self._of(choice).read(choice, held=held)

    def step_rows(self, choice: Choice) -> list[range]:
        """Of the source of that kind."""
        return self._of(choice).step_rows(choice)

    def _of(self, choice: Choice) -> StepsSource:
        return self.kinds[choice.kind or next(iter(self.kinds))]


_KINDS = {
    "attentions": "self",
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "cross",
}
"""Under which name an output has which kind, in the order of the menu."""


def is_steps(given: Any) -> bool:
    """Whether these are steps of layers: a sequence of tuples of arrays, as `generate` gives."""
    return (
        isinstance(given, (list, tuple))
        and len(given) > 0
        and all(isinstance(step, (list, tuple)) and len(step) > 0 for step in given)
        and all(getattr(layer, "ndim", 0) >= 3 for step in given for layer in step)
    )


def is_output(given: Any) -> bool:
    """Whether this is what a model or `generate` returned, rather than weights."""
    named = (*_KINDS, "sequences", "last_hidden_state", "logits")
    return not isinstance(given, (list, tuple, type)) and any(hasattr(given, n) for n in named)


def from_output(given: Any, beam_indices: Any = None, *, independent: bool = False) -> Source:
    """Every kind of attention that an output holds.

    ShapeError where it holds none: a fused backend leaves them out.
    """
    beams = hasattr(given, "beam_indices")
    beam_indices = getattr(given, "beam_indices", None) if beam_indices is None else beam_indices
    independent = independent or (hasattr(given, "sequences") and not beams)
    parts = {kind: getattr(given, name, None) for name, kind in _KINDS.items()}
    there = {kind: part for kind, part in parts.items() if part and not is_nothing(part)}
    there = {kind: part for kind, part in there.items() if not all(map(is_nothing, part))}
    if not there:
        raise ShapeError(f"source: got an output without attention weights; {FUSED}")
    if list(there) == ["self"] and not is_steps(there["self"]):
        return stacked(there["self"])
    batch = max(_items(part) for part in there.values())
    sources = {
        kind: _of_kind(part, kind, beam_indices, batch, independent=independent)
        for kind, part in there.items()
    }
    return next(iter(sources.values())) if list(sources) == ["self"] else KindsSource(sources)


def from_steps(
    given: Sequence[Sequence[Any]],
    beam_indices: Any = None,
    *,
    independent: bool = False,
    kind: str | None = None,
    batch: int | None = None,
) -> StepsSource:
    """Steps of layers as one source; ShapeError where they do not have the same layers.

    `kind`: of which attention they are, where that is known.
    `batch`: how many items `beam_indices` counts, where that is more than these have.
    """
    for number, step in enumerate(given):
        if len(step) != len(given[0]):
            raise ShapeError(
                f"source: step {number} has {len(step)} layers, step 0 has {len(given[0])}"
            )
        for layer, array in enumerate(step):
            if len(shape_of(array)) != 4:
                raise ShapeError(
                    f"source: layer {layer} of step {number} has shape {shape_of(array)}, expected "
                    "(batch, heads, queries, keys)"
                )
    steps = [list(step) for step in given]
    followed = None
    if beam_indices is not None:
        items = shape_of(steps[0][0])[0]
        followed = [scaled(chain, items, batch or items) for chain in chains(beam_indices)]
        if len(steps) == 1:
            followed = [chain[:1] for chain in followed]
        most = max(map(len, followed))
        if most > len(steps):
            raise ValueError(f"beam_indices has {most} tokens, there are {len(steps)} steps")
    return StepsSource(steps, kind or "self", kind, independent, followed)


def _of_kind(
    part: Any, kind: str, beam_indices: Any, batch: int, *, independent: bool
) -> StepsSource:
    steps = part if is_steps(part) else [part]
    missing = [layer for layer, one in enumerate(steps[0]) if is_nothing(one)]
    if missing:
        raise ShapeError(f"source: layer {missing[0]} of {kind} is None, no weights; {FUSED}")
    return from_steps(steps, beam_indices, independent=independent, kind=kind, batch=batch)


def _items(part: Any) -> int:
    first = part[0][0] if is_steps(part) else part[0]
    return shape_of(first)[0]
