"""Is a rebuilt record what the model computed? A few rows are compared at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .records import Record, Shape

_TOLERANCE = {
    torch.float64: 1e-7,
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 2e-2,
}


def tolerance(dtype: torch.dtype) -> float:
    """Largest difference between two roundings of the same weight in this type."""
    return _TOLERANCE.get(dtype, 1e-5)


def sample(shape: Shape) -> list[tuple[int, int, int]]:
    """Two (batch, head, row): the last and a middle row, where masks and offsets show."""
    batch, heads, rows, _ = shape
    return list(dict.fromkeys([(0, 0, rows - 1), (batch - 1, heads - 1, rows // 2)]))


def matches_weights(record: Record, weights: Tensor) -> bool:
    """Compare rows with the weights (batch, heads, queries, keys) that the model formed."""
    if tuple(weights.shape) != record.shape or 0 in record.shape:
        return False
    limit = tolerance(weights.dtype)
    for batch, head, row in sample(record.shape):
        rebuilt = record.rows(batch, head, slice(row, row + 1, 1))
        if not _close(rebuilt, weights[batch, head, row : row + 1], limit):
            return False
    return True


def matches_output(record: Record, value: Tensor, output: Tensor) -> bool:
    """Compare rows of weights·value with what a fused kernel gave back.

    value: (batch or 1, key heads, keys, width); output: (batch, heads, queries, width). A row with
    no key to look at is NaN here and zero there: it says nothing.
    """
    if 0 in record.shape:
        return False
    heads, limit = record.shape[1], tolerance(output.dtype)
    for batch, head, row in sample(record.shape):
        weights = record.rows(batch, head, slice(row, row + 1, 1))
        if bool(weights[0, 0].isnan()) and bool(weights.isnan().all()):
            continue
        values = value[batch if value.shape[0] > 1 else 0, head * value.shape[1] // heads]
        values = values.to(weights.dtype)
        # Differences of the weights are weighed by what they pick from.
        room = limit * float(1 + values.abs().amax())
        if not _close(weights @ values, output[batch, head, row : row + 1], room):
            return False
    return True


def _close(a: Tensor, b: Tensor, limit: float) -> bool:
    """Equal up to the limit, and NaN in the same places."""
    difference = float((a - b).abs().amax())
    if math.isnan(difference):
        same = torch.equal(a.isnan(), b.isnan())
        return same and float((a - b).nan_to_num(0.0).abs().amax()) <= limit
    return difference <= limit
