"""The methods of an explorer that make files, from what is chosen then."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ..exploring.explorer import AttentionExplorer
    from ..map import AttentionMap


class ExplorerFiles:
    """Mixed into `AttentionExplorer`; what makes the files is imported when it is used."""

    map: AttentionMap

    def to_html(
        self,
        layers: Sequence[int] | None = None,
        heads: Sequence[int | str] | None = None,
        *,
        theme: str = "light",
        quantize: bool = False,
    ) -> str:
        """The maps of these layers and heads (None: all) with their menus, as one HTML file.

        It needs neither network nor kernel; kind, batch item and step are those shown now.
        `heads` may name "mean" and "max". `theme` and `quantize` are as in
        `AttentionMap.to_html`. ValueError for a layer or head that does not exist, and, before
        the maps are read, for a page above 50 MB.
        """
        from .html import explorer_to_html

        explorer = cast("AttentionExplorer", self)
        return explorer_to_html(explorer, layers, heads, theme, quantize=quantize)

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write all chosen maps as .html (options of `to_html`), or as another file the map shown.

        Returns the path. ValueError for a suffix that is not known.
        """
        from . import put

        target = Path(path)
        if target.suffix.lower() not in (".html", ".htm"):
            return self.map.save(target, **options)
        put(target, self.to_html(**options))
        return target
