"""Where things go in a figure: the front end's layout (js/src/layout.ts, geometry.ts) in Python.

Lengths are in the figure's own units, which are CSS pixels at its natural size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..grid.tiles import Tile
from .metrics import BOLD
from .metrics import width as em

SLANT = math.radians(40)
CELL, TALLEST = 40.0, 800.0
"""The largest cell, the tallest plot."""
GAP_FROM, PATTERN_FROM, ROUND_FROM = 4.0, 6.0, 12.0
VALUE_COLUMNS = 12
"""Columns that get their values written unless told otherwise."""
MARGIN = 4.0

_THIN, _THIN_ROW = 24.0, 14.0
_FEW, _FEW_OF_MANY, _MANY = 4, 40, 3
_LABEL_SHARE = 0.3
_LABEL_HEIGHT = 150.0
_LEGEND = 148.0
_SMALLEST_LABEL = 10.0
_MEASURED = 1024


@dataclass(frozen=True)
class Plot:
    """The cells' area; cells have no gap below `GAP_FROM`."""

    rows: int
    columns: int
    width: float
    height: float

    @property
    def step(self) -> tuple[float, float]:
        """From one cell to the next, across and down."""
        return self.width / self.columns, self.height / self.rows

    @property
    def gap(self) -> tuple[float, float]:
        """Free at the right and at the bottom of each cell."""
        across, down = self.step
        return float(across >= GAP_FROM), float(down >= GAP_FROM)

    @property
    def has_patterns(self) -> bool:
        """Whether cells are large enough for the patterns of their states."""
        return min(self.step) >= PATTERN_FROM

    @property
    def radius(self) -> float:
        """Of the cells' corners."""
        return 2.0 if min(self.step) >= ROUND_FROM else 0.0

    def box(self, row: int, column: int) -> tuple[float, float, float, float]:
        """x, y, width and height of a cell without its gap."""
        (across, down), (gap_x, gap_y) = self.step, self.gap
        return column * across, row * down, across - gap_x, down - gap_y


