"""What an explorer shows of its tokens: all pieces, words, or without special tokens. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..grid import axes
from ..grid.options import Cell, accept_options
from ..grid.weights import shape_of
from ..pieces import Groups, by_marks
from ..words import any_of, every_index, existing, gather
from . import captions
from .sources import Choice, Extraction, Source

SIZED = (
    "mask", "not_yet", "padding", "exclude_keys", "positions", "query_offset", "generated",
)  # fmt: skip
"""Options of a map that speak of its rows and columns by number."""
_PLAIN = dict.fromkeys(SIZED) | {"exclude_keys": (), "query_offset": 0}


KNOWN = ("words", "query_words", "special", "query_special")
"""What an explorer is told of its tokens."""


class Known(NamedTuple):
    """What is known of a list of tokens, or of a list of lists, one per batch item."""

    words: list[Any] | None = None
    """Groups of indices, or such groups per batch item."""
    special: list[Any] | None = None
    """Indices, or such indices per batch item."""

    def groups(self, batch: int, begin: int, end: int, *, merged: bool, hide: bool) -> Groups:
        """What is shown of positions `begin` to `end`, as indices from `begin` on."""
        words = _of_item(self.words, batch, nested=2) if merged else None
        special = set(_of_item(self.special, batch, nested=1) or ()) if hide else set()
        groups = [[index] for index in range(begin, end)] if words is None else words
        last = end - 1 if words is None else max(index for group in words for index in group)
        if last < end - 1:
            raise ValueError(f"words: the groups end at token {last}, the map at {end - 1}")
        found = [
            [index - begin for index in group if begin <= index < end and index not in special]
            for group in groups
        ]
        found = [group for group in found if group]
        if not found:
            raise ValueError("all tokens are special; with them left out there is nothing to show")
        return found


class Shown(NamedTuple):
    """Which tokens make each row and each column of a map."""

    rows: Groups | None
    """None: as the keys, which are the same tokens."""
    keys: Groups


class Knowledge(NamedTuple):
    """What an explorer knows of its two lists of tokens."""

    tokens: Known
    queries: Known
    has_queries: bool

    @property
    def words(self) -> bool:
        """Whether it is known of some token with which others it makes a word."""
        return self.tokens.words is not None or self.queries.words is not None

    @property
    def special(self) -> bool:
        """Whether some token is known to be special."""
        return self.tokens.special is not None or self.queries.special is not None

    @property
    def any(self) -> bool:
        """Whether there is anything to arrange."""
        return self.words or self.special

    def shown(
        self,
        source: Source,
        choice: Choice,
        seen: Extraction,
        merged: bool,
        hide: bool,
    ) -> Shown | None:
        """Which tokens make the rows and columns; None where that is each its own."""
        merged, hide = merged and self.words, hide and self.special
        if not (merged or hide):
            return None
        keys, rows = captions.sides(source, choice, seen, queries=self.has_queries)
        sides = {"tokens": self.tokens, "queries": self.queries, None: Known()}
        groups = [
            sides[side.of].groups(choice.batch, side.begin, side.end, merged=merged, hide=hide)
            for side in (keys, rows)
        ]
        return Shown(None if rows == keys else groups[1], groups[0])

    def said(self, merged: bool, hide: bool, measure: str) -> str:
        """What a title adds. A norm of a word would be another number than its pieces' sum."""
        words = " · words" if merged and self.words else ""
        words += ", norms added" if words and measure != "weights" else ""
        return words + (" · without special tokens" if hide and self.special else "")


def knowledge(
    tokens: Any,
    queries: Any,
    *,
    words: Any = None,
    query_words: Any = None,
    special: Any = None,
    query_special: Any = None,
) -> Knowledge:
    """What `words` and `special` say of `tokens`, and the other two of `queries`.

    `words` True reads the pieces' marks, of both. ValueError or TypeError for groups or indices
    that do not fit, and for marks that leave doubt.
    """
    if words is True and query_words is None and queries is not None:
        query_words = True
    return Knowledge(
        _know("words", words, special, tokens),
        _know("query_words", query_words, query_special, queries),
        queries is not None,
    )


def _know(name: str, words: Any, special: Any, tokens: Any) -> Known:
    words = None if words is False else words
    batch = bool(tokens) and isinstance(tokens[0], (list, tuple))
    if words is True:
        if tokens is None:
            raise TypeError(f"{name}: there are no tokens to read words from; give the groups")
        words = [by_marks(item) for item in tokens] if batch else by_marks(tokens)
    words, special = (None if given is None else list(given) for given in (words, special))
    if words and not tokens:  # how many there are is known of the groups alone
        for groups in [words] if _of_item(words, 0, nested=2) is words else words:
            named = [index for group in groups for index in group if isinstance(index, int)]
            every_index(name, groups, 1 + max(named, default=-1))
    for item, listed in enumerate(tokens if batch else [tokens] if tokens else []):
        if words is not None:
            every_index(name, _of_item(words, item, nested=2), len(listed))
        for index in _of_item(special, item, nested=1) or ():
            existing("special", index, len(listed))
    return Known(words or None, special or None)


