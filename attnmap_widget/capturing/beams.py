"""Beam search: at which item of the batch each token of a returned sequence was computed.

``beam_indices`` is what ``generate`` returns under that name: (sequences, generated tokens), the
item of the batch that gave each token, -1 after a sequence has ended.
"""

from __future__ import annotations

from typing import Any

from .assemble import Turn
from .calls import AttentionCall, as_index


def sequences(beam_indices: Any) -> list[list[int]]:
    """The items of each sequence, cut where it ends; ValueError for what is no such table."""
    given = beam_indices.tolist() if hasattr(beam_indices, "tolist") else beam_indices
    rows = list(given)
    if rows and all(as_index(item) is not None for item in rows):
        rows = [rows]
    found = []
    for row in rows:
        items = [as_index(item) for item in row] if isinstance(row, (list, tuple)) else [None]
        ended = items.index(-1) if -1 in items else len(items)
        chain = [item for item in items[:ended] if item is not None and item >= 0]
        if len(chain) < ended or not chain or any(item != -1 for item in items[ended:]):
            raise ValueError(
                f"beam_indices: got {row!r}; expected (sequences, generated tokens) items of the "
                "batch, -1 after the end, as generate(…, return_dict_in_generate=True) returns them"
            )
        found.append(chain)
    if not found:
        raise ValueError("beam_indices: no sequences")
    return found


def follow(
    calls: list[AttentionCall], beams: list[list[int]], sequence: int, batch: int
) -> list[Turn]:
    """The steps of one returned sequence, each with its item.

    ``batch``: items of the batch that ``beam_indices`` counts. An encoder ran on fewer: the inputs
    before each was given its beams.
    """
    index = as_index(sequence)
    if index is None or not 0 <= index < len(beams):
        raise ValueError(f"batch item {sequence!r}: beam_indices has 0 to {len(beams) - 1}")
    chain, items = beams[index], calls[0].shape[0]
    if max(chain) >= batch or batch % items:
        raise ValueError(
            f"beam_indices names item {max(chain)}, the batch has {batch}: they are of another run"
        )
    if len(calls) == 1:
        return [(calls[0], chain[0] * items // batch)]
    if len(chain) > len(calls) or any(call.shape[2] != 1 for call in calls[1 : len(chain)]):
        raise ValueError(
            f"beam_indices has {len(chain)} tokens, which is not one a step: the steps took "
            f"{', '.join(str(call.shape[2]) for call in calls)} tokens"
        )
    return [(call, item * items // batch) for call, item in zip(calls, chain, strict=False)]
