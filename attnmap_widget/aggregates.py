"""Several maps as one: mean, maximum, rollout. Numpy only; every result says over what it is.

A cell without a weight (NaN) in one map is left out of that cell and not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import ShapeError
from .grid.weights import FloatGrid, as_numbers, refuse_infinite

Reduction = Literal["mean", "max"]


class Reduced(NamedTuple):
    """What came of several maps."""

    values: FloatGrid
    """(queries, keys) float32, NaN where no map has a weight."""
    used: int
    """Maps that have a weight anywhere."""
    given: int


def mean_of(maps: Iterable[Any]) -> FloatGrid:
    """The mean of maps (queries, keys), cell by cell; float32, NaN where none has a weight.

    Raises ShapeError for no map or maps of different shapes, ValueError for infinite weights.
    """
    return reduce("mean", maps).values


def max_of(maps: Iterable[Any]) -> FloatGrid:
    """The largest weight of maps (queries, keys), cell by cell; otherwise as `mean_of`."""
    return reduce("max", maps).values


def reduce(how: Reduction, maps: Iterable[Any], what: str = "map") -> Reduced:
    """Mean or maximum, in memory for one map however many there are.

    `what` names a map in messages ("head").
    """
    total: NDArray[np.float64] | None = None
    used = given = 0
    for index, one in enumerate(maps):
        weights = as_numbers(one)[0]
        if weights.ndim != 2:
            raise ShapeError(
                f"{what} {index} has shape {weights.shape}, expected (queries, keys) each; one map "
                "alone goes into a list"
            )
        refuse_infinite(weights)
        if total is None:
            total = np.full(weights.shape, 0.0 if how == "mean" else -np.inf)
            count = np.zeros(weights.shape, dtype=np.int64)
        if weights.shape != total.shape:
            raise ShapeError(f"{what} {index} is {weights.shape}, {what} 0 is {total.shape}")
        there = ~np.isnan(weights)
        if how == "mean":
            total[there] += weights[there]
        else:
            np.fmax(total, weights, out=total)
        count += there
        used += bool(there.any())
        given += 1
    if total is None:
        raise ShapeError(f"there is no {what} to take a {how} of")
    if how == "mean":
        with np.errstate(invalid="ignore"):
            total /= count
    total[count == 0] = np.nan
    return Reduced(total.astype(np.float32), used, given)


def rollout(layers: Iterable[Any]) -> FloatGrid:
    """Attention rollout: how much of each input position arrives at each position at the end.

    Each layer (one map, such as the mean over its heads) passes on half by attention and half by
    the residual connection: 0.5·A + 0.5·I, each row divided by its sum, multiplied up from the
    first layer to the last (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers").

    Parameters
    ----------
    layers:
        Maps (tokens, tokens), first layer first.

    Returns
    -------
    float32 (tokens, tokens), rows sum to 1: row i has the shares of the inputs in position i.

    Raises
    ------
    ShapeError
        no layers, maps that are not square, or of different token counts.
    ValueError
        cells without a weight (NaN), infinite or negative weights.
    """
    total: NDArray[np.float64] | None = None
    for index, given in enumerate(layers):
        weights = as_numbers(given)[0].astype(np.float64)
        _refuse_for_rollout(index, weights, None if total is None else len(total))
        mixed = 0.5 * weights + 0.5 * np.eye(len(weights))
        mixed /= mixed.sum(axis=1, keepdims=True)
        total = mixed if total is None else mixed @ total
    if total is None:
        raise ShapeError("rollout: there are no layers")
    return total.astype(np.float32)


def _refuse_for_rollout(index: int, weights: NDArray[np.float64], tokens: int | None) -> None:
    where = f"rollout: map {index} of the layers"
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        shape = "×".join(map(str, weights.shape))
        raise ShapeError(
            f"{where} is {shape}, expected one square map (tokens × tokens): layers of cross "
            "attention, or of one step of generate, cannot be multiplied up"
        )
    if tokens not in (None, len(weights)):
        raise ShapeError(
            f"{where} has {len(weights)} tokens, the layers before have {tokens}; pooled or pruned "
            "positions have no common list"
        )
    refuse_infinite(weights)
    rows = np.flatnonzero(np.isnan(weights).any(axis=1))
    if rows.size:
        raise ValueError(
            f"{where} has no weight (NaN) in row {rows[0]} ({rows.size} in all); leave such "
            "positions out, a padded row has no valid key"
        )
    if (weights < 0).any():
        query, key = (int(i) for i in np.argwhere(weights < 0)[0])
        raise ValueError(
            f"{where} is below 0 at query {query}, key {key}; give softmax weights, not scores"
        )