def arrange(
    drawn: dict[str, Any], shown: Shown, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a map is given, for the tokens that are shown; `given` are its own sized options.

    Beside it the sized options as they are of single tokens, accepted.
    """
    tokens, queries = list(drawn["tokens"]), drawn["queries"]
    rows = tokens if queries is None else list(queries)
    shape = (len(rows), len(tokens))
    if shape_of(drawn["weights"]) != shape:
        return drawn, {}  # the map says what is wrong
    options = {name: value for name, value in {**given, **drawn}.items() if name in SIZED}
    accepted = {**_PLAIN, **accept_options(options, shape, one_list=queries is None)}
    placed = axes.resolve(accepted["positions"], accepted["query_offset"], shape[0])
    one_axis = queries is None and placed.queries is placed.keys
    positions = placed.keys if one_axis else (placed.keys, placed.queries)
    part = gather(tokens, drawn["weights"], shown.keys, queries, shown.rows, positions=positions)
    row_groups = shown.keys if shown.rows is None else shown.rows
    grouped: dict[str, Any] = {"query_offset": 0, **part._asdict()}
    if accepted["mask"] is not None:
        grouped["mask"] = any_of(accepted["mask"], row_groups, shown.keys)
    if accepted["not_yet"] is not None:
        grouped["not_yet"] = ~any_of(~accepted["not_yet"], row_groups, shown.keys)
    if accepted["padding"] is not None:
        keys, queries_padded = accepted["padding"]
        grouped["padding"] = (
            _all(keys, shown.keys),
            np.zeros(len(row_groups), dtype=bool)
            if queries_padded is None
            else _all(queries_padded, row_groups),
        )
    if accepted["generated"] is not None:
        sides = zip(accepted["generated"], (shown.keys, row_groups), strict=True)
        grouped["generated"] = tuple(_first_from(index, groups) for index, groups in sides)
    grouped["exclude_keys"] = [
        number
        for number, group in enumerate(shown.keys)
        if not set(group).isdisjoint(accepted["exclude_keys"])
    ]
    return {**drawn, **grouped}, accepted


def plain(drawn: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a map is given when all tokens are shown: as if nothing had ever been arranged."""
    return {**_PLAIN, **given, **drawn}


def of_tokens(
    options: Mapping[str, Any], shown: Shown | None, shape: tuple[int, ...]
) -> dict[str, Any]:
    """Accepted sized options of an arranged map, as they are of its single tokens.

    What was said of a word holds for each of its tokens; of tokens that are not shown nothing was
    said. `shape`: (queries, keys) of single tokens.
    """
    found = dict(options)
    padding = found.get("padding")
    if shown is not None:
        rows, keys = _groups(shown, 0), _groups(shown, 1)
        for name, unsaid in (("mask", True), ("not_yet", False)):
            if found.get(name) is not None:
                grid = np.full(shape, unsaid)
                for row, group in zip(found[name], rows, strict=True):
                    grid[group] = _spread(row, keys, np.full(shape[1], unsaid))
                found[name] = grid
        if padding is not None:
            padding = (
                _spread(padding[0], keys, np.zeros(shape[1], bool)),
                None if padding[1] is None else _spread(padding[1], rows, np.zeros(shape[0], bool)),
            )
        if "exclude_keys" in found:
            found["exclude_keys"] = tuple(sorted(t for k in found["exclude_keys"] for t in keys[k]))
        if found.get("positions") is not None:
            found["positions"] = tuple(
                None if side is None else _spread(side, groups, np.arange(count))
                for side, groups, count in zip(
                    found["positions"], (keys, rows), shape[::-1], strict=True
                )
            )
        if found.get("generated") is not None:
            found["generated"] = tuple(
                None if index is None else groups[index][0] if index < len(groups) else count
                for index, groups, count in zip(
                    found["generated"], (keys, rows), shape[::-1], strict=True
                )
            )
    if padding is not None:  # as a map takes it
        found["padding"] = padding[0] if padding[1] is None else padding
    return found


def _spread(values: Any, groups: Groups, onto: Any) -> Any:
    """The value of each group at each of its tokens; the rest as it is in `onto`."""
    for value, group in zip(values, groups, strict=True):
        onto[group] = value
    return onto


def same(one: Any, two: Any) -> bool:
    """Whether two accepted options are equal."""
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return one is two or (one is not None and two is not None and np.array_equal(one, two))
    return bool(one is two or one == two)


def moved(cell: Cell | None, before: Shown | None, after: Shown | None) -> Cell | None:
    """A cell of one arrangement in another; None where its token is not shown."""
    if cell is None:
        return None
    places = []
    for index, axis in zip(cell, (0, 1), strict=True):
        token = index if before is None else _groups(before, axis)[index][0]
        place = token if after is None else _find(_groups(after, axis), token)
        if place is None:
            return None
        places.append(place)
    return (places[0], places[1])


def _groups(shown: Shown, axis: int) -> Groups:
    return shown.keys if axis == 1 or shown.rows is None else shown.rows


def _find(groups: Groups, token: int) -> int | None:
    return next((number for number, group in enumerate(groups) if token in group), None)


def _first_from(index: int | None, groups: Groups) -> int | None:
    """The first group with a token from `index` on; None where there is none."""
    if index is None:
        return None
    return next((number for number, group in enumerate(groups) if max(group) >= index), None)


def _all(flags: Any, groups: Groups) -> list[bool]:
    return [all(flags[index] for index in group) for group in groups]


def _of_item(given: Any, batch: int, *, nested: int) -> Any:
    """One batch item's own, of what is nested so deep for one item."""
    inner = given
    for _ in range(nested):
        if not inner or not isinstance(inner, (list, tuple, range)):
            return given
        inner = inner[0]
    if not isinstance(inner, (list, tuple, range)):
        return given
    if batch >= len(given):
        raise ValueError(f"words or special: {len(given)} lists, none for batch item {batch}")
    return given[batch]
