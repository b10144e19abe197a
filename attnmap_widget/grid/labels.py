"""Tokens as tokenizers give them -> labels that a person can read.

A label is for show only; the index identifies a position. A list gives exactly as many labels, in
order, and two labels may be equal. Nothing is dropped: what is no text is shown as its bytes
`<F0 9F>`, what would be invisible as a sign ("·", "↵") or as its code point `<U+200B>`.

Byte-level tokenizers (GPT-2 and its heirs) write each byte as one printable character, and many of
those are accented letters: "Ã©" is their é, but "café" is a word. What decides is:

- A token that is UTF-8 in that alphabet, with a character of several bytes, is decoded; not if it
  reads like a word as it stands and like none decoded ("STÓŁ" would turn into "STӟ").
- A token that is no UTF-8 is shown as bytes if its neighbours complete the character ("ðŁ", "ĻĤ"),
  or if marks elsewhere, "Ġ" for a space or "Ċ" for a newline, tell which alphabet the list is in.
  Even then "café" stays: a loose byte at ASCII letters is likelier a word written by hand.
- "Ġ" and "Ċ" are Maltese letters too. They are marks unless the list has ġ, ċ or ż ("Ġorġ").
"""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

_PLAIN = 2048
"""Lists of up to this many labels travel as they are."""

_PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_MOVED = [byte for byte in range(0x100) if byte not in _PRINTED]
# Alphabet -> byte, as a Latin-1 character. Latin-1 characters that the alphabet lacks (a plain
# space, say) go where the Latin-1 codec refuses them.
_BYTES = dict.fromkeys(_MOVED, 0xFFFF) | {0x100 + i: byte for i, byte in enumerate(_MOVED)}
_NO_UTF8 = re.compile("[\udc80-\udcff]+")  # as Python's surrogateescape marks it

_MARK = re.compile(r"Ġ|[Ċĉč]*Ċ[ĠĊĉč]*$|.*[^\w]Ċ+$")
_MALTESE = re.compile("[ġċżŻ]")  # in one word of four or so, and in hardly any byte-level token
_LETTER = re.compile("[A-Za-z]")
_AROUND_WORDS = "«»¡¿.,:;!?'\"()-¹²³°"
_WITH_LATIN = {"LATIN", "COMBINING", "MODIFIER", "FEMININE", "MASCULINE", "MICRO"}
_RARE = set(map(chr, range(0x1C0, 0x2B0))) - set("șțȘȚɔəɛ")  # Latin, but in hardly any spelling

_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACES = re.compile("^▁+(?![▁-█])|(?<![▁-█])▁+$")  # but not the lowest bars of a sparkline
_SURROGATE = re.compile("[\ud800-\udfff]")
_SIGNS = {chr(code): chr(0x2400 + code) for code in range(0x20)}
_SIGNS |= {"\n": "↵", "\t": "⇥", "\x7f": "␡", " ": " "}
_SELECTOR = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_BLANK = re.compile(f"[\u034f\u115f\u1160\u2800\u3164\uffa0{_SELECTOR.pattern[1:]}")
_FLAG = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f)")  # spelled in invisible letters


def readable(tokens: Sequence[object]) -> list[str]:
    """One label per token, in order: what each token says, as far as a person can read it.

    `tokens` are strings, ids (any integer type) or bytes, also mixed; anything else is shown by its
    `str`. A list is read as a whole, because what a string means can depend on its neighbours.
    Every label encodes as UTF-8. It is plain text, never markup: escape it where it is drawn.
    """
    decoded = _byte_level([token if isinstance(token, str) else " " for token in tokens])
    return [
        _visible(_text(token) if text is None else text)
        for token, text in zip(tokens, decoded, strict=True)
    ]


def raw_text(token: object) -> str:
    """The token as it was given, as text: 17 -> "17", b" the" -> "b' the'", a string as it is.

    Only lone surrogates, which no encoding takes, are spelled out (`<U+D83D>`).
    """
    if isinstance(token, str):
        return _SURROGATE.sub(lambda found: _code_point(found[0]), token)
    if isinstance(token, (bytes, bytearray, memoryview)):
        return repr(bytes(token))
    try:
        return str(operator.index(token))  # type: ignore[arg-type]
    except TypeError:
        return raw_text(str(token))


def begins_word(token: str) -> bool:
    """Whether a SentencePiece mark says so."""
    return token.startswith("▁") and _SPACES.search(token) is not None


def is_maltese(token: str) -> bool:
    """Whether letters beside it say that "Ġ" and "Ċ" are letters too."""
    return _MALTESE.search(token) is not None


def spelled_bytes(token: str, style: str) -> bytes:
    """The UTF-8 of a piece in the byte-level ("Ġ") or the SentencePiece ("▁") alphabet."""
    if style == "Ġ":
        found = _to_bytes(token)
        return _encode(token) if found is None else found
    if found_byte := _FALLBACK.fullmatch(token):
        return bytes.fromhex(found_byte[1])
    return _encode(token.replace("▁", " "))


def _text(token: object) -> str:
    if isinstance(token, (bytes, bytearray, memoryview)):
        return _spelled(_decode(bytes(token)))
    if not isinstance(token, str):
        return raw_text(token)
    if found := _FALLBACK.fullmatch(token):
        return _spelled(_decode(bytes.fromhex(found[1])))
    return _SPACES.sub(lambda found: " " * len(found[0]), token)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _spelled(text: str) -> str:
    return _NO_UTF8.sub(lambda found: f"<{_encode(found[0]).hex(' ').upper()}>", text)


