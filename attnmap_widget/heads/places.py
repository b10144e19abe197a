"""What stands where in a grid of weights: positions, padding, delimiters, repeated tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError
from ..grid.axes import Axes
from ..grid.tokens import Token, accept_tokens
from ..grid.weights import BoolGrid, accept_bool

Indices = NDArray[np.intp]
Cells = tuple[Indices, Indices]
"""(rows of a band, keys)."""

DELIMITERS = frozenset({"[CLS]", "[SEP]", "<s>", "</s>", "<bos>", "<eos>", ".", ","})
"""What counts as a delimiter: special tokens, full stops and commas (Clark et al. 2019).

Everything like `<|endoftext|>` does too.
"""
_SPECIAL = re.compile(r"<\|.+\|>")
_WORD_MARKS = " Ġ▁"


@dataclass(frozen=True)
class Places:
    """A grid's places, for all the heads that share them."""

    shape: tuple[int, int]
    """(queries, keys)."""
    shift: int | None
    """Row r stands where key r + shift does; None where the rows stand nowhere among the keys."""
    real_keys: BoolGrid
    """(keys,) False = padding."""
    real_queries: BoolGrid
    """(queries,) False = padding."""
    padding_keys: Indices
    first_key: Indices
    """The one that begins the sequence, or none."""
    delimiter_keys: Indices
    order: Indices
    """The keys, those of the same token next to each other, in order of their positions."""
    group: Indices
    """(keys,) where in `order` those of the key's token begin."""
    earlier_ones: Indices
    """(keys,) how many keys of the same token come before this one."""

    @classmethod
    def of(
        cls,
        shape: tuple[int, int],
        tokens: Sequence[Any] | None = None,
        *,
        padding: Any = None,
        delimiters: Collection[Any] | None = None,
        query_offset: int | None = None,
        key_offset: int = 0,
        cross: bool = False,
    ) -> Places:
        """Read what `measure` takes; raises as it does."""
        queries, keys = shape
        shift = None if query_offset is None else index(query_offset) - index(key_offset)
        if query_offset is None and queries == keys:
            shift = 0
        shift = None if cross else shift
        listed = None if tokens is None else accept_tokens("tokens", tokens)
        if listed is not None and len(listed) != keys:
            raise ShapeError(f"tokens: got {len(listed)}, the weights have {keys} keys")
        real_keys, real_queries = _real(padding, shape, shift)
        first = np.flatnonzero(real_keys)
        # Keys before position 0 are none, and where they begin later the first one is not here.
        first = first[first + key_offset >= 0][: 1 if key_offset <= 0 else 0]
        return cls(
            shape,
            shift,
            real_keys,
            real_queries,
            np.flatnonzero(~real_keys),
            first,
            _delimiters(listed, delimiters),
            *_repeats(listed or range(keys)),
        )

    def positions(self, rows: slice) -> Indices:
        """(rows,) the key at whose position each row stands, which may lie beyond the last."""
        assert self.shift is not None
        return np.arange(rows.start, rows.stop) + self.shift

    def distances(self, rows: slice, keys: slice) -> Indices:
        """(rows, keys) how far apart they stand."""
        found: Indices = np.abs(self.positions(rows)[:, None] - np.arange(keys.start, keys.stop))
        return found

    def keys_before(self, rows: slice, back: int) -> Cells:
        """One cell a row, `back` positions before its own, as far as there are such keys."""
        keys = self.positions(rows) - back
        there = np.flatnonzero((keys >= 0) & (keys < self.shape[1]))
        return there, keys[there]

    def earlier(self, rows: slice) -> Cells:
        """All keys of a row's own token that come before it."""
        band, own = self.keys_before(rows, 0)
        counts = self.earlier_ones[own]
        # Each row's are a run in `order`: 0, 1, … counted from where its group begins.
        ends = np.cumsum(counts)
        runs = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        return np.repeat(band, counts), self.order[np.repeat(self.group[own], counts) + runs]

    def followers(self, rows: slice, earlier: Cells) -> Cells:
        """The keys just after `earlier` ones, where they too come before the row."""
        band, keys = earlier
        before = keys + 1 < self.positions(rows)[band]
        return band[before], keys[before] + 1


def offsets(at: Axes, shape: tuple[int, int], padding: Any = None) -> dict[str, Any]:
    """What `Places.of` has to know of positions that a map was given.

    Rows and keys that follow one another begin at an offset, whatever padding is said to stand at.
    Where some are left out between, what came just before is not in the map: no positions.
    """
    real_keys, real_rows = _real(padding, shape, 0 if at.queries is at.keys else None)
    sides = ((at.queries, real_rows), (at.keys, real_keys))
    (query_offset, rows_run), (key_offset, keys_run) = (_offset(*side) for side in sides)
    runs = rows_run and keys_run
    return {"query_offset": query_offset, "key_offset": key_offset, "cross": not runs}


def _offset(positions: Indices | None, real: BoolGrid) -> tuple[int, bool]:
    """Where index 0 stands, and whether all that are no padding follow one another from there."""
    indices = np.flatnonzero(real)
    if positions is None or not len(indices):
        return 0, True
    found = positions[indices] - indices
    return int(found[0]), bool((found == found[0]).all())


def _real(given: Any, shape: tuple[int, int], shift: int | None) -> tuple[BoolGrid, BoolGrid]:
    """Which keys and which queries are no padding."""
    queries, keys = (np.ones(length, dtype=bool) for length in shape)
    if given is None:
        return keys, queries
    if isinstance(given, tuple) and len(given) == 2 and hasattr(given[0], "__len__"):
        keys = ~accept_bool("padding of the keys", given[0], shape[1:])
        return keys, ~accept_bool("padding of the queries", given[1], shape[:1])
    keys = ~accept_bool("padding", given, shape[1:])
    if shift is not None:
        own = np.arange(shape[0]) + shift
        inside = (own >= 0) & (own < shape[1])
        queries[inside] = keys[own[inside]]
    return keys, queries


def _delimiters(tokens: Sequence[Token] | None, given: Collection[Any] | None) -> Indices:
    if isinstance(given, (str, bytes)):
        raise TypeError(f"delimiters: got one {type(given).__name__}; give a set such as {{'.'}}")
    wanted = DELIMITERS if given is None else frozenset(given)
    found = []
    for place, token in enumerate(tokens or ()):
        text = token.decode("utf-8", "replace") if isinstance(token, bytes) else token
        plain = text.strip(_WORD_MARKS) if isinstance(text, str) else text
        special = given is None and isinstance(plain, str) and _SPECIAL.fullmatch(plain)
        if special or not wanted.isdisjoint((token, plain)):
            found.append(place)
    return np.array(found, dtype=np.intp)


def _repeats(tokens: Sequence[Any]) -> tuple[Indices, Indices, Indices]:
    """`order`, `group` and `earlier_ones`, see `Places`."""
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=np.intp)
    order = np.argsort(codes, kind="stable")
    group = np.searchsorted(codes[order], codes)
    place = np.empty(len(codes), dtype=np.intp)
    place[order] = np.arange(len(codes))
    return order, group, place - group
