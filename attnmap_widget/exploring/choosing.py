"""Which map: what is wanted, made whole by what was chosen before and what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .combined import OVER_HEADS, OVER_LAYERS, offer
from .sources import Choice, Offer, Source


def choose(
    source: Source,
    wanted: dict[str, Any],
    before: Choice | None = None,
    *,
    number: int | str | None = None,
) -> Choice:
    """The whole choice: what is wanted must exist, the rest is kept where it still does.

    `number`: the head that was shown last in a layer alone, to which a way back from over all
    layers leads. Raises ValueError that lists what there is.
    """
    offered = layers(source)
    if wanted.get("layer") is not None:
        layer = _existing("layer", wanted["layer"], offered)
    elif before is None or before.layer in offered:
        layer = offered[0] if before is None else before.layer
    else:
        numbers = source.layers
        near = numbers[0] if isinstance(before.layer, str) else before.layer
        layer = min(numbers, key=lambda other: abs(other - near))
    kinds = offer(source, layer, None).kinds
    if wanted.get("kind") is not None:
        kind = _existing("kind", wanted["kind"], kinds)
    else:
        kind = before.kind if before and before.kind in kinds else kinds[0]
    there = offer(source, layer, kind)
    shown = before
    if before and isinstance(before.layer, str) and not isinstance(layer, str):
        shown = before if number is None else before._replace(head=number)
    head = _head(wanted, shown, layer, there.heads)
    batch = _kept("batch", wanted, before.batch if before else 0, there.items)
    step = wanted.get("step", before.step if before else None)
    if step is not None and (there.steps > 1 or "step" in wanted):
        step = _kept("step", wanted, step, there.steps)
    step = None if there.steps == 1 else step
    if wanted.get("measure") is not None:
        measure = _existing("measure", wanted["measure"], there.measures)
    else:
        measure = before.measure if before and before.measure in there.measures else "weights"
    return Choice(layer, head, kind, batch, step, measure)


def layers(source: Source) -> list[int | str]:
    """What the menu for layers offers."""
    several = source.named_layers and len(source.layers) > 1
    # From layer to layer windows are shifted: the same cell is of other patches.
    several = several and all(source.offer(n, None).windows is None for n in source.layers)
    return [*source.layers, *(OVER_LAYERS if several else ())]


def menu_of_layers(source: Source, choice: Choice, step_rows: Sequence[range]) -> list[int | str]:
    """The same without a rollout that is none: rows that are not the keys' tokens, from the first.

    `step_rows`: positions of the rows of each step, where they are known.
    """
    later = choice.step is not None and choice.step < len(step_rows)
    no_square = choice.crossing or (later and step_rows[choice.step or 0].start > 0)
    without = no_square and choice.layer != "rollout"
    return [layer for layer in layers(source) if not (without and layer == "rollout")]


def several(source: Source) -> set[str]:
    """Of which parts of a choice there is more than one in some layer, so that a menu is there."""
    found = set()
    for layer in source.layers:
        kinds = source.offer(layer, None).kinds
        for there in (source.offer(layer, kind) for kind in kinds):
            counts = {
                "kind": len(kinds), "batch": there.items, "step": there.steps,
                "measure": len(there.measures),
            }  # fmt: skip
            found |= {name for name, count in counts.items() if count > 1}
    return found


def heads(layer: int | str, count: int) -> list[int | str]:
    """What the menu for heads offers; over layers no numbers, as those mean no common head."""
    alone = [] if isinstance(layer, str) and count > 1 else range(count)
    return [*alone, *(OVER_HEADS if count > 1 else ())]


def named(name: str, there: Offer, value: Any) -> str:
    """What a menu calls a value."""
    if name == "batch":
        return str(there.item_labels[int(value)])
    if name == "layer" and isinstance(value, str):
        return "rollout" if value == "rollout" else f"all layers: {value}"
    return str(value)


def _head(wanted: dict[str, Any], before: Choice | None, layer: int | str, count: int) -> int | str:
    if not isinstance(layer, str):
        kept: Any = before.head if before else 0
        return _kept("head", wanted, kept, count, OVER_HEADS)  # type: ignore[no-any-return]
    offered = heads(layer, count)
    if wanted.get("head") is not None:
        return _existing("head", wanted["head"], offered)  # type: ignore[no-any-return]
    return before.head if before and before.head in offered else offered[0]


def _existing(name: str, wanted: Any, offered: Sequence[Any]) -> Any:
    """`wanted` as it is offered; ValueError listing what is."""
    if not isinstance(wanted, bool):
        for value in offered:
            if value == wanted:
                return value
    shown = ", ".join(map(str, offered[:40])) + (", …" if len(offered) > 40 else "")
    raise ValueError(f"{name}: {wanted!r} does not exist; there are: {shown}")


def _kept(
    name: str, wanted: dict[str, Any], before: Any, count: int, words: tuple[str, ...] = ()
) -> Any:
    """What is wanted, or else what was there before, as far as it goes."""
    if wanted.get(name) is not None:
        return _existing(name, wanted[name], [*range(count), *words])
    return before if before in words else min(before, count - 1)
