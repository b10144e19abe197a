"""All that is known when a figure is drawn; the parts of the SVG are drawn from it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..grid.states import State, StateGrid
from ..grid.weights import BoolGrid, FloatGrid
from . import paint
from .figure import Figure, Rgb, Theme
from .layout import Layout
from .patterns import FLATS


@dataclass(frozen=True)
class Scene:
    """A figure, where its parts go, and how it is drawn."""

    figure: Figure
    layout: Layout
    theme: Theme
    vector_cells: int
    enlarge: int
    isolate: bool

    @cached_property
    def name(self) -> str:
        """What ids start with. Pictures may share a page: it is told by all they depend on."""
        colors = self.figure.checked.colors
        seen = (self.theme.name, colors.scheme.name, self.layout.plot, self.layout.below)
        return "attnmap-" + hashlib.sha256(repr(seen).encode()).hexdigest()[:8]

    @cached_property
    def ramp(self) -> paint.Palette:
        """The 256 colours of this theme."""
        return paint.palette(self.figure.checked.colors, dark=self.theme.dark)

    @cached_property
    def shades(self) -> list[str]:
        """The same as #rrggbb."""
        return [paint.css(paint.rgb(row)) for row in self.ramp]

    def grey(self, state: State) -> Rgb:
        """The flat colour of a state whose pattern would not be seen."""
        grey = FLATS[state][1 if self.theme.dark else 0]
        return grey, grey, grey

    @cached_property
    def cells(self) -> Cells:
        """The cells that are drawn: those of the tile, or as many as there is room for."""
        tile, plot = self.figure.tile, self.layout.plot
        room = max(1, int(plot.height)), max(1, int(plot.width))
        values, states = paint.shrink(tile.values, tile.states, *room)
        return Cells(
            values,
            states,
            paint.indices(values, states, self.figure.checked.colors),
            paint.is_solid(values, states),
            paint.is_dimmed(values, states),
        )

    @property
    def is_vector(self) -> bool:
        """Whether each cell is a shape of its own, not a pixel of a picture."""
        whole = self.cells.values.shape == self.figure.tile.values.shape
        fits = min(self.layout.plot.step) >= 1
        return whole and fits and self.cells.values.size <= self.vector_cells


@dataclass(frozen=True)
class Cells:
    """Arrays of one shape, a cell each."""

    values: FloatGrid
    states: StateGrid
    index: NDArray[np.int64]
    """Which of the 256 colours; meaningless where there is no weight."""
    solid: BoolGrid
    dimmed: BoolGrid

    def only(self, state: State) -> BoolGrid:
        """True where that state is what is seen."""
        seen: BoolGrid = (self.states == state) & ~self.solid
        return seen
