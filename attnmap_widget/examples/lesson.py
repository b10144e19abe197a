"""The lesson "Reading attention weights": one attention head, six words, all of it in one file.

The model learns one sentence by heart: at each word it has to say the next one. All it can do is
look back (`softmax(scores + mask)`) and mix what it finds there. After 100 steps the loss is
0.0006, and the rows of *a* and *mat* both lean on *sat*.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


class Lesson(NamedTuple):
    """A trained model and what it attends to."""

    tokens: list[str]
    weights: NDArray[np.float32]
    """(queries, keys) = (6, 6): what the trained model gives on `ids`."""
    loss: float
    """Cross entropy of the trained model, the mean over the six words."""
    model: torch.nn.Module
    """`model(ids)` gives the scores of the next word, (6, 6): one row per position."""
    ids: torch.Tensor
    """(6,) int64: the sentence as the model takes it."""


def lesson() -> Lesson:
    """Train the model of the lesson and read its attention.

    Each call trains a new one from the same start, so the numbers are the same every time; it takes
    a tenth of a second, once torch has loaded its optimizers. torch's random state is left as it
    was.
    """
    import torch
    from torch import nn
    from torch.nn import functional as F

    tokens = ["the", "cat", "sat", "on", "a", "mat"]
    words = len(tokens)
    ids = torch.arange(words)  # no word comes twice, so a word's number is its place
    targets = torch.tensor([1, 2, 3, 4, 5, 5])  # the next word; after the last one, itself

    class OneHead(nn.Module):
        def __init__(self, size: int = 8) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, size)
            self.query = nn.Linear(size, size, bias=False)
            self.key = nn.Linear(size, size, bias=False)
            self.value = nn.Linear(size, size, bias=False)
            self.out = nn.Linear(size, words)

        def attention(self, x: torch.Tensor) -> torch.Tensor:
            """How much each word (row) looks at each word (column)."""
            scores = self.query(x) @ self.key(x).T / math.sqrt(x.shape[-1])
            # -inf above the diagonal: the softmax turns it into a weight of 0 on what comes later
            mask = torch.full_like(scores, -math.inf).triu(1)
            return torch.softmax(scores + mask, -1)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.embed(ids)
            mixed = self.attention(x) @ self.value(x)
            next_word: torch.Tensor = self.out(mixed)
            return next_word

    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        model = OneHead()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(100):
            loss = F.cross_entropy(model(ids), targets)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    model.eval()
    with torch.no_grad():
        loss = F.cross_entropy(model(ids), targets)
        weights = model.attention(model.embed(ids)).numpy()
    return Lesson(tokens, weights, loss.item(), model, ids)
