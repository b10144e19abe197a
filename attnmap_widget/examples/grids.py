"""What needs no model: a grid written by hand, and two sentences."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, overload

import numpy as np


class Grid(NamedTuple):
    """Tokens and weights, in the order that `AttentionMap(*grid)` takes them."""

    tokens: list[str]
    weights: list[list[float]]
    """(queries, keys), row by row; each row sums to 1."""


def grid() -> Grid:
    """Three words and the weights between them, made up: who looks at whom, and how much.

    It is causal, as in a model that writes from left to right: no word looks ahead.
    """
    return Grid(
        tokens=["the", "cat", "sat"],
        weights=[
            [1.0, 0.0, 0.0],
            [0.3, 0.7, 0.0],
            [0.1, 0.6, 0.3],
        ],
    )


@overload
def pronoun(last: None = None) -> tuple[str, str]: ...
@overload
def pronoun(last: str) -> Grid: ...
def pronoun(last: str | None = None) -> tuple[str, str] | Grid:
    """Two sentences that differ in the last word, and with it in what "it" stands for.

    With `last` "big" or "small", what a trained BERT makes of that sentence: layer 3, head 1 of
    all-MiniLM-L6-v2, in which "it" looks at the trophy and the suitcase. Both have 16 tokens:
    `compare(examples.pronoun("big"), examples.pronoun("small"))`. ValueError for another word.
    """
    if last is None:
        return (
            "The trophy didn't fit in the suitcase because it was too big",
            "The trophy didn't fit in the suitcase because it was too small",
        )
    if last not in ("big", "small"):
        raise ValueError(f"pronoun: got {last!r}, the sentences end in 'big' and 'small'")
    words = "[CLS] the trophy didn ' t fit in the suitcase because it was too"
    with np.load(Path(__file__).with_name("pronoun.npz")) as arrays:
        weights: list[list[float]] = arrays[last].tolist()
    return Grid([*words.split(), last, "[SEP]"], weights)
