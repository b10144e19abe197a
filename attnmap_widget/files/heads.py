"""A picture of all heads: one embedded PNG of their thumbnails, with text around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..grid import schemes
from ..grid.schemes import Scheme
from ..heads.filling import Filling
from ..heads.measuring import COLUMNS, Column
from ..heads.sheet import Known
from . import heads_layout, heads_pixels, metrics, numbers, pixels, xml
from .figure import find_theme
from .heads_layout import HeadsLayout
from .paint import css
from .svg import FONTS

_FONT = 11.0
_MARGIN = 12.0
_LINE = 1.15
"""Of the words under a head, in em."""
TINT = "YlOrBr"


@dataclass(frozen=True)
class HeadsFigure:
    """All heads as far as they have been read, and how they are shown."""

    filling: Filling
    title: str
    scheme: Scheme
    range_: str = "shared"
    """One colour range for all, or "head": each its own."""
    sort_by: str | None = None
    tint_by: str | None = None

    def column(self, name: str) -> NDArray[np.float32]:
        """That number of each head, NaN where it has none; as the front end has it."""
        return self.filling.sheet.numbers[:, list(COLUMNS).index(name)].astype(np.float32)

    @cached_property
    def order(self) -> list[int] | None:
        """The heads as they flow, the largest first and those without last; None: by layers."""
        if self.sort_by is not None:
            return [int(at) for at in np.argsort(-self.column(self.sort_by), kind="stable")]
        # One layer is no table.
        return list(range(len(self.filling.heads))) if len(self.filling.rows) == 1 else None

    def words(self, head: int) -> list[str]:
        """What stands under a head that flows."""
        layer, number = self.filling.heads[head]
        name = f"L{layer} H{number}" if self.filling.source.named_layers else f"H{number}"
        if self.sort_by is None:
            return [name]
        return [name, _number(self.column(self.sort_by)[head])]

    @property
    def notes(self) -> list[str]:
        """What is to be known of the picture, line by line."""
        said = ["each head by its own colour range"]
        if self.range_ != "head":
            low, high = (numbers.tick(end) for end in heads_pixels.shared(self.filling.sheet))
            said = [f"one colour range for all heads: {low} to {high}"]
        shown = []
        if self.sort_by is not None:
            shown.append(f"by {COLUMNS[self.sort_by].title.lower()}, largest first")
        if self.tint_by is not None:
            values = self.column(self.tint_by)
            there = values[~np.isnan(values)]
            ends = f"{_number(there.min())} to {_number(there.max())}" if len(there) else "none"
            shown.append(f"bar: {_titled(COLUMNS[self.tint_by])}, {ends}")
        known, count = self.filling.sheet.known, len(self.filling.heads)
        left, failed = (int((known == one).sum()) for one in (Known.NOTHING, Known.ERROR))
        missing = [f"{count - left} of {count} heads read"] if left else []
        missing += [f"{numbers.count(failed, 'head')} could not be read"] if failed else []
        return [" · ".join(line) for line in (said, shown, missing) if line]


def to_svg(figure: HeadsFigure, theme: str = "light", *, enlarge: int = 1) -> str:
    """All heads in the order shown, with their bars; `enlarge`: pixels of the picture for one."""
    look = find_theme(theme)
    placed, left, top = _placed(figure)
    picture = heads_pixels.thumbnails(
        figure.filling.sheet, placed, figure.scheme, look, figure.range_
    )
    if figure.tint_by is not None:
        tint = schemes.find(TINT)
        heads_pixels.draw_bars(picture, figure.column(figure.tint_by), placed, tint, look)
    width, height = placed.size
    below = top + height + (0.6 if placed.table else 0.2) * _FONT
    notes = figure.notes
    said = [
        _text(figure.title, 0, _FONT, size=1.15 * _FONT, weight="600"),
        *(_around if placed.table else _under)(figure, placed, left, top, look.muted),
        *(
            _text(line, 0, below + (row + 1) * 1.5 * _FONT, look.muted)
            for row, line in enumerate(notes)
        ),
    ]
    if enlarge > 1:
        picture = picture.repeat(enlarge, axis=0).repeat(enlarge, axis=1)
    image = xml.tag(
        "image", x=left, y=top, width=width, height=height, style="image-rendering:pixelated",
        href=pixels.data_url("image/png", pixels.png(picture)),
    )  # fmt: skip
    wide = max(
        left + width,
        metrics.width(figure.title) * 1.15 * metrics.BOLD * _FONT,
        *(metrics.width(line) * _FONT for line in notes),
    )
    size = (
        int(wide + 2 * _MARGIN) + 1,
        int(below + (len(notes) + 0.5) * 1.5 * _FONT + 2 * _MARGIN) + 1,
    )
    page = xml.tag("rect", width=size[0], height=size[1], fill=css(look.page))
    at = f"translate({xml.number(_MARGIN)} {xml.number(_MARGIN)})"
    drawing = xml.tag("g", *said, image, transform=at, fill=look.ink)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" font-family="{xml.text(FONTS)}" '
        f'font-size="{xml.number(_FONT)}">{page}{drawing}</svg>\n'
    )


def to_img(picture: str, said: str) -> str:
    """The picture as one HTML element that holds it."""
    return xml.img(said, pixels.data_url("image/svg+xml", picture.encode("utf-8")))


def _placed(figure: HeadsFigure) -> tuple[HeadsLayout, float, float]:
    """The heads, and where the picture of them begins."""
    filling, bar = figure.filling, figure.tint_by is not None
    tallest, widest = (int(n) for n in np.maximum(filling.sheet.shapes.max(axis=0), 1))
    if figure.order is not None:
        words = [figure.words(head) for head in figure.order]
        label = max(metrics.width(line) for lines in words for line in lines) * _FONT
        high = len(words[0]) * _LINE * _FONT
        flowing = heads_layout.in_order(
            figure.order, (tallest, widest), bar=bar, label=label, words=high
        )
        return flowing, 0.0, 2.1 * _FONT
    labels = max(metrics.width(label) for label in _row_labels(filling)) * _FONT
    left = labels + 10
    counts, room = [heads for _, heads in filling.rows], heads_layout.WIDTH - left
    table = heads_layout.by_layers(counts, (tallest, widest), bar=bar, room=room)
    return table, left, 3.2 * _FONT


def _around(
    figure: HeadsFigure, placed: HeadsLayout, left: float, top: float, color: str
) -> list[str]:
    """The layers beside a table and its heads' numbers above it."""
    (width, _), across = placed.size, placed.size[0] // placed.pitch[0]
    every = max(1, -(-across * 22 // width))
    return [
        *(
            _text(label, left - 8, top + row * placed.pitch[1] + placed.box[1] / 2, color, "end")
            for row, label in enumerate(_row_labels(figure.filling))
        ),
        *(
            _text(str(head), left + (head + 0.5) * placed.pitch[0] - 1.5, top - 7, color, "middle")
            for head in range(0, across, every)
        ),
    ]


def _under(
    figure: HeadsFigure, placed: HeadsLayout, left: float, top: float, color: str
) -> list[str]:
    """The words of each head that flows."""
    (width, height), bar = placed.box, 0 if figure.tint_by is None else heads_layout.BAR + 1
    lines = [
        xml.tag(
            "text", xml.text(said),
            x=left + x + width / 2, y=top + y + height + bar + (line + 0.8) * _LINE * _FONT + 1,
        )
        for head, (x, y) in enumerate(placed.places)
        for line, said in enumerate(figure.words(head))
    ]  # fmt: skip
    return [xml.tag("g", *lines, fill=color, text_anchor="middle")]


def _row_labels(filling: Filling) -> list[str]:
    named = filling.source.named_layers
    return [f"Layer {layer}" if named else "" for layer, _ in filling.rows]


def _titled(column: Column) -> str:
    """With its unit, where the title does not say it."""
    title, unit = column.title.lower(), column.unit
    return title if unit.startswith("share") or unit in title else f"{title} ({unit})"


def _number(value: float) -> str:
    """As the front end writes it under a head."""
    if np.isnan(value):
        return "–"
    return numbers.cell(float(value)) if abs(value) < 100 else str(int(np.floor(value + 0.5)))


def _text(
    said: str,
    x: float,
    y: float,
    color: str | None = None,
    anchor: str | None = None,
    *,
    size: float | None = None,
    weight: str | None = None,
) -> str:
    return xml.tag(
        "text", xml.text(said), x=x, y=y, fill=color, text_anchor=anchor,
        dominant_baseline="middle", font_size=size, font_weight=weight,
    )  # fmt: skip
