"""All heads of a grid as one block of bytes that fills up: what travels to the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from .thumbnails import Thumbnail


class Known(IntEnum):
    """What is known of a head; the front end knows these numbers."""

    NOTHING = 0
    ALL = 1
    SAMPLE = 2
    """A few of its queries were read."""
    ERROR = 3


class Sheet:
    """Thumbnails and numbers of a fixed number of heads, each in its own place by index."""

    def __init__(self, heads: int, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.known = np.zeros(heads, dtype=np.uint8)
        """(heads,) of `Known`."""
        self.numbers = np.full((heads, len(self.columns)), np.nan)
        self.ranges = np.zeros((heads, 2), dtype=np.float32)
        self.shapes = np.zeros((heads, 2), dtype=np.uint8)
        """(heads, 2) rows and columns of each thumbnail."""
        self.levels = np.zeros((heads, 0), dtype=np.uint8)
        """(heads, cells) row by row; what is behind a smaller thumbnail is 0."""

    def put(
        self, index: int, small: Thumbnail, numbers: Mapping[str, float], known: Known = Known.ALL
    ) -> None:
        """Fill one place; read by another thread, it is known only once all of it is there."""
        if small.levels.size > self.levels.shape[1]:
            wider = small.levels.size - self.levels.shape[1]
            self.levels = np.pad(self.levels, ((0, 0), (0, wider)))
        self.levels[index, : small.levels.size] = small.levels.ravel()
        self.shapes[index] = small.levels.shape
        self.ranges[index] = small.low, small.high
        self.numbers[index] = [numbers.get(name, np.nan) for name in self.columns]
        self.known[index] = known

    def to_wire(self, at: Sequence[int] | None = None) -> dict[str, Any]:
        """As the front end's `WireSheet`: of all heads, or of those numbers only."""
        places = slice(None) if at is None else np.asarray(at, dtype=np.uint32)
        # First of all, or another thread might make known what was copied before it was there.
        known = self.known[places].copy()
        levels = self.levels
        parts = (
            self.numbers[places].astype("<f4", copy=False),
            self.ranges[places].astype("<f4", copy=False),
            known,
            self.shapes[places],
            levels[places],
        )
        return {
            "heads": len(known),
            "slot": levels.shape[1],
            "columns": len(self.columns),
            "at": None if at is None else np.asarray(at, dtype="<u4").tobytes(),
            "data": b"".join(part.tobytes() for part in parts),
        }
