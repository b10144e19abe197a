"""A map as SVG: vectors and real text, drawn in Python, the same bytes twice.

The parts are drawn as strings of elements: head, cells, axes, emphasis, legend, caption.
"""

from __future__ import annotations

import math
from dataclasses import replace

from . import metrics, svg_axes, svg_cells, svg_legend, words, xml
from .figure import Figure, Theme, find_theme
from .layout import Layout, lay_out
from .paint import css
from .scene import Scene

FONTS = "'Helvetica Neue', Helvetica, Arial, 'Noto Sans', sans-serif"
_MARGIN = 12.0
_GAP = 24.0
"""Between the map and the legend beside it."""
_LINE = 1.4
_NARROWEST = 26.0
"""In em: a small map's title and caption need room too."""


def to_svg(
    figure: Figure,
    theme: str = "light",
    *,
    vector_cells: int = svg_cells.VECTOR_CELLS,
    enlarge: int = 1,
    isolate: bool = False,
) -> str:
    """The figure as a standalone SVG document.

    Parameters
    ----------
    theme:
        "light" or "dark"; ValueError for another.
    vector_cells:
        Up to so many cells are rectangles; more are one embedded PNG with a pixel per cell.
    enlarge:
        Pixels per cell of that PNG, for readers that would smooth it.
    isolate:
        Also mark the direction of tokens inside sentences with characters, for renderers that do
        not know `unicode-bidi`.
    """
    layout = lay_out(figure.tile, figure.spacing)
    layout = replace(layout, queries=figure.queries, keys=figure.keys)
    scene = Scene(figure, layout, find_theme(theme), vector_cells, enlarge, isolate)
    font = layout.font
    legend = svg_legend.draw(scene)
    body = _body_size(layout, legend)
    # Beside the map only as wide as it needs to be, but never too narrow for a sentence.
    right = max(body[0], layout.left + _NARROWEST * font)
    head, head_height = _head(scene, right)
    parts = [
        xml.tag("g", head, transform=_at(0, font)),
        xml.tag("g", _map(scene), transform=_at(0, head_height)),
        xml.tag("g", legend.drawing, transform=_at(legend.left, head_height + legend.top)),
    ]
    below = head_height + body[1]
    caption, caption_height = _caption(scene, right)
    if caption:
        parts.append(xml.tag("g", caption, transform=_at(layout.left, below)))
    width = math.ceil(right + 2 * _MARGIN)
    height = math.ceil(below + caption_height + 2 * _MARGIN)
    page = xml.tag("rect", width=width, height=height, fill=css(scene.theme.page))
    drawing = xml.tag("g", "\n", xml.lines(parts), "\n", transform=_at(_MARGIN, _MARGIN))
    summary = xml.text(figure.summary)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{summary}" '
        f'font-family="{xml.text(FONTS)}" font-size="{xml.number(font)}" '
        f'fill="{scene.theme.muted}">\n<title>{summary}</title>\n'
        f"{page}\n{legend.definitions}\n{drawing}\n</svg>\n"
    )


def _at(x: float, y: float) -> str:
    return f"translate({xml.number(x)} {xml.number(y)})"


def _body_size(layout: Layout, legend: svg_legend.Legend) -> tuple[float, float]:
    """Width and height of map and legend together; places the legend."""
    width = layout.left + layout.plot.width
    height = svg_axes.height(layout)
    if layout.below:
        legend.left, legend.top = layout.left, height + layout.font * 0.6
        return max(width, layout.left + legend.width), legend.top + legend.height
    legend.left, legend.top = width + _GAP, 0.0
    return legend.left + legend.width, max(height, legend.height)


def _head(scene: Scene, right: float) -> tuple[str, float]:
    """Title in bold and the size beside it, on the next line where there is no room."""
    figure, layout, theme = scene.figure, scene.layout, scene.theme
    font = layout.font
    large, room = font * 1.1, right - layout.left
    lines = metrics.wrap(figure.title, room / large / metrics.BOLD) if figure.title else []
    title = [xml.tag("tspan", xml.text(line), **_bold(large, theme)) for line in lines]
    size = xml.text(figure.size)
    used = metrics.width(lines[-1]) * large * metrics.BOLD + 1.2 * font if lines else 0.0
    if lines and used + metrics.width(figure.size) * font <= room:
        title[-1] += xml.tag("tspan", size, dx=1.2 * font)
    else:
        title.append(size)
    drawn = [
        xml.tag("text", line, x=layout.left, y=index * large * _LINE, unicode_bidi="plaintext")
        for index, line in enumerate(title)
    ]
    return xml.lines(drawn), font * 1.7 + (len(drawn) - 1) * large * _LINE


def _bold(size: float, theme: Theme) -> dict[str, str | float]:
    return {"font_size": size, "font_weight": "600", "fill": theme.ink, "unicode_bidi": "isolate"}


def _map(scene: Scene) -> str:
    plot = xml.tag(
        "g",
        "\n",
        svg_cells.draw(scene),
        svg_cells.rules(scene),
        svg_cells.emphasis(scene),
        "\n",
        transform=_at(scene.layout.left, 0),
    )
    rows, columns = svg_axes.draw(scene)
    return xml.lines([rows, plot, columns])


def _caption(scene: Scene, right: float) -> tuple[str, float]:
    """The pinned cell, read out under a thin line; nothing where nothing is pinned."""
    figure, layout, theme = scene.figure, scene.layout, scene.theme
    cell = figure.checked.options.selection
    if cell is None:
        return "", 0.0
    font = layout.font
    room = right - layout.left
    lines = _flow(words.sentence(figure, cell), room / font)
    rule = xml.tag("path", d=f"M0 .5H{xml.number(room)}", stroke=theme.line)
    first = 1.6 * font
    drawn = [
        xml.tag(
            "text",
            *(_span(piece, theme, scene.isolate) for piece in line),
            x=0.0,
            y=first + index * font * _LINE,
            fill=theme.ink,
            style="white-space:pre",
        ).replace("<text", '<text xml:space="preserve"', 1)
        for index, line in enumerate(lines)
    ]
    height = 0.8 * font + first + (len(lines) - 1) * font * _LINE
    return xml.lines([rule, *drawn]), height


def _span(piece: words.Piece, theme: Theme, isolate: bool) -> str:
    token = piece.kind == "token"
    shown = xml.text(piece.text)
    if token and isolate:
        shown = f"\u2068{shown}\u2069"
    return xml.tag(
        "tspan",
        shown,
        font_weight="bold" if token or piece.kind == "strong" else None,
        fill=theme.muted if piece.kind == "muted" else None,
        unicode_bidi="isolate" if token else None,
    )


def _flow(pieces: list[words.Piece], room: float) -> list[list[words.Piece]]:
    """Pieces in lines of at most `room` em; a piece that is too long is cut in the middle."""
    lines: list[list[words.Piece]] = [[]]
    used = 0.0
    for piece in pieces:
        text = metrics.elide(piece.text, room * 0.9)
        wide = metrics.width(text) * (metrics.BOLD if piece.kind in ("token", "strong") else 1.0)
        if used + wide > room and lines[-1]:
            lines.append([])
            used = 0.0
            text = text.removeprefix(" · ").lstrip(" ")
        lines[-1].append(words.Piece(text, piece.kind))
        used += wide
    return lines
