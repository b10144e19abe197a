"""What `generate` returned, read once: sequences, beams, and where the generated part begins."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ShapeError

_PER_TOKEN = ("scores", "logits", "attentions", "decoder_attentions")
"""Parts of an output that have one entry for each generated token."""


@dataclass(frozen=True)
class Generated:
    """What is known of a generation; a decoder's own tokens in an encoder-decoder model."""

    sequences: list[list[int]] | None = None
    """Token ids, prompt first, a list per returned sequence."""
    beam_indices: Any = None
    """(sequences, generated tokens): the item of the batch that gave each token."""
    beams: bool = False
    """Whether it was a beam search."""
    independent: bool = False
    """Whether it was certainly none: each item of the batch is a sequence of its own."""
    first: int | None = None
    """Position of the first generated token; None: not known."""


def as_generated(given: Any, beam_indices: Any = None) -> Generated:
    """Read ids (sequences, tokens), an output that has them, or the first generated position.

    `beam_indices` replaces those of the output. TypeError for anything else.
    """
    if beam_indices is not None:
        return replace(as_generated(given), beam_indices=beam_indices, beams=True)
    if given is None or isinstance(given, Generated):
        return given or Generated()
    position = _whole(given)
    if position is not None:
        if position < 0:
            raise ValueError(f"generated: got {position}, expected the first generated position")
        return Generated(first=position)
    if not hasattr(given, "sequences"):
        return Generated(_ids(given))
    sequences = _ids(given.sequences)
    indices = getattr(given, "beam_indices", None)
    counts = {
        len(part)
        for part in (getattr(given, name, None) for name in _PER_TOKEN)
        if isinstance(part, tuple)
    }
    if indices is not None:
        counts = {len(indices[0])}
    new = counts.pop() if len(counts) == 1 else None
    return Generated(
        sequences,
        indices,
        hasattr(given, "beam_indices"),
        not hasattr(given, "beam_indices"),
        None if new is None or not 0 < new < len(sequences[0]) else len(sequences[0]) - new,
    )


def returned(given: Any) -> Generated:
    """The same for whatever a function returned: nothing is known of what is no generation."""
    try:
        return Generated() if _whole(given) is not None else as_generated(given)
    except (TypeError, ValueError):
        return Generated()


def _whole(given: Any) -> int | None:
    if isinstance(given, bool) or getattr(given, "ndim", 0) > 0:
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None


def _ids(given: Any) -> list[list[int]]:
    rows = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(rows, (list, tuple)) and rows:
        rows = [rows] if all(type(item) is int for item in rows) else list(rows)
        table = all(
            isinstance(row, (list, tuple)) and all(type(item) is int for item in row)
            for row in rows
        )
        if table and all(rows):
            return [list(row) for row in rows]
    raise TypeError(
        f"generated: got {type(given).__name__}; expected what generate() returned (token ids, or "
        "the output of return_dict_in_generate=True), or the position of the first generated token"
    )


def completed(
    ids: list[int | None] | None, end: int, generated: Generated, item: int
) -> list[int | None] | None:
    """One sequence of `end` positions: ids that ran, and from what was returned the one after.

    ShapeError where the two are not the same text.
    """
    if generated.sequences is None:
        return ids
    if item >= len(generated.sequences):
        raise ShapeError(
            f"generated: {len(generated.sequences)} sequences, none for batch item {item}"
        )
    sequence = generated.sequences[item]
    ran = [None] * end if ids is None else ids
    if len(sequence) < end:
        raise ShapeError(f"generated: got {len(sequence)} tokens, but {end} positions ran")
    for position, (one, other) in enumerate(zip(ran, sequence, strict=False)):
        if one is not None and one != other:
            raise ShapeError(
                f"generated: token {other} at {position} of sequence {item}, but {one} was run: it "
                "is of another run, or beam_indices belong to it"
            )
    return list(sequence[: end + 1])
