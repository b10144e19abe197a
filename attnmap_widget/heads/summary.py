"""What kind of head is it: one row of numbers for each (layer, head). Knows numpy only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .measuring import COLUMNS, Column, measure

__all__ = ["COLUMNS", "Column", "HeadSummary", "HeadValue", "measure"]

_SHOWN = 20
"""Rows that a table shows of itself."""
_NO_VALUE = "–"


class HeadValue(NamedTuple):
    """One head and its number in some column."""

    layer: int
    head: int
    value: float


class HeadSummary:
    """One row for each (layer, head), one column for each of `COLUMNS`.

    `summary["entropy"]` is a column, (n,) float64, read-only, NaN where a head has no such number
    (no token repeats, cross attention has no diagonal). Rows are in the order of layers and heads,
    or as `sorted` left them; iterating gives each as a dict.
    """

    layers: NDArray[np.int64]
    """(n,) true block numbers."""
    heads: NDArray[np.int64]
    """(n,) head numbers."""

    def __init__(self, layers: Any, heads: Any, values: Mapping[str, Any]) -> None:
        self.layers, self.heads = (frozen(numbers, np.int64) for numbers in (layers, heads))
        unknown = [name for name in values if name not in COLUMNS]
        if unknown:
            raise ValueError(f"no such column: {unknown[0]!r}; there are {', '.join(COLUMNS)}")
        self._values = {
            name: frozen(values[name], np.float64) for name in COLUMNS if name in values
        }
        count = len(self.layers)
        for name, column in {"heads": self.heads, **self._values}.items():
            if column.shape != (count,):
                raise ValueError(f"{name}: got shape {column.shape}, for {count} layers")

    @staticmethod
    def from_rows(rows: Iterable[Mapping[str, Any]]) -> HeadSummary:
        """A summary of rows such as iteration gives: "layer", "head" and the same columns in each.

        ValueError for a column that is not one of `COLUMNS` or that only some of the rows have.
        """
        listed = list(rows)
        names = [name for name in (listed[0] if listed else COLUMNS) if name not in _KEYS]
        for index, row in enumerate(listed):
            if set(row) != {*_KEYS, *names}:
                raise ValueError(f"row {index} has {', '.join(row)}; row 0 has {', '.join(names)}")
        values = {name: [row[name] for row in listed] for name in names}
        # Of means over texts, too, rows have the numbers alone and no spread.
        return HeadSummary(
            [row["layer"] for row in listed], [row["head"] for row in listed], values
        )

    @property
    def columns(self) -> dict[str, Column]:
        """What each column is: title, definition, unit and range, by name."""
        return {name: COLUMNS[name] for name in self._values}

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, column: str) -> NDArray[np.float64]:
        if column not in self._values:
            raise KeyError(f"no column {column!r}; there are {', '.join(self._values)}")
        return self._values[column]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._row, range(len(self)))

    def row(self, layer: int, head: int) -> dict[str, Any]:
        """The numbers of one head; ValueError if it is not here."""
        found = np.flatnonzero((self.layers == layer) & (self.heads == head))
        if not len(found):
            raise ValueError(f"layer {layer}, head {head} is not in this summary")
        return self._row(int(found[0]))

    def top(self, column: str, count: int = 5) -> list[HeadValue]:
        """The heads with the largest numbers in a column, in falling order; those without: none."""
        if count < 0:
            raise ValueError(f"top: got {count}, expected a number of heads")
        values = self[column]
        order = self._falling(column)[:count]
        return [
            HeadValue(int(self.layers[at]), int(self.heads[at]), float(values[at]))
            for at in order
            if not np.isnan(values[at])
        ]

    def sorted(self, column: str, *, rising: bool = False) -> HeadSummary:
        """The same rows by the numbers in a column, the largest first; NaN comes last."""
        return self._taken(self._falling(column, rising=rising))

    def to_pandas(self) -> Any:
        """A DataFrame: layer, head and the columns. ImportError without pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_pandas needs pandas, which is not installed") from None
        return pd.DataFrame({"layer": self.layers, "head": self.heads, **self._values})

    # -- inside ---------------------------------------------------------------------------------

    def _taken(self, order: NDArray[np.intp]) -> HeadSummary:
        values = {name: numbers[order] for name, numbers in self._values.items()}
        return HeadSummary(self.layers[order], self.heads[order], values)

    def _row(self, at: int) -> dict[str, Any]:
        numbers = {name: float(column[at]) for name, column in self._values.items()}
        return {"layer": int(self.layers[at]), "head": int(self.heads[at]), **numbers}

    def _falling(self, column: str, *, rising: bool = False) -> NDArray[np.intp]:
        values = self[column] if rising else -self[column]
        return np.argsort(values, kind="stable")  # numpy puts NaN last

    def _cells(self) -> list[list[str]]:
        """The table as it is shown: a line of names, then the rows, empty columns left out."""
        names = [name for name, column in self._values.items() if not np.isnan(column).all()]
        lines = [[*_KEYS, *names]]
        for at in range(min(len(self), _SHOWN)):
            numbers = (self._values[name][at] for name in names)
            shown = [_NO_VALUE if np.isnan(number) else f"{number:.2f}" for number in numbers]
            lines.append([str(self.layers[at]), str(self.heads[at]), *shown])
        return lines

    def _rest(self) -> str:
        """What the table leaves out, in words."""
        more = len(self) - _SHOWN
        empty = [name for name, column in self._values.items() if np.isnan(column).all()]
        said = [f"{more} more rows"] if more > 0 else []
        said += [f"no value: {', '.join(empty)}"] if empty else []
        return "; ".join(said)

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in cells
        ]
        return "\n".join([*lines, *filter(None, [self._rest()])])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} heads: {', '.join(self._values)}>"

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        titles = "".join(
            f'<th title="{escape(COLUMNS[name].definition)}">{escape(name)}</th>'
            if name in COLUMNS
            else f"<th>{escape(name)}</th>"
            for name in head
        )
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        rest = self._rest()
        note = f"<p>{escape(rest)}</p>" if rest else ""
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{note}"


_KEYS = ("layer", "head")


def frozen(numbers: Any, kind: Any) -> NDArray[Any]:
    """A copy that nobody writes to."""
    array = np.array(numbers, dtype=kind)
    array.flags.writeable = False
    return array
