"""Records of the transformers library's attention interface, whatever its backend.

Each attention module asks the interface for the function of its backend and calls it with
``(module, query, key, value, attention_mask, **options)``: after rotary embeddings, before grouped
keys are repeated. query (batch, heads, queries, width), key and value (batch, key heads, keys,
width).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from . import emit
from .kernels import accumulated_in
from .operations import (
    MASK_CONSTANT,
    Add,
    Causal,
    Fill,
    Modifiers,
    Multiply,
    Operation,
    Tanh,
    Window,
)
from .records import Held, Rebuilt
from .session import SESSION, Running, as_without_capture
from .verify import matches_output, matches_weights

Implementation = Callable[..., Any]


def listen(implementation: Implementation, name: str | None) -> Implementation:
    """Wrap the backend function registered under ``name``: a record is made beside it."""
    if not SESSION.recorders:
        return implementation

    def attention(*args: Any, **kwargs: Any) -> Any:
        if not SESSION.listening:
            return implementation(*args, **kwargs)
        # flex_attention is compiled: run eagerly it would form every weight at once.
        compiled = name is not None and "flex" in name
        with SESSION.mute(), as_without_capture() if compiled else nullcontext():
            output = implementation(*args, **kwargs)
        emit.guarded(
            lambda: _record(implementation, name, output, *args, **kwargs), f"{name} attention"
        )
        return output

    return attention


def _record(  # noqa: PLR0917 (the library's signature)
    implementation: Implementation,
    backend: str | None,
    output: Any,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    *rest: Any,
    **options: Any,
) -> None:
    if not emit.recordable(query, key, value) or query.ndim != 4:
        return
    running = SESSION.running()
    if not running or running[0].module is not module:
        running = [Running(module, 0), *running]
    found = emit.places(running, query.shape[2] == key.shape[2])
    if not found:
        return
    with SESSION.quiet():
        asked = {**options, "attention_mask": attention_mask}
        built = _rebuilt(backend, module, query, key, asked)
        states, formed = _parts(output)
        dropped = bool(options.get("dropout")) and module.training
        if dropped:  # what the model formed has zeros in it: nothing to compare with
            emit.keep(found, built, value=value)
            return
        if formed is not None:
            formed = _without_slots(formed, built.shape[3], attention_mask)
            good = matches_weights(built, formed)
        else:
            good = states is not None and _gives(built, value, states)
        if good:
            emit.keep(found, built, value=value)
        elif formed is not None:
            emit.keep(found, Held.copy(formed, key), value=value)
        else:
            front = (module, query, key)
            back = (attention_mask, *rest)
            run = partial(_with_values, implementation, front, back, {**options, "dropout": 0.0})
            emit.keep(found, _own_weights(key, run), value=value)


def _gives(built: Rebuilt, value: Tensor, states: Tensor) -> bool:
    """Compare with the output; a record may leave out the empty slots of a static cache."""
    return matches_output(built, value[:, :, : built.shape[3]], states.transpose(1, 2))


def _with_values(
    implementation: Implementation,
    front: tuple[Any, ...],
    back: tuple[Any, ...],
    options: dict[str, Any],
    values: Tensor,
) -> Any:
    return implementation(*front, values, *back, **options)


def _own_weights(key: Tensor, run: Callable[[Tensor], Any]) -> Held:
    """Run the model's kernel once more with V = 1, which makes it give back its weights."""
    count = key.shape[2]
    identity = torch.eye(count, dtype=key.dtype, device=key.device)
    states, _ = _parts(run(identity.expand(*key.shape[:2], count, count)))
    if states is None:
        raise ValueError("the backend returned no tensor")
    return Held.copy(states.transpose(1, 2), key)


def _parts(output: Any) -> tuple[Tensor | None, Tensor | None]:
    """Output (batch, queries, heads, width), weights (batch, heads, queries, keys) or None."""
    parts = list(output) if isinstance(output, tuple) else [output]
    found = [
        part if isinstance(part, Tensor) and part.ndim == 4 else None for part in (*parts, None)[:2]
    ]
    return found[0], found[1]


