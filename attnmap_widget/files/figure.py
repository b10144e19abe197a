"""What a file shows: one map, all decided, and the theme it is drawn in. Knows no widget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..grid import labels
from ..grid.checked import Checked
from ..grid.states import StateGrid
from ..grid.tiles import Tile, Window, pooled
from ..grid.weights import FloatGrid

Rgb = tuple[int, int, int]


@dataclass(frozen=True)
class Figure:
    """One map as a picture, a page or a table."""

    checked: Checked
    title: str = ""
    show_values: bool | None = None
    status: str = ""
    """One quiet line; pages have it, pictures do not."""
    bins: int | None = None
    """Rows and columns that are drawn at most; more are pooled, and the figure says so."""
    room: Checked | None = None
    """Another map of this shape, beside which it stands: laid out by its labels, both line up."""

    @cached_property
    def tile(self) -> Tile:
        """What is in view; pooled where that is more than is drawn cell by cell."""
        options = self.checked.options
        found = self.checked.grid.tile(options.viewport, options.pool)
        if self.bins is None or max(found.values.shape) <= self.bins:
            return found

        def read(part: Window) -> tuple[FloatGrid, StateGrid]:
            rows, columns = slice(part[0], part[1]), slice(part[2], part[3])
            return found.values[rows, columns], found.states[rows, columns]

        rows, columns = found.values.shape
        whole = (0, rows, 0, columns)
        smaller = pooled(read, (rows, columns), whole, self.bins, found.pool)
        per_cell = found.bin[0] * smaller.bin[0], found.bin[1] * smaller.bin[1]
        # `at` now speaks of cells of the other tile; a picture asks only which cells are drawn.
        return replace(smaller, size=found.size, window=found.window, bin=per_cell)

    @cached_property
    def keys(self) -> list[str]:
        """Readable labels of the keys."""
        return labels.readable(self.checked.tokens)

    @property
    def spacing(self) -> tuple[list[str], list[str]]:
        """Labels of rows and columns that the layout has room for."""
        if self.room is None:
            return self.queries, self.keys
        return labels.readable(self.room.rows), labels.readable(self.room.tokens)

    @cached_property
    def queries(self) -> list[str]:
        """Readable labels of the rows."""
        if self.checked.queries is None:
            return self.keys
        return labels.readable(self.checked.queries)

    @property
    def size(self) -> str:
        """12 queries × 12 keys; where that is not all, which of them and how many per cell."""
        tile = self.tile
        (queries, keys), (rows, columns), (q0, q1, k0, k1) = tile.size, tile.bin, tile.window
        axes = self.checked.axes
        text = axes.size(queries, keys)
        if rows * columns > 1:
            mean = "mean of " if tile.pool == "mean" else ""
            text += f", {mean}{rows} × {columns} per cell"
        if q1 - q0 < queries or k1 - k0 < keys:
            text += (
                f", in view {axes.query_at(q0)}–{axes.query_at(q1 - 1)}"
                f" × {axes.key_at(k0)}–{axes.key_at(k1 - 1)}"
            )
        return text

    @property
    def generated(self) -> tuple[int | None, int | None]:
        """The first generated (key, query), where the axis has one."""
        pair, (queries, keys) = self.checked.options.generated or (None, None), self.checked.shape
        key, query = pair
        return (
            None if key is None or key >= keys else key,
            None if query is None or query >= queries else query,
        )

    @property
    def generated_words(self) -> str:
        """Where the generated part begins, as the legend says it; empty where nothing is marked."""
        (key, query), axes = self.generated, self.checked.axes
        parts = [] if key is None else [axes.key(key)]
        parts += [] if query is None else [axes.query(query)]
        return f"generated from {' and '.join(parts)} on (in italics)" if parts else ""

    @property
    def summary(self) -> str:
        """One line that says what the map is."""
        said = [self.size, self.generated_words]
        return f"{self.title or 'Attention map'}: {', '.join(filter(None, said))}"

    @property
    def pinned(self) -> tuple[int, int] | None:
        """The row and column of the tile in which the pinned cell is drawn; None out of view."""
        cell, (q0, q1, k0, k1) = self.checked.options.selection, self.tile.window
        if cell is None or not (q0 <= cell[0] < q1 and k0 <= cell[1] < k1):
            return None
        return (cell[0] - q0) // self.tile.bin[0], (cell[1] - k0) // self.tile.bin[1]


@dataclass(frozen=True)
class Theme:
    """The colours around the data; those of widget.css where the host has none of its own."""

    name: str
    page: Rgb
    ink: str
    muted: str
    line: str
    accent: str
    warning: str
    """Outlines of weight where none may be."""
    pattern: Rgb
    """The ink of the states' patterns."""

    @property
    def dark(self) -> bool:
        """Whether zero is the dark end of a sequential ramp."""
        return self.name == "dark"


_THEMES = {
    "light": Theme(
        name="light",
        page=(255, 255, 255),
        ink="#1f2328",
        muted="#57606a",
        line="#d8dee4",
        accent="#c2410c",
        warning="#c2187a",
        pattern=(60, 66, 74),
    ),
    "dark": Theme(
        name="dark",
        page=(17, 21, 24),
        ink="#e6edf3",
        muted="#9aa4af",
        line="#30363d",
        accent="#f5a524",
        warning="#ff7ac6",
        pattern=(201, 209, 217),
    ),
}


def find_theme(name: str) -> Theme:
    """The theme of that name; ValueError with those that exist."""
    if name not in _THEMES:
        raise ValueError(f"theme: got {name!r}, accepted are {', '.join(map(repr, _THEMES))}")
    return _THEMES[name]
