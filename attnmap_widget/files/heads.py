"""A picture of all heads: one embedded PNG of their thumbnails, with text around it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..grid.schemes import Scheme
from ..grid.states import State
from ..heads.filling import Filling
from ..heads.sheet import Known, Sheet
from ..heads.thumbnails import FIRST, STEPS, coarser
from . import metrics, numbers, pixels, xml
from .figure import Theme, find_theme
from .paint import css, luminance, rgb
from .patterns import FLATS
from .svg import FONTS

_FONT = 11.0
_MARGIN = 12.0
_SMALLEST, _LARGEST = 14, 56
"""Pixels of a head's longer side in the picture."""
_WIDTH = 760
_GAP = 3
_CELLS = 150_000
"""Of all thumbnails; more make no picture that a saved notebook should carry."""


def to_svg(filling: Filling, title: str, scheme: Scheme, range_: str, theme: str) -> str:
    """The heads in layer order; colours by one range for all, or "head" by each head's own."""
    look = find_theme(theme)
    across = max(heads for _, heads in filling.rows)
    labels = _row_labels(filling)
    left = max(metrics.width(label) for label in labels) * _FONT + 10 if labels else 0.0
    box = int(np.clip((_WIDTH - left) / across - _GAP, _SMALLEST, _LARGEST))
    picture = _picture(filling, scheme, look, range_, box)
    height, width, _ = picture.shape
    top = 2.4 * _FONT
    said = [
        _text(title, 0, _FONT, look.ink, size=1.15 * _FONT, weight="600"),
        *(
            _text(label, left - 8, top + (row + 0.5) * (height / len(labels)), look.muted, "end")
            for row, label in enumerate(labels)
        ),
        *(
            _text(str(head), left + (head + 0.5) * (box + _GAP), top - 7, look.muted, "middle")
            for head in range(0, across, max(1, -(-across * 22 // width)))
        ),
        _text(_ranges(filling.sheet, range_), 0, top + height + 1.6 * _FONT, look.muted),
    ]
    image = xml.tag(
        "image", x=left, y=top, width=width, height=height, style="image-rendering:pixelated",
        href=pixels.data_url("image/png", pixels.png(picture)),
    )  # fmt: skip
    size = (int(left + width + 2 * _MARGIN) + 1, int(top + height + 3 * _FONT + 2 * _MARGIN))
    page = xml.tag("rect", width=size[0], height=size[1], fill=css(look.page))
    at = f"translate({xml.number(_MARGIN)} {xml.number(_MARGIN)})"
    drawing = xml.tag("g", *said, image, transform=at)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'font-family="{xml.text(FONTS)}" font-size="{xml.number(_FONT)}">{page}{drawing}</svg>\n'
    )


def to_img(picture: str, said: str) -> str:
    """The picture as one HTML element that holds it."""
    return xml.img(said, pixels.data_url("image/svg+xml", picture.encode("utf-8")))


def _row_labels(filling: Filling) -> list[str]:
    named = filling.source.named_layers
    return [f"Layer {layer}" if named else "" for layer, _ in filling.rows]


def _ranges(sheet: Sheet, range_: str) -> str:
    if range_ == "head":
        return "each head by its own colour range"
    low, high = (numbers.tick(float(end)) for end in _shared(sheet))
    return f"one colour range for all heads: {low} to {high}"


def _text(
    said: str,
    x: float,
    y: float,
    color: str,
    anchor: str | None = None,
    *,
    size: float | None = None,
    weight: str | None = None,
) -> str:
    return xml.tag(
        "text", xml.text(said), x=x, y=y, fill=color, text_anchor=anchor,
        dominant_baseline="middle", font_size=size, font_weight=weight,
    )  # fmt: skip


def _shared(sheet: Sheet) -> tuple[float, float]:
    return float(sheet.ranges[:, 0].min(initial=0.0)), float(sheet.ranges[:, 1].max(initial=0.0))


def _picture(
    filling: Filling, scheme: Scheme, look: Theme, range_: str, box: int
) -> NDArray[np.uint8]:
    """(height, width, 4) all thumbnails, each in a box of its own."""
    sheet = filling.sheet
    tallest, widest = (int(n) for n in np.maximum(sheet.shapes.max(axis=0), 1))
    longest = max(tallest, widest)
    height, width = (max(4, box * n // longest) for n in (tallest, widest))
    pitch = box + _GAP
    across = max(heads for _, heads in filling.rows)
    whole = np.zeros((len(filling.rows) * (height + _GAP), across * pitch, 4), dtype=np.uint8)
    table = _table(scheme, look)
    factor = math.ceil(math.sqrt(sheet.levels.size / _CELLS)) or 1
    low, high = _shared(sheet)
    lines = [(row, head) for row, (_, heads) in enumerate(filling.rows) for head in range(heads)]
    for index, (row, head) in enumerate(lines):
        top, left = row * (height + _GAP), head * pitch + (pitch - _GAP - width) // 2
        rows, columns = (int(n) for n in sheet.shapes[index])
        if sheet.known[index] in (Known.NOTHING, Known.ERROR):
            whole[top : top + height, left : left + width] = (*look.pattern, 40)
            continue
        levels = sheet.levels[index, : rows * columns].reshape(rows, columns)
        if factor > 1:
            levels = coarser(levels, factor, signed=bool(sheet.ranges[index, 0] < 0))
            rows, columns = levels.shape
        own = (low, high) if range_ == "shared" else tuple(sheet.ranges[index])
        colors = table[_palette_index(levels, sheet.ranges[index], own)]
        down, over = (_nearest(n, room) for n, room in ((rows, height), (columns, width)))
        whole[top : top + height, left : left + width] = colors[down][:, over]
    return whole


def _nearest(cells: int, room: int) -> NDArray[np.int64]:
    return np.arange(room) * cells // room


def _palette_index(
    levels: NDArray[np.uint8], own: NDArray[np.float32], shown: tuple[float, ...]
) -> NDArray[np.int64]:
    """FIRST and more: which of the 256 colours; below, which state."""
    low, high = float(own[0]), float(own[1])
    weights = low + (levels.astype(np.float64) - FIRST) / STEPS * (high - low)
    span = float(shown[1]) - float(shown[0]) or 1.0
    shares = np.clip((weights - float(shown[0])) / span, 0.0, 1.0)
    return np.where(levels < FIRST, levels, FIRST + np.rint(shares * 255)).astype(np.int64)


def _table(scheme: Scheme, look: Theme) -> NDArray[np.uint8]:
    """(FIRST + 256, 4) the colours of states, then of weights."""
    ramp = scheme.ramp
    darker = luminance(rgb(ramp[0])) > luminance(rgb(ramp[255]))
    if look.dark and darker and not scheme.diverging:
        ramp = ramp[::-1]
    table = np.zeros((FIRST + 256, 4), dtype=np.uint8)
    table[:, 3] = 255
    table[State.EMPTY] = 0
    for state, greys in FLATS.items():
        table[state, :3] = greys[look.dark]
    table[FIRST:, :3] = ramp
    return table
