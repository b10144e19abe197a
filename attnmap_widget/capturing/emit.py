"""From an intercepted call to a filed record: the part all interceptors share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .layout import Layout, heads_of, heavy, rebuild
from .provenance import Scores
from .recorder import Place
from .records import Held, Rebuilt, Record
from .session import SESSION, Running
from .verify import matches_weights


def places(running: list[Running], square: bool, cross: bool | None = None) -> list[Place]:
    """Where the call that happens now is filed; empty where nobody wants it."""
    if cross is None:
        cross = SESSION.cross
    found = (recorder.place(running, cross, square) for recorder in SESSION.recorders)
    return [place for place in found if place is not None]


def keep(found: list[Place], record: Record) -> None:
    """File one record in every capture that wants it."""
    if isinstance(record, Rebuilt) and SESSION.mode is not None:
        SESSION.mode.kept.add(record)
    for place in found:
        place.recorder.keep(place, record)


def guarded(build: Callable[[], None], what: str) -> None:
    """Recording must never break the model: errors are noted, and told if nothing was captured."""
    try:
        build()
    except Exception as error:  # noqa: BLE001 (see above)
        note_problem(what, error)


def note_problem(what: str, error: Exception) -> None:
    """Keep what went wrong while recording, for the message that nothing was captured."""
    for recorder in SESSION.recorders:
        recorder.problems.append(f"{what}: {type(error).__name__}: {error}")


def recordable(*tensors: Tensor) -> bool:
    """Whether these can be kept: real memory, not nested, not inside vmap or grad transforms."""
    return not any(
        tensor.is_meta
        or tensor.is_nested
        or tensor.layout != torch.strided
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        for tensor in tensors
    )


def computed_in(tensor: Tensor) -> Tensor:
    """The tensor as the kernel sees it: autocast casts below the Python level."""
    device = tensor.device.type
    if torch.is_autocast_enabled(device) and tensor.dtype == torch.float32:
        return tensor.to(torch.get_autocast_dtype(device))
    return tensor


def layout_of(lead: tuple[int, ...], running: list[Running]) -> Layout:
    """Batch and heads among leading axes, as the running modules declare them."""
    modules = [entry.module for entry in running]
    heads = SESSION.heads or heads_of(modules)
    return Layout.of(lead, heads, lone_batch=_one_of_many_heads(modules))


def _one_of_many_heads(modules: list[nn.Module]) -> bool:
    """A module in a list called "heads" is one head: its single leading axis is the batch."""
    if len(modules) < 2:
        return False
    lists = getattr(modules[1], "heads", None)
    return isinstance(lists, nn.ModuleList) and any(modules[0] is member for member in lists)


def softmax_record(scores: Scores, weights: Tensor, running: list[Running]) -> Record:
    """A record for scores that were followed to the softmax that formed ``weights`` from them."""
    if scores.sink is not None:
        weights = weights[..., :-1]
    layout = layout_of(tuple(weights.shape[:-2]), running)
    stacked = layout.stacked(weights)
    batch, heads, queries, keys = stacked.shape
    record: Rebuilt | None = rebuild(scores, layout, (batch, heads, queries, keys), weights.dtype)
    if record is None or heavy(record) or not matches_weights(record, stacked):
        return Held.copy(stacked)
    return record
