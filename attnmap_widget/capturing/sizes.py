"""How large each value is, ‖vⱼ‖: all that is kept of the values.

One number per key and key head weighs next to nothing beside q and k, and with the weights it gives
what each key adds to a head's output: ‖αᵢⱼ·vⱼ‖ = αᵢⱼ·‖vⱼ‖ (Kobayashi et al. 2020, "Attention is
Not Only a Weight", before the output projection).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .layout import Layout
from .records import Shape


def sizes_of(value: Tensor, shape: Shape) -> Tensor | None:
    """‖vⱼ‖, (batch or 1, key heads, keys, 1) float32; None where the values are not the keys'.

    value: (batch or 1, key heads, keys, width), of which the first keys count; shape: (batch,
    heads, queries, keys) of the weights that pick from them.
    """
    batch, heads, _, keys = shape
    if value.ndim != 4 or value.shape[2] < keys:
        return None
    if value.shape[0] not in (1, batch) or not value.shape[1] or heads % value.shape[1]:
        return None
    return _norms(value[:, :, :keys])


def sizes_in_product(value: Tensor, weights: Tensor, layout: Layout, shape: Shape) -> Tensor | None:
    """The same of ``weights @ value``, whose leading axes broadcast; None where they do not fit."""
    keys = weights.shape[-1]
    if value.ndim < 2 or value.shape[-2] != keys:
        return None
    return _stacked(_norms(value), weights, layout, shape)


def sizes_in_einsum(
    equation: Any, factors: list[Tensor], place: int, layout: Layout, shape: Shape
) -> Tensor | None:
    """The same of an einsum of two factors; ``place``: that of weights (…, queries, keys)."""
    if not isinstance(equation, str) or "->" not in equation:
        return None
    left, _, result = equation.replace(" ", "").partition("->")
    terms = [
        _spelled_out(term, factor) for term, factor in zip(left.split(","), factors, strict=True)
    ]
    weights, value = factors[place], factors[1 - place]
    own, other = terms[place], terms[1 - place]
    lead, key = own[:-2], own[-1]
    width = [letter for letter in other if letter not in own and letter in result]
    if len(width) != 1 or key not in other or not set(other) <= {*lead, key, *width}:
        return None
    norms = _norms(value.movedim(other.index(width[0]), -1))[..., 0]
    order = [letter for letter in other if letter != width[0]]
    present = [letter for letter in (*lead, key) if letter in order]
    norms = norms.permute([order.index(letter) for letter in present])
    norms = norms[tuple(slice(None) if letter in order else None for letter in (*lead, key))]
    return _stacked(norms[..., None], weights, layout, shape)


def _norms(value: Tensor) -> Tensor:
    """Over the last axis, which stays with length 1."""
    wide = torch.promote_types(value.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(value.detach(), dim=-1, keepdim=True, dtype=wide)
    return norms.float()


def _stacked(norms: Tensor, weights: Tensor, layout: Layout, shape: Shape) -> Tensor | None:
    try:
        full = norms.expand(*weights.shape[:-2], *norms.shape[-2:])
    except RuntimeError:
        return None
    if not layout.fits(full):
        return None
    stacked = layout.stacked(full)
    return stacked if stacked.shape[:3] == (shape[0], shape[1], shape[3]) else None


def _spelled_out(term: str, factor: Tensor) -> str:
    """A letter per axis: an ellipsis stands for those that the letters leave, from the right."""
    count = factor.ndim - len(term.replace("...", ""))
    return term.replace("...", "ZYXWVUTS"[8 - count :] if 0 < count <= 8 else "")
