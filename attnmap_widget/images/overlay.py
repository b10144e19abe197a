"""One row of a map as it lies over a picture. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import paint
from ..grid.colors import Colors
from ..grid.states import State, counted, leaks
from .patches import Patches
from .windows import Windows

_LISTED = 8
"""Tokens beside the picture that are named one by one, where there are many."""


@dataclass(frozen=True, eq=False)
class Placing:
    """Which key is which patch."""

    frames: int
    rows: int
    columns: int
    keys: NDArray[np.int32]
    """(frames * rows * columns,): the key of each patch, -1 where the map has none for it."""
    square: bool
    """Whether the map's queries are its keys, so that a patch has a row of its own."""
    default_query: int
    """The row that is shown while none is chosen."""

    @classmethod
    def of(cls, patches: Patches, shape: tuple[int, int], *, square: bool) -> Placing:
        """For a map of (queries, keys); ShapeError if it has another number of keys.

        In a sequence with a picture in it the last query is shown first: those before the picture
        cannot look at it where attention is causal.
        """
        patches.check(shape[1])
        keys = np.arange(patches.first, patches.first + patches.patches, dtype=np.int32)
        default = 0 if patches.start is None else shape[0] - 1
        return cls(patches.frames, patches.rows, patches.columns, keys, square, default)

    @classmethod
    def of_window(cls, windows: Windows, window: int) -> Placing:
        """For one window of a Swin layer: the patches outside it have no key."""
        keys = np.full((windows.height, windows.width), -1, dtype=np.int32)
        inside = windows.inside(window)
        rows, columns = windows.positions(window)[inside].T
        keys[rows, columns] = np.flatnonzero(inside)
        first = int(np.flatnonzero(inside)[0]) if inside.any() else 0
        return cls(1, windows.height, windows.width, keys.ravel(), True, first)

    def over(self, values: NDArray[Any], missing: Any) -> NDArray[Any]:
        """(keys,) as one value per patch; `missing` for a patch that has no key."""
        return np.where(self.keys >= 0, values[self.keys], missing).astype(values.dtype)

    def to_wire(self) -> dict[str, Any]:
        """As the front end's `Placing`."""
        return {
            "frames": self.frames,
            "rows": self.rows,
            "columns": self.columns,
            "keys": self.keys.astype("<i4").tobytes(),
            "square": self.square,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placing) and self.to_wire() == other.to_wire()

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Row:
    """One query's weights, by patch, and what lies on no patch."""

    query: int
    name: str
    key: int | None
    """That of the current cell, which need not be a patch."""
    placing: Placing
    weights: NDArray[np.float32]
    """One per patch, NaN where there is none."""
    states: NDArray[np.uint8]
    top: float
    """The largest magnitude of the whole row, for a scale by rows."""
    on: float
    """The weights on patches, added up."""
    total: float
    others: tuple[tuple[str, int, float | None], ...]
    """(name, key, weight) of tokens that are no patch; None: it has no weight."""
    left_out: tuple[int, float]
    """How many more of those there are, and their weights added up."""
    positions: NDArray[np.int64]
    """Which of the 256 colours each patch has; meaningless without a weight."""

    def to_wire(self) -> dict[str, Any]:
        """As the front end's `WireRow`: weights as bytes, no NaN in a list."""
        plain = bool((self.states <= State.ZERO).all())
        return {
            "query": self.query,
            "name": self.name,
            "key": self.key,
            "weights": self.weights.astype("<f4").tobytes(),
            "states": None if plain else self.states.tobytes(),
            "top": self.top,
            "on": self.on,
            "total": self.total,
            "others": [list(one) for one in self.others],
            "left_out": list(self.left_out),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.to_wire() == other.to_wire()

    __hash__ = None  # type: ignore[assignment]


def row_of(
    placing: Placing,
    cell: tuple[int, int | None],
    values: NDArray[np.float32],
    states: NDArray[np.uint8],
    colors: Colors,
    *,
    names: Sequence[str],
    query_name: str,
) -> Row:
    """The row of (query, current key), (keys,) values and states, split into patches and others."""
    query, key = cell
    on_patch = np.zeros(len(values), dtype=bool)
    on_patch[placing.keys[placing.keys >= 0]] = True
    beside = np.flatnonzero(~on_patch)
    listed = beside
    if len(beside) > _LISTED:  # the largest of many; those without a weight last
        size = np.nan_to_num(np.abs(values[beside]), nan=-1.0)
        listed = np.sort(beside[np.argsort(-size, kind="stable")[:_LISTED]])
    rest = np.setdiff1d(beside, listed)
    # As the map reads a cell: where nobody may look there is no weight, unless one leaks.
    read = counted(states) | leaks(values, states) | (states == State.PADDING)
    said = np.where(read, values, np.nan)
    others = tuple(
        (names[one], one, None if np.isnan(said[one]) else float(said[one]))
        for one in listed.tolist()
    )
    whole = values[None, :]
    return Row(
        query=query,
        name=query_name,
        key=key,
        placing=placing,
        weights=placing.over(values, np.float32(np.nan)),
        states=placing.over(states, np.uint8(State.EMPTY)),
        top=float(paint.row_tops(whole, states[None, :])[0, 0]),
        on=float(np.nansum(values[on_patch], dtype=np.float64)),
        total=float(np.nansum(values, dtype=np.float64)),
        others=others,
        left_out=(len(rest), float(np.nansum(values[rest], dtype=np.float64))),
        positions=placing.over(paint.indices(whole, states[None, :], colors)[0], 0),
    )


def colors_of(row: Row, colors: Colors) -> NDArray[np.uint8]:
    """(frames, rows, columns, 4): each patch's colour on a light page, alpha 0 without a weight."""
    there = (counted(row.states) & ~np.isnan(row.weights)) | leaks(row.weights, row.states)
    found = np.zeros((len(row.weights), 4), dtype=np.uint8)
    found[:, :3] = paint.palette(colors, dark=False)[row.positions]
    found[:, 3] = 255 * there
    placing = row.placing
    return found.reshape(placing.frames, placing.rows, placing.columns, 4)


def blend(
    picture: NDArray[np.uint8], colors: NDArray[np.uint8], opacity: float, *, smooth: bool
) -> NDArray[np.uint8]:
    """The picture in grey with (rows, columns, 4) colours over it, as blocks or smoothed between.

    At opacity 0 it is the picture itself.
    """
    if opacity == 0:
        return picture
    height, width = picture.shape[:2]
    grey = (picture @ np.array([0.2126, 0.7152, 0.0722]))[..., None]
    # By their share first: a patch without colour must not tint its neighbours where it is smooth.
    inks = colors.astype(np.float64)
    inks[..., :3] *= inks[..., 3:] / 255
    over = _smoothed(inks, height, width) if smooth else _blocks(inks, height, width)
    mixed = grey * (1 - opacity * over[..., 3:] / 255) + opacity * over[..., :3]
    drawn: NDArray[np.uint8] = np.rint(mixed).astype(np.uint8)
    return drawn


def _blocks(colors: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    rows = (np.arange(height) + 0.5) / height * colors.shape[0]
    columns = (np.arange(width) + 0.5) / width * colors.shape[1]
    block = rows.astype(int)[:, None], columns.astype(int)[None, :]
    made: NDArray[np.float64] = colors[block]
    return made


def _smoothed(colors: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """Bilinear between the middles of patches; the outer halves keep their patch's colour."""
    made = colors
    for axis, pixels in ((0, height), (1, width)):
        many = colors.shape[axis]
        at = np.clip((np.arange(pixels) + 0.5) / pixels * many - 0.5, 0, many - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if one == axis else 1 for one in range(3)])
        high = np.minimum(low + 1, many - 1)
        made = made.take(low, axis) * (1 - share) + made.take(high, axis) * share
    return made
