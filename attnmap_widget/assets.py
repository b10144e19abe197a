"""The built front end: where its files are, and their text."""

from __future__ import annotations

import os
from pathlib import Path

STATIC = Path(__file__).parent / "static"


def text(name: str) -> str:
    """The text of a built file; RuntimeError that says how to build it where it is missing."""
    path = STATIC / name
    if not path.is_file():
        raise RuntimeError(
            f"the front end has not been built ({path} is missing): run `make setup`"
        )
    return path.read_text(encoding="utf-8")


def for_widget(name: str) -> str | Path:
    """What anywidget takes: the text; the path while developing, so that edits reload."""
    path = STATIC / name
    if os.environ.get("ANYWIDGET_HMR") == "1" or not path.is_file():
        return path
    # As text: given a path, anywidget watches the file and holds every widget for ever.
    return text(name)
