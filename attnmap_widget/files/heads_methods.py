"""The methods of a grid of heads that make files, from what is shown then."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anywidget import AnyWidget

from ..passes import Turns

if TYPE_CHECKING:
    from ..heads.widget import HeadGrid
    from .heads import HeadsFigure

_PATIENCE = 1.0
"""Seconds that a kept picture waits for heads that are being read."""


class HeadGridFiles:
    """Mixed into `HeadGrid`; what makes the files is imported when it is used."""

    def to_svg(self, theme: str = "light") -> str:
        """The heads in the order shown, with their bars, as a standalone SVG.

        Of heads that are still being read it says how many are there. ValueError for an unknown
        theme.
        """
        from .heads import to_svg

        return to_svg(self._figure(), theme)

    def to_png(
        self, theme: str = "light", *, width: float | None = None, dpi: float = 192.0
    ) -> bytes:
        """The same as PNG; `width` in inches (None: as on screen, 96 CSS pixels an inch).

        Needs `pip install "attnmap-widget[files]"` (ImportError). ValueError for a theme or sizes
        that are none.
        """
        from .raster import heads_to_png

        return heads_to_png(self._figure(), theme, width=width, dpi=dpi)

    def to_html(self, theme: str = "light") -> str:
        """The grid as one HTML file, as live as here, that needs neither network nor kernel.

        All heads are read first. The page holds thumbnails and numbers, not the weights. `theme`
        may also be "auto", which follows the reader's system; ValueError for an unknown one.
        """
        from ..heads.widget import HeadGrid
        from .heads_page import to_html

        grid = cast("HeadGrid", self)
        grid._read_all()
        own = set(HeadGrid.class_traits(sync=True)) - set(AnyWidget.class_traits(sync=True))
        return to_html(self._figure(), grid.get_state(sorted(own)), theme)

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write .html, .svg or .png, with that method's options, once all heads are read.

        Returns the path. ValueError for another suffix, before anything is read.
        """
        from . import put

        target, grid = Path(path), cast("HeadGrid", self)
        writers: dict[str, Any] = {
            **dict.fromkeys((".html", ".htm"), self.to_html),
            ".svg": self.to_svg,
            ".png": self.to_png,
        }
        write = writers.get(target.suffix.lower())
        if write is None:
            raise ValueError(
                f"path: {target.name!r} ends in {target.suffix or 'nothing'!r}; a grid of heads "
                f"can be saved as {', '.join(writers)}"
            )
        grid._read_all()
        put(target, write(**options))
        return target

    def _figure(self) -> HeadsFigure:
        from .heads import HeadsFigure

        grid = cast("HeadGrid", self)
        filling = grid._need()
        return HeadsFigure(
            filling, grid.title, grid._scheme_of(filling), grid.range, grid.sort_by, grid.tint_by
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Beside the live view a picture for hosts without one, and a line of text."""
        from .heads import to_img

        grid = cast("HeadGrid", self)
        if isinstance(grid._pass, Turns):
            grid._read_at_once(_PATIENCE)  # the loop is busy with this; its turns are taken here
        elif grid._pass is not None:
            grid._filling.whole.wait(_PATIENCE)
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})  # type: ignore[misc]
        return {**data, "text/html": to_img(self.to_svg(), repr(self))}, metadata
