"""The windows that a Swin layer attends in, as they are while it runs."""

from __future__ import annotations

from torch import nn

from ..images.windows import Windows
from .records import Shape
from .session import Running

_LAYERS = {
    ("transformers.models.swin.modeling_swin", "SwinLayer"),
    ("transformers.models.swinv2.modeling_swinv2", "Swinv2Layer"),
}
"""Layers whose order of windows and roll are known to be those of `Windows`."""


def windows_of(running: list[Running]) -> Windows | None:
    """The windows of the call that happens now; None where it is in no such layer.

    A layer is asked while it runs: it makes its window smaller, and stops shifting, by the size of
    what it is given.
    """
    for entry in running:
        if not _is_layer(entry.module) or entry.inputs is None:
            continue
        args, kwargs = entry.inputs
        size = kwargs.get("input_dimensions", args[1] if len(args) > 1 else None)
        if size is None:
            return None
        height, width = (int(side) for side in size)
        side, shift = int(entry.module.window_size), int(entry.module.shift_size)  # type: ignore[arg-type]
        return Windows(height, width, side, shift)
    return None


def fitting(windows: Windows | None, shape: Shape) -> Windows | None:
    """The windows if (batch, heads, queries, keys) is attention inside them, else None."""
    if windows is None:
        return None
    inside = windows.size**2
    whole = shape[0] % windows.count == 0 and shape[2:] == (inside, inside)
    return windows if whole else None


def _is_layer(module: nn.Module) -> bool:
    return any((kind.__module__, kind.__name__) in _LAYERS for kind in type(module).__mro__)
