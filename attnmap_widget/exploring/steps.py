"""The steps of a generation in words: whose tokens, the menu, where the generated part begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..grid import labels
from ..grid.long import LongHead
from ..grid.weights import shape_of
from . import captions
from .combined import layers_of
from .generated import Generated, as_generated, completed
from .given import as_source
from .returned import KindsSource, StepsSource
from .sources import CaptureSource, Choice, Extraction, Positions, Source, StackSource
from .texts import Ids

_GENERATES = ("self", "decoder", "effective", "text", "language")
"""First words of the kinds whose tokens may have been generated."""


def ids_of(
    source: Source, choice: Choice, end: int | None, generated: Generated
) -> tuple[Ids | None, Ids | None]:
    """Ids (of the inputs, of a decoder's own) of the choice's batch item, run and generated.

    `end`: how many positions ran in all steps; None: there was one forward, or no common order.
    """
    inputs, targets = None, None
    choice = _of_one_layer(source, choice)
    if isinstance(source, CaptureSource):
        where = {**source.where(choice), "step": choice.step}
        inputs, targets = source.capture.ids(choice.layer, **where)
    if end is not None:
        if choice.of_decoder:
            targets = completed(targets, end, generated, choice.batch)
        else:
            inputs = completed(inputs, end, generated, choice.batch)
    return inputs, targets


def _of_one_layer(source: Source, choice: Choice) -> Choice:
    """Over all layers: the first of them, as they ran over the same tokens."""
    if not isinstance(choice.layer, str):
        return choice
    return choice._replace(layer=layers_of(source, choice.kind)[0])


def own_sequence(choice: Choice, tokens: Any, queries: Any) -> Any:
    """The tokens whose queries are the rows: a decoder's are `queries`."""
    return queries if choice.of_decoder else tokens


def rows_of(source: Source, choice: Choice) -> list[range]:
    """Positions of the rows of each step; empty where there is one step, or no common order."""
    choice = _of_one_layer(source, choice)
    if isinstance(source, (StepsSource, KindsSource)):
        return source.step_rows(choice)
    if isinstance(source, CaptureSource):
        return list(source.capture.step_rows(choice.layer, **source.where(choice)))
    return []


def menu(
    source: Source, choice: Choice, count: int, named: Callable[[Choice, int | None], Any]
) -> list[str]:
    """What the menu says of each step: "3 · ' mat' at 9", the token that looks and where it is.

    `named`: gives (tokens, queries) for a number of positions that ran.
    """
    rows = rows_of(source, choice)
    if not rows:
        return [str(step) for step in range(count)]
    try:
        own = captions.of_item(own_sequence(choice, *named(choice, rows[-1].stop)), choice.batch)
    except ValueError:  # the map says what is wrong with the tokens
        own = None
    shown = None if own is None else labels.readable(own)
    known = [f"{step} · {_said(row, shown)}" for step, row in enumerate(rows)]
    return known + [str(step) for step in range(len(rows), count)]


def read_source(
    source: Any, generated: Any, tokens: Any, queries: Any, reading: dict[str, Any]
) -> tuple[Source, Generated]:
    """What an explorer was given, and what is known of how it was generated."""
    if generated is None and hasattr(source, "sequences"):
        generated = source
    known = as_generated(generated, reading.pop("beam_indices", None))
    if queries is not None and reading.get("kind") is None:
        reading["kind"] = "cross"  # of bare steps with rows of their own
    found = as_source(
        source, beam_indices=known.beam_indices, independent=known.independent, **reading
    )
    keys, rows = captions.of_item(tokens, 0), captions.of_item(queries, 0)
    if isinstance(found, StackSource) and keys is not None:
        found = found.without_slots(len(keys if rows is None else rows), len(keys))
    return found, known


def _said(row: range, shown: list[str] | None) -> str:
    place = f"at {row.start}" if len(row) == 1 else f"at {row.start}–{row.stop - 1}"
    if shown is None or row.stop > len(shown) or not row:
        return place
    first, last = (captions.quoted(shown[position]) for position in (row.start, row.stop - 1))
    return f"{first} {place}" if len(row) == 1 else f"{first} … {last} {place}"


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
    found = (None if choice.crossing else _within(first, at.keys), _within(first, at.rows))
    return None if found == (None, None) else found


def options(
    source: Source, choice: Choice, seen: Extraction, generated: Generated, wanted: set[str]
) -> dict[str, Any]:
    """Those of the map's options `wanted` that follow from where its rows and keys stand."""
    at, long = seen.at, isinstance(seen.weights, LongHead)
    found: dict[str, Any] = {"padding": None, "positions": None, "generated": None}
    if seen.padding is not None and not long:
        found["padding"] = padding_of(seen.padding, shape_of(seen.weights))
    if at is not None:
        if at.rows.start or at.keys.start:
            found["positions"] = (list(at.keys), list(at.rows))
        first = first_generated(source, choice, at, generated)
        found["generated"] = marks(choice, at, first)
    return {name: value for name, value in found.items() if name in wanted}


def of_one_forward(
    source: Source, choice: Choice, seen: Extraction, generated: Generated, *, queries: bool
) -> tuple[int | None, int | None] | None:
    """The map's `generated` where all ran at once; None for a tower without generated tokens.

    `queries`: whether the rows have tokens of their own. Rows that are neither those nor the keys
    stand nobody knows where: then the keys alone are marked, if a position was given by hand.
    """
    first, shape = generated.first, shape_of(seen.weights)
    kind = (choice.kind or "self").split()[0]
    if first is None or len(shape) != 2 or not (choice.crossing or kind in _GENERATES):
        return None
    keys, rows = captions.sides(source, choice, seen, queries=queries)
    by_rows = rows == keys or rows.of is not None
    by_keys = rows == keys or (rows.of is None and generated.sequences is None)
    found = (
        _within(first, range(shape[1])) if by_keys and not choice.crossing else None,
        _within(first, range(shape[0])) if by_rows else None,
    )
    return None if found == (None, None) else found


def padding_of(padding: tuple[Any, Any], shape: tuple[int, ...]) -> Any:
    """As a map of that shape takes it, (keys, queries); None where nothing is padding."""
    sides = [
        [False] * count if side is None else list(side[:count])
        for side, count in zip(padding, reversed(shape), strict=True)
    ]
    return tuple(sides) if any(map(any, sides)) else None


def _within(first: int, part: range) -> int | None:
    return max(0, first - part.start) if first < part.stop else None
