"""What happens to weights between the softmax and the product with the values.

Talking heads mix them, gates blend them with others: then the left factor of P·V is the map that
takes effect, and it is recorded beside the softmax, as kind "effective". Dropout is no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from . import emit
from . import functions as fn
from .provenance import Provenance
from .recorder import Place
from .records import Held, Record
from .session import SESSION
from .verify import matches_weights

_SAME = fn.SAME | fn.CAST | fn.VIEW | fn.TRANSPOSE
_CHANGED = (
    fn.MULTIPLY | fn.ADD | fn.SUBTRACT | fn.DIVIDE | fn.LINEAR | fn.CONVOLUTION | fn.MASKED_FILL
    | fn.WHERE | fn.CLAMP | fn.ELEMENTWISE
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Formed:
    """Weights that a softmax formed: where they were filed, as what, and whether they are changed.

    ``undropped``: what they were before dropout, where that came last.
    """

    places: list[Place]
    record: Record | None
    changed: bool = False
    undropped: Tensor | None = None


def follow(
    provenance: Provenance,
    function: fn.Function,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    out: Any,
) -> None:
    """Take note of what ``out = function(*args, **kwargs)`` did to weights."""
    if not isinstance(out, Tensor) or not len(provenance.weights):
        return
    if function in fn.EINSUM:
        _einsum(provenance, args, out)
        return
    operands = [value for value in (*args[:3], *kwargs.values()) if isinstance(value, Tensor)]
    formed = next(
        (note for note in map(provenance.weights.get, operands) if isinstance(note, Formed)), None
    )
    if formed is None:
        return
    if function in _SAME:
        provenance.weights.put(out, formed)
    elif function in fn.DROPOUT:
        # In place it leaves nothing of what was before.
        before = operands[0] if out is not operands[0] else None
        provenance.weights.put(out, replace(formed, undropped=before))
    elif function in _CHANGED:
        provenance.weights.put(out, _change(formed))
    elif function in fn.MATMUL and provenance.weights.get(operands[0]) is formed:
        _applied(formed, operands[0])


def _einsum(provenance: Provenance, args: Sequence[Any], out: Tensor) -> None:
    operands = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
    if len(operands) != 2:
        return
    for weights, other in (operands, operands[::-1]):
        formed = provenance.weights.get(weights)
        if not isinstance(formed, Formed):
            continue
        if provenance.is_parameter(other):  # heads are mixed
            provenance.weights.put(out, _change(formed))
        else:
            _applied(formed, weights)


def _change(formed: Formed) -> Formed:
    return replace(formed, changed=True, undropped=None)


def _applied(formed: Formed, weights: Tensor) -> None:
    """Weights meet values. File them if they are no longer what the softmax formed."""
    weights = weights if formed.undropped is None else formed.undropped
    if not formed.changed or not formed.places or not emit.recordable(weights):
        return
    with SESSION.quiet():
        layout = emit.layout_of(tuple(weights.shape[:-2]), SESSION.running())
        stacked = layout.stacked(weights)
        # A mask that hides nothing and a head mask of ones change nothing.
        if formed.record is not None and not matches_weights(formed.record, stacked):
            kept = Held.copy(stacked)
            for place in formed.places:
                place.recorder.keep(place, kept, effective=True)
