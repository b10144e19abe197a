"""Labels of a long map in few bytes: each text once, and of each only what the one before lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_LONGEST = 0xD800
"""Lengths are written as characters, and here the surrogates begin, which are none."""


def pack(labels: Sequence[str], raw: Sequence[str]) -> dict[str, Any] | None:
    """As the front end's `PackedLabels`; None where a text is too long for it.

    Tokens repeat, so texts are listed once (`texts`, UTF-8) and positions say which is theirs
    (`ids`: uint16, uint32 where that is not enough; None: the texts are one per position). The list
    is front-coded, as dictionaries are: of each text how many characters it shares with the one
    before, how many follow, and these. With `pairs` all labels are followed by all raw tokens.
    Positions as labels need no texts at all.
    """
    count = len(labels)
    if all(label == str(index) for index, label in enumerate(labels)) and labels == raw:
        return {"count": count, "texts": None, "pairs": False, "ids": None}
    both = list(zip(labels, raw, strict=True))
    different = dict.fromkeys(both)
    repeated = len(different) < count
    # In order, neighbours share more.
    number = {pair: i for i, pair in enumerate(sorted(different) if repeated else different)}
    pairs = any(label != token for label, token in number)
    texts = [label for label, _ in number] + [token for _, token in number if pairs]
    if max(map(_units, texts)) >= _LONGEST:
        return None
    kind = "<u2" if len(number) <= 1 << 16 else "<u4"
    return {
        "count": count,
        "texts": "".join(_front_coded(texts)).encode(),
        "pairs": pairs,
        "ids": np.array([number[pair] for pair in both], kind).tobytes() if repeated else None,
    }


def _front_coded(texts: Iterable[str]) -> Iterable[str]:
    before = ""
    for text in texts:
        shared = 0
        for one, other in zip(before, text, strict=False):
            # JavaScript counts a character beyond the basic plane as two: none of them is shared.
            if one != other or one > "\uffff":
                break
            shared += 1
        rest = text[shared:]
        yield chr(shared) + chr(_units(rest)) + rest
        before = text


def _units(text: str) -> int:
    """Characters as JavaScript counts them."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
