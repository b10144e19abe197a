"""Token lists as people have them: strings, ids or bytes, in lists, arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

Token = str | int | bytes


def accept_tokens(name: str, given: Any) -> tuple[Token, ...]:
    """The tokens in order, as given. `name` is for the message.

    TypeError for one string instead of a list, a batch of lists, or things that are no tokens;
    ValueError for an empty list.
    """
    if isinstance(given, (str, bytes)):
        raise TypeError(
            f"{name}: got one {type(given).__name__}, expected a list with one entry per position "
            f"({name}={str(given)[:20]!r}.split()?)"
        )
    if hasattr(given, "tolist"):  # numpy, torch, pandas
        given = given.tolist()
    try:
        items = list(given)
    except TypeError:
        raise TypeError(f"{name}: got {type(given).__name__}, expected a list of tokens") from None
    if not items:
        raise ValueError(f"{name}: an empty list; a map needs at least one")
    return tuple(_token(name, index, item) for index, item in enumerate(items))


def _token(name: str, index: int, item: Any) -> Token:
    if isinstance(item, (np.integer, np.str_, np.bytes_)):
        item = item.item()
    if isinstance(item, (str, bytes)) or (isinstance(item, int) and not isinstance(item, bool)):
        return item
    if getattr(item, "ndim", None) == 0 and hasattr(item, "item"):
        return _token(name, index, item.item())
    batch = isinstance(item, (list, tuple)) or hasattr(item, "ndim")
    hint = "expected text, an id or bytes"
    if batch:
        hint = "weights instead of tokens, or a batch? Tokens come first, those of one item"
    raise TypeError(f"{name}: position {index} holds {type(item).__name__}; {hint}")
