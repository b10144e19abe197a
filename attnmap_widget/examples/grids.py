"""What needs no model: a grid written by hand, and two sentences."""

from __future__ import annotations

from typing import NamedTuple


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


def pronoun() -> tuple[str, str]:
    """Two sentences that differ in the last word, and with it in what "it" stands for."""
    return (
        "The trophy didn't fit in the suitcase because it was too big",
        "The trophy didn't fit in the suitcase because it was too small",
    )
