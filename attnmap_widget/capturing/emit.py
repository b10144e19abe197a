"""From an intercepted call to a filed record: the part all interceptors share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .layout import Layout, heads_of, heavy, keys_of, rebuild
from .numbering import Place, Spot
from .provenance import Scores
from .records import Copies, Held, Record
from .session import SESSION, Running
from .sizes import sizes_of
from .verify import matches_weights


def spots(running: list[Running], square: bool, cross: bool | None = None) -> list[Spot]:
    """Where the call that happens now belongs; empty where nobody captures it."""
    if cross is None:
        cross = SESSION.cross
    found = (recorder.spot(running, cross, square) for recorder in SESSION.recorders)
    return [spot for spot in found if spot is not None]


def places(running: list[Running], square: bool, cross: bool | None = None) -> list[Place]:
    """Where the call that happens now is filed; empty where nobody wants it."""
    return _numbered(spots(running, square, cross))


def _numbered(found: list[Spot]) -> list[Place]:
    places = (spot.recorder.place(spot) for spot in found)
    return [place for place in places if place is not None]


def keep(
    found: list[Place], record: Record, effective: bool = False, value: Tensor | None = None
) -> None:
    """File one record in every capture that wants it; ``value``: what its weights pick from."""
    if found and not effective:  # effective weights are a copy, their keys the softmax's
        _own(record)
    if found and value is not None:
        record.keep_sizes(sizes_of(value, record.shape))
    for place in found:
        place.spot.recorder.keep(place, record, effective)


def _own(record: Record) -> None:
    record.own(Copies() if SESSION.mode is None else SESSION.mode.copies)


@dataclass(slots=True, eq=False)
class Pending:
    """A softmax of q·kᵀ that is attention if its weights meet values.

    ``record`` is None where nobody wants the layer; ``places`` where it was filed, once it was.
    """

    spots: list[Spot]
    layout: Layout
    record: Record | None
    places: list[Place] | None = None

    def confirm(self) -> list[Place]:
        """Its weights have met values: file it, once."""
        if self.places is None:
            self.places = _numbered(self.spots)
            for place in self.places:
                if self.record is not None:
                    place.spot.recorder.keep(place, self.record)
        return self.places


def softmax(scores: Scores, weights: Tensor, doubtful: bool) -> Pending | None:
    """Weights were formed from followed scores; ``doubtful``: compare all of them."""
    running = SESSION.running()
    found = spots(running, weights.shape[-1] == weights.shape[-2])
    if not found:
        return None
    layout = layout_of(tuple(weights.shape[:-2]), running)
    record: Record | None = None
    if any(spot.wanted for spot in found):
        with SESSION.quiet():
            record = _softmax_record(scores, weights, layout, doubtful)
            _own(record)
        for spot in found:
            if spot.wanted:
                spot.recorder.suspect(spot, record)
    return Pending(found, layout, record)


def _softmax_record(scores: Scores, weights: Tensor, layout: Layout, doubtful: bool) -> Record:
    if scores.sink is not None:
        weights = weights[..., :-1]
    stacked = layout.stacked(weights)
    batch, heads, queries, keys = stacked.shape
    record = rebuild(scores, layout, (batch, heads, queries, keys), weights.dtype)
    if record is None or heavy(record) or not matches_weights(record, stacked, doubtful):
        return Held.copy(stacked, keys_of(scores, layout, keys))
    return record


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
