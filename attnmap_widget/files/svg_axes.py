"""Labels and titles of both axes, as SVG text."""

from __future__ import annotations

from . import metrics, numbers, xml
from .figure import Theme
from .layout import Axis, Layout
from .scene import Scene

_TITLE_ROOM = 7.0
"""In em: what a title may take beside a map of few rows."""


def label(given: str, **attributes: str | float | None) -> str:
    """One line of text whose direction is its own, whatever it stands in."""
    pre = "  " in given or None
    drawn = xml.tag(
        "text",
        xml.text(given),
        **attributes,
        unicode_bidi=None if given.isascii() else "plaintext",
        style=pre and "white-space:pre",
    )
    return drawn.replace("<text", '<text xml:space="preserve"', 1) if pre else drawn


def height(layout: Layout) -> float:
    """From the top of the plot to the lower edge of the keys' title."""
    return layout.plot.height + 6 + layout.columns.height + 4 + layout.font * 1.5


def draw(scene: Scene) -> tuple[str, str]:
    """Titles and labels of the rows, and of the columns; seen from the plot's top left margin."""
    figure, layout, theme = scene.figure, scene.layout, scene.theme
    cell = figure.checked.options.selection if figure.pinned else None
    font, plot = layout.font, layout.plot
    middle = plot.height / 2
    named = figure.checked.axes
    query = _title(named.query_title, plot.height, layout.rows.stride, font)
    key = _title(named.key_title, plot.width, layout.columns.stride, font)
    key_top = plot.height + 6 + layout.columns.height + 4
    rows = [
        _wrap(query, f"translate({xml.number(font * 0.9)} {xml.number(middle)}) rotate(-90)"),
        *_row_labels(layout, theme, None if cell is None else cell[0], figure.generated[1]),
    ]
    x = layout.left + plot.width / 2
    columns = [
        *_column_labels(layout, theme, None if cell is None else cell[1], figure.generated[0]),
        _wrap(key, f"translate({xml.number(x)} {xml.number(key_top + font)})"),
    ]
    return xml.lines(rows), xml.lines(columns)


def _wrap(inner: str, transform: str) -> str:
    return xml.tag("text", inner, transform=transform, text_anchor="middle")


def _title(given: str, side: float, stride: int, font: float) -> str:
    title = xml.text(metrics.elide(given, max(_TITLE_ROOM, side / font)))
    if stride == 1:
        return title
    return f"{title} " + xml.tag("tspan", numbers.every_nth(stride), font_size=font * 0.85)


def _shown(axis: Axis, bold: int | None) -> list[int]:
    """The labels of an axis, with the bold one, without those that it would touch."""
    regular = axis.labelled()
    if bold is None:
        return list(regular)
    apart = axis.spacing

    def clear(index: int) -> bool:
        return index == bold or abs(axis.centre(index) - axis.centre(bold)) >= apart

    return sorted({index for index in regular if clear(index)} | {bold})


def _row_labels(layout: Layout, theme: Theme, bold: int | None, generated: int | None) -> list[str]:
    axis = layout.rows
    group = []
    for index in _shown(axis, bold):
        room = axis.room / axis.font / (metrics.BOLD if index == bold else 1)
        group.append(
            label(
                metrics.elide(layout.queries[index], room),
                x=layout.left - 8,
                y=axis.centre(index) + axis.font * 0.36,
                **_emphasis(index == bold, theme),
                font_style=_slope(index, generated),
            )
        )
    return [xml.tag("g", xml.lines(group), text_anchor="end", font_size=axis.font)]


def _column_labels(
    layout: Layout, theme: Theme, bold: int | None, generated: int | None
) -> list[str]:
    axis = layout.columns
    top = layout.plot.height + 6
    group = []
    for index in _shown(axis, bold):
        own = metrics.elide(
            layout.keys[index],
            layout.column_room(index) / axis.font / (metrics.BOLD if index == bold else 1),
        )
        x = layout.left + axis.centre(index)
        if axis.slanted:
            turned = f"translate({xml.number(x)} {xml.number(top)}) rotate(-40)"
            where: dict[str, str | float | None] = {"transform": turned, "y": axis.font * 0.9}
        else:
            where = {"x": x, "y": top + axis.font * 0.9}
        look = {**_emphasis(index == bold, theme), "font_style": _slope(index, generated)}
        group.append(label(own, **where, **look))
    anchor = "end" if axis.slanted else "middle"
    return [xml.tag("g", xml.lines(group), text_anchor=anchor, font_size=axis.font)]


def _slope(index: int, generated: int | None) -> str | None:
    """Generated tokens are in italics."""
    return "italic" if generated is not None and index >= generated else None


def _emphasis(bold: bool, theme: Theme) -> dict[str, str | float | None]:
    return {"font_weight": "bold", "fill": theme.ink} if bold else {}
