"""The picture that a saved notebook keeps beside the live map.

Which type it has was decided by looking (JupyterLab 4.6, nbconvert 7.17): what is shown for an
output that holds the live view, plain text and, besides, …

=================================  ============  =============  ============================
host                               image/svg     image/png      text/html with an <img>
=================================  ============  =============  ============================
Lab, notebook not trusted          text only     picture        picture
nbconvert to HTML, no state saved  picture       picture        picture, also with scripts off
nbconvert to Markdown              a file aside  a file aside   picture, in the file itself
nbconvert to LaTeX                 fails¹        picture        text only
=================================  ============  =============  ============================

¹ without Inkscape the whole export ends with an error.

A PNG with labels needs an optional library; SVG in an <img> needs none, keeps its text sharp, can
run no script, and is what Lab's own sanitizer lets through. Where a host shows the live map, it is
preferred over text/html everywhere above. A trusted Lab without saved state says "model not found"
whatever else there is; nothing in an output can change that.

The picture is light, on its own background, so it can be read in a dark host too.
"""

from __future__ import annotations

from dataclasses import replace

from . import pixels, svg, xml
from .figure import Figure

_LARGEST = 150_000
"""Characters of the SVG; in base64 that is 200 kB."""
_BINS = (256, 128)
"""Rows and columns of the picture of a large map."""


def to_img(figure: Figure) -> str:
    """The figure as one HTML element that holds its picture, never above some 200 kB."""
    picture = _picture(figure).encode("utf-8")
    return xml.img(figure.summary, pixels.data_url("image/svg+xml", picture))


def _picture(figure: Figure) -> str:
    size = max(figure.tile.values.shape)
    vector = svg.to_svg(figure) if size <= _BINS[0] else None
    if vector is not None and len(vector) <= _LARGEST:
        return vector
    for bins in (size, *_BINS) if size <= _BINS[0] else _BINS:
        picture = svg.to_svg(replace(figure, bins=bins), vector_cells=0)
        if len(picture) <= _LARGEST:
            break
    return picture
