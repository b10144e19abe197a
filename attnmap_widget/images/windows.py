"""Shifted windows of a Swin transformer: which patches a window holds. Pure.

Liu et al., Swin Transformer (2021), arXiv:2103.14030, section 3.2: attention runs inside windows of
size × size patches. In every other layer the grid is first rolled by `shift` patches up and left,
so that windows cross the borders of those before; what the roll brings together from opposite
edges of the picture is kept apart by a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PAD = "pad"
"""The label of a position beyond the picture, where the model filled up the last windows."""


@dataclass(frozen=True)
class Windows:
    """The windows of one layer over a grid of height × width patches.

    `size` is the side of a window, `shift` by how many patches the grid is rolled; windows are
    numbered row by row, and so are the patches inside one.
    """

    height: int
    width: int
    size: int
    shift: int

    @property
    def rows(self) -> int:
        """Windows down the grid; the last one may reach beyond it."""
        return -(-self.height // self.size)

    @property
    def columns(self) -> int:
        """Windows across the grid."""
        return -(-self.width // self.size)

    @property
    def count(self) -> int:
        """Windows of one picture."""
        return self.rows * self.columns

    def positions(self, window: int) -> NDArray[np.intp]:
        """(size², 2): the true row and column on the grid of each position in a window.

        The roll is undone. A row of `height` or more, or such a column, is beyond the picture.
        """
        rows, columns = self._rolled(window)
        down, across = self.rows * self.size, self.columns * self.size
        return np.stack([(rows + self.shift) % down, (columns + self.shift) % across], axis=1)

    def labels(self, window: int) -> list[str]:
        """One per position: "r3c4" by true position, "pad" beyond the picture."""
        inside = self.inside(window)
        return [
            f"r{row}c{column}" if there else PAD
            for (row, column), there in zip(self.positions(window), inside, strict=True)
        ]

    def inside(self, window: int) -> NDArray[np.bool_]:
        """(size²,), True where the position is a patch of the picture."""
        rows, columns = self.positions(window).T
        found: NDArray[np.bool_] = (rows < self.height) & (columns < self.width)
        return found

    def allowed(self, window: int) -> NDArray[np.bool_] | None:
        """(size², size²), True where a position may look at another; None: everywhere.

        The roll puts patches of opposite edges into one window; they may not look at each other.
        """
        if self.shift == 0:
            return None
        sides = ((self.rows, 0), (self.columns, 1))
        rolled = self._rolled(window)
        regions = [
            (at >= many * self.size - self.size).astype(int) + (at >= many * self.size - self.shift)
            for (many, axis), at in zip(sides, rolled, strict=True)
        ]
        region = regions[0] * 3 + regions[1]
        same: NDArray[np.bool_] = region[:, None] == region[None, :]
        return None if same.all() else same

    def _rolled(self, window: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of a window's positions on the rolled grid."""
        if not 0 <= window < self.count:
            raise ValueError(f"window: {window} does not exist; there are 0 to {self.count - 1}")
        row, column = divmod(window, self.columns)
        down, across = np.divmod(np.arange(self.size**2), self.size)
        return row * self.size + down, column * self.size + across

    def title(self, item: int) -> str:
        """The name of a batch item, which is a window of a picture: "(1, 2)", by row and column."""
        row, column = divmod(item % self.count, self.columns)
        return f"({row}, {column})"
