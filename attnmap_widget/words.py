"""Word pieces -> words, and maps without some of their tokens. numpy and pure Python.

Keys are summed and queries averaged, so that the rows of a map still sum to 1: what a word receives
is what its pieces receive together; what it gives is what its pieces give on average (the rule of
Clark et al. 2019, "What Does BERT Look At?", section 4.1).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import ShapeError
from .grid import axes
from .grid.weights import BoolGrid, as_numbers, refuse_infinite
from .pieces import Groups, by_ids, by_marks, by_offsets, joined


class Part(NamedTuple):
    """What `AttentionMap(*part)` takes."""

    tokens: list[Any]
    weights: Any
    """(…, queries, keys) float32; a masked array where a cell has no weight because none was
    given."""
    queries: list[Any] | None
    """None: the same as `tokens`."""
    positions: Any
    """Of the keys, or a pair (keys, queries), as the map's option `positions`: of a word, where its
    first piece stands."""


def word_groups(
    tokens: Iterable[Any] | None = None,
    *,
    offsets: Iterable[Sequence[int]] | None = None,
    text: str | None = None,
    word_ids: Iterable[int | None] | None = None,
    style: str | None = None,
) -> Groups:
    """Which pieces make a word: lists of indices, in order, each index exactly once.

    Parameters
    ----------
    offsets, text:
        The (start, end) of each piece in `text`, as a fast tokenizer gives them
        (`return_offsets_mapping=True`). Pieces of one word touch, without a space between them. A
        punctuation mark is a word of its own, and so is a character of a script that writes no
        spaces; an empty span is a special token.
    word_ids:
        What a fast tokenizer's `word_ids()` gives: the number of each piece's word, None for
        special tokens.
    tokens:
        The pieces as the tokenizer writes them, where there is nothing better: `##` marks a
        piece that goes on (BERT), `Ġ` (GPT-2 and its heirs) or `▁` (SentencePiece) one that
        begins.
    style:
        "##", "Ġ" or "▁", where the tokens alone leave that open.

    Raises
    ------
    ValueError
        tokens without marks, or with those of two alphabets: give offsets, word_ids or style.
    ShapeError
        inputs of different lengths.
    TypeError
        nothing to go by.
    """
    pieces = None if tokens is None else list(tokens)
    if word_ids is not None:
        found = by_ids(word_ids)
    elif offsets is not None:
        if text is None:
            raise TypeError("offsets: give text=… too; they say where, the text what is between")
        found = by_offsets(offsets, text)
    elif pieces is not None:
        return by_marks(pieces, style)
    else:
        raise TypeError("word_groups: give tokens, or offsets and text, or word_ids")
    count = sum(map(len, found))
    if pieces is not None and len(pieces) != count:
        given = "offsets" if word_ids is None else "word_ids"
        raise ShapeError(f"{given}: got {count}, but there are {len(pieces)} tokens")
    return found


def merge(
    tokens: Iterable[Any],
    weights: Any,
    groups: Iterable[Iterable[int]] | None,
    queries: Iterable[Any] | None = None,
    query_groups: Iterable[Iterable[int]] | None = None,
    *,
    positions: Any = None,
) -> Part:
    """The map of words instead of pieces: keys of a group are summed, queries averaged.

    Parameters
    ----------
    tokens, weights, queries, positions:
        As for `AttentionMap`; the weights may have further axes in front: (…, queries, keys).
    groups:
        Lists of key indices, each index once: one key a group. Where `queries` is left out, the
        rows too. None: keys stay as they are.
    query_groups:
        The same for the rows, where they are grouped otherwise. None with `queries`: rows stay as
        they are.

    A sum or an average is over what is there. A word of keys has no weight where none of its pieces
    has one; rows without any weight are left out of the average.

    Raises
    ------
    ShapeError
        weights that do not fit the tokens.
    ValueError
        groups that overlap, leave an index out, are empty, or are out of range.
    """
    keys, rows = list(tokens), None if queries is None else list(queries)
    row_count = len(keys) if rows is None else len(rows)
    key_groups = every_index("groups", groups, len(keys))
    if query_groups is None and rows is None:
        return gather(keys, weights, key_groups, None, None, positions=positions)
    row_groups = every_index("query_groups", query_groups, row_count)
    return gather(keys, weights, key_groups, rows, row_groups, positions=positions)


def drop(
    tokens: Iterable[Any],
    weights: Any,
    indices: Iterable[int],
    queries: Iterable[Any] | None = None,
    query_indices: Iterable[int] | None = None,
    *,
    positions: Any = None,
) -> Part:
    """The map without some keys, and rows where those are the same tokens; nothing is rescaled.

    What is left keeps its position, and rows sum to what is left of them.

    Parameters
    ----------
    tokens, weights, queries, positions:
        As for `merge`.
    indices:
        The keys to leave out; where `queries` is left out, the rows too.
    query_indices:
        The rows to leave out, where they are others. None with `queries`: none.

    Raises
    ------
    ShapeError
        weights that do not fit the tokens.
    ValueError
        an index that is out of range; nothing that is left.
    """
    keys, rows = list(tokens), None if queries is None else list(queries)
    row_count = len(keys) if rows is None else len(rows)
    kept = _left("indices", indices, len(keys))
    if query_indices is None and rows is None:
        return gather(keys, weights, kept, None, None, positions=positions)
    kept_rows = _left("query_indices", query_indices or (), row_count)
    return gather(keys, weights, kept, rows, kept_rows, positions=positions)


def gather(
    tokens: Sequence[Any],
    weights: Any,
    key_groups: Groups,
    queries: Sequence[Any] | None,
    query_groups: Groups | None,
    *,
    positions: Any = None,
) -> Part:
    """The map of groups, which may leave tokens out; `query_groups` None: those of the keys."""
    one_list = queries is None
    rows = tokens if queries is None else queries
    shape = (len(rows), len(tokens))
    row_groups = key_groups if query_groups is None else query_groups
    if 0 in shape:
        raise ShapeError(f"{'tokens' if not tokens else 'queries'}: an empty list; a map has some")
    numbers, missing = as_numbers(weights)
    if numbers.shape[-2:] != shape:
        raise ShapeError(
            f"weights: got shape {numbers.shape}, expected (…, {shape[0]} queries, {shape[1]} keys)"
        )
    refuse_infinite(numbers.reshape(-1, shape[-1]))
    values, empty = _merged(numbers, missing, row_groups, key_groups)
    result = np.ma.MaskedArray(values, empty) if empty.any() else values
    placed_keys, placed_rows = (
        (None, None)
        if positions is None
        else axes.accept_positions(positions, shape, one_list=one_list)
    )
    key_places, row_places = firsts(key_groups, placed_keys), firsts(row_groups, placed_rows)
    same = query_groups is None and one_list and placed_rows is placed_keys
    return Part(
        [joined([tokens[index] for index in group]) for group in key_groups],
        result,
        None
        if query_groups is None and one_list
        else [joined([rows[index] for index in group]) for group in row_groups],
        key_places if same else (key_places, row_places),
    )


def firsts(groups: Groups, positions: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Where the first piece of each group stands."""
    indices = np.array([group[0] for group in groups], dtype=np.int64)
    return indices if positions is None else positions[indices]


