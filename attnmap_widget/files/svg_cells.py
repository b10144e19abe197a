"""The cells: rectangles, or one picture of them, the states' patterns, values and the pin."""

from __future__ import annotations

import numpy as np

from ..grid.states import State, leaks
from ..grid.weights import BoolGrid, FloatGrid
from . import metrics, numbers, paint, pixels, xml
from .figure import Figure, Theme
from .layout import VALUE_COLUMNS, Layout, Plot
from .patterns import FLATS
from .scene import Scene

VECTOR_CELLS = 64 * 64
"""Maps of more cells are one picture with a pixel for each."""
_SMALLEST_VALUE = 8.0


def draw(scene: Scene) -> str:
    """Everything inside the plot but emphasis, from its top left corner."""
    plot = scene.layout.plot
    parts = _shapes(scene) if scene.is_vector else [_image(scene)]
    if plot.has_patterns:
        parts += _patterns(scene)
    if min(plot.gap) > 0:
        parts += _leak_outlines(scene)
    font = value_font(scene.figure, scene.layout)
    if font:
        parts.append(_values(scene, font))
    return xml.lines(parts)


def value_font(figure: Figure, layout: Layout) -> float:
    """The size of the values in their cells; 0 where none are wanted or they do not fit."""
    values, plot = figure.tile.values, layout.plot
    wanted = figure.show_values
    if wanted is None:
        wanted = values.shape[1] <= VALUE_COLUMNS
    (across, down), (gap_x, gap_y) = plot.step, plot.gap
    width, height = across - gap_x - 4, down - gap_y - 4
    if not wanted or min(width, height) < _SMALLEST_VALUE:
        return 0.0
    extremes = [float(v) for v in _extremes(values)]
    widest = max((metrics.width(numbers.cell(value)) for value in extremes), default=0.0)
    fits = min(layout.font * 0.85, height, width / widest if widest else height)
    return int(fits * 2) / 2 if fits >= _SMALLEST_VALUE else 0.0


def _extremes(values: FloatGrid) -> FloatGrid:
    """The numbers that can be widest: all digits are equally wide."""
    there = values[~np.isnan(values)]
    return there if there.size == 0 else np.array([there.min(), there.max()])


def _shapes(scene: Scene) -> list[str]:
    plot, cells = scene.layout.plot, scene.cells
    seen = cells.solid | cells.dimmed if plot.has_patterns else cells.solid
    rows = []
    for row, column in np.argwhere(seen).tolist():
        x, y, width, height = plot.box(row, column)
        rows.append(
            xml.tag(
                "rect",
                x=x,
                y=y,
                width=width,
                height=height,
                rx=plot.radius or None,
                fill=scene.shades[cells.index[row, column]],
                fill_opacity=paint.DIMMED if cells.dimmed[row, column] else None,
            )
        )
    parts = [xml.tag("g", "\n", xml.lines(rows), "\n", data_part="cells")]
    if not plot.has_patterns:
        parts += [
            xml.tag("path", d=_boxes(plot, cells.only(state)), fill=paint.css(scene.grey(state)))
            for state in FLATS
            if cells.only(state).any()
        ]
    return parts


def _image(scene: Scene) -> str:
    """A pixel per cell; states are greys where their patterns would not be seen."""
    plot, cells = scene.layout.plot, scene.cells
    rgba = np.zeros((*cells.states.shape, 4), dtype=np.uint8)
    rgba[cells.solid, :3] = scene.ramp[cells.index[cells.solid]]
    rgba[cells.solid, 3] = 255
    if plot.has_patterns:
        rgba[cells.dimmed, :3] = scene.ramp[cells.index[cells.dimmed]]
        rgba[cells.dimmed, 3] = round(paint.DIMMED * 255)
    else:
        for state in FLATS:
            rgba[cells.only(state)] = (*scene.grey(state), 255)
    if scene.enlarge > 1:
        rgba = rgba.repeat(scene.enlarge, axis=0).repeat(scene.enlarge, axis=1)
    return xml.tag(
        "image",
        width=plot.width,
        height=plot.height,
        preserveAspectRatio="none",
        style="image-rendering:pixelated",
        href=pixels.data_url("image/png", pixels.png(rgba)),
        data_part="cells",
    )


def _boxes(plot: Plot, where: BoolGrid, inset: float = 0.0, *, merged: bool = False) -> str:
    """Path data around every cell that is True, or around each run of them in a row."""
    path = []
    for row in np.flatnonzero(where.any(axis=1)).tolist():
        columns = np.flatnonzero(where[row])
        if merged:
            breaks = np.flatnonzero(np.diff(columns) > 1) + 1
            runs = [(run[0], run[-1]) for run in np.split(columns, breaks)]
        else:
            runs = [(column, column) for column in columns]
        for first, last in runs:
            x, y, _, height = plot.box(row, int(first))
            end = plot.box(row, int(last))
            width = end[0] + end[2] - x - 2 * inset
            across, down = xml.number(width), xml.number(height - 2 * inset)
            path.append(
                f"M{xml.number(x + inset)} {xml.number(y + inset)}h{across}v{down}h-{across}z"
            )
    return "".join(path)


