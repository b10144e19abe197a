"""Several steps of one layer put into one map, each row and key at its true position.

``generate`` runs the prompt first and then one token at a time: 7×7, 1×8, 1×9 become one 9×9 map.
Keys that did not exist yet at a step are NaN. Where a step goes is read from its keys: those of its
past are, number for number, keys of the step before. What cannot be placed for certain is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from .calls import AttentionCall, Head, span
from .memory import require
from .session import SESSION

Turn = tuple[AttentionCall, int]
"""One step's call and the item of its batch to read: with beams another one at each step."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One step with the positions of its first query and its first key.

    rows: how many of its queries stand; drafts that were rejected do not, and neither do their
    keys. keys: how many of its keys stand.
    """

    call: AttentionCall
    item: int
    query: int
    key: int
    rows: int
    keys: int


def place(turns: list[Turn], title: str) -> list[Placed]:
    """Positions of each step; ValueError, which says why, where they are not certain.

    ``turns`` are those of one layer and kind, one per step, in order.
    """
    calls = [call for call, _ in turns]
    if len({call.shape[:2] for call in calls}) > 1:
        raise ValueError(f"{title}: the steps differ in batch size or heads; {_choose(calls)}")
    placed: list[Placed] = []
    for call, item in turns:
        queries, keys = call.shape[2:]
        if call.cross:
            at, key = (placed[-1].query + placed[-1].rows if placed else 0), 0
            if placed:
                _same_keys(placed[-1], call, item, title, calls)
        elif not placed:
            if keys < queries:
                raise _separate(title, calls)
            at, key = keys - queries, 0  # a cache may precede the capture
        else:
            at = _continues(placed[-1], call, item, title, calls)
            key = at + queries - keys  # a sliding cache holds only the last keys
            placed[-1] = _cut(placed[-1], at)
        placed.append(Placed(call, item, at, key, queries, keys))
    return placed


def beside(own: list[Placed], turns: list[Turn], title: str) -> list[Placed]:
    """Cross attention: its rows are those of the same steps' own attention."""
    place(turns, title)  # all steps look at the same keys
    return [
        Placed(call, item, step.query, 0, step.rows, call.shape[3])
        for step, (call, item) in zip(own, turns, strict=True)
    ]


def _cut(step: Placed, end: int) -> Placed:
    """The step without the queries and keys from position ``end`` on."""
    return replace(step, rows=min(step.rows, end - step.query), keys=min(step.keys, end - step.key))


def _continues(
    before: Placed, call: AttentionCall, item: int, title: str, calls: list[AttentionCall]
) -> int:
    """Position of the first query of ``call``: the one at which its past is the step before's."""
    queries, keys = call.shape[2:]
    past, seen = keys - queries, before.query + before.rows
    if past <= 0 or past > seen:
        raise _separate(title, calls)
    old, new = _keys_of(before, call, item, title, calls)
    with SESSION.quiet():
        # Its first query follows a token that stands, at least the first one of the step before.
        low = max(before.query + 1, past, before.key + past)
        first = new[:, :1]
        starts = old[:, low - past - before.key : seen - past - before.key + 1]
        hits = (starts == first).all(0).all(-1).nonzero()[:, 0].tolist() if low <= seen else []
        found = [
            low + hit for hit in hits
            if torch.equal(
                old[:, low + hit - past - before.key :][:, :past], new[:, :past]
            )
        ]  # fmt: skip
    if len(found) == 1:
        return int(found[0])
    reason = (
        "could go to several places: tokens that repeat have the same keys"
        if found
        else f"do not continue those of step {before.call.step}: the steps were separate runs, "
        "drafts were rejected in a way that leaves no trace, or the batch was reordered between "
        "steps (beam search: give beam_indices=out.beam_indices, of "
        "out = model.generate(…, return_dict_in_generate=True))"
    )
    raise ValueError(f"{title}: the keys of step {call.step} {reason}; {_choose(calls)}")


def _same_keys(
    before: Placed, call: AttentionCall, item: int, title: str, calls: list[AttentionCall]
) -> None:
    if call.shape[3] != before.call.shape[3]:
        raise ValueError(f"{title}: the steps look at different keys; {_choose(calls)}")
    old, new = _keys_of(before, call, item, title, calls)
    with SESSION.quiet():
        if not torch.equal(old, new):
            raise ValueError(
                f"{title}: step {call.step} looks at other keys than step {before.call.step}: they "
                f"were separate runs, or the batch was reordered between steps (beam search: give "
                f"beam_indices=out.beam_indices); {_choose(calls)}"
            )