def any_of(cells: BoolGrid, row_groups: Groups, key_groups: Groups) -> BoolGrid:
    """(queries, keys) of groups, True where any cell of the group is."""
    found: BoolGrid = _each(
        np.logical_or, _each(np.logical_or, cells, key_groups, -1), row_groups, -2
    )
    return found


def _merged(
    numbers: NDArray[Any], missing: BoolGrid, row_groups: Groups, key_groups: Groups
) -> tuple[NDArray[np.float32], BoolGrid]:
    """Sums over keys, means over queries; and the cells without a weight in which none was given.

    A row has weights or it has none: within one that has some, a key without is as good as 0, or
    the average of a row that ends early with a longer one would sum to more than 1.
    """
    there = ~np.isnan(numbers)
    known = np.where(there, numbers, 0).astype(np.float64)
    sums = _each(np.add, _each(np.add, known, key_groups, -1), row_groups, -2)
    kept = np.zeros(numbers.shape[-1], dtype=bool)
    kept[[index for group in key_groups for index in group]] = True
    has_weights = there[..., kept].any(axis=-1, keepdims=True)
    rows = _each(np.add, has_weights.astype(np.int64), row_groups, -2)
    some = any_of(there, row_groups, key_groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(some, sums / rows, np.nan).astype(np.float32)
    return values, ~some & any_of(missing, row_groups, key_groups)


def _each(add: np.ufunc, cells: NDArray[Any], groups: Groups, axis: int) -> NDArray[Any]:
    """`add` within each group along `axis`."""
    if len(groups) == cells.shape[axis] and all(g == [i] for i, g in enumerate(groups)):
        return cells
    order = [index for group in groups for index in group]
    starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    found: NDArray[Any] = add.reduceat(np.take(cells, order, axis=axis), starts, axis=axis)
    return found


def every_index(name: str, given: Iterable[Iterable[int]] | None, count: int) -> Groups:
    """Groups in which each index below `count` is once; None: each index its own."""
    if given is None:
        return [[index] for index in range(count)]
    try:
        groups = [[existing(name, index, count) for index in group] for group in map(list, given)]
    except TypeError as failure:
        if name in str(failure):
            raise
        raise TypeError(
            f"{name}: got {given!r}, expected lists of indices, such as [[0], [1, 2]]"
        ) from None
    seen: set[int] = set()
    for number, group in enumerate(groups):
        if not group:
            raise ValueError(f"{name}: group {number} is empty")
        for index in group:
            if index in seen:
                raise ValueError(f"{name}: index {index} is in more than one place")
            seen.add(index)
    for index in range(count):
        if index not in seen:
            raise ValueError(
                f"{name}: index {index} is in no group; give it one of its own, or leave it out "
                "with drop(…)"
            )
    return groups


def _left(name: str, given: Iterable[int], count: int) -> Groups:
    if not hasattr(given, "__iter__"):
        raise TypeError(f"{name}: got {given!r}, expected a list of indices")
    gone = {existing(name, index, count) for index in given}
    if len(gone) == count:
        raise ValueError(f"{name}: all {count} are left out; a map needs at least one")
    return [[index] for index in range(count) if index not in gone]


def existing(name: str, given: Any, count: int) -> int:
    """An index below `count`; ValueError or TypeError otherwise."""
    try:
        index = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}: got {given!r}, expected indices of tokens") from None
    if isinstance(given, bool) or not 0 <= index < count:
        raise ValueError(f"{name}: index {given!r} does not exist; there are 0 to {count - 1}")
    return index
