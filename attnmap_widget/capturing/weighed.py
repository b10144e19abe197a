"""The same pass over weights that are there already: a model's own, or an array's."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import Stopped
from .job import Found

_CELLS = 1 << 21


def survey_weights(
    read: Callable[[slice], Tensor],
    keys: int,
    rows: range,
    bin_: tuple[int, int],
    *,
    progress: Callable[[float], None] | None,
    cancelled: Callable[[], bool] | None,
) -> Found:
    """A `Found` whose ``best`` and ``top`` are weights; of a bin, the one of largest magnitude.

    ``read`` gives rows of weights, (rows, keys); NaN is no weight. Raises `Stopped`.
    """
    height, columns = bin_
    count, bins = len(rows), -(-keys // columns)
    found = _empty(count, keys, (-(-count // height), bins))
    step = max(1, _CELLS // (keys * height)) * height
    for start in range(0, count, step):
        taken = rows[start : start + step]
        weights = read(slice(taken.start, taken.stop, taken.step)).to("cpu", torch.float32)
        here = slice(start, start + len(taken))
        void = weights.isnan()
        found.void[here] = void.all(1)
        plain = weights.masked_fill(void, 0.0)
        found.total[here] = plain.sum(1, dtype=torch.float64)
        found.mass += plain.sum(0, dtype=torch.float64)
        positive = plain.clamp(min=0.0)
        found.entropy[here] = -torch.special.xlogy(positive, positive).sum(1) / math.log(2)
        found.top[here], found.top_key[here] = weights.masked_fill(void, -math.inf).max(1)
        into = slice(start // height, start // height + -(-len(taken) // height))
        _pool(found, weights, start, into, bin_)
        if cancelled is not None and cancelled():
            raise Stopped
        if progress is not None:
            progress(min(1.0, (start + len(taken)) / count))
    found.top.masked_fill_(found.void, math.nan)
    found.top_key.masked_fill_(found.void, -1)
    found.entropy.masked_fill_(found.void, math.nan)
    return found


def _pool(found: Found, weights: Tensor, start: int, into: slice, bin_: tuple[int, int]) -> None:
    height, columns = bin_
    bins = found.best.shape[1]
    tall, wide = (into.stop - into.start) * height, bins * columns
    padding = (0, wide - weights.shape[1], 0, tall - len(weights))
    padded = torch.nn.functional.pad(weights, padding, value=math.nan)
    cells = (
        padded.view(-1, height, bins, columns).transpose(1, 2).reshape(-1, bins, height * columns)
    )
    found.sums[into] = cells.nansum(2, dtype=torch.float64)
    found.counts[into] = (~cells.isnan()).sum(2).to(torch.float64)
    rank = cells.abs().nan_to_num_(nan=-1.0)
    place = rank.argmax(2)
    found.best[into] = cells.gather(2, place[:, :, None])[:, :, 0]
    first = torch.arange(len(cells), device="cpu")[:, None] * height + start
    found.row[into] = place // columns + first
    found.key[into] = place % columns + torch.arange(bins, device="cpu") * columns


def _empty(count: int, keys: int, bins: tuple[int, int]) -> Found:
    def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device="cpu")

    return Found(
        best=new(*bins), row=new(*bins, dtype=torch.int64), key=new(*bins, dtype=torch.int64),
        reference=new(0), log_sum=new(0), total=new(count, dtype=torch.float64), top=new(count),
        top_key=new(count, dtype=torch.int64), entropy=new(count),
        mass=new(keys, dtype=torch.float64), sums=new(*bins, dtype=torch.float64),
        counts=new(*bins, dtype=torch.float64), void=new(count, dtype=torch.bool),
        forbidden=new(*bins, dtype=torch.bool), weights=True,
    )  # fmt: skip
