"""What a model was given, step by step: token ids and padding masks, by the library's names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .assemble import Placed, Turn
from .calls import AttentionCall
from .operations import MASK_CONSTANT

IDS, TARGET_IDS = "input_ids", "decoder_input_ids"
MASK, TARGET_MASK = "attention_mask", "decoder_attention_mask"
# First words of the kinds that a model of one text has.
_OWN = ("self", "effective", "text", "language")
_NAMES = (IDS, TARGET_IDS, MASK, TARGET_MASK)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Of one outermost forward: (batch, tokens) ids and masks, copied to the CPU."""

    step: int
    given: dict[str, Tensor]


def read(
    step: int, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Inputs | None:
    """The ids and masks among a forward's arguments; None where there are none."""
    named = dict(kwargs)
    if args:
        names = list(inspect.signature(module.forward).parameters)
        named.update(zip(names, args, strict=False))
    given = {}
    for name in _NAMES:
        value = named.get(name)
        if isinstance(value, Tensor) and value.ndim == 4 and name in (MASK, TARGET_MASK):
            value = _of_scores(value)
        if isinstance(value, Tensor) and _is_table(value):
            given[name] = value.detach().to("cpu", torch.long, copy=True)
    # A square one may be a mask of queries by keys; the library's has a row for each row of ids.
    rows = {len(given[name]) for name in (IDS, TARGET_IDS) if name in given}
    for name in (MASK, TARGET_MASK):
        mask = given.get(name)
        if mask is not None and mask.shape[0] == mask.shape[1] and mask.shape[0] not in rows:
            del given[name]
    return Inputs(step, given) if given else None


def _of_scores(mask: Tensor) -> Tensor | None:
    """The keys that any query may look at, of a mask (batch, heads, queries, keys) of the scores.

    None where some of the keys are older than its queries: a window may keep these from them.
    """
    seen = (mask if mask.dtype == torch.bool else mask > MASK_CONSTANT).any(1).any(1)
    last = seen.any(0).nonzero()
    used = int(last[-1]) + 1 if len(last) else 0  # slots of a static cache come after these
    return seen[:, :used] if used == mask.shape[2] else None


def _is_table(value: Tensor) -> bool:
    whole = not value.is_floating_point() or bool((value.detach() == value.detach().round()).all())
    return value.ndim == 2 and not value.is_meta and not value.is_nested and whole


def fed(inputs: list[Inputs], name: str, step: int | None = None) -> Tensor | None:
    """What was given under that name at a step; None: at the last step that was given any."""
    for one in reversed(inputs):
        if name in one.given and step in (None, one.step):
            return one.given[name]
    return None


def ids_of_steps(inputs: list[Inputs], name: str, placed: list[Placed]) -> list[int | None]:
    """The ids of a sequence by position; None where a position's id was not seen."""
    end = max(step.query + step.rows for step in placed)
    found: list[int | None] = [None] * end
    for step in placed:
        ids = fed(inputs, name, step.call.step)
        batch, _, queries, _ = step.call.shape
        if ids is not None and ids.shape == (batch, queries):
            part = ids[step.item, : step.rows].tolist()
            found[step.query : step.query + step.rows] = part
    return found


def names_of(
    call: AttentionCall, inputs: list[Inputs]
) -> tuple[tuple[str | None, bool], tuple[str | None, bool]]:
    """Under which names (the inputs, a decoder's own tokens) were given, for this kind of call.

    The flag: whether the call's rows are those tokens, step by step. No name: not made of tokens.
    """
    kind = _kind(call, inputs)
    if kind == "self":
        return (IDS, True), (None, False)
    if kind == "encoder":
        return (IDS, False), (None, False)
    return ((IDS, False), (TARGET_IDS, True)) if kind else ((None, False), (None, False))


def masks_of(call: AttentionCall, inputs: list[Inputs]) -> tuple[str | None, str | None]:
    """The names of the masks of the keys and of the queries of such calls."""
    masks = {
        "self": (MASK, MASK), "encoder": (MASK, MASK), "decoder": (TARGET_MASK, TARGET_MASK),
        "cross": (MASK, TARGET_MASK),
    }  # fmt: skip
    return masks.get(_kind(call, inputs), (None, None))


def _kind(call: AttentionCall, inputs: list[Inputs]) -> str:
    """Whose tokens these are: "self", "encoder", "decoder", "cross"; "" for those of no text."""
    decodes = fed(inputs, TARGET_IDS) is not None
    first, *rest = call.kind.split()
    if call.cross:
        return "cross" if decodes else ""
    if first == "encoder" or (decodes and first == "decoder"):
        return first
    return "self" if not decodes and first in _OWN and rest != ["cross"] else ""


def row(
    inputs: list[Inputs], name: str, turn: Turn, count: int, step: int | None = None
) -> list[int | None] | None:
    """One item's ids that were given at once: at `step`, or None: before anything was generated.

    None where they are not `count`.
    """
    call, item = turn
    first = inputs[0].step if inputs else None
    table = fed(inputs, name, first if step is None else step)
    if table is None or table.shape[1] != count:
        return None
    return _item(table, item, call.shape[0])


def padding(
    inputs: list[Inputs], name: str | None, turn: Turn, at: range, lengths: dict[int, int]
) -> list[bool] | None:
    """True where the longest mask of that name says padding, for the positions ``at``.

    lengths: of each step how long its mask has to be; another is of something else, such as the
    text without a learned prefix. A mask that was not given for every position says nothing about
    those that came later.
    """
    tables = [
        one.given[name]
        for one in inputs
        if name is not None and name in one.given
        if one.given[name].shape[1] == lengths.get(one.step)
    ]
    if not tables:
        return None
    call, item = turn
    mask = _item(max(tables, key=lambda table: table.shape[1]), item, call.shape[0])
    if mask is None:
        return None
    found = [position < len(mask) and mask[position] == 0 for position in at]
    return found if any(found) else None


def _item(table: Tensor, item: int, batch: int) -> list[int | None] | None:
    """One item's row; a table of fewer items is of the inputs before each was given its beams."""
    if batch % table.shape[0]:
        return None
    found: list[int | None] = table[item * table.shape[0] // batch].tolist()
    return found
