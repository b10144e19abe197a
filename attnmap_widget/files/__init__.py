"""Maps as files: figures, tables and pages, made in Python alone, the same bytes twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .figure import Figure

__all__ = ["SUFFIXES", "Figure", "save"]


def _svg(figure: Figure, options: dict[str, Any]) -> str:
    from .svg import to_svg

    return to_svg(figure, **options)


def _png(figure: Figure, options: dict[str, Any]) -> bytes:
    from .raster import to_png

    return to_png(figure, **options)


def _pdf(figure: Figure, options: dict[str, Any]) -> bytes:
    from .raster import to_pdf

    return to_pdf(figure, **options)


def _html(figure: Figure, options: dict[str, Any]) -> str:
    from .html import to_html

    return to_html(figure, **options)


def _csv(figure: Figure, options: dict[str, Any]) -> str:
    from .csv import to_csv

    return to_csv(figure, **options)


def _text(figure: Figure, options: dict[str, Any]) -> str:
    from .text import to_text

    return to_text(figure, **options)


_WRITERS: dict[str, Callable[[Figure, dict[str, Any]], str | bytes]] = {
    ".svg": _svg,
    ".png": _png,
    ".pdf": _pdf,
    ".html": _html,
    ".htm": _html,
    ".csv": _csv,
    ".txt": _text,
}
SUFFIXES = tuple(_WRITERS)


def save(figure: Figure, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the figure to `path`, as what its suffix says; returns the path.

    `options` are those of the format. ValueError for another suffix, before anything is written.
    """
    target = Path(path)
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        raise ValueError(
            f"path: {target.name!r} ends in {target.suffix or 'nothing'!r}; a map can be saved as "
            f"{', '.join(SUFFIXES)}"
        )
    put(target, write(figure, options))
    return target


def put(target: Path, content: str | bytes) -> None:
    """Write text as UTF-8, with the line ends that it has."""
    target.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