def _byte_level(tokens: list[str]) -> list[str | None]:
    """The decoded text of each token that is in the byte-level alphabet; None for the others."""
    decoded: list[str | None] = [None] * len(tokens)
    if all(map(str.isascii, tokens)):
        return decoded
    pieces = [_to_bytes(token) for token in tokens]
    plain = [token for token in tokens if not _MALTESE.search(token)]
    marked = sum(map(bool, map(_MARK.match, plain))) > 4 * (len(tokens) - len(plain))
    halves = _halves(tokens, pieces, marked)
    for index, (token, piece) in enumerate(zip(tokens, pieces, strict=True)):
        if token.isascii() or piece is None:
            continue
        text, word = _decode(piece), token.lstrip("Ġ")
        if not _NO_UTF8.search(text):
            if marked or not (text.isascii() or _likelier_word(token, text)):
                decoded[index] = text
        elif index in halves or (marked and not (_LETTER.search(word) and _is_word(word))):
            decoded[index] = _spelled(text)
        elif marked:
            decoded[index] = token.replace("Ġ", " ")
    return decoded


def _to_bytes(token: str) -> bytes | None:
    try:
        return token.translate(_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return None


def _halves(tokens: list[str], pieces: list[bytes | None], marked: bool) -> set[int]:
    """The tokens that hold a part of a character which the tokens beside them complete."""
    filled = [b"\xff" if piece is None else piece for piece in pieces]  # never part of UTF-8
    owners = [index for index, piece in enumerate(filled) for _ in piece]
    groups: list[range] = []
    at = 0
    for size in map(len, map(_encode, _decode(b"".join(filled)))):
        first, last = owners[at], owners[at + size - 1]
        at += size
        if first != last:
            linked = bool(groups) and groups[-1][-1] == first
            groups.append(range(groups.pop()[0] if linked else first, last + 1))
    return {i for group in groups if marked or _whole(tokens, filled, group) for i in group}


def _whole(tokens: list[str], pieces: list[bytes], group: range) -> bool:
    """Whether these tokens leave no byte over, and do not spell a word letter by letter."""
    before, after = max(group.start - 1, 0), group.stop + 1
    start = before if _LETTER.fullmatch(tokens[before]) else group.start
    stop = after if _LETTER.fullmatch("".join(tokens[group.stop : after])) else group.stop
    text = _decode(b"".join(pieces[start:stop]))
    return not (_NO_UTF8.search(text) or _likelier_word("".join(tokens[start:stop]), text))


def _is_word(text: str) -> bool:
    word = text.strip(_AROUND_WORDS)
    return word.replace("-", "").replace("'", "").isalpha() and _one_case(word)


def _one_case(word: str) -> bool:
    return word in (word.lower(), word.upper()) or word.istitle()


def _likelier_word(token: str, decoded: str) -> bool:
    """A word as it stands; decoded, Latin mixed with others, oddly spelled or capitalised."""
    letters = [char for char in decoded if unicodedata.category(char)[0] in "LM"]
    scripts = {unicodedata.name(char, "?").split()[0] for char in letters}
    plausible = scripts <= _WITH_LATIN and _RARE.isdisjoint(letters)
    plausible = plausible and _one_case(decoded.strip(_AROUND_WORDS))
    return "LATIN" in scripts and not plausible and _is_word(token)


def _visible(text: str) -> str:
    """`text` with a sign for each character that would not be seen; spaces only at the ends."""
    inner = text.strip(" ")
    left = len(text) - len(text.lstrip(" "))
    right = len(text) - left - len(inner)
    if not inner.isprintable() or _BLANK.search(inner):
        parts = _FLAG.split(inner)
        inner = "".join(part if _FLAG.match(part) else _signs(part) for part in parts)
    return "·" * left + inner + "·" * right or "∅"


def _signs(text: str) -> str:
    beside = zip(["", *text], text, [*text[1:], ""], strict=False)
    return "".join(_shown(before, char, after) for before, char, after in beside)


def _shown(before: str, char: str, after: str) -> str:
    if char in _SIGNS:
        return _SIGNS[char]
    if _SELECTOR.match(char):  # shapes the character before; alone nobody sees it
        hidden = not before or _SELECTOR.match(before) is not None
    elif char in "\u200c\u200d":
        hidden = not (before and after and _joined(before, char, after))
    else:
        hidden = unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}
        hidden = hidden or ord(char) & 0xFFFE == 0xFFFE or _BLANK.match(char) is not None
    return _code_point(char) if hidden else char


def _joined(before: str, joiner: str, after: str) -> bool:
    """Whether a zero-width joiner or non-joiner does its work: in an emoji, in a cursive script."""
    emoji = joiner == "\u200d" and all(
        char == "\ufe0f" or char >= "\U0001f000" or unicodedata.category(char)[0] == "S"
        for char in (before, after)
    )
    return emoji or all("\u0600" <= char <= "\u1fff" for char in (before, after))


def _code_point(char: str) -> str:
    return f"<U+{ord(char):04X}>"


def to_wire(tokens: Sequence[object], positions: object = None) -> dict[str, Any]:
    """As the front end's `Labels`, long lists as its `PackedLabels`.

    `raw` only where a token reads differently. `positions` is what says where they stand, as it
    travels; None: their indices.
    """
    from .packed_labels import pack

    shown, given = readable(tokens), list(map(raw_text, tokens))
    packed = pack(shown, given) if len(shown) > _PLAIN else None
    if packed is None:
        raw = [text if text != label else None for text, label in zip(given, shown, strict=True)]
        some = any(text is not None for text in raw)
        packed = {"labels": shown, "raw": raw if some else None}
    return {**packed, "positions": positions}
