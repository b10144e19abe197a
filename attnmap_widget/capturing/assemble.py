"""Several steps of one layer put into one map, each row and key at its true position.

``generate`` runs the prompt first and then one token at a time: 7×7, 1×8, 1×9 become one 9×9 map.
Keys that did not exist yet at a step are NaN. What cannot be placed for certain is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from .calls import AttentionCall, Head, span
from .memory import require
from .session import SESSION


@dataclass(frozen=True, slots=True)
class Placed:
    """One step's call with the positions of its first query and its first key."""

    call: AttentionCall
    query: int
    key: int


def place(calls: list[AttentionCall], title: str) -> list[Placed]:
    """Positions of each step; ValueError, which says why, where they are not certain.

    ``calls`` are those of one layer and kind, one per step, in order.
    """
    if len({call.shape[:2] for call in calls}) > 1:
        raise ValueError(f"{title}: the steps differ in batch size or heads; {_choose(calls)}")
    placed: list[Placed] = []
    seen = 0
    for call in calls:
        _, _, queries, keys = call.shape
        if call.cross:
            if keys != calls[0].shape[3]:
                raise ValueError(f"{title}: the steps look at different keys; {_choose(calls)}")
            placed.append(Placed(call, seen, 0))
        else:
            first = seen if placed else max(0, keys - queries)  # a cache may precede the capture
            if placed and (keys <= queries or keys > first + queries):
                raise ValueError(
                    f"{title} ran {len(calls)} times on separate inputs, which make no common map; "
                    f"{_choose(calls)}"
                )
            # A sliding cache holds only the last keys.
            placed.append(Placed(call, first, first + queries - keys))
            seen = first
        seen += queries
    return placed


def check_order(placed: list[Placed], batch: int, title: str) -> None:
    """Refuse steps whose keys do not continue each other, for one item of the batch.

    Such are runs of their own on a common cache, drafts that were rejected, and beams, where an
    item of the batch need not continue itself.
    """
    for before, after in pairwise(placed):
        old, new = before.call.record.keys, after.call.record.keys
        if old is None or new is None:
            raise ValueError(
                f"{title}: what its steps looked at is not known, so rows of several cannot be put "
                f"together; {_choose([step.call for step in placed])}"
            )
        start = max(before.key, after.key)
        count = min(before.key + old.shape[2], after.key + new.shape[2]) - start
        with SESSION.quiet():
            ours, theirs = (
                keys[batch if keys.shape[0] > 1 else 0, :, start - at : start - at + max(0, count)]
                for keys, at in ((old, before.key), (new, after.key))
            )
            same = ours.shape == theirs.shape and bool(torch.equal(ours, theirs))
        if not same:
            raise ValueError(
                f"{title}: the keys of step {after.call.step} do not continue those of step "
                f"{before.call.step}: the steps were separate runs, drafts were rejected (assisted "
                "and prompt-lookup decoding), or the batch was reordered between steps (beam "
                f"search); {_choose([step.call for step in placed])}"
            )


def assembled(  # noqa: PLR0917 (the order of what is read)
    placed: list[Placed],
    head: Head,
    batch: int,
    queries: slice,
    keys: slice,
    read: Callable[..., Tensor] = AttentionCall.weights,
) -> Tensor:
    """What `read` gives of each step, ([heads,] queries, keys), NaN where no key existed."""
    rows, columns = span("queries", queries, rows_of(placed)), span("keys", keys, keys_of(placed))
    heads = (placed[0].call.shape[1],) if head is None else ()
    require((*(heads or (1,)), len(rows), len(columns)))
    out = torch.full((*heads, len(rows), len(columns)), float("nan"))
    for step in placed:
        into_rows, from_rows = _overlap(rows, step.query, step.call.shape[2])
        into_keys, from_keys = _overlap(columns, step.key, step.call.shape[3])
        if into_rows is not None and into_keys is not None:
            part = read(step.call, head, batch, from_rows, from_keys)
            out[..., into_rows, into_keys] = part
    return out


def assembled_mask(
    placed: list[Placed], head: int, batch: int, queries: slice = slice(None)
) -> Tensor | None:
    """Where the masks allow a look, (queries, keys); keys that did not exist count as allowed."""
    wanted = span("queries", queries, rows_of(placed))
    out: Tensor | None = None
    for step in placed:
        into, rows = _overlap(wanted, step.query, step.call.shape[2])
        part = None if into is None else step.call.allowed(head, batch, rows)
        if part is not None:
            if out is None:
                out = torch.ones(len(wanted), keys_of(placed), dtype=torch.bool)
            skip = max(0, -step.key)
            out[into, step.key + skip : step.key + part.shape[1]] = part[:, skip:]
    return out


def rows_of(placed: list[Placed]) -> int:
    """Rows of the assembled map."""
    return max(step.query + step.call.shape[2] for step in placed)


def keys_of(placed: list[Placed]) -> int:
    """Keys of the assembled map."""
    return max(step.key + step.call.shape[3] for step in placed)


def _overlap(wanted: range, start: int, count: int) -> tuple[slice | None, slice]:
    """Which entries of ``wanted`` lie in [start, start + count), and where in there they are."""
    inside = [place for place, position in enumerate(wanted) if start <= position < start + count]
    if not inside:
        return None, slice(0, 0)
    first, last = wanted[inside[0]] - start, wanted[inside[-1]] - start
    return slice(inside[0], inside[-1] + 1), slice(first, last + 1, wanted.step)


def _choose(calls: list[AttentionCall]) -> str:
    return f"choose step= from {', '.join(str(call.step) for call in calls)}"
