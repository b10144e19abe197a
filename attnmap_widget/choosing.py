"""Which map: what is wanted, made whole by what was chosen before and what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .sources import Choice, Source


def choose(source: Source, wanted: dict[str, Any], before: Choice | None = None) -> Choice:
    """The whole choice: what is wanted must exist, the rest is kept where it still does.

    Raises ValueError that lists what there is.
    """
    layers = source.layers
    if wanted.get("layer") is not None:
        layer = _existing("layer", wanted["layer"], layers)
    else:
        near = before.layer if before else layers[0]
        layer = min(layers, key=lambda other: abs(other - near))
    kinds = source.offer(layer, None).kinds
    if wanted.get("kind") is not None:
        kind = _existing("kind", wanted["kind"], kinds)
    else:
        kind = before.kind if before and before.kind in kinds else kinds[0]
    offer = source.offer(layer, kind)
    head = _kept("head", wanted, before.head if before else 0, offer.heads, ("mean", "max"))
    batch = _kept("batch", wanted, before.batch if before else 0, offer.items)
    step = wanted.get("step", before.step if before else None)
    if step is not None and (offer.steps > 1 or "step" in wanted):
        step = _kept("step", wanted, step, offer.steps)
    step = None if offer.steps == 1 else step
    return Choice(layer, head, kind, batch, step)


def heads(count: int) -> list[int | str]:
    """What the menu for heads offers."""
    return [*range(count), *(("mean", "max") if count > 1 else ())]


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
    return before if isinstance(before, str) else min(before, count - 1)
