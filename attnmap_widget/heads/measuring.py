"""What one head does, in a dozen numbers: read band after band of rows, so that none is too long.

Knows numpy only. A *cell* is one weight, from a query (row) to a key (column). A cell counts where
there is a weight (no NaN), the mask allows the look, and neither query nor key is padding. A row
counts where one of its cells does. Each column of the summary is a mean over rows; in those about
certain keys (the previous token, say) a row is in the mean if it has such a key to look at, and
the row's number is the weights of these cells added up, as they are: rows that do not sum to 1 are
not made to.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError
from ..grid.arrays import is_mapped
from ..grid.weights import BoolGrid, accept_bool, as_numbers, refuse_infinite
from ..passes import Progress
from .places import Places


class Column(NamedTuple):
    """One number that is taken of each head."""

    title: str
    definition: str
    """One sentence, with its source."""
    unit: str
    range: tuple[float, float]
    """What it can be, of rows that sum to 1; `inf` where it depends on the length."""


_SHARE = ("share of a row", (0.0, 1.0))

COLUMNS: dict[str, Column] = {
    "entropy": Column(
        "Entropy",
        "Shannon's −Σ p·log₂ p over a row's keys, p = w/Σw, the mean over rows.",
        "bits",
        (0.0, math.inf),
    ),
    "effective_keys": Column(
        "Effective keys",
        "2^entropy of a row, the mean over rows: how many keys it is spread over, if evenly.",
        "keys",
        (1.0, math.inf),
    ),
    "largest": Column(
        "Largest weight", "The largest weight of a row, the mean over rows.", *_SHARE
    ),
    "leaning": Column(
        "Rows that lean",
        "The share of rows that lean on one key: their largest weight is 0.5 or more.",
        "share of the rows",
        (0.0, 1.0),
    ),
    "distance": Column(
        "Distance",
        "Σ w·|position of the query − position of the key| / Σ w of a row, the mean over rows.",
        "positions",
        (0.0, math.inf),
    ),
    "diagonal": Column(
        "Own position", "Weight on the query's own position, the mean over rows.", *_SHARE
    ),
    "previous": Column(
        "Previous token",
        "Weight on the position just before, the mean over rows that have one "
        "(previous-token head: Elhage et al. 2021).",
        *_SHARE,
    ),
    "first": Column(
        "First token",
        "Weight on the first token that is not padding, the mean over rows (attention sink: "
        "Xiao et al. 2023).",
        *_SHARE,
    ),
    "delimiters": Column(
        "Delimiters",
        "Weight on special tokens, full stops and commas, the mean over rows that may look at one "
        "(Clark et al. 2019).",
        *_SHARE,
    ),
    "padding": Column(
        "Padding", "Weight on padding, the mean over rows that are not padding themselves.", *_SHARE
    ),
    "induction": Column(
        "Induction",
        "Weight on what followed the query's token where it stood before, the mean over rows whose "
        "token did (Olsson et al. 2022).",
        *_SHARE,
    ),
    "duplicate": Column(
        "Duplicate token",
        "Weight on the query's token where it stood before, the mean over rows whose token did "
        "(Wang et al. 2022).",
        *_SHARE,
    ),
}
"""What a summary tells of each head, by name; `measure` has the details."""


_BAND_CELLS = 1 << 20
"""Cells that are looked at together: some 8 MB for each of a few intermediate results."""
_LEANS = 0.5
_NO_ZERO = 1e-300
"""Keeps 0·log 0 at 0 and changes no other logarithm."""


def measure(
    weights: Any,
    tokens: Sequence[Any] | None = None,
    *,
    mask: Any = None,
    padding: Any = None,
    delimiters: Collection[Any] | None = None,
    query_offset: int | None = None,
    key_offset: int = 0,
    cross: bool = False,
    progress: Progress = lambda _: None,
) -> dict[str, float]:
    """The numbers of one head, by the names of `COLUMNS`.

    Parameters
    ----------
    weights:
        (queries, keys), anything a map accepts as an array; NaN where there is no weight. A large
        one in a file is read a band of rows at a time.
    tokens:
        (keys,) strings, ids or bytes; without them there are no delimiters and no repeats.
    mask:
        bool (queries, keys), True = this query may look at this key. Forbidden cells do not count,
        whatever weight they have. Or a function that gives these rows of it for a slice of rows.
    padding:
        bool (keys,), True = padding: those keys do not count, nor do the queries at their
        positions; a tuple (keys, queries) says both.
    delimiters:
        The tokens that are delimiters; `places.DELIMITERS` and everything like `<|…|>` if left out.
        A token counts with and without its word mark ("Ġ", "▁").
    query_offset, key_offset:
        Positions of row 0 and of column 0 in the sequence. If left out, a square grid begins at the
        same position on both axes; in any other, positions are not known.
    cross:
        Queries and keys are of two sequences, and no position is the same in both.

    Returns
    -------
    One float a column, the mean over the rows that have such a number, NaN where none does:

    - entropy, effective keys: p = w/Σw over the cells of the row that count; a row whose sum is not
      above 0, or that has a weight below 0, has none. It is the mean of 2^entropy, not 2^mean.
    - largest, leaning: weights as they are, not divided by their sum.
    - distance: of p too. Like diagonal, previous, induction and duplicate it needs positions: NaN
      where they are not known, and for cross attention.
    - diagonal, previous, first, delimiters, duplicate, induction: the sum of w over the cells in
      question, over rows with at least one such cell. The duplicates of a query are the keys of the
      same token before it; induction keys are those just after a duplicate, and before the query
      (in "a a", looking at oneself is no induction). `first` is NaN if the keys begin later.
    - padding: rows are as in all others; their weight on padding keys, masked or not.

    Raises
    ------
    ShapeError
        weights that are no grid; tokens, mask or padding of another length.
    ValueError
        infinite weights.
    """
    values = weights if is_mapped(weights) else as_numbers(weights)[0]
    if values.ndim != 2:
        raise ShapeError(f"weights: got shape {values.shape}, expected one grid (queries, keys)")
    look = mask if callable(mask) else None
    allowed = None if mask is None or look else accept_bool("mask", mask, values.shape)
    places = Places.of(
        (values.shape[0], values.shape[1]),
        tokens,
        padding=padding,
        delimiters=delimiters,
        query_offset=query_offset,
        key_offset=key_offset,
        cross=cross,
    )
    head = Measuring(places)
    for rows in bands(places.shape):
        part = look(rows) if look else None if allowed is None else allowed[rows]
        head.add(rows, np.asarray(values[rows]), part)
        progress(rows.stop / places.shape[0])
    return head.result()


def bands(shape: tuple[int, int]) -> Iterator[slice]:
    """Slices of rows that are looked at together, in order."""
    count = max(1, _BAND_CELLS // max(1, shape[1]))
    for start in range(0, shape[0], count):
        yield slice(start, min(shape[0], start + count))


class Measuring:
    """One head, band after band: what its rows add up to."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._sums = dict.fromkeys(COLUMNS, 0.0)
        self._rows = dict.fromkeys(COLUMNS, 0)

    def result(self) -> dict[str, float]:
        """The mean over all rows so far, by column."""
        return {
            name: self._sums[name] / rows if rows else math.nan for name, rows in self._rows.items()
        }

    def add(self, rows: slice, weights: NDArray[Any], allowed: BoolGrid | None) -> None:
        """Take in these rows: (rows, keys) weights, and where the mask lets them look."""
        refuse_infinite(weights, rows.start)
        places = self._places
        there = ~np.isnan(weights)
        there &= places.real_queries[rows, None]
        counts = there & places.real_keys
        if allowed is not None:
            counts &= allowed
        some = counts.any(1)
        values = np.where(counts, weights, 0.0).astype(np.float64)

        largest = np.where(counts, weights, -np.inf).max(1, initial=-np.inf)[some]
        self._add("largest", largest)
        self._add("leaning", largest >= _LEANS)
        self._add_spread(rows, values)
        if len(places.padding_keys):
            cells = there[:, places.padding_keys]
            on_padding = np.where(cells, weights[:, places.padding_keys], 0.0)
            self._add("padding", on_padding.sum(1, dtype=np.float64)[some & cells.any(1)])
        for name, keys in (("first", places.first_key), ("delimiters", places.delimiter_keys)):
            self._add(name, values[:, keys].sum(1)[counts[:, keys].any(1)])
        if places.shift is not None:
            for name, back in (("diagonal", 0), ("previous", 1)):
                self._add_cells(name, places.keys_before(rows, back), values, counts)
            earlier = places.earlier(rows)
            self._add_cells("duplicate", earlier, values, counts)
            self._add_cells("induction", places.followers(rows, earlier), values, counts)

    def _add(self, name: str, of_rows: NDArray[Any]) -> None:
        self._sums[name] += float(of_rows.sum(dtype=np.float64))
        self._rows[name] += len(of_rows)

    def _add_cells(
        self, name: str, cells: tuple[Any, Any], values: NDArray[np.float64], counts: BoolGrid
    ) -> None:
        """The sum of each row's cells, given as (rows, keys), where one of them counts."""
        counted = np.bincount(cells[0], counts[cells], len(values)) > 0
        self._add(name, np.bincount(cells[0], values[cells], len(values))[counted])

    def _add_spread(self, rows: slice, values: NDArray[np.float64]) -> None:
        """Entropy and distance, over the rows that are distributions once divided by their sum."""
        sums = values.sum(1)
        proper = (sums > 0) & (values >= 0).all(1)
        used = np.flatnonzero(values.any(0))  # of a causal head half, of a sliding one a few
        if not proper.any():
            return
        keys = slice(used[0], used[-1] + 1)
        values, sums = values[proper, keys], sums[proper]
        logs = np.log2(values + _NO_ZERO)
        entropy = np.log2(sums) - np.einsum("ij,ij->i", values, logs) / sums
        entropy = np.maximum(entropy, 0.0)  # rounding may leave a one-hot row just below
        self._add("entropy", entropy)
        self._add("effective_keys", np.exp2(entropy))
        if self._places.shift is not None:
            distances = self._places.distances(rows, keys)[proper]
            self._add("distance", np.einsum("ij,ij->i", values, distances) / sums)
