"""What rows and columns are called, and where each stands in the sequence. For show only.

A row or column is identified by its index everywhere: in `selection`, in weights, in options. What
is read on screen, in files and in sentences is its position, which is another number where a map
shows a part of a sequence: the last queries, the keys of a sliding window, merged words.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError

QUERY, KEY = "Query", "Key"
VALUE = "weight"
"""What the numbers are, unless told otherwise."""
_JOINERS = "[\u200c\u200d]"
"""They print nothing, but Persian words and emoji of families are spelled with them."""
LAST_POSITION = (1 << 32) - 1
"""Positions travel as 32-bit numbers."""

IntArray = NDArray[np.int64]
Given = tuple[IntArray | None, IntArray | None]
"""Positions of (keys, queries) as they were given; None: not."""


@dataclass(frozen=True, eq=False)
class Axes:
    """The names of the axes and of what stands along them."""

    query_title: str = QUERY
    key_title: str = KEY
    queries: IntArray | None = None
    """(queries,) the position of each; None: its index."""
    keys: IntArray | None = None
    """(keys,) the position of each; None: its index."""

    @property
    def attention(self) -> bool:
        """Whether rows look at columns, so that a row is a distribution over the keys."""
        return (self.query_title, self.key_title) == (QUERY, KEY)

    def query_at(self, index: int) -> int:
        """The position of that row."""
        return index if self.queries is None else int(self.queries[index])

    def key_at(self, index: int) -> int:
        """The position of that column."""
        return index if self.keys is None else int(self.keys[index])

    def query(self, index: int) -> str:
        """The row in a sentence: "query 3", "Token 3"."""
        return f"{_inside(self.query_title, QUERY)} {self.query_at(index)}"

    def key(self, index: int) -> str:
        """The column in a sentence: "key 3", "Expert 3"."""
        return f"{_inside(self.key_title, KEY)} {self.key_at(index)}"

    @property
    def skips_keys(self) -> bool:
        """Whether the positions say that keys before or between those of the map are not there."""
        return self.keys is not None and bool(np.any(np.diff(self.keys, prepend=-1) > 1))

    @property
    def no_key(self) -> str:
        """What a row of NaN has: "no valid key"."""
        return f"no valid {_inside(self.key_title, KEY)}"

    def size(self, queries: int, keys: int) -> str:
        """3 queries × 8 keys; 3 × 8 (Token × Expert)."""
        if not self.attention:
            return f"{queries} × {keys} ({self.query_title} × {self.key_title})"
        rows = "query" if queries == 1 else "queries"
        return f"{queries} {rows} × {keys} {'key' if keys == 1 else 'keys'}"


PLAIN = Axes()
"""Queries and keys, each at its index."""


def accept_title(name: str, given: Any) -> str:
    """A name of an axis or of the numbers: one line. TypeError or ValueError otherwise."""
    if not isinstance(given, str):
        raise TypeError(f"{name}: got {given!r}, expected text such as 'Token'")
    seen = re.sub(_JOINERS, "", given)
    if not seen.strip() or not seen.isprintable():
        raise ValueError(f"{name}: got {given!r}; say in one line what it is")
    return given


def accept_positions(given: Any, shape: tuple[int, ...], *, one_list: bool) -> Given:
    """Positions of (keys, queries): one list for the keys, or a pair of lists or None.

    One list also names the rows where those are the same tokens (`one_list`). ShapeError for
    another length; TypeError or ValueError for what is no position.
    """
    pair = isinstance(given, tuple) and len(given) == 2
    if pair and all(item is None or hasattr(item, "__len__") for item in given):
        keys, queries = given
        return (
            None if keys is None else _integers("positions of the keys", keys, shape[1]),
            None if queries is None else _integers("positions of the queries", queries, shape[0]),
        )
    keys = _integers("positions", given, shape[1])
    return keys, keys if one_list else None


def resolve(
    given: Given | None,
    query_offset: int,
    queries: int,
    query_title: str = QUERY,
    key_title: str = KEY,
) -> Axes:
    """The axes of a map; rows without positions of their own count from `query_offset`.

    ValueError where both are given and row 0 has two positions.
    """
    keys, rows = given or (None, None)
    if rows is None and query_offset:
        rows = np.arange(queries, dtype=np.int64) + query_offset
    elif rows is not None and query_offset not in (0, rows[0]):
        raise ValueError(
            f"query_offset: row 0 is at {query_offset} by query_offset and at {rows[0]} by "
            "positions; give one of the two"
        )
    return Axes(query_title, key_title, rows, keys)


def to_wire(positions: IntArray | None) -> bytes | None:
    """uint32 little-endian."""
    return None if positions is None else positions.astype("<u4").tobytes()


def _integers(name: str, given: Any, count: int) -> IntArray:
    items = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(items, (str, bytes)) or not hasattr(items, "__iter__"):
        raise TypeError(f"{name}: got {given!r}, expected a list of {count} integers")
    items = list(items)
    if len(items) != count:
        raise ShapeError(f"{name}: got {len(items)}, expected {count}, one per row or column")
    for index, item in enumerate(items):
        try:
            fits = not isinstance(item, bool) and 0 <= operator.index(item) <= LAST_POSITION
        except TypeError:
            raise TypeError(f"{name}: {item!r} at index {index} is not an integer") from None
        if not fits:
            raise ValueError(f"{name}: {item!r} at index {index}; accepted is 0 to {LAST_POSITION}")
    found: IntArray = np.array([operator.index(item) for item in items], dtype=np.int64)
    found.flags.writeable = False
    return found


def _inside(title: str, usual: str) -> str:
    """A title in the middle of a sentence; one that was given keeps its capitals."""
    return title.lower() if title == usual else title
