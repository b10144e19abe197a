"""Is a rebuilt record what the model computed? A few rows are compared at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from .records import Record, Shape

_BLOCK_CELLS = 1 << 20
_TOLERANCE = {
    torch.float64: 1e-7,
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 2e-2,
}


def tolerance(dtype: torch.dtype) -> float:
    """Largest difference between two roundings of the same weight in this type."""
    return _TOLERANCE.get(dtype, 1e-5)


def sample(shape: Shape) -> list[tuple[int, int, int, int]]:
    """Two (batch, head, row, end): the last and a middle row, where masks and offsets show."""
    batch, heads, rows, _ = shape
    found = [(0, 0, rows - 1), (batch - 1, heads - 1, rows // 2)]
    return [(item, head, row, row + 1) for item, head, row in dict.fromkeys(found)]


def matches_weights(record: Record, weights: Tensor, every_row: bool = False) -> bool:
    """Compare rows with the weights (batch, heads, queries, keys) that the model formed.

    A few are enough to tell whether the right formula was found; ``every_row`` also finds single
    cells that were written to.
    """
    if tuple(weights.shape) != record.shape or 0 in record.shape:
        return False
    limit = tolerance(weights.dtype)
    places = _blocks(record.shape) if every_row else sample(record.shape)
    for batch, head, first, last in places:
        rebuilt = record.rows(batch, head, slice(first, last, 1))
        if not _close(rebuilt, weights[batch, head, first:last], limit):
            return False
    return True


def _blocks(shape: Shape) -> Iterator[tuple[int, int, int, int]]:
    """All rows, in blocks that take a few megabytes."""
    batch, heads, rows, keys = shape
    count = max(1, _BLOCK_CELLS // keys)
    for item, head in product(range(batch), range(heads)):
        for first in range(0, rows, count):
            yield item, head, first, min(rows, first + count)


def matches_output(record: Record, value: Tensor, output: Tensor) -> bool:
    """Compare rows of weights·value with what a fused kernel gave back.

    value: (batch or 1, key heads, keys, width); output: (batch, heads, queries, width). A row with
    no key to look at is NaN here and zero there: it says nothing.
    """
    if 0 in record.shape:
        return False
    heads, limit = record.shape[1], tolerance(output.dtype)
    for batch, head, row, end in sample(record.shape):
        weights = record.rows(batch, head, slice(row, end, 1))
        if bool(weights[0, 0].isnan()) and bool(weights.isnan().all()):
            continue
        values = value[batch if value.shape[0] > 1 else 0, head * value.shape[1] // heads]
        values = values.to(weights.dtype)
        # Differences of the weights are weighed by what they pick from.
        room = limit * float(1 + values.abs().amax())
        if not _close(weights @ values, output[batch, head, row:end], room):
            return False
    return True


def _close(a: Tensor, b: Tensor, limit: float) -> bool:
    """Equal up to the limit, and NaN in the same places."""
    difference = float((a - b).abs().amax())
    if math.isnan(difference):
        same = torch.equal(a.isnan(), b.isnan())
        return same and float((a - b).nan_to_num(0.0).abs().amax()) <= limit
    return difference <= limit
