"""What a tokenizer says of ids: the tokens, which make a word, which are special."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ..pieces import by_marks
from .arranging import Known
from .tokenized import special_ids

_UNSEEN = "?"
"""The label of a position whose token is not known: what was cached before the capture."""
_KEPT = 8
"""Lists of ids that are remembered."""

Ids = Sequence[int | None]


class Texts:
    """Tokens by ids, each list read once. Without a tokenizer nothing is known."""

    def __init__(self, tokenizer: Any = None) -> None:
        self.tokenizer = tokenizer
        self._special = special_ids(tokenizer)
        self._read: dict[tuple[int | None, ...], tuple[list[Any], Known]] = {}

    def of(self, ids: Ids | None) -> list[Any] | None:
        """The tokens of these ids; None without a tokenizer or without ids."""
        return self._of(ids)[0]

    def known(self, ids: Ids | None) -> Known:
        """Words by the pieces' marks, and special tokens."""
        return self._of(ids)[1]

    def _of(self, ids: Ids | None) -> tuple[list[Any] | None, Known]:
        if ids is None or self.tokenizer is None or all(one is None for one in ids):
            return None, Known()
        key = tuple(ids)
        if key not in self._read:
            there = [one for one in key if one is not None]
            found = iter(self.tokenizer.convert_ids_to_tokens(there))
            tokens = [_UNSEEN if one is None else next(found) for one in key]
            if len(self._read) >= _KEPT:
                self._read.clear()
            self._read[key] = tokens, self._marked(key, tokens)
        return self._read[key]

    def _marked(self, ids: Ids, tokens: list[Any]) -> Known:
        words = None
        if None not in ids:  # an unseen token may belong to the word beside it
            with contextlib.suppress(ValueError, TypeError):
                words = by_marks(tokens)
        special = [at for at, one in enumerate(ids) if one in self._special]
        return Known(words, special or None)
