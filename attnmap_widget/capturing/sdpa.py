"""Records of F.scaled_dot_product_attention, from its arguments as documented by torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from . import emit
from .layout import Layout
from .operations import Add, Causal, Fill, Multiply, Operation
from .provenance import Provenance
from .records import Held, Rebuilt
from .session import SESSION
from .verify import matches_output


def record(  # noqa: PLR0917 (torch calls it by position)
    provenance: Provenance,
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
        kept_key = key.clone() if provenance.is_cache(key) else key
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
            _grouped(emit.computed_in(kept_key), lead, layout),
            tuple(operations),
            (layout.batch, layout.heads, query.shape[-2], key.shape[-2]),
            matmul_dtype=accumulated_in(query.dtype),
        )
        stacked = layout.stacked(output)
        if dropout_p or matches_output(built, _grouped(value, lead, layout), stacked):
            emit.keep(found, built)
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
        emit.keep(found, Held.copy(layout.stacked(own)))


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
