"""Records of torch's own attention kernels, from their arguments as documented by torch.

``F.scaled_dot_product_attention`` gives no weights: they are rebuilt from its arguments.

``flex_attention``: score_mod and mask_mod are kept and run per tile. ``from … import
flex_attention`` binds the function before any capture starts, so it is not the function that is
watched but the operator beneath it, which asks for function modes.

``nn.TransformerEncoder`` in eval mode without grad runs a whole layer as one kernel. It runs as it
would have; beside it the layer's input is projected once more to q and k. The formulas are those of
``nn.TransformerEncoderLayer`` (norm first or last) and ``nn.MultiheadAttention``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from . import emit
from .layout import Layout
from .operations import Add, Causal, Fill, Lengths, Modifiers, Multiply, Operation
from .provenance import TensorTable
from .records import Held, Rebuilt
from .session import SESSION
from .verify import matches_output

# The padded width of nested tensors, which forget it: a batch of 12 columns may hold 9 tokens at
# most.
_WIDTHS = TensorTable()


def record_sdpa(  # noqa: PLR0917 (torch calls it by position)
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """Record one call. query (…, queries, width), key and value (…, keys, width)."""
    if not emit.recordable(query, key, value):
        return
    running = SESSION.running()
    found = emit.places(running, query.shape[-2] == key.shape[-2])
    if not found:
        return
    lead = tuple(output.shape[:-2])
    layout = emit.layout_of(lead, running)
    with SESSION.quiet():
        keys = _grouped(emit.computed_in(key), lead, layout)
        operations: list[Operation] = [
            Multiply(query.shape[-1] ** -0.5 if scale is None else scale)
        ]
        if attn_mask is not None:
            mask = layout.lift(attn_mask.detach(), lead)
            boolean = mask.dtype == torch.bool
            operations.append(Fill(mask, float("-inf"), keep=True) if boolean else Add(mask))
        if is_causal:
            operations.append(Causal())  # aligned at the top left, also where there are more keys
        built = Rebuilt(
            layout.lift(emit.computed_in(query), lead),
            keys,
            tuple(operations),
            (layout.batch, layout.heads, query.shape[-2], key.shape[-2]),
            matmul_dtype=accumulated_in(query.dtype),
        )
        stacked = layout.stacked(output)
        values = _grouped(value, lead, layout)
        if dropout_p or matches_output(built, values, stacked):
            emit.keep(found, built, value=values)
            return
        own = F.scaled_dot_product_attention(
            query,
            key,
            _identity(key),
            attn_mask,
            0.0,
            is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )
        emit.keep(found, Held.copy(layout.stacked(own), keys), value=values)


def _grouped(tensor: Tensor, lead: tuple[int, ...], layout: Layout) -> Tensor:
    """Keys or values with four axes; with grouped keys they have fewer heads than the queries."""
    if tensor.ndim >= 3 and lead and tensor.shape[-3] not in (1, lead[-1]):
        groups = tensor.shape[-3]
        return Layout(layout.batch, groups).lift(tensor, (*lead[:-1], groups))
    return layout.lift(tensor, lead)


def _identity(key: Tensor) -> Tensor:
    """Values that make a kernel give back its weights: V = 1, (…, keys, keys)."""
    count = key.shape[-2]
    identity = torch.eye(count, dtype=key.dtype, device=key.device)
    return identity.expand(*key.shape[:-2], count, count)


def accumulated_in(dtype: torch.dtype) -> torch.dtype:
    """Fused kernels take q·kᵀ of half types in float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def record_flex(output: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Record a call of the operator beneath flex_attention.

    It takes (query, key, value, score_mod, block_mask, scale, options, …): query (batch, heads,
    queries, width); key, value (batch, key heads, keys, width); the block mask is the tuple
    ``BlockMask.as_tuple()``, whose last entry is the mask_mod.
    """
    names = ("query", "key", "value", "score_mod", "block_mask", "scale")
    given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
    query, key, value, score_mod, block_mask, scale = (given[name] for name in names)
    if not emit.recordable(query, key, value):
        return
    found = emit.places(SESSION.running(), query.shape[2] == key.shape[2])
    if not found:
        return
    with SESSION.quiet():
        built = Rebuilt(
            query, key,
            (Multiply(scale), Modifiers(score_mod, block_mask[-1])),
            (query.shape[0], query.shape[1], query.shape[2], key.shape[2]),
            matmul_dtype=accumulated_in(query.dtype),
        )  # fmt: skip
        result: Tensor = output[0] if isinstance(output, tuple) else output
        if not matches_output(built, value, result):
            raise ValueError("rebuilt weights differ from flex_attention's output")
        emit.keep(found, built, value=value)


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
        query, key, value = _project(states, num_heads, qkv_weight, qkv_bias)
        emit.keep(found, _fused(query, key, lengths, mask, mask_type), value=value)


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
            emit.keep(found, _fused(*projected[:2], lengths, mask, mask_type), value=projected[2])


def _padded(states: Tensor, width: int | None) -> tuple[Tensor, tuple[int, ...] | None]:
    """A nested tensor as (batch, tokens, width) and the number of tokens of each batch item."""
    if not states.is_nested:
        return states, None
    lengths = tuple(part.shape[0] for part in states.unbind())
    shape = (len(lengths), max(width or 0, *lengths), states.size(-1))
    return states.to_padded_tensor(0.0, shape), lengths


def _project(
    states: Tensor, heads: int, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values of states (batch, tokens, width), each (batch, heads, tokens, ·)."""
    batch, tokens, width = states.shape
    packed = F.linear(states, weight, bias)
    query, key, value = packed.view(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    return query, key, value


def _fused(
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
