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
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import ShapeError
from .weights import BoolGrid, FloatGrid, accept_bool, as_numbers, refuse_infinite


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
        "2^entropy of a row (its perplexity), the mean over rows: over how many keys it is spread.",
        "keys",
        (1.0, math.inf),
    ),
    "largest": Column("Largest weight", "The largest weight of a row, the mean over rows.", *_SHARE),
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
    "diagonal": Column("Own position", "Weight on the query's own position.", *_SHARE),
    "previous": Column(
        "Previous token",
        "Weight on the position just before (previous-token head: Elhage et al. 2021).",
        *_SHARE,
    ),
    "first": Column(
        "First token",
        "Weight on the first token that is not padding (attention sink: Xiao et al. 2023).",
        *_SHARE,
    ),
    "delimiters": Column(
        "Delimiters",
        "Weight on special tokens, full stops and commas (Clark et al. 2019).",
        *_SHARE,
    ),
    "padding": Column("Padding", "Weight that rows which are not padding give to padding.", *_SHARE),
    "induction": Column(
        "Induction",
        "Weight on what followed the earlier occurrences of the query's token (Olsson et al. 2022).",
        *_SHARE,
    ),
    "duplicate": Column(
        "Duplicate token",
        "Weight on the earlier occurrences of the query's token (Wang et al. 2022).",
        *_SHARE,
    ),
}
"""What a summary tells of each head, by name; `measure` has the details."""


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
) -> dict[str, float]:
    """Not there yet."""
    return dict.fromkeys(COLUMNS, math.nan)
