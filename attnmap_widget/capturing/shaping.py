"""What is done to scores between q·kᵀ and the mask, in place: a soft-cap, position biases."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .operations import Add, Tile

_SINGLE = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Bias:
    """factor · term is added; ``term``: (queries or 1, keys or 1)."""

    term: Tensor
    factor: float

    @classmethod
    def of(cls, step: Add, batch: int, head: int, shape: tuple[int, int]) -> Bias | None:
        """One head's part of the step; None where float32 scores would not stay float32."""
        if not isinstance(step.term, Tensor) or step.term.dtype not in _SINGLE:
            return None
        whole = Tile(batch, head, slice(0, shape[0], 1), slice(0, shape[1], 1))
        return cls(whole.pick(step.term), step.factor)

    def tile(self, rows: slice, keys: slice) -> Tensor:
        """Of these rows and keys, float32 on the CPU, (rows or 1, keys or 1)."""
        part = self.term[rows] if self.term.shape[0] > 1 else self.term
        return self._added(part[:, keys] if part.shape[1] > 1 else part)

    def cells(self, rows: Tensor, keys: Tensor) -> Tensor:
        """Of cells by their numbers, which broadcast; keys beyond the last have any number."""
        row = rows if self.term.shape[0] > 1 else torch.zeros_like(rows)
        key = keys.clamp(max=self.term.shape[1] - 1)
        device = self.term.device
        return self._added(self.term[row.to(device), key.to(device)])

    def _added(self, part: Tensor) -> Tensor:
        return (part if self.factor == 1 else part * self.factor).to("cpu", torch.float32)


@dataclass(frozen=True, slots=True)
class Shaping:
    """Scores s become cap · tanh(s) (Gemma 2), or scale · s + biases (T5, ALiBi).

    The scale comes last before the biases, as in the model, so that both round alike: a bias of
    thousands leaves few digits of s.
    """

    cap: float | None = None
    scale: float = 1.0
    biases: tuple[Bias, ...] = ()

    def tile(self, scores: Tensor, rows: slice, keys: slice) -> None:
        """Scores of (rows, keys)."""
        self._scale(scores)
        for bias in self.biases:
            scores += bias.tile(rows, keys)

    def grid(self, scores: Tensor, rows: slice, start: int, count: int) -> None:
        """Scores laid out as in `Blocks.fill`, of a head with ``count`` keys."""
        self._scale(scores)
        _, columns, bins = scores.shape
        stop = start + columns * bins
        for bias in self.biases:
            part = bias.tile(rows, slice(start, min(stop, count), 1))
            if part.shape[1] == 1:
                scores += part[:, :, None]
                continue
            if stop > count:
                part = torch.nn.functional.pad(part, (0, stop - count))
            scores += part.view(-1, bins, columns).transpose(1, 2)

    def cells(self, scores: Tensor, rows: Tensor, keys: Tensor) -> None:
        """Scores of cells by their numbers, which broadcast to them."""
        self._scale(scores)
        for bias in self.biases:
            scores += bias.cells(rows, keys)

    def _scale(self, scores: Tensor) -> None:
        if self.cap is not None:
            scores.tanh_().mul_(self.cap)
        elif self.scale != 1:
            scores.mul_(self.scale)
