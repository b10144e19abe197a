"""Weights out of files: the CSV that `to_csv` writes, plain numbers, numpy's own format."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Table(NamedTuple):
    """A grid from a file, with the labels that the file has."""

    weights: NDArray[Any]
    """(queries, keys); from an array file any shape. NaN where a table has no number."""
    tokens: list[str] | None
    queries: list[str] | None


def read_weights(path: Path, labels: bool | None = None) -> Table:
    """The grid in a .npy, .csv or .tsv file; arrays are mapped, not loaded.

    A table may have keys along its first line and queries down its first column, as `to_csv`
    writes it, or numbers alone; `labels` says which, where the file leaves it open. Raises
    ValueError, which names the row, for what is neither.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return Table(_array(path), None, None)
    if suffix in (".csv", ".tsv"):
        return _table(_lines(path, "\t" if suffix == ".tsv" else ","), labels, path.name)
    raise ValueError(f"{path.name}: weights are read from .npy, .csv and .tsv files")


def _array(path: Path) -> NDArray[Any]:
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise ValueError("it is no array that numpy.save wrote")
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as failure:
        raise ValueError(f"{path.name} cannot be read: {failure}") from failure
    if 0 in found.shape or found.dtype.names:
        what = f"records of {found.dtype.names}" if found.dtype.names else f"shape {found.shape}"
        raise ValueError(f"{path.name}: got {what}, expected weights (queries, keys)")
    return found


def _lines(path: Path, delimiter: str) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file, delimiter=delimiter) if line]
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not UTF-8; save the table in that encoding") from None
    except csv.Error as failure:
        raise ValueError(f"{path.name} is no table: {failure}") from failure
    other = next((mark for mark in "\t;, " if lines and mark in lines[0][0].strip()), None)
    if other is not None and len(lines[0]) == 1:
        raise ValueError(
            f"{path.name}: row 1 is one field, {lines[0][0][:40]!r}; fields end with "
            f"{delimiter!r} in a {path.suffix} file, not with {other!r}"
        )
    return lines


def _table(lines: list[list[str]], labels: bool | None, name: str) -> Table:
    if not lines:
        raise ValueError(f"{name} is empty")
    if labels is None:
        labels = _labelled(lines, name)
    first = 2 if labels else 1
    rows = [line[1:] for line in lines[1:]] if labels else lines
    width = len(lines[0]) - (1 if labels else 0)
    if not rows or not width:
        raise ValueError(f"{name} has labels and no weights: {len(rows)} rows of {width}")
    weights = np.full((len(rows), width), np.nan)
    for row, cells in enumerate(rows):
        if len(cells) != width:
            raise ValueError(
                f"{name}, row {row + first}: {len(cells)} weights, but row 1 has {width} "
                f"{'keys' if labels else 'weights'}"
            )
        for column, cell in enumerate(cells):
            number = _number(cell)
            if number is None:
                raise ValueError(f"{name}, row {row + first}: {cell!r} is not a number")
            weights[row, column] = number
    if not labels:
        return Table(weights, None, None)
    return Table(weights, lines[0][1:], [line[0] for line in lines[1:]])


def _labelled(lines: list[list[str]], name: str) -> bool:
    """Whether the first line and the first column are labels; refused where they could be both."""
    edge = [*lines[0][1:], *(line[0] for line in lines[1:])]
    if any(_number(cell) is None for cell in edge):
        return True
    corner = lines[0][0].strip()
    if corner and _number(corner) is not None:
        return False
    if " × " in corner:  # as `to_csv` names axes
        return True
    raise ValueError(
        f"{name}: its first cell is {corner or 'empty'!r} and the rest of the first line and the "
        "first column are numbers; are they labels? Say so with --labels yes or --labels no"
    )


def _number(cell: str) -> float | None:
    """NaN for an empty cell, None for what is no number."""
    if not cell.strip():
        return np.nan
    try:
        return None if "_" in cell else float(cell)  # Python's own 1_000
    except ValueError:
        return None
