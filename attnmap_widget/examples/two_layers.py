"""The induction model: two layers of attention and nothing else, in plain torch."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

POSITIONS = 48
"""The longest prompt, in words."""


class Attention(nn.Module):
    """Causal attention in several heads.

    Positions go into queries and keys alone, not into what is passed on: a head can look at "the
    word before", but what it brings back is the word, not the place. That makes for clear heads.
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size, bias=False)
        self.out = nn.Linear(size, size, bias=False)

    def queries_and_keys(
        self, x: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both (batch, heads, words, size of a head)."""
        return self._split(self.query(x + positions)), self._split(self.key(x + positions))

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """(batch, words, size) -> the same shape."""
        query, key = self.queries_and_keys(x, positions)
        mixed = F.scaled_dot_product_attention(
            query, key, self._split(self.value(x)), is_causal=True
        )
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        batch, words, size = x.shape
        return x.view(batch, words, self.heads, size // self.heads).transpose(1, 2)


class Block(nn.Module):
    """One layer: it reads the stream, and adds what its heads found."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attn = Attention(size, heads)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """(batch, words, size) -> the same shape."""
        found: torch.Tensor = self.attn(self.norm(x), positions)
        return x + found

    def attention(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The weights of every head, worked out by hand: (batch, heads, words, words)."""
        query, key = self.attn.queries_and_keys(self.norm(x), positions)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        mask = torch.full_like(scores, -math.inf).triu(1)
        return torch.softmax(scores + mask, -1)


class TwoLayers(nn.Module):
    """Two layers of attention: `model(ids)` gives the scores of the next word.

    ids (batch, words) int64, at most `POSITIONS` words -> (batch, words, vocabulary) float32.
    """

    def __init__(self, vocabulary: int, size: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.positions = nn.Parameter(torch.randn(POSITIONS, size) * 0.3)
        self.blocks = nn.ModuleList(Block(size, heads) for _ in range(2))
        self.norm = nn.LayerNorm(size)
        self.out = nn.Linear(size, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """See the class."""
        x = self.embed(ids)
        positions = self.positions[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, positions)
        scores: torch.Tensor = self.out(self.norm(x))
        return scores

    def attention(self, ids: torch.Tensor) -> torch.Tensor:
        """The weights of every head, worked out by hand: (layers, batch, heads, words, words).

        `capture` reads the same from `model(ids)`; this is what to check it against.
        """
        x = self.embed(ids)
        positions = self.positions[: ids.shape[1]]
        layers = []
        for block in self.blocks:
            assert isinstance(block, Block)
            layers.append(block.attention(x, positions))
            x = block(x, positions)
        return torch.stack(layers)
