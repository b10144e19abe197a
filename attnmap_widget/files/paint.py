"""From weights to colours, step for step as the front end does it (js/src/color.ts)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..grid.colors import Colors
from ..grid.states import State, StateGrid, counted, leaks
from ..grid.weights import BoolGrid, FloatGrid
from .figure import Rgb

Palette = NDArray[np.uint8]
"""(256, 3) red, green, blue, from the bottom of the range to its top."""

WHITE: Rgb = (255, 255, 255)
INK: Rgb = (5, 5, 5)
DIMMED = 0.4
"""How much of its colour a padding cell keeps."""


def luminance(color: Rgb) -> float:
    """Relative luminance of WCAG 2, 0 to 1."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in color)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(color: Rgb) -> Rgb:
    """White or near-black, whichever reads better; never below 4.5 : 1."""
    return WHITE if contrast(WHITE, color) >= contrast(INK, color) else INK


def mix(over: Rgb, under: Rgb, share: float) -> Rgb:
    """`over` at `share` of its strength on `under`."""
    red, green, blue = (
        int(a * share + b * (1 - share) + 0.5) for a, b in zip(over, under, strict=True)
    )
    return red, green, blue


def css(color: Rgb) -> str:
    """As #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def rgb(row: NDArray[np.uint8]) -> Rgb:
    """One row of a palette as plain numbers."""
    return int(row[0]), int(row[1]), int(row[2])


def palette(colors: Colors, *, dark: bool) -> Palette:
    """The ramp as given; on a dark page a sequential one is turned so that zero is its dark end."""
    ramp = colors.scheme.ramp
    first, last = rgb(ramp[0]), rgb(ramp[255])
    turned = dark and not colors.scheme.diverging and luminance(first) > luminance(last)
    return ramp[::-1] if turned else ramp


def positions(values: FloatGrid, states: StateGrid, colors: Colors) -> NDArray[np.float64]:
    """(queries, keys): 0 at the low end of the ramp, 1 at its top; NaN where there is no weight."""
    weights = values.astype(np.float64)
    low, high = colors.range
    with np.errstate(divide="ignore", invalid="ignore"):
        if colors.scale == "log":
            found = np.log(weights / low) / np.log(high / low)
            found[weights <= 0] = 0.0
        else:
            if colors.scale == "row":
                tops = row_tops(values, states)
                weights = np.where(tops > 0, weights / tops, np.where(np.isnan(weights), np.nan, 0))
            found = (weights - low) / (high - low) if high > low else (weights > low) * 1.0
    clamped: NDArray[np.float64] = np.clip(found, 0.0, 1.0)
    clamped[np.isnan(values)] = np.nan
    return clamped


def row_tops(values: FloatGrid, states: StateGrid) -> NDArray[np.float64]:
    """(queries, 1): each row's largest magnitude among the cells that take part in the scale."""
    there = counted(states) | leaks(values, states)
    tops: NDArray[np.float64] = (
        np.where(there, np.abs(values), 0).max(axis=1, keepdims=True, initial=0).astype(np.float64)
    )
    return tops


def indices(values: FloatGrid, states: StateGrid, colors: Colors) -> NDArray[np.int64]:
    """(queries, keys): which of the 256 colours; meaningless where there is no weight."""
    found = np.floor(np.nan_to_num(positions(values, states, colors)) * 255 + 0.5)
    return found.astype(np.int64)


def is_solid(values: FloatGrid, states: StateGrid) -> BoolGrid:
    """(queries, keys), True where the cell has its full colour: weights, zeros and leaks."""
    solid: BoolGrid = (counted(states) & ~np.isnan(values)) | leaks(values, states)
    return solid


def is_dimmed(values: FloatGrid, states: StateGrid) -> BoolGrid:
    """(queries, keys), True where padding shows through its pattern."""
    dimmed: BoolGrid = (states == State.PADDING) & ~np.isnan(values)
    return dimmed


def shrink(
    values: FloatGrid, states: StateGrid, rows: int, columns: int
) -> tuple[FloatGrid, StateGrid]:
    """At most `rows` × `columns` cells, each the weight of largest magnitude among those under it.

    Unlike in `tiles.pooled` the bins need not be equal, so that a picture may have exactly as many
    pixels as there is room.
    """
    height, width = min(rows, values.shape[0]), min(columns, values.shape[1])
    if (height, width) == values.shape:
        return values, states
    solid = is_solid(values, states)
    rank = np.where(solid, np.abs(values), -1.0)
    row_of = np.arange(values.shape[0]) * height // values.shape[0]
    column_of = np.arange(values.shape[1]) * width // values.shape[1]
    bins = (row_of[:, None] * width + column_of[None, :]).ravel()
    order = np.lexsort((-rank.ravel(), bins))
    _, first = np.unique(bins[order], return_index=True)
    chosen = order[first]
    return values.ravel()[chosen].reshape(height, width), states.ravel()[chosen].reshape(
        height, width
    )