def _patterns(scene: Scene) -> list[str]:
    drawn = []
    for state in State:
        where = scene.cells.only(state)
        if state <= State.ZERO or not where.any():
            continue
        empty = state == State.EMPTY
        fill = {"fill": f"url(#{scene.name}-{int(state)})"}
        look = empty_look(scene.theme) if empty else fill
        inset = 0.5 if empty else 0.0
        path = _boxes(scene.layout.plot, where, inset, merged=not scene.is_vector)
        drawn.append(xml.tag("path", d=path, **look, data_state=state.name.lower()))
    return drawn


def empty_look(theme: Theme) -> dict[str, str]:
    """Dotted outlines for cells that no weight was given for."""
    return {
        "fill": "none",
        "stroke": paint.css(theme.pattern),
        "stroke_opacity": ".5",
        "stroke_dasharray": "1 2",
    }


def _leak_outlines(scene: Scene) -> list[str]:
    where = leaks(scene.cells.values, scene.cells.states)
    if not where.any():
        return []
    plot = scene.layout.plot
    line = 1.5 if plot.has_patterns else 1.0
    path = _boxes(plot, where, line / 2, merged=not scene.is_vector)
    outline = {"fill": "none", "stroke": scene.theme.warning, "data_state": "leak"}
    return [xml.tag("path", d=path, stroke_width=line, **outline)]


def _values(scene: Scene, font: float) -> str:
    cells = scene.cells
    texts = []
    inks: dict[tuple[int, bool], str] = {}
    for row, column in np.argwhere(cells.solid | cells.dimmed).tolist():
        shade, dim = int(cells.index[row, column]), bool(cells.dimmed[row, column])
        if (shade, dim) not in inks:
            color = paint.rgb(scene.ramp[shade])
            seen = paint.mix(color, scene.theme.page, paint.DIMMED) if dim else color
            inks[shade, dim] = paint.css(paint.ink_on(seen))
        x, y, width, height = scene.layout.plot.box(row, column)
        texts.append(
            xml.tag(
                "text",
                numbers.cell(float(cells.values[row, column])),
                x=x + width / 2,
                y=y + height / 2 + font * 0.36,
                fill=inks[shade, dim],
            )
        )
    return xml.tag("g", xml.lines(texts), text_anchor="middle", font_size=font, data_part="values")


def rules(scene: Scene) -> str:
    """A line where the generated part begins, on each axis that has it in view."""
    layout, (key, query) = scene.layout, scene.figure.generated
    plot = layout.plot
    lines = []
    if key is not None and key - 1 in layout.columns.tokens and key in layout.columns.tokens:
        x = layout.columns.centre(key) - layout.columns.pitch / 2 - 0.5
        lines.append(f"M{xml.number(x)} 0V{xml.number(plot.height)}")
    if query is not None and query - 1 in layout.rows.tokens and query in layout.rows.tokens:
        y = layout.rows.centre(query) - layout.rows.pitch / 2 - 0.5
        lines.append(f"M0 {xml.number(y)}H{xml.number(plot.width)}")
    if not lines:
        return ""
    path = {"d": "".join(lines), "fill": "none"}
    page = paint.css(scene.theme.page)
    return xml.lines(
        [
            xml.tag("path", **path, stroke=page, stroke_width=3.0),
            xml.tag("path", **path, stroke=scene.theme.ink, data_part="generated"),
        ]
    )


def emphasis(scene: Scene) -> str:
    """The pinned cell outlined, with a thin line around its row and its column."""
    spot, theme = scene.figure.pinned, scene.theme
    if spot is None:
        return ""
    plot = scene.layout.plot
    x, y, width, height = plot.box(*spot)
    grow_x, grow_y = max(0.0, 6 - width) / 2, max(0.0, 6 - height) / 2
    hair = {"fill": "none", "stroke": theme.accent, "stroke_opacity": ".55"}
    lines = [
        xml.tag("rect", x=-0.5, y=y - 0.5, width=plot.width + 1, height=height + 1, **hair),
        xml.tag("rect", x=x - 0.5, y=-0.5, width=width + 1, height=plot.height + 1, **hair),
    ]
    for outside, line, color in ((2.0, 4.0, paint.css(theme.page)), (1.5, 3.0, theme.accent)):
        lines.append(
            xml.tag(
                "rect",
                x=x - grow_x - outside,
                y=y - grow_y - outside,
                width=width + 2 * (grow_x + outside),
                height=height + 2 * (grow_y + outside),
                rx=2.0,
                fill="none",
                stroke=color,
                stroke_width=line,
                data_part="pin" if color == theme.accent else None,
            )
        )
    return xml.lines(lines)
