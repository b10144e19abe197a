"""A trained two-layer transformer that continues what it has read before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import torch

    from .two_layers import TwoLayers

WEIGHTS = Path(__file__).with_name("induction.npz")

LONGEST = 40
"""Words of a prompt. The model has places for 48, but training never looked at the very last."""

WORDS: tuple[str, ...] = tuple(
    """
    ant apple bag ball bear bell bird boat bone book box bread bus cake car cat chair coin cow cup
    deer desk dog door duck egg fish flag fork fox frog goat hat hen horse house key kite knife
    lamp leaf lion map milk moon mouse nest owl pan pear pen pig rain ring river rose ship shoe
    snow spoon star stone sun tree
    """.split()  # noqa: SIM905 - as a list it fills a page
)
"""The words that the induction model knows; a word's place is its id."""


class Induction(NamedTuple):
    """`model, tokens, ids = induction()`, ready for `explore(model, ids, tokens=tokens)`."""

    model: TwoLayers
    tokens: list[str]
    ids: torch.Tensor
    """(1, words) int64."""


def induction(words: Sequence[str] | None = None) -> Induction:
    """Load a trained model with a previous-token head and induction heads, and a prompt for it.

    The model was trained on random words said twice, so all that it can learn is: what followed
    this word last time follows it again. Head 2 of layer 0 (and head 0 almost as much) is a
    previous-token head: 0.97 of each row is on the word just before. All heads of layer 1 are
    induction heads: 0.93 and more is on the word after the earlier occurrence of the row's word.
    Both are means over fresh prompts; `train_induction` has the figures, and the training.

    Parameters
    ----------
    words:
        The prompt, as it stands: 1 to 40 of `WORDS`, such as `["sun", "key", "owl"] * 2`. Six words
        said twice if left out.

    Raises
    ------
    ValueError
        words that the model does not know, no words, or more than 40.
    """
    import torch

    from .two_layers import TwoLayers

    tokens = ["cat", "tree", "river", "moon", "bread", "key"] * 2 if words is None else list(words)
    unknown = sorted({str(word) for word in tokens if word not in WORDS})
    if unknown:
        raise ValueError(
            f"the model does not know {', '.join(unknown)}; it knows {' '.join(WORDS)}"
        )
    if not 1 <= len(tokens) <= LONGEST:
        raise ValueError(f"got {len(tokens)} words; the model takes 1 to {LONGEST}")
    with torch.random.fork_rng(devices=[]):  # the random start is overwritten at once
        model = TwoLayers(len(WORDS))
    with np.load(WEIGHTS) as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    model.eval().requires_grad_(False)
    return Induction(model, tokens, torch.tensor([[WORDS.index(word) for word in tokens]]))
