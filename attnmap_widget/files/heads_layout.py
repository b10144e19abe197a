"""Where each head is in a picture of all: layers down and heads across, or in falling order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH = 760
"""Pixels that a picture is wide at most, where its heads let it."""
_SMALLEST, _LARGEST = 14, 56
"""Pixels of a head's longer side in the picture."""
_FLOWING = 48
"""The same where each has words of its own."""
_GAP = 3
BAR = 4
"""Pixels of a bar; one more is between it and its head."""


@dataclass(frozen=True)
class HeadsLayout:
    """Pixels in the picture; the words are drawn beside and below its heads."""

    places: list[tuple[int, int]]
    """Left and top of each head, by index."""
    box: tuple[int, int]
    """Width and height of a head."""
    size: tuple[int, int]
    """Width and height of all of it."""
    table: bool
    """Whether a line is a layer; else heads flow, each with words of its own."""
    pitch: tuple[int, int]
    """From one head to the next, across and down."""


def by_layers(
    counts: Sequence[int], cells: tuple[int, int], *, bar: bool, room: float
) -> HeadsLayout:
    """Layers of so many heads each; `cells`: rows and columns of the largest head."""
    across = max(counts)
    side = int(np.clip(room / across - _GAP, _SMALLEST, _LARGEST))
    box = _box(side, cells)
    pitch = side + _GAP, box[1] + _GAP + (BAR + 1 if bar else 0)
    inset = (side - box[0]) // 2
    places = [
        (head * pitch[0] + inset, line * pitch[1])
        for line, count in enumerate(counts)
        for head in range(count)
    ]
    return HeadsLayout(places, box, (across * pitch[0], len(counts) * pitch[1]), True, pitch)


def in_order(
    order: Sequence[int], cells: tuple[int, int], *, bar: bool, label: float, words: float
) -> HeadsLayout:
    """Heads one after the other; `label` and `words`: how wide and high the words of each are."""
    box = _box(_FLOWING, cells)
    pitch = (
        max(box[0], int(label) + 1) + 2 * _GAP,
        box[1] + int(words) + 1 + 2 * _GAP + (BAR + 1 if bar else 0),
    )
    across = max(1, min(len(order), WIDTH // pitch[0]))
    inset = (pitch[0] - box[0]) // 2
    places = [(0, 0)] * len(order)
    for at, head in enumerate(order):
        places[head] = at % across * pitch[0] + inset, at // across * pitch[1]
    size = across * pitch[0], -(-len(order) // across) * pitch[1]
    return HeadsLayout(places, box, size, False, pitch)


def _box(side: int, cells: tuple[int, int]) -> tuple[int, int]:
    height, width = (max(4, side * n // max(*cells, 1)) for n in cells)
    return width, height
