"""What a grid of weights is: take what people have, refuse the rest in one clear sentence.

Knows numpy only. Tensors of any framework are recognised by what they can do, never imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError

FloatGrid = NDArray[np.float32]
BoolGrid = NDArray[np.bool_]

FUSED = (
    "that is what a model returns when a fused backend (sdpa, flash) computes its attention, or "
    "when nobody asked for it; `capture(model)` reads the weights without changing the backend"
)
_EXPLORER = "AttentionExplorer(weights, tokens) draws it with menus"


class Accepted(NamedTuple):
    """A grid that was accepted."""

    values: FloatGrid
    """(queries, keys), read-only, NaN where there is no weight."""
    missing: BoolGrid
    """(queries, keys), True where no weight was given, as opposed to a weight that is NaN."""


def accept(given: Any, queries: int, keys: int) -> Accepted:
    """Read `given` as a (queries, keys) grid of weights.

    Accepts a flat list row by row (a short one leaves the rest empty), nested lists (None = no
    weight), numpy arrays (masked entries = no weight), torch tensors of any dtype and device, and
    anything with `__array__`. The values are copied, so later edits of `given` change nothing.

    Raises ShapeError for any other shape, TypeError for things that are not real numbers,
    ValueError for infinite weights.
    """
    _refuse_nothing(given)
    flat_list = isinstance(given, (list, tuple)) and not any(_is_nested(item) for item in given)
    numbers, missing = as_numbers(given)
    if flat_list and numbers.size < queries * keys:
        short = queries * keys - numbers.size
        numbers = np.concatenate([numbers, np.full(short, np.nan)])
        missing = np.concatenate([missing, np.ones(short, dtype=bool)])
    if numbers.ndim == 1 and numbers.size == queries * keys:
        numbers, missing = (a.reshape(queries, keys) for a in (numbers, missing))
    if numbers.shape != (queries, keys):
        raise ShapeError(explain_shape(numbers.shape, queries, keys, flat_list=flat_list))
    refuse_infinite(numbers)
    values = numbers.astype(np.float32)
    refuse_infinite(values)
    values.flags.writeable = False
    return Accepted(values, missing)


def accept_bool(name: str, given: Any, shape: tuple[int, ...]) -> BoolGrid:
    """Read `given` as booleans (or 0 and 1) of exactly `shape`; `name` is for the message.

    Raises ShapeError for another shape, TypeError for values that are not 0, 1, True or False.
    """
    if getattr(getattr(given, "dtype", None), "is_floating_point", False) or (
        getattr(getattr(given, "dtype", None), "kind", "") == "f"
    ):
        raise TypeError(
            f"{name}: got an array of floats; an additive one (0 and -inf)? Give {name} == 0"
        )
    numbers, missing = as_numbers(given, name)
    if numbers.shape != shape:
        raise ShapeError(f"{name}: got shape {numbers.shape}, expected {shape}")
    if missing.any() or not np.isin(numbers, (0, 1)).all():
        raise TypeError(f"{name}: expected True and False (or 1 and 0) only")
    result = numbers.astype(bool)
    result.flags.writeable = False
    return result


def shape_of(given: Any) -> tuple[int, ...]:
    """The shape of an array or tensor without reading its values; nested lists are converted."""
    shape = getattr(given, "shape", None)
    return tuple(int(n) for n in shape) if shape is not None else as_numbers(given)[0].shape


def explain_shape(
    shape: tuple[int, ...], queries: int, keys: int, *, flat_list: bool = False
) -> str:
    """One message for a grid of the wrong shape: what, what is accepted, why perhaps, the fix."""
    wanted = f"{queries}×{keys} (queries × keys)"
    if len(shape) == 1:
        values = f"weights: got {shape[0]} values, expected {queries * keys} for {wanted}"
        if flat_list:
            return f"{values}; {shape[0] - queries * keys} too many, row by row from the first row"
        return f"{values}; only a flat *list* may be short, which leaves its last cells empty"
    got = "×".join(map(str, shape))
    text = f"weights: got {got or 'one number'}, expected {wanted}"
    if len(shape) == 2:
        return f"{text}; {_explain_grid((shape[0], shape[1]), queries, keys)}"
    if len(shape) in (3, 4) and shape[-2:] == (queries, keys):
        axes = ("heads",) if len(shape) == 3 else ("batch or layers", "heads")
        picked = ", ".join(axis.split()[0] for axis in axes)
        return (
            f"{text}; before these come {' and '.join(axes)}: "
            f"{_EXPLORER}, or pick one map: weights[{picked}]"
        )
    wrong = _misplaced(shape, queries, keys)
    return f"{text}; a map has two axes{wrong}. Heads or layers on further axes: {_EXPLORER}"


def _explain_grid(shape: tuple[int, int], queries: int, keys: int) -> str:
    if shape == (keys, queries):
        return (
            f"looks transposed: got {shape[0]}×{shape[1]}, expected {queries}×{keys}. Rows are "
            "queries (who looks), columns are keys (looked at); if yours are not, give weights.T"
        )
    if shape[1] == keys:
        return f"{_count(shape[0] - queries, 'row')} than queries: cut or name the rows"
    if shape[0] == queries:
        more = _count(shape[1] - keys, "key")
        return f"{more} than tokens: block padding, a window, or a hidden state instead of weights?"
    difference = shape[0] - queries
    if difference == shape[1] - keys:
        more = _count(difference, "key")
        if difference > 0:
            return (
                f"{more} than tokens (block padding?); rows and columns both differ by "
                f"{difference}: special or generated tokens that only one of the two has? If the "
                f"last {difference} are padding, give weights[:{queries}, :{keys}]"
            )
        return (
            f"{more} than tokens (a window?); rows and columns both differ by {-difference}: "
            "special or generated tokens that only one of the two has?"
        )
    return "neither axis fits the tokens"


def _misplaced(shape: tuple[int, ...], queries: int, keys: int) -> str:
    """Where an axis of the right length stands in the wrong place."""
    for axis, length in enumerate(shape[:-2]):
        if length in (queries, keys) and length > 1:
            name = "queries" if length == queries else "keys"
            return f": {length} {name} found on axis {axis}, expected on the last two"
    for axis, wanted, name in ((-2, queries, "queries"), (-1, keys, "keys")):
        if len(shape) >= 2 and shape[axis] != wanted:
            return f": axis {len(shape) + axis} has {shape[axis]} {name}, the tokens are {wanted}"
    return ""


def _count(difference: int, noun: str) -> str:
    plural = "" if abs(difference) == 1 else "s"
    return f"{abs(difference)} {'more' if difference > 0 else 'fewer'} {noun}{plural}"


def _refuse_nothing(given: Any) -> None:
    if given is None:
        raise ShapeError(f"weights: got None; {FUSED}")
    if isinstance(given, tuple) and all(is_nothing(item) for item in given):
        raise ShapeError(f"weights: got {given!r}, no weights at all; {FUSED}")
    if isinstance(given, (list, tuple)):
        deep = next((item for item in given if getattr(item, "ndim", 0) > 1), None)
        if deep is not None:
            shape = "×".join(map(str, deep.shape))
            raise ShapeError(
                f"weights: got {len(given)} arrays, the first of {shape}; a map is one grid of "
                f"(queries, keys). A tuple of layers: {_EXPLORER}"
            )


def is_nothing(item: Any) -> bool:
    """None, or tuples of nothing but None: what a model gives in place of weights."""
    return item is None or (isinstance(item, tuple) and all(is_nothing(i) for i in item))


def _is_nested(item: Any) -> bool:
    return isinstance(item, (list, tuple)) or getattr(item, "ndim", 0) > 0


def as_numbers(given: Any, name: str = "weights") -> tuple[NDArray[Any], BoolGrid]:
    """Any nesting of numbers as (float array, where there was none)."""
    if isinstance(given, (list, tuple)):
        if any(_is_nested(item) for item in given):
            rows = (as_numbers(i, name) if _is_nested(i) else _flat([i], name) for i in given)
            return _stack(list(rows), name)
        return _flat(given, name)
    if isinstance(given, np.ma.MaskedArray):
        array = _real(np.asarray(given.data), name).astype(np.float64)
        hidden = np.ma.getmaskarray(given)
        return np.where(hidden, np.nan, array), hidden
    array = _real(_array(given, name), name)
    if array.dtype == object:
        values, missing = _flat(array.ravel().tolist(), name)
        return values.reshape(array.shape), missing.reshape(array.shape)
    return array, np.zeros(array.shape, dtype=bool)


def _array(given: Any, name: str) -> NDArray[Any]:
    """One array-like as numpy sees it; tensors as float32, since numpy has no bfloat16."""
    if hasattr(given, "detach") and hasattr(given, "is_complex"):
        if given.is_complex():
            raise TypeError(f"{name}: complex numbers; a weight is a real number")
        if str(given.device) == "meta":
            raise ValueError(f"{name}: a tensor on the meta device holds no values; load the model")
        dense = given.detach()
        if dense.is_sparse or str(dense.layout) != "torch.strided":
            dense = dense.to_dense()
        if dense.is_quantized:
            dense = dense.dequantize()
        return np.asarray(dense.float().numpy(force=True))
    if not hasattr(given, "__array__"):
        raise TypeError(
            f"{name}: got {type(given).__name__}; expected a list, a numpy array, a torch tensor "
            "or anything with __array__"
        )
    return np.asarray(given)


def _real(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind in "biufO":
        return array
    kinds = {"c": "complex numbers", "U": "strings", "S": "strings", "M": "dates", "m": "durations"}
    what = kinds.get(array.dtype.kind)
    if what is None:  # a dtype from outside numpy, such as ml_dtypes' bfloat16
        return array.astype(np.float32)
    raise TypeError(f"{name}: {what}; a weight is a real number")


def _flat(items: Sequence[Any], name: str) -> tuple[NDArray[np.float64], BoolGrid]:
    """Numbers one by one; None means that there is none."""
    missing = np.zeros(len(items), dtype=bool)
    if set(map(type, items)) <= {float, int, bool}:
        with contextlib.suppress(OverflowError):
            return np.array(items, dtype=np.float64), missing
    values = np.empty(len(items))
    for index, item in enumerate(items):
        if item is None or item is np.ma.masked:
            values[index], missing[index] = np.nan, True
            continue
        if isinstance(item, (str, bytes, complex, np.complexfloating)):
            raise TypeError(f"{name}: {item!r} at position {index} is not a real number")
        try:
            values[index] = item.item() if hasattr(item, "item") else item
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{name}: {item!r} at position {index} is not a real number") from None
    return values, missing


def _stack(rows: list[tuple[NDArray[Any], BoolGrid]], name: str) -> tuple[NDArray[Any], BoolGrid]:
    first = rows[0][0].shape
    for index, (row, _) in enumerate(rows):
        if row.shape != first:
            raise ShapeError(
                f"{name}: ragged: row {index} has shape {row.shape}, row 0 has {first}. Every row "
                "needs one weight per key; write None where there is none"
            )
    return np.stack([row for row, _ in rows]), np.stack([missing for _, missing in rows])


def refuse_infinite(numbers: NDArray[Any], first: int = 0) -> None:
    """ValueError that says where, if any of (queries, keys) weights is infinite.

    `first`: the query of row 0.
    """
    bad = np.isinf(numbers)
    if bad.any():
        query, key = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"weights: infinite at query {first + query}, key {key} ({int(bad.sum())} in all); "
            "scores before softmax, masked with -inf? Take their softmax over the keys first"
        )
