"""What an explorer writes on a map: its title, its row and column labels, its status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..grid.labels import readable
from ..grid.weights import BoolGrid, shape_of
from .combined import layers_of, offer
from .sources import Choice, Extraction, Source, StackSource

NORMS = "‖αv‖"
"""What value norms are called (Kobayashi et al. 2020)."""


def title(source: Source, choice: Choice, seen: Extraction | None, caption: str) -> str:
    """Which head is shown, and over how many a mean or maximum was taken."""
    parts = [caption] if caption else []
    if choice.measure != "weights":
        parts.append(NORMS)
    there = offer(source, choice.layer, choice.kind)
    if source.named_layers and not isinstance(choice.layer, str):
        parts.append(f"Layer {choice.layer}")
    if choice.kind is not None and len(there.kinds) > 1:
        parts.append(choice.kind)
    if isinstance(choice.layer, str):
        parts.append(_over_layers(source, choice, seen))
    elif isinstance(choice.head, str):
        used = there.heads if seen is None else seen.heads[0]
        of = there.heads if used == there.heads else f"{used} of {there.heads}"
        parts.append(f"{choice.head} of {of} heads")
    else:
        parts.append(f"Head {choice.head}")
    if there.windows is not None:
        parts.append(f"Window {there.item_labels[choice.batch]}")
    elif there.items > 1:
        parts.append(f"item {choice.batch}")
    if choice.step is not None:
        parts.append(f"step {choice.step}")
    return " · ".join(parts)


def _over_layers(source: Source, choice: Choice, seen: Extraction | None) -> str:
    """What was taken over how many layers and heads."""
    layers = layers_of(source, choice.kind)
    counts = [source.offer(layer, choice.kind).heads for layer in layers]
    heads = f"{counts[0]}" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
    alone = counts == [1] * len(counts)
    if choice.layer == "rollout":
        text = f"rollout of layers {_numbers(layers)}"
        return text if alone else f"{text}, {choice.head} of {heads} heads"
    text = f"{choice.layer} of {len(layers)} layers"
    if not alone and choice.head != choice.layer:
        return f"{text}, {choice.head} of {heads} heads"
    text = text if alone else f"{text} × {heads} heads"
    used, given = (1, 1) if seen is None else seen.heads
    return text if used == given else f"{text}, {used} of {given} maps have weights"


def _numbers(layers: Sequence[int]) -> str:
    """0–5, or each of them where some are missing in between."""
    if len(layers) > 1 and list(layers) == list(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]}–{layers[-1]}"
    return ", ".join(map(str, layers))


def is_softmax(choice: Choice) -> bool:
    """Whether rows should sum to 1: not those of norms, nor of a maximum unless rolled out."""
    if choice.measure != "weights":
        return False
    return choice.layer == "rollout" or "max" not in (choice.layer, choice.head)


def value_title(choice: Choice, given: str) -> str:
    """What the numbers are: norms, or as the user calls the weights."""
    return NORMS if choice.measure != "weights" else given


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
    if isinstance(source, StackSource):
        refuse_misfit(source, choice, tokens, queries)
    tokens, queries = (of_item(one, choice.batch) for one in (tokens, queries))
    if len(shape) != 2:
        return ["?"] if tokens is None else tokens, queries, ""  # the map says what is wrong
    rows, keys = shape
    if offer(source, choice.layer, choice.kind).steps > 1:
        return _of_steps(choice, seen, shape, tokens, queries)
    if choice.crossing:
        return (
            range(keys) if tokens is None else tokens,
            range(rows) if queries is None else queries,
            "",
        )
    if choice.kind in ("encoder", "decoder"):
        tokens, queries = (queries if choice.of_decoder else tokens), None
    if tokens is None:
        return range(keys), None if rows == keys else range(rows), ""
    hidden = _hidden(source, choice.layer)
    slots = f"{hidden} unused slots of a static cache, all zero, are left out" if hidden else ""
    shared = "" if of_choice else _one_list(source, choice, given)
    return tokens, queries, "; ".join(filter(None, (shared, slots)))


def refuse_misfit(source: StackSource, choice: Choice, tokens: Any, queries: Any) -> None:
    """ShapeError if the layers do not fit the tokens."""
    tokens, queries = (of_item(one, choice.batch) for one in (tokens, queries))
    count = None if tokens is None else len(tokens)
    source.refuse_misfit(count if queries is None else len(queries), count)


def key_tokens(
    source: Source, choice: Choice, seen: Extraction, tokens: Any, queries: Any
) -> Sequence[Any] | None:
    """The tokens of the keys as `labels` has them; None where there are none."""
    keys, _, _ = labels(source, choice, seen, tokens, queries, of_choice=True)
    return None if isinstance(keys, range) else keys


def _hidden(source: Source, layer: int | str) -> int:
    """How many slots of a static cache are left out."""
    if not isinstance(source, StackSource):
        return 0
    if isinstance(layer, str):
        return max(source.hidden.values(), default=0)
    return source.hidden.get(layer, 0)


class Side(NamedTuple):
    """Which tokens stand along an axis."""

    of: str | None
    """"tokens", "queries", or None where they are but counted."""
    begin: int
    end: int


def sides(source: Source, choice: Choice, seen: Extraction, *, queries: bool) -> tuple[Side, Side]:
    """Keys and rows, as `labels` names them; equal where the rows are the keys.

    `queries`: whether there is a second list of tokens.
    """
    rows, keys = shape_of(seen.weights)
    own = "queries" if choice.of_decoder else "tokens"
    given = Side("tokens", 0, keys)
    if offer(source, choice.layer, choice.kind).steps > 1:
        if seen.at is None:
            return given if choice.crossing else Side(None, 0, keys), Side(None, 0, rows)
        looking, looked = (Side(own, part.start, part.stop) for part in seen.at[:2])
        return given if choice.crossing else looked, looking
    if choice.crossing:
        return given, Side("queries", 0, rows)
    if queries and choice.kind not in ("encoder", "decoder"):
        return given, Side("queries", 0, rows)
    given = Side(own, 0, keys)
    return given, given if rows == keys else Side(None, 0, rows)


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
    items = offer(source, choice.layer, choice.kind).items
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
    choice: Choice, seen: Extraction, shape: tuple[int, ...], tokens: Any, queries: Any
) -> tuple[Sequence[Any], Sequence[Any] | None, str]:
    """Labels by position after generate."""
    rows, keys = shape
    if seen.at is None:
        known = choice.crossing and tokens is not None
        status = "where this step stands in the text is not certain: no tokens are shown"
        return tokens if known else range(keys), range(rows), status
    at = seen.at
    name, own = ("queries", queries) if choice.of_decoder else ("tokens", tokens)
    status = ""
    if own is not None:
        _refuse_length(name, own, at.end, choice.kind or "")
        if at.rows.stop == at.end < len(own):
            last = quoted(readable(own)[-1])
            status = f"the last token, {last} at {at.end}, was generated and never looked: no row"
    row_labels = at.rows if own is None else own[at.rows.start : at.rows.stop]
    if choice.crossing:
        return range(keys) if tokens is None else tokens, row_labels, status
    key_labels = at.keys if own is None else own[at.keys.start : at.keys.stop]
    return key_labels, None if at.rows == at.keys else row_labels, status


def _refuse_length(name: str, own: Any, end: int, kind: str) -> None:
    """ShapeError unless these are the tokens that ran, with or without the one generated last."""
    if len(own) not in (end, end + 1):
        raise ShapeError(
            f"{name}: got {len(own)}, but {end} positions ran in {kind or 'self'} attention "
            f"({end + 1} with the token that was generated last)"
        )
