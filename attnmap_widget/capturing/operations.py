"""What happens to the scores q·kᵀ on their way into the softmax, redone for any tile.

A tile is some rows (queries) and some columns (keys) of one head of one batch item. Tensors inside
a step have four axes, (batch, heads, queries, keys), each of full length or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

# Additive masks are written as -inf, as the type's most negative number, or as a round constant
# that makes the weight vanish (-1e4 in BERT's days, -1e9). A learned bias never gets there.
MASK_CONSTANT = -9_999.0


@dataclass(frozen=True, slots=True)
class Tile:
    """One head's rows and keys; both slices have a start, a stop and a positive step."""

    batch: int
    head: int
    rows: slice
    keys: slice

    def pick(self, operand: Tensor) -> Tensor:
        """Give the tile's part of a (batch, heads, queries, keys) operand, as (rows, keys)."""
        while operand.ndim < 4:
            operand = operand[None]
        part = operand[
            self.batch if operand.shape[0] > 1 else 0, self.head if operand.shape[1] > 1 else 0
        ]
        if part.shape[0] > 1:
            part = part[self.rows]
        if part.shape[1] > 1:
            part = part[:, self.keys]
        return part

    def row_positions(self, device: torch.device) -> Tensor:
        """Row numbers, shape (rows, 1)."""
        return _positions(self.rows, device)[:, None]

    def key_positions(self, device: torch.device) -> Tensor:
        """Key numbers, shape (1, keys)."""
        return _positions(self.keys, device)[None]


def _positions(part: slice, device: torch.device) -> Tensor:
    return torch.arange(part.start, part.stop, part.step, device=device)


class Operation:
    """A step on the scores of a tile. Subclasses are frozen dataclasses."""

    __slots__ = ()

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """The scores after this step."""
        raise NotImplementedError

    def forbids(self, tile: Tile, device: torch.device) -> Tensor | None:
        """True where this step says that the query may not look at the key; None: it never does."""
        return None

    def tensors(self) -> list[Tensor]:
        """The tensors this step keeps alive."""
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return [value for value in values if isinstance(value, Tensor)]

    def with_tensors(self, change: Callable[[Tensor], Tensor]) -> Operation:
        """The same step with every tensor replaced."""
        changed: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changed[field.name] = change(value)
        return replace(self, **changed) if changed else self  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Multiply(Operation):
    """scores × factor."""

    factor: Tensor | float

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores * _operand(self.factor, tile)


@dataclass(frozen=True, slots=True)
class Divide(Operation):
    """scores ÷ divisor (kept apart from Multiply: x / 3 and x · (1/3) differ in the last bit)."""

    divisor: Tensor | float

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores / _operand(self.divisor, tile)


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """scores + factor × term: position biases and additive masks."""

    term: Tensor | float
    factor: float = 1.0

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        term = _operand(self.term, tile)
        return scores + (term if self.factor == 1 else term * self.factor)

    def forbids(self, tile: Tile, device: torch.device) -> Tensor | None:
        """See `Operation.forbids`."""
        if not isinstance(self.term, Tensor) or not self.term.is_floating_point():
            return None
        term = _operand(self.term, tile) * self.factor
        return term <= MASK_CONSTANT if isinstance(term, Tensor) else None


@dataclass(frozen=True, slots=True)
class Fill(Operation):
    """Cells where ``where`` is True (with ``keep``, False) become ``value``."""

    where: Tensor
    value: float
    keep: bool = False

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores.masked_fill(self._filled(tile), self.value)

    def forbids(self, tile: Tile, device: torch.device) -> Tensor | None:
        """See `Operation.forbids`."""
        return self._filled(tile) if self.value <= MASK_CONSTANT else None

    def _filled(self, tile: Tile) -> Tensor:
        where = tile.pick(self.where).to(torch.bool)
        return ~where if self.keep else where


@dataclass(frozen=True, slots=True)
class Causal(Operation):
    """A query sees keys up to its own position, ``offset`` keys precede the first query."""

    offset: int = 0

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores.masked_fill(self.forbids(tile, scores.device), float("-inf"))

    def forbids(self, tile: Tile, device: torch.device) -> Tensor:
        """See `Operation.forbids`."""
        return tile.key_positions(device) > tile.row_positions(device) + self.offset


@dataclass(frozen=True, slots=True)
class Window(Operation):
    """A query sees only keys less than ``size`` positions back."""

    size: int
    offset: int = 0

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores.masked_fill(self.forbids(tile, scores.device), float("-inf"))

    def forbids(self, tile: Tile, device: torch.device) -> Tensor:
        """See `Operation.forbids`."""
        return tile.row_positions(device) + self.offset - tile.key_positions(device) >= self.size


@dataclass(frozen=True, slots=True)
class Lengths(Operation):
    """Batch item b has only its first ``lengths[b]`` tokens (nested tensors)."""

    lengths: tuple[int, ...]

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores.masked_fill(self.forbids(tile, scores.device), float("-inf"))

    def forbids(self, tile: Tile, device: torch.device) -> Tensor:
        """See `Operation.forbids`."""
        length = self.lengths[tile.batch]
        return (tile.key_positions(device) >= length) | (tile.row_positions(device) >= length)


@dataclass(frozen=True, slots=True)
class Tanh(Operation):
    """tanh(scores): the middle of a soft-cap."""

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return torch.tanh(scores)


@dataclass(frozen=True, slots=True)
class Clamp(Operation):
    """scores limited to [low, high]; None is no limit."""

    low: float | None = None
    high: float | None = None

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores.clamp(min=self.low, max=self.high)


@dataclass(frozen=True, slots=True)
class Cast(Operation):
    """scores in another type (softmax in float32 of half-type scores)."""

    dtype: torch.dtype

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        return scores.to(self.dtype)


ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Modifiers(Operation):
    """flex_attention's ``score_mod(score, b, h, q, k)`` and ``mask_mod(b, h, q, k)``."""

    score_mod: ScoreMod | None = None
    mask_mod: MaskMod | None = None

    def apply(self, scores: Tensor, tile: Tile) -> Tensor:
        """See `Operation.apply`."""
        if self.score_mod is not None:
            device = scores.device
            per_key = torch.vmap(self.score_mod, in_dims=(0, None, None, None, 0))
            per_row = torch.vmap(per_key, in_dims=(0, None, None, 0, None))
            rows, keys = _positions(tile.rows, device), _positions(tile.keys, device)
            scores = per_row(scores, *_indices(tile, device), rows, keys)
        forbidden = self.forbids(tile, scores.device)
        return scores if forbidden is None else scores.masked_fill(forbidden, float("-inf"))

    def forbids(self, tile: Tile, device: torch.device) -> Tensor | None:
        """See `Operation.forbids`."""
        if self.mask_mod is None:
            return None
        per_key = torch.vmap(self.mask_mod, in_dims=(None, None, None, 0))
        per_row = torch.vmap(per_key, in_dims=(None, None, 0, None))
        rows, keys = _positions(tile.rows, device), _positions(tile.keys, device)
        allowed: Tensor = per_row(*_indices(tile, device), rows, keys)
        return ~allowed


def _indices(tile: Tile, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.tensor(tile.batch, device=device), torch.tensor(tile.head, device=device)


def _operand(value: Tensor | float, tile: Tile) -> Tensor | float:
    if isinstance(value, Tensor):
        return value if value.ndim == 0 else tile.pick(value)
    return value
