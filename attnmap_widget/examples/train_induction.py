"""How the induction model was trained: `python -m attnmap_widget.examples.train_induction out.npz`.

It takes about a minute on one CPU core. A sequence is some random words, then a part of random
length said twice:

    owl pen  cat tree river  cat tree river

The loss counts the second saying only, where each word but the first can be known. The words before
move the part about, so that heads learn to find words wherever they stand. One torch thread and one
seed: the same machine gives the same weights again. They are stored as float16 (86 kB).

`scores` of the shipped weights, on 64 prompts of 6 or of 16 words said twice:

    previous token, layer 0     head 0 0.96, head 2 0.97 (heads 1 and 3 look about: 0.19 to 0.26)
    induction, layer 1          each of the four heads 0.93 to 0.96
    next word right             over 99.9 %
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from .repeats import WEIGHTS, WORDS
from .two_layers import POSITIONS, TwoLayers

SHORTEST = 3  # words in a part that is said twice
ALL_DIFFERENT = 0.9  # share of batches without chance repeats, which make the next word ambiguous


class Scores(NamedTuple):
    """What the heads do on fresh prompts; each a mean over prompts and rows, (layers, heads)."""

    previous: torch.Tensor
    """Weight on the token just before."""
    induction: torch.Tensor
    """Weight on the token after the earlier occurrence of this row's token."""
    accuracy: float
    """How often the right next word is on top, where it can be known."""


def train(steps: int = 4000, seed: int = 0, report_every: int = 0) -> TwoLayers:
    """A model trained from scratch; progress to stderr every `report_every` steps, if any."""
    torch.manual_seed(seed)
    model = TwoLayers(len(WORDS))
    random = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.004, betas=(0.9, 0.98))
    # a short warm-up, then half a cosine down to a twentieth
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=100),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=0.0002),
        ],
        milestones=[100],
    )
    for step in range(1, steps + 1):
        ids, said_twice = _batch(32, random)
        guesses = model(ids[:, :-1])[:, 1 - said_twice :]
        loss = F.cross_entropy(guesses.flatten(0, 1), ids[:, 1 - said_twice :].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if report_every and step % report_every == 0:
            sys.stderr.write(f"step {step}: loss {loss.item():.4f}\n")
    return model.eval()


def scores(model: TwoLayers, words: int, prompts: int = 64, seed: int = 1) -> Scores:
    """What the heads do on `prompts` prompts of `words` different words, said twice."""
    random = torch.Generator().manual_seed(seed)
    ids = _different(prompts, words, random).repeat(1, 2)
    with torch.no_grad():
        weights = model.attention(ids)
        guesses = model(ids).argmax(-1)
    later = torch.arange(1, 2 * words)
    second = torch.arange(words, 2 * words)
    return Scores(
        previous=weights[..., later, later - 1].mean((1, -1)),
        induction=weights[..., second, second - words + 1].mean((1, -1)),
        accuracy=(guesses[:, words:-1] == ids[:, words + 1 :]).float().mean().item(),
    )


def _batch(size: int, random: torch.Generator) -> tuple[torch.Tensor, int]:
    """Sequences (size, length) of word ids, and how many words at the end were said before."""
    said_twice = _between(SHORTEST, POSITIONS // 2, random)
    before = _between(0, POSITIONS - 2 * said_twice, random)
    words = before + said_twice
    if torch.rand((), generator=random) < ALL_DIFFERENT:
        ids = _different(size, words, random)
    else:
        ids = torch.randint(len(WORDS), (size, words), generator=random)
    return torch.cat([ids, ids[:, before:]], 1), said_twice


def _between(low: int, high: int, random: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=random))


def _different(size: int, words: int, random: torch.Generator) -> torch.Tensor:
    return torch.rand(size, len(WORDS), generator=random).argsort(-1)[:, :words]


def main() -> None:
    """Train, store and report."""
    torch.set_num_threads(1)
    path = Path(sys.argv[1] if len(sys.argv) > 1 else WEIGHTS.name)
    model = train(report_every=500).half()
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    for words in (6, 16):
        found = scores(model.float(), words)
        sys.stdout.write(f"{words} words twice: next word right {found.accuracy:.1%}\n")
        for name, by_layer in (("previous", found.previous), ("induction", found.induction)):
            for layer, heads in enumerate(by_layer.tolist()):
                row = " ".join(f"{value:.2f}" for value in heads)
                sys.stdout.write(f"  {name:<9} layer {layer}: {row}\n")


if __name__ == "__main__":
    main()
