"""Labels where keys are patches of a picture, or of one window of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..grid.weights import shape_of
from ..images.patches import Patches
from ..images.windows import Windows
from . import captions
from .combined import offer
from .sources import Choice, Extraction, Source

_OF_WORDS = ("text", "language")
"""Towers beside one for pictures, by the beginning of their kind."""


def labels(
    source: Source,
    choice: Choice,
    seen: Extraction,
    tokens: Any,
    queries: Any,
    *,
    patches: Patches | None,
    of_choice: bool = False,
) -> tuple[Sequence[Any], Sequence[Any] | None, str]:
    """As `captions.labels`, with the patches' own names.

    ShapeError with the sum written out if the count of keys is not that of the patches.
    """
    shape = shape_of(seen.weights)
    if len(shape) == 2:
        windows = offer(source, choice.layer, choice.kind).windows
        if windows is not None and patches is not None:
            raise ShapeError(
                f"patches: this layer attends inside windows of {windows.size} × {windows.size}, "
                "which name their patches themselves: leave patches out"
            )
        if windows is not None and tokens is None:
            return windows.labels(choice.batch % windows.count), None, _of_shift(windows)
        if patches is not None and not (choice.kind or "").startswith(_OF_WORDS):
            rows, keys = shape
            own = None if patches.start is None else captions.of_item(tokens, choice.batch)
            tokens = patches.label(own, keys)
            if queries is None and rows != keys:
                queries = range(rows)
    return captions.labels(source, choice, seen, tokens, queries, of_choice=of_choice)


def _of_shift(windows: Windows) -> str:
    if windows.shift == 0:
        return ""
    return (
        f"shifted windows: the grid is rolled by {windows.shift}; labels are true positions, and "
        "patches from opposite edges of the picture cannot look at each other"
    )