def _is_fused(backend: str | None) -> bool:
    """Tell whether q·kᵀ is taken inside a kernel, in float32, or by matmul in q's type."""
    return backend is not None and "eager" not in backend


def _rebuilt(
    backend: str | None, module: nn.Module, query: Tensor, key: Tensor, options: dict[str, Any]
) -> Rebuilt:
    fused, mask = _is_fused(backend), options["attention_mask"]
    batch, heads, queries, width = query.shape
    scale = options.get("scaling")
    if scale is None:
        scale = getattr(module, "scaling", None)
    operations: list[Operation] = [Multiply(width**-0.5 if scale is None else scale)]
    softcap = options.get("softcap")
    if softcap:
        operations += [Multiply(1 / softcap), Tanh(), Multiply(softcap)]
    bias = options.get("position_bias")
    if isinstance(bias, Tensor):
        operations.append(Add(bias[..., : key.shape[2]]))
    # A fused backend hides later keys by itself only where it gets no mask.
    causal = fused and mask is None and queries > 1 and _causal(module, options)
    if causal and backend == "sdpa":
        key = key[:, :, :queries]  # the library crops the empty slots of a static cache
    mode = SESSION.mode
    if mode is not None and mode.provenance.is_cache(key):
        key = key[:, :, : _slots_in_use(mask, key.shape[2])]
    operations += _mask_operations(mask, key.shape[2], isinstance(bias, Tensor))
    offset = 0 if backend == "sdpa" else key.shape[2] - queries
    if causal:
        operations.append(Causal(offset))
    window = options.get("sliding_window")
    if window and backend is not None and "flash" in backend:
        operations.append(Window(window, offset))
    sinks = options.get("s_aux")
    if sinks is None:
        sinks = getattr(module, "sinks", None)
    half = query.dtype in (torch.float16, torch.bfloat16)
    return Rebuilt(
        emit.computed_in(query),
        emit.computed_in(key),
        tuple(operations),
        (max(batch, key.shape[0]), heads, queries, key.shape[2]),
        sinks=sinks if isinstance(sinks, Tensor) else None,
        matmul_dtype=accumulated_in(query.dtype) if fused else None,
        softmax_dtype=torch.float32 if half else None,
        out_dtype=None if fused else query.dtype,
    )


def _causal(module: nn.Module, options: dict[str, Any]) -> bool:
    """Whether the module asks the backend to hide later keys by itself."""
    said = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if said is None else said)


def _slots_in_use(mask: Any, slots: int) -> int:
    """How many slots of a static cache any query may look at: the rest is not filled yet."""
    if not isinstance(mask, Tensor) or mask.ndim != 4:
        return slots
    last = mask[..., -1, :]
    seen = last if last.dtype == torch.bool else last > MASK_CONSTANT
    used = seen.reshape(-1, seen.shape[-1]).any(0).nonzero()
    return int(used[-1]) + 1 if len(used) else slots


def _without_slots(formed: Tensor, keys: int, mask: Any) -> Tensor:
    """The model's own weights without the slots that are not filled yet, where nobody looks.

    A query of padding, which may look at nothing, looks at all slots alike: that counts for none.
    """
    if formed.shape[3] <= keys or not isinstance(mask, Tensor) or mask.ndim != 4:
        return formed
    seen = mask if mask.dtype == torch.bool else mask > MASK_CONSTANT
    looking = seen.any(-1, keepdim=True)
    if bool((formed[..., keys:] * looking != 0).any()):
        return formed
    return formed[..., :keys]


def _mask_operations(mask: Any, keys: int, biased: bool) -> list[Operation]:
    if isinstance(mask, Tensor):
        if mask.ndim == 2:  # flash backends take the padding mask (batch, keys) as it is
            mask = mask[:, None, None, :].bool()
        mask = mask[..., :keys]
        if mask.dtype != torch.bool:
            return [Add(mask)]
        # With a position bias the library fills with the type's minimum rather than -inf.
        return [Fill(mask, torch.finfo(torch.float32).min if biased else float("-inf"), keep=True)]
    mask_mod = getattr(mask, "mask_mod", None)
    return [Modifiers(mask_mod=mask_mod)] if mask_mod is not None else []
