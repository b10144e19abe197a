"""Mean and spread of many summaries in one pass, and of parts put together. Numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .summary import HeadSummary, frozen


class CorpusSummary(HeadSummary):
    """A `HeadSummary` whose numbers are means over texts.

    `std["entropy"]` is their standard deviation (n − 1 in the denominator; NaN below two texts),
    `count["entropy"]` how many texts had such a number. Each is (n,), in the order of the rows.
    """

    texts: int
    """How many there were."""
    std: Mapping[str, NDArray[np.float64]]
    count: Mapping[str, NDArray[np.int64]]

    def __init__(  # noqa: PLR0917 - as the base class, and three more
        self, layers: Any, heads: Any, values: Any, std: Any, count: Any, texts: int
    ) -> None:
        super().__init__(layers, heads, values)
        self.texts = texts
        self.std = {name: frozen(std[name], np.float64) for name in self._values}
        self.count = {name: frozen(count[name], np.int64) for name in self._values}

    def to_pandas(self) -> Any:
        """As `HeadSummary.to_pandas`, with columns "entropy_std", "entropy_count" and so on."""
        frame = super().to_pandas()
        for name in self._values:
            frame[f"{name}_std"], frame[f"{name}_count"] = self.std[name], self.count[name]
        return frame

    def _taken(self, order: NDArray[np.intp]) -> CorpusSummary:
        values, std, count = (
            {name: numbers[order] for name, numbers in part.items()}
            for part in (self._values, self.std, self.count)
        )
        return CorpusSummary(self.layers[order], self.heads[order], values, std, count, self.texts)


class Moments:
    """What is kept of the summaries so far: count, mean, and squares about the mean, of each cell.

    Parts that saw different texts merge as if one had seen them all (Chan, Golub, LeVeque 1979).
    """

    def __init__(self) -> None:
        self.texts = 0
        self._places: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._names: list[str] = []
        self._count: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._mean: NDArray[np.float64] = np.zeros((0, 0))
        self._squares: NDArray[np.float64] = np.zeros((0, 0))

    def add(self, summary: HeadSummary) -> None:
        """Take in one text. ValueError if its heads are not those of the texts before."""
        one = Moments()
        one.texts = 1
        one._places, one._names = (summary.layers, summary.heads), list(summary.columns)
        values = np.stack([summary[name] for name in one._names])
        one._count = (~np.isnan(values)).astype(np.int64)
        one._mean = np.nan_to_num(values, nan=0.0)
        one._squares = np.zeros_like(values)
        self.merge(one)

    def merge(self, other: Moments) -> None:
        """Take in what another part has seen."""
        if other._places is None:
            return
        if self._places is None:
            self._places, self._names = other._places, other._names
            self._count = np.zeros_like(other._count)
            self._mean, self._squares = np.zeros_like(other._mean), np.zeros_like(other._mean)
        if not all(map(np.array_equal, self._places, other._places)):
            raise ValueError(
                f"text {self.texts}: the model has other heads here ({len(other._places[0])}) than "
                f"in the texts before ({len(self._places[0])}); they make no common table"
            )
        count = self._count + other._count
        share = other._count / np.maximum(count, 1)
        apart = other._mean - self._mean
        self._squares = self._squares + other._squares + apart**2 * self._count * share
        self._mean = self._mean + apart * share
        self._count = count
        self.texts += other.texts

    def summary(self) -> CorpusSummary:
        """The table. ValueError where there was no text."""
        if self._places is None:
            raise ValueError("inputs: no texts, so there is nothing to summarize")
        mean = np.where(self._count > 0, self._mean, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            std = np.sqrt(self._squares / (self._count - 1))
        std[self._count < 2] = np.nan
        mean_of, std_of, count_of = (
            dict(zip(self._names, numbers, strict=True)) for numbers in (mean, std, self._count)
        )
        return CorpusSummary(*self._places, mean_of, std_of, count_of, self.texts)
