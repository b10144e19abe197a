"""All heads as one HTML file: the grid as in a notebook, without network and without kernel."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from . import html, numbers, xml
from .heads import HeadsFigure, to_svg

_BUILT = {"script": "page-heads.js", "styles": "heads.css"}


def to_html(figure: HeadsFigure, state: dict[str, Any], theme: str) -> str:
    """The page of a grid with these traits, as they travel to a browser; see `HeadGrid.to_html`."""
    html.check_theme(theme)
    still = to_svg(figure, "dark" if theme == "dark" else "light")
    data = json.dumps(state, default=_bytes, allow_nan=False)
    # In a script element "<" could begin its end.
    data = data.replace("<", "\\u003c")
    size = html.asset_size(*_BUILT.values()) + len(still) + len(data)
    heads = numbers.count(len(figure.filling.heads), "head")
    note = f"{heads} · {numbers.size_of(size)} in all · thumbnails and numbers, not the weights"
    below = xml.tag("p", xml.text(note), class_="note")
    return html.document(theme, figure.title, data, still=still, below=below, **_BUILT)


def _bytes(given: Any) -> dict[str, str]:
    if not isinstance(given, (bytes, memoryview)):
        raise TypeError(f"{type(given).__name__} has no place in a page")
    return {"base64": b64encode(given).decode("ascii")}
