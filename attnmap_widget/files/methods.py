"""The methods of a map that make files. Each is made when called, from what is in view then."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..grid.checked import Checked
    from .figure import Figure


class FileMethods:
    """Mixed into `AttentionMap`; what makes the files is imported when it is used."""

    _checked: Checked
    title: Any
    show_values: Any
    status: Any
    _room: Any

    def _figure(self) -> Figure:
        from .figure import Figure

        if "_checked" not in self.__dict__:
            raise RuntimeError("the map is closed and has let go of its weights")
        return Figure(self._checked, self.title, self.show_values, self.status, room=self._room)

    def to_svg(self, theme: str = "light") -> str:
        """The map as a standalone SVG: text as text, cells as vectors up to 64 × 64.

        Larger maps embed one lossless picture with a pixel per cell. `theme` is "light" or
        "dark"; ValueError for another.
        """
        from .svg import to_svg

        return to_svg(self._figure(), theme)

    def to_png(
        self, theme: str = "light", *, width: float | None = None, dpi: float = 192.0
    ) -> bytes:
        """The map as PNG, `width` inches wide (None: as on screen, 96 CSS pixels an inch).

        Needs `pip install "attnmap-widget[files]"` (ImportError). Characters that no installed
        font has are named in a UserWarning. ValueError for a theme or sizes that are none.
        """
        from .raster import to_png

        return to_png(self._figure(), theme, width=width, dpi=dpi)

    def to_pdf(self, theme: str = "light", *, width: float | None = None) -> bytes:
        """The map as one PDF page, `width` inches wide, cells and text as vectors.

        Needs, warns and raises as `to_png` does.
        """
        from .raster import to_pdf

        return to_pdf(self._figure(), theme, width=width)

    def to_csv(self) -> str:
        """All weights as CSV: raw key tokens on the first line, then a query and its weights.

        Cells without a weight are empty; numbers read back as the same float32.
        """
        from .csv import to_csv

        return to_csv(self._figure())

    def to_text(self) -> str:
        """Caption and size, then the labelled grid with two decimals."""
        from .text import to_text

        return to_text(self._figure())

    def to_html(self, theme: str = "light", *, quantize: bool = False) -> str:
        """The map as one HTML file, as live as here, that needs neither network nor kernel.

        `theme` may also be "auto", which follows the reader's system; `quantize` writes 8-bit
        weights, with their error stated in the page. ValueError above 50 MB.
        """
        from .html import to_html

        return to_html(self._figure(), theme, quantize=quantize)

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write .svg, .png, .pdf, .html, .csv or .txt, with that method's options.

        Returns the path. ValueError for another suffix.
        """
        from . import save

        return save(self._figure(), path, **options)

    def plot(self, ax: Any = None, *, legend: bool = True) -> Any:
        """Draw the map into matplotlib axes (None: the current ones); returns the axes.

        Needs `pip install "attnmap-widget[files]"` (ImportError).
        """
        from .matplotlib_axes import plot

        return plot(self._figure(), ax, legend=legend)

    @classmethod
    def from_frame(cls, df: Any, **options: Any) -> Any:
        """The map of a pandas DataFrame: its columns are the keys, its index the queries.

        Missing numbers are cells without a weight; `options` are those of the constructor.
        """
        from .frame import inputs

        return cls(**inputs(df), **options)

    def to_frame(self) -> Any:
        """All weights as a pandas DataFrame: keys are its columns, queries its index.

        The inverse of `from_frame`, but for options. Needs pandas (ImportError).
        """
        from .frame import to_frame

        return to_frame(self._figure())

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Beside the live view a picture for hosts without one, and a line of text."""
        from .bundle import to_img

        data, metadata = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return {**data, "text/html": to_img(self._figure())}, metadata
