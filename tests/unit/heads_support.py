"""What the tests of the grid of heads share."""

from __future__ import annotations

from collections import Counter

import comm
import numpy as np
import pytest
from comm.base_comm import BaseComm

from attnmap_widget import HeadGrid


class RecordingComm(BaseComm):
    """A comm that keeps what would travel to the browser."""

    def __init__(self, **kwargs: object) -> None:
        self.sent: list[tuple[dict, list]] = []
        super().__init__(**kwargs)

    def publish_msg(self, msg_type: str, data=None, buffers=None, **_: object) -> None:
        self.sent.append((data or {}, list(buffers or [])))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch):
    """Make grids whose messages can be read: sent(grid) -> [(state, bytes in buffers)]."""
    monkeypatch.setattr(comm, "create_comm", RecordingComm)

    def messages(grid: HeadGrid) -> list[tuple[dict, int]]:
        found = [
            (data["state"], sum(len(buffer) for buffer in buffers))
            for data, buffers in grid.comm.sent
            if data.get("method") == "update"
        ]
        grid.comm.sent.clear()
        return found

    return messages


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
