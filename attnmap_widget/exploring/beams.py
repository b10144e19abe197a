"""Which item of the batch gave each token of a returned sequence: `beam_indices`. Pure."""

from __future__ import annotations

import operator
from typing import Any


def chains(beam_indices: Any) -> list[list[int]]:
    """The items of each sequence, cut where it ends.

    `beam_indices` is what `generate` returns under that name: (sequences, generated tokens), -1
    after a sequence has ended; one sequence may come as a list. ValueError for anything else.
    """
    given = beam_indices.tolist() if hasattr(beam_indices, "tolist") else beam_indices
    if not isinstance(given, (list, tuple)) or not given:
        raise _refused(given)
    rows = given if isinstance(given[0], (list, tuple)) else [given]
    found = []
    for row in rows:
        try:
            items = [operator.index(item) for item in row]
        except TypeError:
            raise _refused(row) from None
        ended = items.index(-1) if -1 in items else len(items)
        if not ended or min(items[:ended]) < 0 or any(item != -1 for item in items[ended:]):
            raise _refused(row)
        found.append(items[:ended])
    return found


def scaled(chain: list[int], items: int, batch: int) -> list[int]:
    """The same of a batch of `items`, as an encoder has it: the inputs before each got its beams.

    `batch`: items that `beam_indices` counts. ValueError where it does not fit.
    """
    if max(chain) >= batch or batch % items:
        raise ValueError(
            f"beam_indices names item {max(chain)} of {batch} items, {items} an input: it is of "
            "another run"
        )
    return [item * items // batch for item in chain]


def _refused(given: Any) -> ValueError:
    return ValueError(
        f"beam_indices: got {given!r}; expected (sequences, generated tokens) items of the batch, "
        "-1 after the end, as generate(…, return_dict_in_generate=True) returns them"
    )
