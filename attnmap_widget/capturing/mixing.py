"""What happens to weights between the softmax and the product with the values.

The product is what makes a softmax attention: ``weights @ v`` sums values over the keys. Class
probabilities, routers and similarities have a softmax of two activations as well, and no such
product. So a softmax is filed here, when its weights meet values (see ``recorder`` for the rest).

Talking heads mix weights, gates blend them with others, thresholds cut them: then the left factor
of P·V is the map that takes effect, and it is recorded beside the softmax, as kind "effective".
Dropout is no change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from . import emit
from . import functions as fn
from .layout import Layout
from .provenance import Provenance, operands, results, swaps_last_two
from .records import Held, Shape
from .session import SESSION
from .sizes import sizes_in_einsum, sizes_in_product
from .verify import matches_weights

Sizes = Callable[[Layout, Shape], Tensor | None]
"""The norms of the values that weights of this layout and shape pick from; None: not known."""

_SAME = fn.SAME | fn.CAST | fn.VIEW | fn.TRANSPOSE


@dataclass(frozen=True, slots=True)
class Formed:
    """Weights that softmaxes formed, and what became of them.

    core: their number of (queries, keys). turned: whether keys are on the axis before the last;
    None where axes moved in another way. partial: some heads or rows only. undropped: what they
    were before dropout, where that came last.
    """

    sources: tuple[emit.Pending, ...]
    core: tuple[int, int]
    turned: bool | None = False
    changed: bool = False
    partial: bool = False
    undropped: Tensor | None = None

    def change(self) -> Formed:
        """These weights after something that no rule explains."""
        return replace(self, changed=True, undropped=None)


def follow(
    provenance: Provenance,
    function: fn.Function,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    out: Any,
) -> None:
    """Take note of what ``out = function(*args, **kwargs)`` did to weights."""
    if not len(provenance.weights) or function in fn.UNRELATED:
        return
    if function in fn.EINSUM:
        _einsum(provenance, args, out)
    elif function in fn.MATMUL:
        _product(provenance, operands(args, kwargs)[:2], out)
    elif function in fn.BADDBMM:
        _product(provenance, operands(args[1:], kwargs)[:2], out)
    else:
        _pass_on(provenance, function, operands(args, kwargs), args[0] if out is None else out)


def _pass_on(provenance: Provenance, function: fn.Function, given: list[Tensor], out: Any) -> None:
    noted = [(tensor, formed) for tensor in given if (formed := _formed(provenance, tensor))]
    if not noted:
        return
    source, formed = noted[0]
    sources = dict.fromkeys(pending for _, other in noted for pending in other.sources)
    formed = replace(formed, sources=tuple(sources))
    for part in results(out):
        if function in _SAME:
            provenance.weights.put(part, replace(formed, turned=_turned(formed, source, part)))
        elif function in fn.DROPOUT:
            # In place it leaves nothing of what was before.
            before = source if part is not source else None
            provenance.weights.put(part, replace(formed, undropped=before))
        elif function in fn.SCATTER:
            provenance.weights.put(part, replace(formed.change(), partial=False))
        elif part.shape == source.shape and function not in fn.PARTS:
            provenance.weights.put(part, formed.change())
        elif function in fn.PARTS or part.shape[-2:] == source.shape[-2:]:
            turned = _turned(formed, source, part)
            provenance.weights.put(part, replace(formed, turned=turned, partial=True))
        elif function in fn.MULTIPLY and source.shape[-1] == 1 and formed.turned is None:
            _applied(provenance, formed, source, _unknown)  # (w[..., None] * v).sum(-2)


def _formed(provenance: Provenance, tensor: object) -> Formed | None:
    note = provenance.weights.get(tensor)
    return note if isinstance(note, Formed) else None


def _turned(formed: Formed, source: Tensor, out: Tensor) -> bool | None:
    if formed.turned is not None and swaps_last_two(source, out):
        return not formed.turned
    return formed.turned if out.shape[-2:] == source.shape[-2:] else None


def _product(provenance: Provenance, factors: list[Tensor], out: Tensor) -> None:
    if len(factors) < 2:
        return
    left, right = (_formed(provenance, factor) for factor in factors)
    # A product sums over the last axis of the left factor and the last but one of the right.
    for formed, weights, other, keys_turned in (
        (left, factors[0], factors[1], False), (right, factors[1], factors[0], True)
    ):  # fmt: skip
        if formed is None:
            continue
        if provenance.is_parameter(other):  # heads are mixed, or features projected
            if out.shape == weights.shape:
                provenance.weights.put(out, formed.change())
        elif formed.changed or formed.turned in (None, keys_turned):
            sizes = _unknown
            if formed.turned == keys_turned:
                turned = (weights.mT, other.mT) if keys_turned else (weights, other)
                sizes = partial(sizes_in_product, turned[1], turned[0])
            _applied(provenance, formed, weights, sizes)


def _einsum(provenance: Provenance, args: Sequence[Any], out: Tensor) -> None:
    factors = operands(args[1:], {})
    if len(factors) != 2:
        return
    for place, weights in enumerate(factors):
        formed = _formed(provenance, weights)
        if formed is None:
            continue
        if provenance.is_parameter(factors[1 - place]):  # heads are mixed
            provenance.weights.put(out, formed.change())
        elif formed.changed or _sums_over_keys(args[0], place, formed.turned):
            straight = formed.turned is False
            sizes = partial(sizes_in_einsum, args[0], factors, place) if straight else _unknown
            _applied(provenance, formed, weights, sizes)


def _sums_over_keys(equation: Any, place: int, turned: bool | None) -> bool:
    if turned is None or not isinstance(equation, str) or "->" not in equation:
        return True
    factors, result = equation.replace(" ", "").split("->")
    return factors.split(",")[place][-2 if turned else -1] not in result


def _unknown(layout: Layout, shape: Shape) -> Tensor | None:
    """How large the values are where the product does not say which axis is what."""
    return None


def _applied(provenance: Provenance, formed: Formed, weights: Tensor, sizes: Sizes) -> None:
    """Weights meet values: file them, and what was made of them if it differs."""
    pending = formed.sources[0]
    known: Tensor | None = None
    whole = len(formed.sources) == 1 and not formed.partial
    if whole and pending.record is not None and emit.recordable(weights):
        with SESSION.quiet():
            known = sizes(pending.layout, pending.record.shape)
        if pending.places is None:  # it is not filed yet
            pending.record.keep_sizes(known)
    for source in formed.sources:
        source.confirm()
    changed = formed.changed or provenance.doubtful(weights)
    weights = weights if formed.undropped is None else formed.undropped
    if not changed or formed.partial or not pending.places or not emit.recordable(weights):
        return
    if formed.turned:
        weights = weights.mT
    layout, record = pending.layout, pending.record
    if record is None or weights.shape[-2:] != formed.core or not layout.fits(weights):
        return
    with SESSION.quiet():
        stacked = layout.stacked(weights)
        # A mask that hides nothing and a head mask of ones change nothing.
        if not matches_weights(record, stacked, True):
            held = Held.copy(stacked, record.keys)
            held.keep_sizes(known)
            emit.keep(pending.places, held, effective=True)
