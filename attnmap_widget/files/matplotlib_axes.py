"""A map drawn into a matplotlib figure, for those who compose one; an optional extra."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..grid.states import State, leaks
from . import numbers, paint
from .figure import Figure, find_theme
from .layout import VALUE_COLUMNS, nice_stride
from .patterns import FLATS
from .raster import EXTRA
from .svg_legend import occurring, tick_values, ticks

_HATCHES = {
    State.EMPTY: "",
    State.CANNOT_LOOK: "////",
    State.NO_VALID_KEY: "xxxx",
    State.PADDING: "..",
    State.NOT_YET: "----",
}
_HATCHED = 64
"""Rows and columns up to which states are hatched; above that they are grey."""
_LABELS = 26


def plot(figure: Figure, ax: Any = None, *, legend: bool = True) -> Any:
    """Draw the map into matplotlib axes, the current ones if `ax` is None; returns the axes.

    Same colours, labels, states and values as the widget in a light theme. `legend` adds a
    colour bar beside the axes and, under it, the states that occur. ImportError without the extra.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(f"plot needs matplotlib, which is not installed: {EXTRA}") from None
    if ax is None:
        ax = plt.gca()
    tile, theme = figure.tile, find_theme("light")
    rows, columns = tile.values.shape
    q0, _, k0, _ = tile.window
    ramp = paint.palette(figure.checked.colors, dark=False)
    index = paint.indices(tile.values, tile.states, figure.checked.colors)
    solid = paint.is_solid(tile.values, tile.states)
    rgba = np.zeros((rows, columns, 4), dtype=np.uint8)
    rgba[..., :3] = ramp[index]
    rgba[solid, 3] = 255
    rgba[paint.is_dimmed(tile.values, tile.states), 3] = round(255 * paint.DIMMED)
    hatched = max(rows, columns) <= _HATCHED
    if not hatched:
        for state, (grey, _) in FLATS.items():
            rgba[(tile.states == state) & ~solid] = (grey, grey, grey, 255)
    ax.imshow(rgba, interpolation="nearest", aspect="equal")
    _label(ax.set_xticks, figure.keys, k0, tile.bin[1], columns)
    _label(ax.set_yticks, figure.queries, q0, tile.bin[0], rows)
    ax.tick_params(length=0)
    ax.tick_params(axis="x", rotation=40)
    for text in ax.get_xticklabels():
        text.set(ha="right", rotation_mode="anchor")
    ax.set_xlabel(figure.checked.axes.key_title, parse_math=False)
    ax.set_ylabel(figure.checked.axes.query_title, parse_math=False)
    if figure.title:
        ax.set_title(figure.title, parse_math=False)
    patches = _states(ax, figure, theme.pattern, solid) if hatched else []
    _outlines(ax, figure, theme.warning, theme.accent)
    wanted = figure.show_values
    if columns <= VALUE_COLUMNS if wanted is None else wanted:
        _values(ax, figure, rgba, solid)
    if legend:
        _legend(ax, figure, ramp, patches, theme.warning)
    return ax


def _label(set_ticks: Any, labels: list[str], first: int, per_cell: int, cells: int) -> None:
    stride = nice_stride(cells / _LABELS)
    spots = range(0, cells, stride)
    texts = [labels[first + spot * per_cell] for spot in spots]
    # A token is no formula: "$" is a dollar.
    set_ticks(list(spots), labels=texts, parse_math=False)


def _states(ax: Any, figure: Figure, ink: tuple[int, int, int], solid: Any) -> list[Any]:
    from matplotlib.patches import Rectangle

    found = []
    color = [channel / 255 for channel in ink]
    for state, words in occurring(figure):
        if state is None:
            continue
        look: dict[str, Any] = {
            "fill": False,
            "hatch": _HATCHES[state] or None,
            "edgecolor": [*color, 0.35],
            "linewidth": 0.6 if state == State.EMPTY else 0,
            "linestyle": ":",
        }
        for row, column in np.argwhere((figure.tile.states == state) & ~solid).tolist():
            ax.add_patch(Rectangle((column - 0.48, row - 0.48), 0.96, 0.96, **look))
        found.append(Rectangle((0, 0), 1, 1, label=words, **look))
    return found


def _outlines(ax: Any, figure: Figure, warning: str, accent: str) -> None:
    from matplotlib.patches import Rectangle

    leaking = np.argwhere(leaks(figure.tile.values, figure.tile.states)).tolist()
    outlined = [(row, column, warning, 1.2) for row, column in leaking]
    if figure.pinned is not None:
        outlined.append((*figure.pinned, accent, 2.0))
    for row, column, color, line in outlined:
        corner = (column - 0.46, row - 0.46)
        box = Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=color, linewidth=line)
        ax.add_patch(box)


def _values(ax: Any, figure: Figure, rgba: Any, solid: Any) -> None:
    dimmed = paint.is_dimmed(figure.tile.values, figure.tile.states)
    for row, column in np.argwhere(solid | dimmed).tolist():
        color = paint.rgb(rgba[row, column])
        seen = paint.mix(color, paint.WHITE, paint.DIMMED) if dimmed[row, column] else color
        text = numbers.cell(float(figure.tile.values[row, column]))
        ink = paint.css(paint.ink_on(seen))
        ax.text(column, row, text, ha="center", va="center", color=ink, fontsize="x-small")


def _legend(ax: Any, figure: Figure, ramp: Any, patches: list[Any], warning: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm, Normalize
    from matplotlib.patches import Rectangle

    colors = figure.checked.colors
    norm = (LogNorm if colors.scale == "log" else Normalize)(*colors.range)
    mappable = ScalarMappable(norm, ListedColormap(ramp / 255))
    bar = ax.figure.colorbar(mappable, ax=ax, shrink=0.7)
    bar.set_label(figure.checked.options.value_title, parse_math=False)
    bar.set_ticks(list(tick_values(figure)), labels=list(ticks(figure)))
    bar.minorticks_off()
    bar.outline.set_visible(False)
    leaking = [words for state, words in occurring(figure) if state is None]
    edge = {"facecolor": ramp[150] / 255, "edgecolor": warning}
    patches += [Rectangle((0, 0), 1, 1, label=words, **edge) for words in leaking]
    if patches:
        bar.ax.legend(
            handles=patches,
            loc="upper left",
            bbox_to_anchor=(-0.5, -0.06),
            frameon=False,
            fontsize="small",
        )
