"""The ramp in use, its range, the states that occur, and what else must be said of the scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..grid.grids import LongGrid
from ..grid.states import State, leaks
from . import metrics, numbers, paint, patterns, xml
from .figure import Figure, Theme
from .layout import Layout
from .scene import Scene
from .svg_axes import label
from .svg_cells import empty_look, value_font
from .words import leak_words, state_words

_RAMP = 12.0
_LENGTH = 120.0
_FLAT_LENGTH = 150.0
_SWATCH = 13.0
_WIDEST = 15.0
"""Of a legend beside the map, in em."""
_STOPS = range(0, 256, 5)


@dataclass
class Legend:
    """A legend that is drawn and still to be placed."""

    definitions: str
    drawing: str
    width: float
    height: float
    left: float = field(default=0.0)
    top: float = field(default=0.0)


def draw(scene: Scene) -> Legend:
    """The legend: beside the map upright, below it flat."""
    states = occurring(scene.figure)
    known = [state for state, _ in states if state is not None]
    parts = [_gradient(scene), patterns.definitions(known, scene.theme, scene.name)]
    definitions = xml.tag("defs", "\n", xml.lines(parts), "\n")
    swatches = [(_swatch(scene, state), words) for state, words in states]
    return (_flat if scene.layout.below else _upright)(scene, definitions, swatches)


def occurring(figure: Figure) -> list[tuple[State | None, str]]:
    """The states in view with their words; None stands for weight where none may be."""
    tile = figure.tile
    leaking = int(leaks(tile.values, tile.states).sum())
    found: list[tuple[State | None, str]] = [
        (state, words)
        for state, words in state_words(figure.checked).items()
        if int((tile.states == state).sum()) > (leaking if state == State.CANNOT_LOOK else 0)
    ]
    if leaking:
        found.append((None, f"{leak_words(figure.checked)} ({numbers.count(leaking, 'cell')})"))
    return found


def ticks(figure: Figure) -> tuple[str, str, str]:
    """What stands at the low end, the middle and the top of the ramp."""
    colors = figure.checked.colors
    low, high = colors.range
    if colors.scale == "row":
        signed = low < 0
        return (
            "− largest of its row" if signed else "0",
            "0" if signed else "half",
            "largest of its row",
        )
    middle = tick_values(figure)[1]
    return (
        ("≤ " if colors.clips[0] else "") + numbers.tick(low),
        numbers.tick(middle),
        ("≥ " if colors.clips[1] else "") + numbers.tick(high),
    )


def tick_values(figure: Figure) -> tuple[float, float, float]:
    """The weights at the low end, the middle and the top of the ramp."""
    colors = figure.checked.colors
    low, high = colors.range
    return low, math.sqrt(low * high) if colors.scale == "log" else (low + high) / 2, high


def _title(figure: Figure) -> str:
    title = figure.checked.options.value_title
    return f"{title} (log scale)" if figure.checked.colors.scale == "log" else title


def _notes(figure: Figure, layout: Layout) -> list[str]:
    notes = list(figure.checked.colors.notes)
    if figure.generated_words:
        notes.append(figure.generated_words)
    if figure.show_values is True and value_font(figure, layout) == 0:
        notes.append("cells are too small to write values in")
    grid = figure.checked.grid
    if isinstance(grid, LongGrid) and grid.survey.read < 1:
        notes.append(f"a first look: {grid.survey.read:.0%} of the queries were read")
    rows, columns = figure.tile.values.shape
    if rows > layout.plot.height or columns > layout.plot.width:
        notes.append("more cells than can be drawn: the largest of those that share a place")
    return notes


def _gradient(scene: Scene) -> str:
    stops = [
        xml.tag("stop", offset=f"{index / 255:.4f}", stop_color=scene.shades[index])
        for index in _STOPS
    ]
    end: dict[str, float] = {"x1": 0, "x2": 0, "y1": 1, "y2": 0}
    if scene.layout.below:
        end = {"x1": 0, "x2": 1, "y1": 0, "y2": 0}
    return xml.tag("linearGradient", *stops, id=f"{scene.name}-ramp", **end)


def _mark(figure: Figure) -> float | None:
    """Where the pinned weight is on the ramp, 0 to 1."""
    spot = figure.pinned
    if spot is None:
        return None
    row = slice(spot[0], spot[0] + 1)
    values, states = figure.tile.values[row], figure.tile.states[row]
    if not paint.is_solid(values, states)[0, spot[1]]:
        return None
    return float(paint.positions(values, states, figure.checked.colors)[0, spot[1]])


def _upright(scene: Scene, definitions: str, swatches: list[tuple[str, str]]) -> Legend:
    figure, layout, theme, name = scene.figure, scene.layout, scene.theme, scene.name
    font = layout.font * 0.9
    room = _WIDEST * font
    wide, long, side = (length * layout.scale for length in (_RAMP, _LENGTH, _SWATCH))
    low, middle, high = ticks(figure)
    top = font * 1.6
    parts = [label(_title(figure), x=0.0, y=font * 0.9)]
    parts.append(xml.tag("rect", y=top, width=wide, height=long, fill=f"url(#{name}-ramp)"))
    widths = [metrics.width(_title(figure)) * font]
    for text, at in ((high, 0.0), (middle, 0.5), (low, 1.0)):
        # the outer two stay inside the ramp's ends, as on screen
        y = top + at * long + font * (0.8 - at * 0.88)
        parts.append(label(text, x=wide + 6, y=y))
        widths.append(wide + 6 + metrics.width(text) * font)
    mark = _mark(figure)
    if mark is not None:
        y = top + (1 - mark) * long
        parts.append(_marker(theme, -3, y - 1, wide + 6, 2))
    y = top + long + font * 1.1
    for swatch, words in swatches:
        parts.append(xml.tag("g", swatch, transform=f"translate(0 {xml.number(y)})"))
        for line in metrics.wrap(words, (room - side - 6) / font):
            parts.append(label(line, x=side + 6, y=y + side * 0.5 + font * 0.36))
            widths.append(side + 6 + metrics.width(line) * font)
            y += font * 1.3
        y += font * 0.4
    for note in _notes(figure, layout):
        y += font * 0.3
        for line in metrics.wrap(note, room / font):
            parts.append(label(line, x=0.0, y=y + font * 0.8))
            widths.append(metrics.width(line) * font)
            y += font * 1.3
    drawing = xml.tag("g", xml.lines(parts), font_size=font, data_part="legend")
    return Legend(definitions, drawing, min(max(widths), room), y)


def _flat(scene: Scene, definitions: str, swatches: list[tuple[str, str]]) -> Legend:
    figure, layout, theme, name = scene.figure, scene.layout, scene.theme, scene.name
    font = layout.font * 0.9
    side = _SWATCH * layout.scale
    low, middle, high = (metrics.width(text) * font for text in ticks(figure))
    # long enough that its three ticks stay apart
    long = max(_FLAT_LENGTH * layout.scale, 2 * max(low, high) + middle + 2 * font)
    room = max(layout.plot.width, long + 24 * font)
    title = _title(figure)
    start = metrics.width(title) * font + 1.2 * font
    parts = [label(title, x=0.0, y=font * 0.9)]
    parts.append(xml.tag("rect", x=start, width=long, height=10.0, fill=f"url(#{name}-ramp)"))
    anchors = (("start", 0.0), ("middle", 0.5), ("end", 1.0))
    for text, (anchor, at) in zip(ticks(figure), anchors, strict=True):
        x = start + at * long
        parts.append(label(text, x=x, y=14 + font * 0.9, text_anchor=anchor))
    mark = _mark(figure)
    if mark is not None:
        parts.append(_marker(theme, start + mark * long - 1, -3, 2, 16))
    x, y = start + long + 2 * font, 0.0
    bottom = 14 + font * 1.3
    for swatch, words in swatches:
        wide = side + 6 + metrics.width(words) * font
        if x + wide > room:
            x, y = 0.0, bottom + font * 0.4
        bottom = max(bottom, y + font * 1.4)
        parts.append(xml.tag("g", swatch, transform=f"translate({xml.number(x)} {xml.number(y)})"))
        parts.append(label(words, x=x + side + 6, y=y + side * 0.5 + font * 0.36))
        x += wide + 1.2 * font
    for note in _notes(figure, layout):
        bottom += font * 0.3
        for line in metrics.wrap(note, room / font):
            parts.append(label(line, x=0.0, y=bottom + font))
            bottom += font * 1.3
    drawing = xml.tag("g", xml.lines(parts), font_size=font, data_part="legend")
    return Legend(definitions, drawing, room, bottom)


def _marker(theme: Theme, x: float, y: float, width: float, height: float) -> str:
    box = {"x": x, "y": y, "width": width, "height": height}
    halo = {"stroke": paint.css(theme.page), "paint_order": "stroke"}
    return xml.tag("rect", **box, fill=theme.accent, **halo, stroke_width=2.0)


def _swatch(scene: Scene, state: State | None) -> str:
    """A cell of that state as the map draws it; None stands for a leak."""
    layout, theme = scene.layout, scene.theme
    side = _SWATCH * layout.scale - 1
    box: dict[str, str | float | None] = {"x": 0.5, "y": 0.5, "width": side, "height": side}
    box["rx"] = 1.0
    color = scene.shades[150]
    if state is None:
        return xml.tag("rect", **box, fill=color, stroke=theme.warning, stroke_width=1.5)
    if state == State.EMPTY:
        return xml.tag("rect", **box, **empty_look(theme))
    edge: dict[str, str | float | None] = {
        "stroke": paint.css(theme.pattern),
        "stroke_opacity": 0.3 if theme.dark else 0.25,
    }
    if not layout.plot.has_patterns:
        return xml.tag("rect", **box, fill=paint.css(scene.grey(state)), **edge)
    under = state == State.PADDING
    below = xml.tag("rect", **box, fill=color, fill_opacity=paint.DIMMED) if under else ""
    return below + xml.tag("rect", **box, fill=f"url(#{scene.name}-{int(state)})", **edge)
