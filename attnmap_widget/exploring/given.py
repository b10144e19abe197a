"""What an explorer is given, read as a source: captures, outputs, layers, arrays, functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..grid.weights import FUSED, as_numbers, is_nothing, shape_of
from . import returned
from .sources import CaptureSource, FunctionSource, Source, StackSource, stacked


def as_source(
    given: Any,
    *,
    axes: str | None = None,
    layers: Sequence[int] | None = None,
    heads: int | None = None,
    beam_indices: Any = None,
    independent: bool = False,
    kind: str | None = None,
) -> Source:
    """The source that `given` stands for; see `AttentionExplorer` for what is accepted.

    `beam_indices`: of the beam search that made it; `independent`: it is certain that there was
    none; `kind`: which attention bare steps are.

    Raises ShapeError for anything that is no stack of attention maps, or that could be two things.
    """
    if hasattr(given, "kinds") and hasattr(given, "calls"):
        if layers is not None or heads is not None:
            raise TypeError("layers and heads belong to a function source; choose layer=, head=")
        return CaptureSource(given, beam_indices)
    if hasattr(given, "named_modules"):
        raise TypeError(
            "source: got a model; explore(model, inputs) runs it and reads its attention"
        )
    if returned.is_output(given):
        return returned.from_output(given, beam_indices, independent=independent)
    if callable(given) and not hasattr(given, "__array__"):
        if layers is None or heads is None:
            raise TypeError("source: a function (layer, head) -> weights needs layers=[…], heads=n")
        if not len(layers) or heads < 1:
            raise ValueError(f"source: layers={list(layers)}, heads={heads}; at least one of each")
        return FunctionSource(given, list(layers), heads)
    if axes is not None and heads is not None and layers is None:
        return _split(given, axes, heads)
    if layers is not None or heads is not None:
        raise TypeError(
            "layers and heads belong to a function source; arrays say so themselves, but for "
            f"heads=… with axes={_SPLIT[0]!r} or {_SPLIT[1]!r}"
        )
    if given is None or (isinstance(given, (list, tuple)) and all(map(is_nothing, given))):
        raise ShapeError(f"source: got {given!r}, no weights at all; {FUSED}")
    if axes is None and returned.is_steps(given):
        return returned.from_steps(given, beam_indices, independent=independent, kind=kind)
    if beam_indices is not None:
        raise TypeError("beam_indices belong to a capture or to what generate() returned")
    if isinstance(given, (list, tuple)) and axes is None:
        return stacked(given)
    return _from_array(given, axes)


def _from_array(given: Any, axes: str | None) -> StackSource:
    array = as_numbers(given)[0] if isinstance(given, (list, tuple)) else given
    shape = shape_of(array)
    if len(shape) > 2 and 0 in shape:
        raise ShapeError(f"source: got shape {shape}; there is no head, query or key in it")
    if axes is not None:
        return _with_axes(array, shape, axes)
    if len(shape) == 3:
        return StackSource([array[None]], named_layers=False)
    if len(shape) == 4 and shape[0] == 1:
        return StackSource([array], named_layers=False)
    if len(shape) == 4:
        raise ShapeError(
            f"source: got shape {shape}; 4 axes may be layers or a batch, which look alike. Say "
            'axes="layer head query key" or axes="batch head query key"'
        )
    if len(shape) == 2:
        raise ShapeError(f"source: got one grid {shape}; AttentionMap(tokens, weights) draws it")
    raise ShapeError(
        f"source: got shape {shape}; expected (heads, queries, keys), 4 axes with axes=…, a tuple "
        "of layers, a capture, or a function (layer, head)"
    )


def _with_axes(array: Any, shape: tuple[int, ...], axes: str) -> StackSource:
    accepted = {
        "head query key": lambda: StackSource([array[None]], named_layers=False),
        "batch head query key": lambda: StackSource([array], named_layers=False),
        "layer head query key": lambda: StackSource([a[None] for a in array], named_layers=True),
        "layer batch head query key": lambda: StackSource(list(array), named_layers=True),
    }
    names = " ".join(axes.replace(",", " ").split())
    if names not in accepted:
        raise ValueError(f"axes: got {axes!r}, accepted are {', '.join(map(repr, accepted))}")
    if len(names.split()) != len(shape):
        raise ShapeError(f"source: got shape {shape}, but axes={axes!r} names {len(names.split())}")
    return accepted[names]()


_SPLIT = ("(head batch) query key", "(batch head) query key")


def _split(given: Any, axes: str, heads: int) -> StackSource:
    """Heads and batch items on one axis, as some code returns them; which comes first is said."""
    array = as_numbers(given)[0] if isinstance(given, (list, tuple)) else given
    shape = shape_of(array)
    names = " ".join(axes.split())
    if names not in _SPLIT:
        raise ValueError(f"axes: got {axes!r}; with heads=… accepted are {_SPLIT}")
    if len(shape) != 3 or heads < 1 or shape[0] % heads:
        raise ShapeError(
            f"source: got shape {shape}, expected ({heads} heads × batch items, queries, keys)"
        )
    items = shape[0] // heads
    if names == _SPLIT[1]:
        return StackSource([array.reshape(items, heads, *shape[1:])], named_layers=False)
    apart = array.reshape(heads, items, *shape[1:]).swapaxes(0, 1)
    return StackSource([apart], named_layers=False)
