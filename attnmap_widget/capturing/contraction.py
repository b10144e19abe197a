"""Read an einsum as q·kᵀ: 'bqhd,bkhd->bhqk' gives q (b, h, q, d) and k (b, h, k, d)."""

from __future__ import annotations

from torch import Tensor


def attention_operands(
    equation: str, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor] | None:
    """The factors, (…, queries, width) and (…, keys, width); None if it is no such product.

    Of the result's axes the last two are queries and keys, the others are shared or belong to one
    factor; exactly one axis is summed over.
    """
    named = _spelled_out(equation, first, second)
    if named is None:
        return None
    left, right, out = named
    if len(out) < 2:
        return None
    query, key = out[-2], out[-1]
    if query in right or key in left:
        left, right, first, second = right, left, second, first
    summed = [axis for axis in left if axis in right and axis not in out]
    lead = out[:-2]
    if (
        query in right or key in left or query not in left or key not in right
        or len(summed) != 1 or len(set(left)) != len(left) or len(set(right)) != len(right)
        or not set(left) <= {*lead, query, summed[0]}
        or not set(right) <= {*lead, key, summed[0]}
    ):  # fmt: skip
        return None
    return (
        _arranged(first, left, lead, query + summed[0]),
        _arranged(second, right, lead, key + summed[0]),
    )


def _spelled_out(equation: str, first: Tensor, second: Tensor) -> tuple[str, str, str] | None:
    """The three axis lists with letters for the ellipsis; None without an explicit result."""
    equation = equation.replace(" ", "")
    if equation.count("->") != 1 or equation.count(",") != 1:
        return None
    factors, out = equation.split("->")
    left, right = factors.split(",")
    hidden = {
        len(names): tensor.ndim - len(names.replace("...", ""))
        for names, tensor in ((left, first), (right, second))
        if "..." in names
    }
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    count = max(hidden.values(), default=0)

    def spell(names: str, axes: int) -> str:
        return names.replace("...", "".join(free[count - axes : count]))

    def axes_of(names: str, tensor: Tensor) -> int:
        return tensor.ndim - len(names.replace("...", "")) if "..." in names else 0

    return (
        spell(left, axes_of(left, first)),
        spell(right, axes_of(right, second)),
        spell(out, count),
    )


def _arranged(tensor: Tensor, axes: str, lead: str, last: str) -> Tensor:
    """View with the axes lead + last, length 1 where the tensor lacks a leading axis."""
    present = [axis for axis in lead if axis in axes]
    tensor = tensor.permute([axes.index(axis) for axis in (*present, *last)])
    for place, axis in enumerate(lead):
        if axis not in axes:
            tensor = tensor.unsqueeze(place)
    return tensor
