"""The patches of transformers' vision models, by their configs. Imports neither torch nor them."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from .patches import Patches, grid_of

_CLS = ("CLS",)
_KINDS: dict[str, tuple[str, ...]] = {
    "clip_vision_model": _CLS,
    "deit": ("CLS", "distillation"),
    "dinov2": _CLS,
    "dinov2_with_registers": _CLS,
    "dinov3_vit": _CLS,
    "ijepa": (),
    "siglip_vision_model": (),
    "vit": _CLS,
}
"""The tokens before the patches, registers aside, by `config.model_type`."""


def patches_of(model: Any, pixel_values: Any) -> Patches:
    """See `Patches.from_model`."""
    config = getattr(model, "config", model)
    config = getattr(config, "vision_config", None) or config
    kind = getattr(config, "model_type", None)
    if kind not in _KINDS:
        raise ValueError(
            f"patches: how {kind or type(model).__name__} cuts a picture is not known here (known: "
            f"{', '.join(_KINDS)}); say Patches(rows, columns, prefix=…)"
        )
    shape = tuple(getattr(pixel_values, "shape", ()))
    if len(shape) != 4:
        raise ShapeError(
            f"pixel_values: got shape {shape}, expected (batch, channels, height, width)"
        )
    rows, columns = grid_of((shape[2], shape[3]), config.patch_size)
    registers = int(getattr(config, "num_register_tokens", 0) or 0)
    return Patches(rows, columns, prefix=_KINDS[kind], registers=registers)
