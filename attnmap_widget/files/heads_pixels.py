"""The thumbnails of all heads and the bars under them, as pixels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..grid.schemes import Scheme
from ..grid.states import State
from ..heads.sheet import Known, Sheet
from ..heads.thumbnails import FIRST, STEPS, coarser
from .figure import Theme
from .heads_layout import BAR, HeadsLayout
from .paint import luminance, rgb
from .patterns import FLATS

Pixels = NDArray[np.uint8]

_CELLS = 150_000
"""Of all thumbnails; more make no picture that a saved notebook should carry."""


def shared(sheet: Sheet) -> tuple[float, float]:
    """The smallest and the largest weight of all heads."""
    return float(sheet.ranges[:, 0].min(initial=0.0)), float(sheet.ranges[:, 1].max(initial=0.0))


def thumbnails(
    sheet: Sheet, placed: HeadsLayout, scheme: Scheme, look: Theme, range_: str
) -> Pixels:
    """(height, width, 4) all heads in their places; colours by one range, or "head" by its own."""
    (width, height), (all_width, all_height) = placed.box, placed.size
    whole = np.zeros((all_height, all_width, 4), dtype=np.uint8)
    table = _table(scheme, look)
    factor = math.ceil(math.sqrt(sheet.levels.size / _CELLS)) or 1
    both = shared(sheet)
    for index, (left, top) in enumerate(placed.places):
        rows, columns = (int(n) for n in sheet.shapes[index])
        if sheet.known[index] in (Known.NOTHING, Known.ERROR):
            whole[top : top + height, left : left + width] = (*look.pattern, 40)
            continue
        levels = sheet.levels[index, : rows * columns].reshape(rows, columns)
        if factor > 1:
            levels = coarser(levels, factor, signed=bool(sheet.ranges[index, 0] < 0))
            rows, columns = levels.shape
        own = tuple(sheet.ranges[index]) if range_ == "head" else both
        colors = table[_palette_index(levels, sheet.ranges[index], own)]
        down, over = (_nearest(n, room) for n, room in ((rows, height), (columns, width)))
        whole[top : top + height, left : left + width] = colors[down][:, over]
    return whole


def draw_bars(
    into: Pixels, values: NDArray[np.float32], placed: HeadsLayout, scheme: Scheme, look: Theme
) -> None:
    """A bar under each head, between the smallest and the largest; a dash for NaN."""
    width, height = placed.box
    colors = _ramp(scheme, look)
    there = values[~np.isnan(values)]
    low, high = (float(there.min()), float(there.max())) if len(there) else (0.0, 0.0)
    for value, (left, top) in zip(values, placed.places, strict=True):
        down = top + height + 1
        if np.isnan(value):
            middle = left + width // 2
            into[down + BAR // 2, max(left, middle - 3) : middle + 3] = (*look.pattern, 255)
            continue
        # Where all are the same they are all full.
        share = (float(value) - low) / (high - low) if high > low else 1.0
        into[down : down + BAR, left : left + width] = (*look.pattern, 50)
        full = max(1, round(share * width))
        into[down : down + BAR, left : left + full, :3] = colors[round(share * 255)]
        into[down : down + BAR, left : left + full, 3] = 255


def _nearest(cells: int, room: int) -> NDArray[np.int64]:
    return np.arange(room) * cells // room


def _palette_index(
    levels: Pixels, own: NDArray[np.float32], shown: tuple[float, ...]
) -> NDArray[np.int64]:
    """FIRST and more: which of the 256 colours; below, which state."""
    low, high = float(own[0]), float(own[1])
    weights = low + (levels.astype(np.float64) - FIRST) / STEPS * (high - low)
    span = float(shown[1]) - float(shown[0]) or 1.0
    shares = np.clip((weights - float(shown[0])) / span, 0.0, 1.0)
    return np.where(levels < FIRST, levels, FIRST + np.rint(shares * 255)).astype(np.int64)


def _ramp(scheme: Scheme, look: Theme) -> Pixels:
    """(256, 3) with zero at the page's end."""
    ramp: Pixels = scheme.ramp
    darker = luminance(rgb(ramp[0])) > luminance(rgb(ramp[255]))
    return ramp[::-1] if look.dark and darker and not scheme.diverging else ramp


def _table(scheme: Scheme, look: Theme) -> Pixels:
    """(FIRST + 256, 4) the colours of states, then of weights."""
    table = np.zeros((FIRST + 256, 4), dtype=np.uint8)
    table[:, 3] = 255
    table[State.EMPTY] = 0
    for state, greys in FLATS.items():
        table[state, :3] = greys[look.dark]
    table[FIRST:, :3] = _ramp(scheme, look)
    return table
