"""What an explorer writes on a map: its title, its row and column labels, its status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import ShapeError
from .labels import readable
from .sources import Choice, Extraction, Source, StackSource
from .weights import BoolGrid, shape_of


def title(source: Source, choice: Choice, seen: Extraction | None, caption: str) -> str:
    """Which head is shown, and over how many a mean or maximum was taken."""
    parts = [caption] if caption else []
    offer = source.offer(choice.layer, choice.kind)
    if source.named_layers:
        parts.append(f"Layer {choice.layer}")
    if choice.kind is not None and len(offer.kinds) > 1:
        parts.append(choice.kind)
    if isinstance(choice.head, str):
        used = offer.heads if seen is None else seen.heads[0]
        of = offer.heads if used == offer.heads else f"{used} of {offer.heads}"
        parts.append(f"{choice.head} of {of} heads")
    else:
        parts.append(f"Head {choice.head}")
    if offer.items > 1:
        parts.append(f"item {choice.batch}")
    if choice.step is not None:
        parts.append(f"step {choice.step}")
    return " · ".join(parts)


def labels(
    source: Source,
    choice: Choice,
    seen: Extraction,
    tokens: Any,
    queries: Any,
    *,
    of_choice: bool = False,
) -> tuple[Sequence[Any], Sequence[Any] | None, str]:
    """(keys, rows or None for the same, status); positions where there are no tokens.

    `tokens` name the keys. `queries` name the rows where they are other tokens: of a cross map, and
    both axes of a decoder's own. `of_choice`: they are those of this batch item for certain.
    """
    given, shape = tokens, shape_of(seen.weights)
    tokens, queries = (of_item(one, choice.batch) for one in (tokens, queries))
    if isinstance(source, StackSource):
        count = None if tokens is None else len(tokens)
        source.refuse_misfit(count if queries is None else len(queries), count)
    if len(shape) != 2:
        return ["?"] if tokens is None else tokens, queries, ""  # the map says what is wrong
    rows, keys = shape
    kind = choice.kind or ""
    if source.offer(choice.layer, choice.kind).steps > 1:
        return _of_steps(kind, seen, shape, tokens, queries)
    if kind.endswith("cross"):
        return (
            range(keys) if tokens is None else tokens,
            range(rows) if queries is None else queries,
            "",
        )
    if kind in ("encoder", "decoder"):
        tokens, queries = (tokens if kind == "encoder" else queries), None
    if tokens is None:
        return range(keys), None if rows == keys else range(rows), ""
    hidden = isinstance(source, StackSource) and source.hidden.get(choice.layer)
    slots = f"{hidden} unused slots of a static cache, all zero, are left out" if hidden else ""
    shared = "" if of_choice else _one_list(source, choice, given)
    return tokens, queries, "; ".join(filter(None, (shared, slots)))


def listed(given: Any) -> Any:
    """Tokens as a list, or lists per batch item; None stays. TypeError for one string."""
    if given is None:
        return None
    if isinstance(given, (str, bytes)):
        raise TypeError(f"tokens: got one {type(given).__name__}, expected a list of tokens")
    return given.tolist() if hasattr(given, "tolist") else list(given)


def quoted(label: str) -> str:
    """A readable label in a line of text: there a space can be a space."""
    inner = label.strip("·")
    if inner:
        left = len(label) - len(label.lstrip("·"))
        label = " " * left + inner + " " * (len(label) - left - len(inner))
    return f"'{label}'"


def not_yet(weights: Any) -> BoolGrid:
    """True, (queries, keys), where a later key has no weight: it did not exist at that step."""
    values = np.asarray(weights, dtype=np.float32)
    rows, keys = values.shape
    later = np.arange(keys)[None, :] > np.arange(rows)[:, None] + (keys - rows)
    missing: BoolGrid = np.isnan(values) & later
    return missing


def _one_list(source: Source, choice: Choice, tokens: Any) -> str:
    """A word on labels that may be those of another batch item."""
    items = source.offer(choice.layer, choice.kind).items
    if items == 1 or tokens is None or isinstance(tokens[0], (list, tuple)):
        return ""
    return f"one list of tokens labels all {items} items; for their own give a list of lists"


def of_item(tokens: Any, batch: int) -> Any:
    """The tokens of one batch item: the list itself, or its entry in a list of lists."""
    if not tokens or not isinstance(tokens[0], (list, tuple)):
        return tokens
    if batch >= len(tokens):
        raise ValueError(f"tokens: {len(tokens)} lists, none for batch item {batch}")
    return list(tokens[batch])


def _of_steps(
    kind: str, seen: Extraction, shape: tuple[int, ...], tokens: Any, queries: Any
) -> tuple[Sequence[Any], Sequence[Any] | None, str]:
    """Labels by position after generate."""
    rows, keys = shape
    if seen.at is None:
        crossing = kind.endswith("cross") and tokens is not None
        status = "where this step stands in the text is not certain: no tokens are shown"
        return tokens if crossing else range(keys), range(rows), status
    at = seen.at
    crossing = kind.endswith("cross")
    name, own = ("queries", queries) if crossing or kind == "decoder" else ("tokens", tokens)
    status = ""
    if own is not None:
        if len(own) not in (at.end, at.end + 1):
            raise ShapeError(
                f"{name}: got {len(own)}, but {at.end} positions ran in {kind or 'self'} attention "
                f"({at.end + 1} with the token that was generated last)"
            )
        if at.rows.stop == at.end < len(own):
            last = quoted(readable(own)[-1])
            status = f"the last token, {last} at {at.end}, was generated and never looked: no row"
    row_labels = at.rows if own is None else own[at.rows.start : at.rows.stop]
    if crossing:
        return range(keys) if tokens is None else tokens, row_labels, status
    key_labels = at.keys if own is None else own[at.keys.start : at.keys.stop]
    return key_labels, None if at.rows == at.keys else row_labels, status
