"""What the tests of the grid of heads share."""

from __future__ import annotations

from collections import Counter

import numpy as np

from attnmap_widget import HeadGrid


def softmax_like(*shape: int, seed: int = 0) -> np.ndarray:
    weights = np.exp(3 * np.random.default_rng(seed).random(shape)).astype(np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


def levels(grid: HeadGrid, layer: int, head: int) -> np.ndarray:
    """The thumbnail of a head as it travels."""
    sheet, index = grid._filling.sheet, grid._filling.places[(layer, head)]
    rows, columns = sheet.shapes[index]
    return sheet.levels[index, : int(rows) * int(columns)].reshape(rows, columns)


def counting(calls: Counter[tuple[int, int]], shape: tuple[int, int] = (3, 5)):
    """A function source that counts what it is asked for."""

    def read(layer: int, head: int) -> np.ndarray:
        calls[(layer, head)] += 1
        return softmax_like(*shape, seed=10 * layer + head)

    return read
