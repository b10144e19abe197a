"""The steps of a generation in words: whose tokens, the menu, where the generated part begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import labels
from .generated import Generated, completed
from .long import LongHead
from .returned import KindsSource, StepsSource
from .sources import CaptureSource, Choice, Extraction, Positions, Source
from .weights import shape_of

_UNSEEN = "?"
"""The label of a position whose token is not known: what was cached before the capture."""

Ids = Sequence[int | None]


@dataclass
class Texts:
    """Tokens by ids, each list converted once."""

    tokenizer: Any = None
    _known: dict[tuple[int | None, ...], list[Any]] = field(default_factory=dict)

    def of(self, ids: Ids | None) -> list[Any] | None:
        """The tokens of these ids; None without a tokenizer or without ids."""
        if ids is None or self.tokenizer is None or all(one is None for one in ids):
            return None
        known = tuple(ids)
        if known not in self._known:
            there = [one for one in known if one is not None]
            tokens = iter(self.tokenizer.convert_ids_to_tokens(there))
            if len(self._known) > 8:
                self._known.clear()
            self._known[known] = [_UNSEEN if one is None else next(tokens) for one in known]
        return self._known[known]


def tokens_of(
    source: Source, choice: Choice, seen: Extraction, texts: Texts, generated: Generated
) -> tuple[list[Any] | None, list[Any] | None]:
    """(tokens, queries) of the choice's batch item by the ids that were run and generated."""
    if texts.tokenizer is None:
        return None, None
    inputs, targets = None, None
    if isinstance(source, CaptureSource):
        inputs, targets = source.capture.ids(choice.layer, **source.where(choice))
    if seen.at is not None:
        if _is_decoders(choice.kind):
            targets = completed(targets, seen.at.end, generated, choice.batch)
        else:
            inputs = completed(inputs, seen.at.end, generated, choice.batch)
    return texts.of(inputs), texts.of(targets)


def own_sequence(choice: Choice, tokens: Any, queries: Any) -> Any:
    """The tokens whose queries are the rows: a decoder's are `queries`."""
    return queries if _is_decoders(choice.kind) else tokens


def rows_of(source: Source, choice: Choice) -> list[range]:
    """Positions of the rows of each step; empty where there is one step, or no common order."""
    if isinstance(source, (StepsSource, KindsSource)):
        return source.step_rows(choice)
    if isinstance(source, CaptureSource):
        return list(source.capture.step_rows(choice.layer, **source.where(choice)))
    return []


def menu(rows: Sequence[range], count: int, sequence: Any) -> list[str]:
    """What the menu says of each step: "3 · ' mat' at 9", the token that looks and where it is."""
    if len(rows) != count:
        return [str(step) for step in range(count)]
    shown = None if sequence is None else labels.readable(sequence)
    return [f"{step} · {_said(row, shown)}" for step, row in enumerate(rows)]


def _said(row: range, shown: list[str] | None) -> str:
    place = f"at {row.start}" if len(row) == 1 else f"at {row.start}–{row.stop - 1}"
    if shown is None or row.stop > len(shown) or not row:
        return place
    first, last = (_quoted(shown[position]) for position in (row.start, row.stop - 1))
    return f"{first} {place}" if len(row) == 1 else f"{first} … {last} {place}"


def _quoted(label: str) -> str:
    inner = label.strip("·")
    if inner:  # in a menu a space can be one
        left = len(label) - len(label.lstrip("·"))
        label = " " * left + inner + " " * (len(label) - left - len(inner))
    return f"'{label}'"


def first_generated(
    source: Source, choice: Choice, at: Positions, generated: Generated
) -> int | None:
    """Position of the first generated token in the rows' sequence; None where nothing says it."""
    if generated.first is not None:
        return generated.first
    rows = rows_of(source, choice)
    single = bool(rows) and all(len(row) == 1 for row in rows[1:])
    if isinstance(source, (StepsSource, KindsSource)):
        return at.end + 1 - len(rows) if single else None  # one step a token, as generate gives
    known = generated.sequences
    if known is None or not single or choice.batch >= len(known):
        return None
    # One forward for the prompt and one a token: then, and only then, the two add up.
    return rows[0].stop if len(known[choice.batch]) == at.end + 1 else None


def marks(choice: Choice, at: Positions, first: int | None) -> tuple[int | None, int | None] | None:
    """The map's `generated`: from which (key, query) on; None where there is nothing to mark."""
    if first is None:
        return None
    crossing = (choice.kind or "").endswith("cross")
    found = (None if crossing else _within(first, at.keys), _within(first, at.rows))
    return None if found == (None, None) else found


def options(
    source: Source, choice: Choice, seen: Extraction, generated: Generated, wanted: set[str]
) -> dict[str, Any]:
    """Those of the map's options `wanted` that follow from where its rows and keys stand."""
    at, long = seen.at, isinstance(seen.weights, LongHead)
    found: dict[str, Any] = {"padding": None, "positions": None, "generated": None}
    if seen.padding is not None and not long:
        found["padding"] = _padding(seen.padding, shape_of(seen.weights))
    if at is not None:
        if at.rows.start or at.keys.start:
            found["positions"] = (list(at.keys), list(at.rows))
        first = first_generated(source, choice, at, generated)
        found["generated"] = marks(choice, at, first)
    return {name: value for name, value in found.items() if name in wanted}


def _padding(padding: tuple[Any, Any], shape: tuple[int, ...]) -> Any:
    """As a map takes it: (keys, queries)."""
    sides = [
        [False] * count if side is None else side
        for side, count in zip(padding, reversed(shape), strict=True)
    ]
    return tuple(sides) if any(map(any, sides)) else None


def _within(first: int, part: range) -> int | None:
    return max(0, first - part.start) if first < part.stop else None


def _is_decoders(kind: str | None) -> bool:
    return kind == "decoder" or (kind or "").endswith("cross")
