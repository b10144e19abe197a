"""A map as a text grid with two decimals."""

from __future__ import annotations

from ..grid import reading
from .figure import Figure


def to_text(figure: Figure) -> str:
    """Caption and size, then the labelled grid, a query a line."""
    checked = figure.checked
    grid = reading.text_grid(figure.queries, figure.keys, checked.values, checked.states)
    return f"{figure.summary}\n{grid}\n"
