"""The little XML that is needed: elements as strings, with text that can break nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

# All that XML 1.0 cannot hold, not even escaped; tabs and line ends are no text of a label either.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_CARD = (
    "color-scheme:light;background-color:#fff;border:1px solid #d0d7de;border-radius:8px;"
    "padding:6px;box-sizing:border-box;max-width:100%"
)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def text(given: str) -> str:
    """`given` as XML text or attribute value; what XML forbids is spelled out, as in labels."""
    return plain(given).translate(_ENTITIES)


def plain(given: str) -> str:
    """`given` with a sign or a code point for every character that XML forbids."""
    return _FORBIDDEN.sub(_shown, given)


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    if character in "\t\n\r":
        return " "
    if character < " ":
        return chr(0x2400 + ord(character))
    return f"<U+{ord(character):04X}>"


def number(value: float) -> str:
    """At most two decimals, and none that say nothing."""
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def tag(name: str, /, *children: str, **attributes: str | float | None) -> str:
    """An element. `stroke_width=2` is stroke-width="2"; None leaves an attribute out.

    Children are XML already; attribute values are escaped here.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = text(value) if isinstance(value, str) else number(value)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{shown}"')
    inner = "".join(children)
    head = " ".join(parts)
    return f"<{head}>{inner}</{name}>" if inner else f"<{head}/>"


def lines(elements: Iterable[str]) -> str:
    """Elements below each other."""
    return "\n".join(element for element in elements if element)


def img(said: str, address: str) -> str:
    """An HTML element that shows the light picture at `address`, or says what it is.

    In a dark host it is a card with a frame, rather than a hole; hosts that let no style through
    show it bare.
    """
    return f'<img alt="{text(said)}" style="{_CARD}" src="{address}">'
