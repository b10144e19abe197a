"""Records of flex_attention: score_mod and mask_mod are kept and run per tile.

``from torch.nn.attention.flex_attention import flex_attention`` binds the function before any
capture starts, so it is not the function that is watched but the operator beneath it, which asks
for function modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from . import emit
from .operations import Modifiers, Multiply
from .records import Rebuilt
from .sdpa import accumulated_in
from .session import SESSION
from .verify import matches_output


def record(output: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Record a call of the operator: (query, key, value, score_mod, block_mask, scale, options, …).

    query (batch, heads, queries, width); key, value (batch, key heads, keys, width); the block
    mask is the tuple ``BlockMask.as_tuple()``, whose last entry is the mask_mod.
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
        emit.keep(found, built)
