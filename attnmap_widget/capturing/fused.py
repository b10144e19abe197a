"""Records of torch's fused encoder layer and fused multi-head attention.

In eval mode without grad, ``nn.TransformerEncoder`` runs a whole layer as one kernel that gives no
weights. The kernel runs as it would have; beside it the layer's input is projected once more to q
and k. The formulas are those of ``nn.TransformerEncoderLayer`` (norm first or last) and
``nn.MultiheadAttention``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from . import emit
from .operations import Add, Fill, Lengths, Multiply, Operation
from .provenance import TensorTable
from .records import Rebuilt
from .session import SESSION

# The padded width of nested tensors, which forget it: a batch of 12 columns may hold 9 tokens at
# most.
_WIDTHS = TensorTable()


def remember_width(nested: Tensor, padded: Tensor) -> None:
    """``nested`` was made from ``padded`` (batch, tokens, width)."""
    _WIDTHS.put(nested, padded.shape[1])


def record_layer(  # noqa: PLR0917 (torch calls it by position)
    output: Tensor,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    *rest: Any,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> None:
    """Record a call of ``torch._transformer_encoder_layer_fwd``; arguments in its order."""
    # rest: norm2 weight and bias, two linear layers with biases, then the mask and its type.
    if len(rest) > 6:
        mask, mask_type = rest[6], rest[7] if len(rest) > 7 else None
    width = _WIDTHS.get(src)
    if src.is_nested and width is not None:
        _WIDTHS.put(output, width)
    found = emit.places(SESSION.running(), square=True, cross=False)
    if not found:
        return
    with SESSION.quiet():
        states, lengths = _padded(src, width)
        if norm_first:
            states = F.layer_norm(states, (embed_dim,), norm_weight_1, norm_bias_1, eps)
        projected = _project(states, num_heads, qkv_weight, qkv_bias)
        emit.keep(found, _record(*projected, lengths, mask, mask_type))


def record_multi_head(  # noqa: PLR0917 (torch calls it by position)
    output: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> None:
    """Record a call of ``torch._native_multi_head_attention``: query, key, value are one tensor."""
    found = emit.places(SESSION.running(), square=True, cross=False)
    if found:
        with SESSION.quiet():
            states, lengths = _padded(query, _WIDTHS.get(query))
            projected = _project(states, num_head, qkv_weight, qkv_bias)
            emit.keep(found, _record(*projected, lengths, mask, mask_type))


def _padded(states: Tensor, width: int | None) -> tuple[Tensor, tuple[int, ...] | None]:
    """A nested tensor as (batch, tokens, width) and the number of tokens of each batch item."""
    if not states.is_nested:
        return states, None
    lengths = tuple(part.shape[0] for part in states.unbind())
    shape = (len(lengths), max(width or 0, *lengths), states.size(-1))
    return states.to_padded_tensor(0.0, shape), lengths


def _project(states: Tensor, heads: int, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The queries and keys of states (batch, tokens, width), each (batch, heads, tokens, ·)."""
    batch, tokens, width = states.shape
    # The first two thirds of the packed projection are q and k; v is not needed.
    both = F.linear(states, weight[: 2 * width], bias[: 2 * width])
    query, key = both.view(batch, tokens, 2, heads, width // heads).permute(2, 0, 3, 1, 4)
    return query, key


def _record(
    query: Tensor,
    key: Tensor,
    lengths: tuple[int, ...] | None,
    mask: Tensor | None,
    mask_type: int | None,
) -> Rebuilt:
    batch, heads, tokens, width = query.shape
    operations: list[Operation] = [Multiply(width**-0.5)]
    if lengths is not None:
        operations.append(Lengths(lengths))
    if mask is not None:
        # Type 0: (tokens, tokens); 1: keys (batch, tokens); 2: (batch, heads, tokens, tokens).
        axes = {0: (1, 1, tokens, tokens), 1: (batch, 1, 1, tokens)}
        spread = mask if mask_type == 2 else mask.reshape(axes[mask_type or 0])
        operations.append(
            Fill(spread, float("-inf")) if spread.dtype == torch.bool else Add(spread)
        )
    return Rebuilt(query, key, tuple(operations), (batch, heads, tokens, tokens))
