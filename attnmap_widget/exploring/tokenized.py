"""What a tokenizer says of a model's inputs: words, special tokens, how many there are.

Knows neither torch nor a tokenizer's class: only what tokenizers can do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ..pieces import by_marks
from ..words import word_groups

_IDS = ("input_ids", "decoder_input_ids")


class Encoded(dict[str, Any]):
    """Tensors for a model, on its device, and the pieces as a fast tokenizer found them."""

    def __init__(self, encoding: Mapping[str, Any], device: Any) -> None:
        super().__init__({name: value.to(device) for name, value in encoding.items()})
        self.encodings = getattr(encoding, "encodings", None)


def known(tokenizer: Any, inputs: Any, text: str | None) -> dict[str, Any]:
    """What an explorer is told of the tokens of `inputs`; None where the tokenizer does not say.

    Words by the pieces' offsets in `text`; without it by the pieces' marks, and where these leave
    doubt by the words that a fast tokenizer has counted.
    """
    found: dict[str, Any] = dict.fromkeys(("words", "special", "query_words", "query_special"))
    if tokenizer is None or not isinstance(inputs, Mapping):
        return found
    special = special_ids(tokenizer)
    for name, side in zip(_IDS, ("", "query_"), strict=True):
        rows = _rows(inputs, name)
        if rows is None:
            continue
        encodings = getattr(inputs, "encodings", None) if name == "input_ids" else None
        pieces = [tokenizer.convert_ids_to_tokens(row) for row in rows]
        groups = [
            _groups(tokens, encodings[item] if encodings else None, text)
            for item, tokens in enumerate(pieces)
        ]
        if all(group is not None for group in groups):
            found[f"{side}words"] = _one_or_all(groups)
        indices = [[at for at, number in enumerate(row) if number in special] for row in rows]
        if any(indices):
            found[f"{side}special"] = _one_or_all(indices)
    return found


def refuse_too_long(model: Any, inputs: Any, failure: Exception) -> None:
    """ValueError with both numbers, from `failure`, where it may come from too many tokens."""
    config = getattr(model, "config", None)
    most = getattr(config, "max_position_embeddings", None)
    rows = _rows(inputs, "input_ids") if isinstance(inputs, Mapping) else None
    if rows and isinstance(most, int) and len(rows[0]) > most:
        raise ValueError(
            f"{len(rows[0])} tokens, but the model takes {most} positions "
            "(config.max_position_embeddings); give it a shorter text"
        ) from failure


def _rows(inputs: Mapping[str, Any], name: str) -> list[list[int]] | None:
    ids = inputs.get(name)
    return None if ids is None else list(ids.tolist())


def _one_or_all(items: list[Any] | None) -> Any:
    return items[0] if items is not None and len(items) == 1 else items


def special_ids(tokenizer: Any) -> set[int]:
    """Those that frame a text; a mask or an unknown word stands for a token of it."""
    ids = set(getattr(tokenizer, "all_special_ids", ()))
    return ids - {getattr(tokenizer, name, None) for name in ("unk_token_id", "mask_token_id")}


def _groups(tokens: list[str], encoding: Any, text: str | None) -> list[list[int]] | None:
    if encoding is not None and text is not None:
        with contextlib.suppress(ValueError):  # offsets that are of no use
            return word_groups(tokens, offsets=encoding.offsets, text=text)
    with contextlib.suppress(ValueError, TypeError):
        return by_marks(tokens)
    return None if encoding is None else word_groups(tokens, word_ids=encoding.word_ids)
