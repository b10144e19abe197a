"""How wide text is, without a font: an estimate that common sans-serif fonts stay below.

Widths are in em, those of DejaVu Sans, the widest of the usual fonts: a label laid out by them
fits in Helvetica, Arial, Segoe UI and Roboto too.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

BOLD = 1.08
"""How much wider the same text is in bold."""

_ASCII = [
    *(32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64),
    *(64, 64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86),
    *(75, 79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63),
    *(62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64),
    *(34, 64, 84),
]
"""Hundredths of an em from the space to the tilde."""
_OTHER = {"·": 0.32, "…": 1.0, " ": 0.32, "“": 0.52, "”": 0.52}


@lru_cache(maxsize=4096)
def _advance(character: str) -> float:
    code = ord(character)
    if 0x20 <= code < 0x7F:
        return _ASCII[code - 0x20] / 100
    if character in _OTHER:
        return _OTHER[character]
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0 if code < 0x1F000 else 1.35  # emoji are wider than their em in some fonts
    if unicodedata.category(character)[0] == "S":
        return 0.84
    plain = unicodedata.normalize("NFD", character)[0]
    if plain != character and plain.isascii():
        return _advance(plain)
    return 0.72


def width(text: str) -> float:
    """Width of a text in em."""
    return sum(map(_advance, text))


def elide(text: str, room: float) -> str:
    """Cut in the middle to `room` em, so that both ends stay readable."""
    if width(text) <= room:
        return text

    def cut(kept: int) -> str:
        head = (kept + 1) // 2
        return f"{text[:head]}…{text[len(text) - (kept - head) :]}"

    fits, over = 0, len(text)
    while over - fits > 1:
        kept = (fits + over) // 2
        fits, over = (kept, over) if width(cut(kept)) <= room else (fits, kept)
    return cut(fits)


def wrap(text: str, room: float) -> list[str]:
    """Lines of at most `room` em, broken at spaces; a word that is longer is elided."""
    lines: list[str] = []
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and width(joined) <= room:
            lines[-1] = joined
        else:
            lines.append(elide(word, room))
    return lines
