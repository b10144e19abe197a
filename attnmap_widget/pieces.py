"""Which pieces of a tokenizer make a word, by offsets, by word numbers or by the pieces' marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from .grid import labels

Groups = list[list[int]]
"""Indices of pieces, a list a word."""

STYLES = ("##", "Ġ", "▁")
_FALLBACK = re.compile(r"(?:<0x[0-9A-Fa-f]{2}>)+")


def by_ids(word_ids: Iterable[int | None]) -> Groups:
    """Pieces in a row with the same number; None is a special token."""
    groups: Groups = []
    before: int | None = None
    for index, number in enumerate(word_ids):
        if number is not None and number == before:
            groups[-1].append(index)
        else:
            groups.append([index])
        before = number
    return groups


def by_offsets(offsets: Iterable[Sequence[int]], text: str) -> Groups:
    """Pieces that touch in `text` within a word; ValueError for offsets that do not fit it."""
    spans = []
    for index, pair in enumerate(offsets):
        try:
            start, end = pair
        except (TypeError, ValueError):
            raise TypeError(f"offsets: piece {index} has {pair!r}, expected (start, end)") from None
        if not 0 <= start <= end <= len(text):
            raise ValueError(
                f"offsets: piece {index} is at ({start}, {end}), the text has {len(text)} "
                "characters; are they of another text?"
            )
        spans.append((int(start), int(end)))
    begins = [start for start, end in spans if start < end]
    if begins != sorted(begins):
        raise ValueError("offsets: they go back; of two texts? Group each on its own")
    groups: Groups = []
    for index, span in enumerate(spans):
        if index and _touch(spans[index - 1], span, text):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def by_marks(tokens: Sequence[Any], style: str | None = None) -> Groups:
    """By what the pieces themselves say; ValueError where that leaves doubt."""
    pieces = [token if isinstance(token, str) else None for token in tokens]
    style = _style(pieces) if style is None else style
    if style not in STYLES:
        raise ValueError(f"style: got {style!r}, accepted are {', '.join(map(repr, STYLES))}")
    if any(piece is None for piece in pieces):
        index = pieces.index(None)
        raise TypeError(f"tokens: {tokens[index]!r} at index {index} is no text; give word_ids")
    texts = [piece or "" for piece in pieces]
    if style == "##":
        ids: list[int] = []
        for index, piece in enumerate(texts):
            goes_on = index > 0 and piece.startswith("##") and len(piece) > 2
            ids.append(ids[-1] if goes_on else index)
        return by_ids(ids)
    return by_offsets(*_spelled(texts, style))


def joined(tokens: Sequence[Any]) -> Any:
    """The token of a word: its raw pieces in one, so that it reads as one."""
    if len(tokens) == 1:
        return tokens[0]
    if all(isinstance(token, bytes) for token in tokens):
        return b"".join(tokens)
    if not all(isinstance(token, str) for token in tokens):
        return " ".join(map(labels.raw_text, tokens))
    parts = [tokens[0], *(token[2:] if _goes_on(token) else token for token in tokens[1:])]
    return _FALLBACK.sub(_bytes, "".join(parts))


def _goes_on(token: str) -> bool:
    return token.startswith("##") and len(token) > 2


def _bytes(found: re.Match[str]) -> str:
    """`<0xE2><0x82><0xAC>` is "€"; bytes that are no text stay as they are."""
    try:
        return bytes.fromhex(found[0].replace("<0x", "").replace(">", "")).decode()
    except UnicodeDecodeError:
        return found[0]


def _style(pieces: Sequence[str | None]) -> str:
    marks = {
        "##": any(piece and _goes_on(piece) for piece in pieces),
        "Ġ": any(piece and piece.startswith("Ġ") for piece in pieces),
        "▁": any(piece and labels.begins_word(piece) for piece in pieces),
    }
    found = [style for style, seen in marks.items() if seen]
    other = "give offsets and text, word_ids, or style"
    if not found:
        raise ValueError(
            f"tokens: none of them has a mark ({', '.join(STYLES)}) of which go together; {other}"
        )
    if len(found) > 1:
        raise ValueError(f"tokens: marks of several alphabets ({', '.join(found)}); {other}")
    if found == ["Ġ"] and any(piece and labels.is_maltese(piece) for piece in pieces):
        raise ValueError(f"tokens: Ġ may be a letter here, as in Maltese; {other}")
    return found[0]


def _spelled(pieces: Sequence[str], style: str) -> tuple[list[tuple[int, int]], str]:
    """The text that the pieces spell, and where in it each of them is.

    A piece that has but a part of a character's bytes is where the whole character is.
    """
    spelled = [labels.spelled_bytes(piece, style) for piece in pieces]
    text = b"".join(spelled).decode("utf-8", "surrogateescape")
    owners = [
        number
        for number, character in enumerate(text)
        for _ in character.encode("utf-8", "surrogateescape")
    ]
    spans = []
    at = 0
    for part in spelled:
        end = at + len(part)
        spans.append((owners[at], owners[end - 1] + 1) if part else (0, 0))
        at = end
    return spans, text


def _touch(before: tuple[int, int], span: tuple[int, int], text: str) -> bool:
    """Whether two pieces, one after the other, are of one word."""
    if before[0] == before[1] or span[0] == span[1]:
        return False  # a special token
    if before[0] <= span[0] < before[1]:
        return True  # parts of one character
    if before[1] != span[0] or text[span[0]].isspace():
        return False
    if text[before[0] : before[1]] == " ":
        return True  # the space before a word, as a piece of its own
    return _in_word(text[before[1] - 1]) and _in_word(text[span[0]])


def _in_word(character: str) -> bool:
    """A letter, digit or mark of a script that puts spaces between its words."""
    spaced = unicodedata.east_asian_width(character) not in "WF" and not _UNSPACED.match(character)
    return spaced and (character.isalnum() or unicodedata.category(character)[0] == "M")


_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Burmese, Khmer."""
