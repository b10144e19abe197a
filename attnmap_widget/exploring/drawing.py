"""What the map of an explorer shows for a choice: weights, tokens, words, what is said of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..grid.grids import Streamed
from ..grid.weights import shape_of
from ..images.patches import Patches
from . import arranging, captions, placed, steps
from .combined import read
from .generated import Generated
from .reading_on import ReadingOn, counted_heads
from .sources import CaptureSource, Choice, FunctionSource, Source, StackSource
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
    _own_mask: bool
    _softmax: Any
    _value_title: Any
    _caption: str
    _arranged = False
    """Whether rows and columns have ever been other than the tokens."""

    def _draw_of(self, choice: Choice, merged: bool, hide: bool) -> Drawn:
        """What the map shows for `choice`; of a long head a first look, if it is the first time."""
        seen = read(self._source, choice)
        ids = self._ids(choice, None if seen.at is None else seen.at.end)
        keys, rows, status = placed.labels(
            self._source,
            choice,
            seen,
            *self._texts_of(ids),
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
        if self._own_mask and isinstance(self._source, CaptureSource):
            inputs["mask"] = seen.allowed
        if not isinstance(self._source, (StackSource, FunctionSource)):
            many = choice.step is None and seen.at is not None
            inputs |= steps.options(self._source, choice, seen, self._generated, self._placed)
            if self._own_mask:
                inputs["not_yet"] = captions.not_yet(seen.weights) if many else None
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
                inputs = arranging.plain(inputs, self._sized)
            return Drawn(inputs, known, None, own_padding, {})
        self._arranged = True
        inputs["title"] += known.said(merged, hide, choice.measure)
        inputs, sized = arranging.arrange(inputs, shown, self._sized)
        return Drawn(inputs, known, shown, own_padding, sized)

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