def _keys_of(
    before: Placed, call: AttentionCall, item: int, title: str, calls: list[AttentionCall]
) -> tuple[Tensor, Tensor]:
    """Keys (heads, keys, width) of one item at two steps."""
    found = []
    for record, one in ((before.call.record, before.item), (call.record, item)):
        if record.keys is None:
            raise ValueError(
                f"{title}: what its steps looked at is not known, so rows of several cannot be put "
                f"together; {_choose(calls)}"
            )
        found.append(record.keys[one if record.keys.shape[0] > 1 else 0])
    return found[0], found[1]


def assembled(
    placed: list[Placed],
    head: Head,
    queries: slice,
    keys: slice,
    read: Callable[..., Tensor] = AttentionCall.weights,
) -> Tensor:
    """What ``read`` gives of each step, float32 ([heads,] queries, keys), NaN where no key existed.

    Row 0 is the first query that was recorded.
    """
    every_row, every_key = rows_of(placed), keys_of(placed)
    rows, columns = span("queries", queries, len(every_row)), span("keys", keys, len(every_key))
    heads = (placed[0].call.shape[1],) if head is None else ()
    require((*(heads or (1,)), len(rows), len(columns)))
    out = torch.full((*heads, len(rows), len(columns)), float("nan"))
    for step in placed:
        into_rows, from_rows = _overlap(rows, step.query - every_row.start, step.rows)
        into_keys, from_keys = _overlap(columns, step.key, step.keys)
        if into_rows is None:
            continue
        if step.keys < step.call.shape[3]:
            lost = step.call.weights(head, step.item, from_rows, slice(step.keys, None))
            if bool((lost != 0).any()):
                raise ValueError(
                    f"layer {step.call.layer}: step {step.call.step} looked ahead at drafts that "
                    "were rejected, so its rows are not those of the final text; choose step="
                )
        if into_keys is not None:
            part = read(step.call, head, step.item, from_rows, from_keys)
            out[..., into_rows, into_keys] = part
    return out


def assembled_mask(placed: list[Placed], head: int, queries: slice = slice(None)) -> Tensor | None:
    """Where the masks allow a look, (queries, keys); keys that did not exist count as allowed."""
    every_row = rows_of(placed)
    wanted = span("queries", queries, len(every_row))
    out: Tensor | None = None
    for step in placed:
        into, rows = _overlap(wanted, step.query - every_row.start, step.rows)
        part = None if into is None else step.call.allowed(head, step.item, rows)
        if part is not None:
            if out is None:
                out = torch.ones(len(wanted), len(keys_of(placed)), dtype=torch.bool)
            skip = max(0, -step.key)
            out[into, step.key + skip : step.key + step.keys] = part[:, skip : step.keys]
    return out


def rows_of(placed: list[Placed]) -> range:
    """Positions of the assembled map's rows: a cache from before the capture has none."""
    return range(placed[0].query, max(step.query + step.rows for step in placed))


def keys_of(placed: list[Placed]) -> range:
    """Positions of the assembled map's keys."""
    return range(max(step.key + step.keys for step in placed))


def _overlap(wanted: range, start: int, count: int) -> tuple[slice | None, slice]:
    """Which entries of ``wanted`` lie in [start, start + count), and where in there they are."""
    inside = [place for place, position in enumerate(wanted) if start <= position < start + count]
    if not inside:
        return None, slice(0, 0)
    first, last = wanted[inside[0]] - start, wanted[inside[-1]] - start
    return slice(inside[0], inside[-1] + 1), slice(first, last + 1, wanted.step)


def _separate(title: str, calls: list[AttentionCall]) -> ValueError:
    whole = all(call.shape[2] == call.shape[3] for call in calls)
    grown = all(one.shape[2] < other.shape[2] for one, other in pairwise(calls))
    last = f"; generated without a cache? Then step={calls[-1].step} is the whole text"
    return ValueError(
        f"{title} ran {len(calls)} times on separate inputs, which make no common map; "
        f"{_choose(calls)}{last if whole and grown else ''}"
    )


def _choose(calls: list[AttentionCall]) -> str:
    return f"choose step= from {', '.join(str(call.step) for call in calls)}"