@dataclass(frozen=True)
class Axis:
    """The labels of one side."""

    font: float
    stride: int
    """Every n-th token has its label."""
    tokens: range
    """Those in view."""
    bin: int
    pitch: float
    room: float
    """What the longest label may take."""
    slanted: bool = False
    height: float = 0.0

    def centre(self, index: int) -> float:
        """Where the cell of a token has its middle, from the start of the plot."""
        return ((index - self.tokens.start) // self.bin + 0.5) * self.pitch

    def labelled(self) -> range:
        """The tokens that carry a label: multiples of the stride."""
        first = -(-self.tokens.start // self.stride) * self.stride
        return range(first, self.tokens.stop, self.stride)

    @property
    def spacing(self) -> float:
        """How far apart two labels must be."""
        return self.font / math.sin(SLANT) if self.slanted else self.font * 1.15


@dataclass(frozen=True)
class Layout:
    """The whole figure without head, legend and caption."""

    width: float
    font: float
    below: bool
    """The legend goes below the map, not beside it."""
    left: float
    plot: Plot
    rows: Axis
    columns: Axis
    queries: Sequence[str]
    keys: Sequence[str]

    @property
    def scale(self) -> float:
        """How much larger than usual all of it is, so that each cell has its place."""
        return self.font / 13.0

    def column_room(self, index: int) -> float:
        """A slanted label runs back to the figure's left edge at most."""
        if not self.columns.slanted:
            return self.columns.room
        return min(
            self.columns.room, (self.left + self.columns.centre(index) - 2) / math.cos(SLANT)
        )


def lay_out(
    tile: Tile,
    labels: tuple[Sequence[str], Sequence[str]],
    *,
    width: float = 760.0,
    font: float = 13.0,
) -> Layout:
    """The layout of a tile, with the `labels` of all rows and all columns.

    `width` and `font` are enlarged together, up to four times, until every cell has a unit of its
    own: a figure has all the room it needs, and drawing cells on top of each other loses weights.
    """
    scale = 1.0
    for _ in range(4):
        found = _lay_out(tile, labels, _Space(width * scale, font * scale, scale))
        rows, columns = tile.values.shape
        short = max(columns / found.plot.width, rows / found.plot.height)
        if short <= 1 or scale >= 4:
            break
        scale = min(4.0, math.ceil(scale * short * 1.02 * 20) / 20)
    return found


@dataclass(frozen=True)
class _Space:
    """What there is to fill."""

    width: float
    font: float
    scale: float

    @property
    def label(self) -> float:
        """The font of labels."""
        return self.font * 0.95


def _lay_out(tile: Tile, labels: tuple[Sequence[str], Sequence[str]], space: _Space) -> Layout:
    width, font, scale = space.width, space.font, space.scale
    queries, keys = labels
    q0, q1, k0, k1 = tile.window
    shape = tile.values.shape
    below = _is_strip(shape, width, scale)
    title, label = font * 1.5, space.label
    cap = max(0.0, width * _LABEL_SHARE - title - 8)
    widest = _widest(queries[q0:q1]) * BOLD  # any label may be the pinned one
    right = MARGIN if below else _LEGEND * scale
    left = title + 8 + min(widest * label, cap)
    # Smaller cells make smaller labels, which leave more room for the cells: settled in two passes.
    for _ in range(2):
        plot = _fit(shape, max(16.0, width - left - right), TALLEST * scale, scale)
        room = max(0.0, left - title - 8)
        row_axis = _row_axis(plot, range(q0, q1), tile.bin[0], room, space)
        column_axis = _column_axis(plot, range(k0, k1), tile.bin[1], keys, space)
        found = Layout(width, font, below, left, plot, row_axis, column_axis, queries, keys)
        overhang = _overhang(column_axis, keys) if column_axis.slanted else 0.0
        need = max(min(widest * row_axis.font, cap), min(overhang - title, cap * 0.8))
        left = math.ceil(title + 8 + need)
    return replace(found, left=left)


def _is_strip(shape: tuple[int, ...], width: float, scale: float) -> bool:
    """A few rows of many columns need all of the width, and leave no height for a legend."""
    rows, columns = shape
    thick = min(CELL * scale, 0.7 * width / columns)
    return columns > VALUE_COLUMNS and rows * thick < 100 * scale


def _fit(shape: tuple[int, ...], width: float, height: float, scale: float) -> Plot:
    """Square cells; only a side too thin to use is stretched."""
    rows, columns = shape
    cell = min(CELL * scale, width / columns, height / rows)
    return Plot(
        rows,
        columns,
        _snap(_stretch(cell, columns, rows, width, scale), columns),
        _snap(_stretch(cell, rows, columns, height, scale), rows),
    )


def _stretch(cell: float, count: int, others: int, space: float, scale: float) -> float:
    few = _FEW_OF_MANY if others >= _MANY * count else _FEW
    least = max(_THIN, min(count, few) * _THIN_ROW) * scale
    return max(cell * count, min(least, count * CELL * scale, space))


def _snap(side: float, count: int) -> float:
    """Cells are whole units, small ones half units, so that they are all alike in print too."""
    units = 1 if side >= GAP_FROM * count else 2
    whole = count if side >= count else 1
    return max(1, math.floor(side / whole * units + 1e-6)) * whole / units


def nice_stride(need: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, … that is at least `need`."""
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power >= need - 1e-9:
                return step * power
        power *= 10


def _row_axis(plot: Plot, tokens: range, per_cell: int, room: float, space: _Space) -> Axis:
    pitch = plot.height / plot.rows
    per_token = pitch / per_cell
    font = min(space.label, max(_SMALLEST_LABEL * space.scale, per_token / 1.15))
    return Axis(font, nice_stride(font * 1.15 / per_token), tokens, per_cell, pitch, room)


def _column_axis(
    plot: Plot, tokens: range, per_cell: int, keys: Sequence[str], space: _Space
) -> Axis:
    pitch = plot.width / plot.columns
    per_token = pitch / per_cell
    across = per_token * math.sin(SLANT)
    width, label, smallest = space.width, space.label, _SMALLEST_LABEL * space.scale
    font = min(label, max(smallest, across))
    slanted = nice_stride(font / across)
    stride = 1
    while stride <= slanted:
        size = min(label, max(smallest, per_token))
        room = stride * per_token - 6
        shown = tokens[-tokens.start % stride :: stride]
        if (
            len(shown) <= _MEASURED
            and room >= size
            and all(em(keys[index]) * size <= room for index in shown)
        ):
            room = max(room, width * 0.2)
            return Axis(size, stride, tokens, per_cell, pitch, room, height=size * 1.3)
        stride = nice_stride(stride + 1)
    tallest = min(width * _LABEL_SHARE, _LABEL_HEIGHT * space.scale)
    room = tallest / math.sin(SLANT)
    longest = min(room, _widest(keys[tokens.start : tokens.stop]) * font)
    height = longest * math.sin(SLANT) + font * 1.1
    return Axis(font, slanted, tokens, per_cell, pitch, room, slanted=True, height=height)


def _overhang(axis: Axis, keys: Sequence[str]) -> float:
    """How far left of the plot the slanted labels reach."""
    reaches = (
        min(axis.room, em(keys[index]) * axis.font) * math.cos(SLANT) - axis.centre(index)
        for index in axis.labelled()[:40]
    )
    return max(reaches, default=0.0)


def _widest(labels: Sequence[str]) -> float:
    """In em; a very long axis is sampled."""
    return max(map(em, labels[:: max(1, len(labels) // _MEASURED)]), default=0.0)
