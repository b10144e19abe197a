"""What a grid of heads says about itself: its title, what its maps are, what went wrong. Pure."""

from __future__ import annotations

from .filling import Filling

_SOME_ERRORS = 50
"""Different messages that are told; there may be one a head."""


def title(caption: str, filling: Filling) -> str:
    """Caption, and where there is a choice kind, batch item and step."""
    offer = filling.source.offer(filling.rows[0][0], filling.kind)
    parts = [caption or "All heads"]
    if filling.kind is not None and len(offer.kinds) > 1:
        parts.append(filling.kind)
    if offer.items > 1:
        parts.append(f"item {filling.batch}")
    if filling.step is not None:
        parts.append(f"step {filling.step}")
    return " · ".join(parts)


def note(filling: Filling) -> str:
    """How large the maps are, and what a cell of a thumbnail stands for."""
    sizes = sorted(filling.shapes)
    if not sizes:
        return ""
    queries, keys = sizes[0]
    said = [f"{queries} × {keys} weights each" if len(sizes) == 1 else "maps of several sizes"]
    rows, columns = filling.pooled
    if rows * columns > 1:
        upto = "" if len(sizes) == 1 else "up to "
        said.append(f"a cell is the largest of {upto}{rows} × {columns}")
    if filling.sampled:
        said.append("a sample of the queries is read")
    excluded = filling.look.exclude_keys
    if excluded:
        said.append(f"out of the colour range: key {', '.join(map(str, excluded))}")
    return " · ".join(said)


def errors(filling: Filling) -> list[tuple[str, list[int]]]:
    """Each message with the numbers of its heads."""
    messages: dict[str, list[int]] = {}
    for index, message in sorted(filling.errors.items()):
        messages.setdefault(message, []).append(index)
    return list(messages.items())[:_SOME_ERRORS]
