"""PNG and PDF, through vl-convert-python from the SVG; an optional extra."""

from __future__ import annotations

import re
import unicodedata
import warnings
from functools import lru_cache
from typing import Any

from . import heads, pdf, svg, xml
from .figure import Figure
from .heads import HeadsFigure

EXTRA = 'pip install "attnmap-widget[files]"'
_CSS_DPI = 96.0
_POINTS = 72.0
_SIZE = re.compile(r' width="(\d+)" height="(\d+)"')
_LARGEST = 20_000
"""Pixels of a side."""
_SHARP = 1200
"""Pixels of a side of an embedded picture, so that no reader blurs its cells."""
_LISTED = 10


def to_png(
    figure: Figure, theme: str = "light", *, width: float | None = None, dpi: float = 192.0
) -> bytes:
    """The figure as PNG, `width` inches wide at `dpi` dots per inch.

    Without a width it has its natural size: as on screen, where an inch is 96 CSS pixels.
    Raises ImportError without the extra, ValueError for sizes that are none.
    """
    convert = _converter("PNG")
    inches, drawing = _drawing(figure, theme, width)
    _warn_of_missing(drawing, convert)
    return _png(drawing, inches, dpi, convert)


def heads_to_png(
    figure: HeadsFigure, theme: str = "light", *, width: float | None = None, dpi: float = 192.0
) -> bytes:
    """All heads as PNG, of the same sizes; raises as `to_png`."""
    convert = _converter("PNG")
    drawing = heads.to_svg(figure, theme, enlarge=4)
    _warn_of_missing(drawing, convert)
    return _png(drawing, _inches(drawing, width), dpi, convert)


def _png(drawing: str, inches: float, dpi: float, convert: Any) -> bytes:
    if not 0 < dpi < float("inf"):
        raise ValueError(f"dpi: got {dpi!r}, expected dots per inch above 0")
    across, down = _size(drawing)
    pixels = max(1, round(inches * dpi)), max(1, round(inches * dpi * down / across))
    if max(pixels) > _LARGEST:
        raise ValueError(
            f"width × dpi: {pixels[0]} × {pixels[1]} pixels; at most {_LARGEST} a side are made"
        )
    made = convert.svg_to_png(_resized(drawing, *pixels), scale=_POINTS / dpi, ppi=dpi)
    return bytes(made)


def to_pdf(figure: Figure, theme: str = "light", *, width: float | None = None) -> bytes:
    """The figure as a PDF page of its size, `width` inches wide; text stays text.

    Raises ImportError without the extra, ValueError for a width that is none.
    """
    convert = _converter("PDF")
    inches, drawing = _drawing(figure, theme, width)
    across, down = _size(drawing)
    points = inches * _POINTS
    _warn_of_missing(drawing, convert)
    page = _resized(drawing, points, points * down / across)
    return pdf.canonical(bytes(convert.svg_to_pdf(page)))


def _converter(kind: str) -> Any:
    try:
        import vl_convert
    except ImportError:
        raise ImportError(
            f"{kind} files are made with vl-convert-python, which is not installed: {EXTRA}; "
            "SVG, HTML, CSV and text files need nothing more"
        ) from None
    return vl_convert


def _drawing(figure: Figure, theme: str, width: float | None) -> tuple[float, str]:
    """The width in inches, and the SVG as these renderers need it."""
    enlarge = max(1, _SHARP // max(figure.tile.values.shape))
    drawing = svg.to_svg(figure, theme, enlarge=enlarge, isolate=True)
    return _inches(drawing, width), drawing


def _inches(drawing: str, width: float | None) -> float:
    if width is not None and not 0 < width < float("inf"):
        raise ValueError(f"width: got {width!r}, expected inches above 0, or None")
    return _size(drawing)[0] / _CSS_DPI if width is None else float(width)


def _size(drawing: str) -> tuple[int, int]:
    """Width and height in CSS pixels."""
    found = _SIZE.search(drawing)
    assert found is not None
    return int(found[1]), int(found[2])


def _resized(drawing: str, width: float, height: float) -> str:
    return _SIZE.sub(f' width="{width:.2f}" height="{height:.2f}"', drawing, count=1)


# ---- characters that no font has -----------------------------------------------------------------


def _warn_of_missing(drawing: str, convert: Any) -> None:
    """Name the characters that will be empty boxes, as a UserWarning."""
    missing = [char for char in sorted(set(drawing)) if _is_missing(char, convert)]
    if not missing:
        return
    named = ", ".join(f"{char} ({_name(char)})" for char in missing[:_LISTED])
    more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
    warnings.warn(
        f"no installed font has {named}{more}: drawn as empty boxes. Install a font that has them "
        "(Noto Sans CJK and Noto Emoji have most), or save an SVG, which takes the reader's fonts",
        UserWarning,
        stacklevel=4,
    )


def _name(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, '')}".rstrip()


@lru_cache(maxsize=8192)
def _is_missing(char: str, convert: Any) -> bool:
    """Whether the renderer draws what it draws for a character that cannot exist.

    Asking the renderer needs no knowledge of where a system keeps its fonts.
    """
    if char < "\u0250" or unicodedata.category(char) in ("Cf", "Mn", "Me", "Zs"):
        return False  # the renderer's own font has the first; the others are not seen by themselves
    return _glyph(char, convert) == _glyph("\U0010fffd", convert)


@lru_cache(maxsize=8192)
def _glyph(char: str, convert: Any) -> bytes:
    text = xml.tag("text", xml.text(char), x=2.0, y=16.0)
    return bytes(
        convert.svg_to_png(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="32" height="22" font-size="16" '
            f'font-family="{xml.text(svg.FONTS)}">{text}</svg>'
        )
    )
