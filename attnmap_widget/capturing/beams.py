"""Beam search: the steps of one returned sequence, each with the item of the batch that gave it."""

from __future__ import annotations

from ..exploring.beams import scaled
from .assemble import Turn
from .calls import AttentionCall, as_index


def follow(
    calls: list[AttentionCall], chains: list[list[int]], sequence: int, batch: int
) -> list[Turn]:
    """The steps of one returned sequence.

    chains: of each sequence the items, one a step; batch: items of the batch they count.
    """
    index = as_index(sequence)
    if index is None or not 0 <= index < len(chains):
        raise ValueError(f"batch item {sequence!r}: beam_indices has 0 to {len(chains) - 1}")
    chain = scaled(chains[index], calls[0].shape[0], batch)
    if len(calls) == 1:
        return [(calls[0], chain[0])]
    if len(chain) > len(calls) or any(call.shape[2] != 1 for call in calls[1 : len(chain)]):
        raise ValueError(
            f"beam_indices has {len(chain)} tokens, which is not one a step: the steps took "
            f"{', '.join(str(call.shape[2]) for call in calls)} tokens"
        )
    return list(zip(calls, chain, strict=False))
