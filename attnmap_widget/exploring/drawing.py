"""What the map of an explorer shows for a choice: weights, tokens, words, what is said of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..grid.grids import Streamed
from ..grid.weights import shape_of
from ..images.patches import Patches
from . import arranging, captions, placed, steps
from .combined import offer, read
from .generated import Generated
from .reading_on import ReadingOn, counted_heads
from .sources import CaptureSource, Choice, Extraction, FunctionSource, Source, StackSource
from .texts import Ids, Texts


class Drawn(NamedTuple):
    """What a map shows."""

    inputs: dict[str, Any]
    """Of the map."""
    known: arranging.Knowledge
    """Of its tokens."""
    shown: arranging.Shown | None
    """Which tokens make its rows and columns; None: each is one of its own."""
    own_padding: bool
    """Whether its padding is what the model was told of."""
    sized: dict[str, Any]
    """Where they are not: its sized options as they are of single tokens."""
    wish: tuple[bool, bool]
    """Whether words were wished for, and no special tokens."""
    shape: tuple[int, ...]
    """(queries, keys) of single tokens."""


class Drawing(ReadingOn):
    """Mixed into `AttentionExplorer`."""

    patches: Patches | None
    _source: Source
    _generated: Generated
    _tokens: Any
    _queries: Any
    _texts: Texts
    _told: arranging.Knowledge
    """What the user said of the tokens."""
    _sized: dict[str, Any]
    """What the user said of rows and columns by number."""
    _placed: set[str]
    """Options of the map that follow from the source, as the user did not give them."""
    _by_hand: dict[str, Any]
    """What the user set on the map since, of single tokens; goes before `_sized` and `_placed`."""
    _own_mask: bool
    _set: dict[str, Any]
    """The map's sized options as it was drawn."""
    _drawn: Drawn
    _softmax: Any
    _value_title: Any
    _caption: str
    _arranged = False
    """Whether rows and columns have ever been other than the tokens."""

    def _draw_of(
        self, choice: Choice, merged: bool, hide: bool, seen: Extraction | None = None
    ) -> Drawn:
        """What the map shows for `choice`; of a long head a first look, if it is the first time.

        `seen`: the choice as it was read, if it was.
        """
        seen = read(self._source, choice) if seen is None else seen
        by_hand, shape, wish = self._by_hand, shape_of(seen.weights), (merged, hide)
        ids = self._ids(choice, None if seen.at is None else seen.at.end)
        tokens, queries = self._texts_of(ids)
        keys, rows, status = placed.labels(
            self._source,
            choice,
            seen,
            tokens,
            queries,
            patches=self.patches,
            of_choice=self._tokens is None,
        )
        inputs = {
            "weights": seen.weights,
            "tokens": keys,
            "queries": rows,
            "status": status,
            "softmax": self._softmax and captions.is_softmax(choice),
            "value_title": captions.value_title(choice, self._value_title),
        }
        if self._own_mask and isinstance(self._source, CaptureSource) and "mask" not in by_hand:
            inputs["mask"] = seen.allowed
        placed_here = self._placed - by_hand.keys()
        if not isinstance(self._source, (StackSource, FunctionSource)):
            many = choice.step is None and seen.at is not None
            inputs |= steps.options(self._source, choice, seen, self._generated, placed_here)
            if self._own_mask and "not_yet" not in by_hand:
                inputs["not_yet"] = captions.not_yet(seen.weights) if many else None
        one_forward = offer(self._source, choice.layer, choice.kind).steps == 1
        if one_forward and self._generated.first is not None and "generated" in placed_here:
            inputs["generated"] = steps.of_one_forward(
                self._source, choice, seen, self._generated, queries=queries is not None
            )
        known, shown = self._knowledge(ids), None
        own_padding = inputs.get("padding") is not None
        if isinstance(seen.weights, Streamed):
            grid = inputs["weights"] = self._long_grid(choice, seen.weights)
            seen = counted_heads(seen, grid)
        elif len(shape_of(seen.weights)) == 2:
            shown = known.shown(self._source, choice, seen, merged, hide)
        inputs["title"] = captions.title(self._source, choice, seen, self._caption)
        if shown is None:
            if self._arranged:  # options by number must not be left from that
                inputs = arranging.plain(inputs, {**self._sized, **by_hand})
            return Drawn(inputs, known, None, own_padding, {}, wish, shape)
        self._arranged = True
        inputs["title"] += known.said(merged, hide, choice.measure)
        inputs, sized = arranging.arrange(inputs, shown, {**self._sized, **by_hand})
        return Drawn(inputs, known, shown, own_padding, sized, wish, shape)

    def _take_by_hand(self) -> None:
        """Note what was set on the map since it was drawn and speaks of its rows and columns."""
        now = self._sized_now()
        changed = {
            name: value for name, value in now.items() if not arranging.same(value, self._set[name])
        }
        shown, shape = self._drawn.shown, self._drawn.shape
        self._by_hand = {**self._by_hand, **arranging.of_tokens(changed, shown, shape)}

    def _sized_now(self) -> dict[str, Any]:
        return {name: getattr(self.map._checked.options, name) for name in arranging.SIZED}

    @property
    def _reads(self) -> bool:
        """Whether tokens are those of the ids that ran."""
        given = self._tokens is not None or self._queries is not None
        return self._texts.tokenizer is not None and not given

    def _ids(self, choice: Choice, end: int | None) -> tuple[Ids | None, Ids | None]:
        if self._texts.tokenizer is None:
            return None, None
        return steps.ids_of(self._source, choice, end, self._generated)

    def _texts_of(self, ids: tuple[Ids | None, Ids | None]) -> tuple[Any, Any]:
        """Tokens and queries: those given, else those of the ids that are known."""
        tokens, queries = map(self._texts.of, ids)
        return (
            tokens if self._tokens is None else self._tokens,
            queries if self._queries is None else self._queries,
        )

    def _named(self, choice: Choice, end: int | None) -> tuple[Any, Any]:
        return self._texts_of(self._ids(choice, end))

    def _step_names(self, count: int) -> list[str]:
        return steps.menu(self._source, self._choice, count, self._named)

    def _knowledge(self, ids: tuple[Ids | None, Ids | None]) -> arranging.Knowledge:
        """What is known of the tokens: what the user said, else what the tokenizer says."""
        if not self._reads:
            return self._told
        sides = [
            arranging.Known(told.words or found.words, told.special or found.special)
            if one is not None
            else arranging.Known()  # what was said is of ids, and these keys are no ids
            for one, told, found in zip(
                ids, self._told[:2], map(self._texts.known, ids), strict=True
            )
        ]
        return arranging.Knowledge(sides[0], sides[1], ids[1] is not None)
