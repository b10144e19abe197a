"""`ImageAttention`: one row of a map, drawn back over the picture that the model saw."""

from __future__ import annotations

import asyncio
import operator
from typing import Any

import anywidget
import numpy as np
import traitlets as t
from numpy.typing import NDArray

from .. import assets
from ..errors import ShapeError
from ..files import pixels, xml
from ..grid import labels
from ..grid.grids import LongGrid
from ..grid.options import refuse_unknown
from ..map import AttentionMap
from . import overlay, pictures
from .overlay import Placing
from .patches import as_patches

_SETTLE = 0.02
"""Seconds in which further hovers replace the one whose row is still to be read."""
_MAP_TRAITS = ("weights", "tokens", "queries", "title", "value_title", "_colors")


class ImageAttention(anywidget.AnyWidget):
    """One query's attention over a picture, linked with a map.

    It shows the row that is hovered in the map, else the pinned one, else that of the first token
    before the patches. Each patch is drawn in the colour that its cell has in the map, as one
    block; tokens that are no patch are listed beside the picture with their weights. Hovering a
    patch hovers its cell in the map. Where the map's queries are patches too, a click makes a patch
    the query.

    Parameters
    ----------
    source:
        An `AttentionMap`, or an `AttentionExplorer`, whose menus it then follows.
    image:
        The picture as the model saw it, after cropping and resizing: numpy (height, width, 3 or 1),
        torch (3, height, width), PIL; uint8, or floats 0 to 1. Of a video a list, one a frame.
    patches:
        Where the patches are: a `Patches`, or (rows, columns) for a grid after a CLS token. Left
        out: the explorer's own, or the window of a Swin model that it shows.
    opacity, smooth, title:
        The traits below.

    Raises
    ------
    ShapeError
        a picture or a map that does not fit the patches, with the sum written out.
    TypeError, ValueError
        a picture with other values, such as normalised pixels; an unknown option.
    """

    _esm = assets.for_widget("image.js")
    _css = assets.for_widget("image.css")

    opacity = t.Float(0.6, help="Of the colours over the picture, 0 to 1.").tag(sync=True)
    smooth = t.Bool(
        False,
        help="Smooth between the middles of patches; the values are the blocks' all the same.",
    ).tag(sync=True)
    title = t.Unicode(None, allow_none=True, help="Caption; None: the map's.").tag(sync=True)
    error = t.Unicode(help="Why the row that is asked for could not be drawn, or empty.").tag(
        sync=True
    )

    hover = t.Int(None, allow_none=True, help="The key under the pointer here, or None.").tag(
        sync=True, echo_update=False
    )
    _picked: t.List[int] = t.List(None, allow_none=True).tag(sync=True, echo_update=False)
    _frames: t.List[dict[str, Any]] = t.List().tag(sync=True)
    _placing = t.Any(None).tag(sync=True, to_json=lambda placing, _: placing.to_wire())
    _row = t.Any(None).tag(sync=True, to_json=lambda row, _: row.to_wire())
    _colors = t.Dict().tag(sync=True)
    _map_title = t.Unicode().tag(sync=True)
    _value_title = t.Unicode().tag(sync=True)

    def __init__(self, source: Any, image: Any, patches: Any = None, **options: Any) -> None:
        known = ("opacity", "smooth", "title", "layout", "tooltip", "tabbable")
        refuse_unknown(options, known)
        self._map: AttentionMap = getattr(source, "map", source)
        if not isinstance(self._map, AttentionMap):
            raise TypeError(
                f"source: got {type(source).__name__}, expected an AttentionMap or an explorer"
            )
        self._explorer = None if source is self._map else source
        self._patches = None if patches is None else as_patches(patches)
        self._item = self._item_shown()
        self._own_layout = "layout" not in options
        self._waiting = False
        self._names: list[tuple[Any, list[str]]] = []
        placing = self._place()
        self._pictures = pictures.accept(image, placing.frames)
        pictures.check_sides(self._pictures[0], placing.rows, placing.columns)
        self._trait_values.update(self._now(placing))
        self._frames = [_to_wire(picture) for picture in self._pictures]
        super().__init__(**options)
        self._map.observe(self._moved, names=["hover", "selection"])
        self._map.observe(self._changed, names=list(_MAP_TRAITS))

    @property
    def query(self) -> int:
        """The query whose row is shown; assigning pins that row's largest weight in the map."""
        cell = self._map.hover or self._map.selection
        return self._placed().default_query if cell is None else cell[0]

    @query.setter
    def query(self, query: int) -> None:
        grid = self._map._checked.grid
        query = operator.index(query)
        if not 0 <= query < grid.shape[0]:
            raise ValueError(f"query: {query} does not exist; there are 0 to {grid.shape[0] - 1}")
        keys, _ = grid.largest_keys(query, 1)
        self._map.selection = (query, int(keys[0]) if len(keys) else 0)

    @property
    def on_picture(self) -> NDArray[np.float32]:
        """(frames, rows, columns) float32: the weights of `query`, NaN where there is none."""
        placing = self._placed()
        weights, _ = self._read(self.query)
        return placing.over(weights, np.nan).reshape(placing.frames, placing.rows, placing.columns)

    # -- following the map ----------------------------------------------------------------------

    def _item_shown(self) -> int | None:
        """Which picture of a batch the explorer looks at, where several are told apart."""
        if self._explorer is None:
            return None
        window = self._explorer.window
        return int(self._explorer.batch) // (1 if window is None else window[0].count)

    def _place(self) -> Placing:
        """Where the keys of the map lie now; ShapeError if that is not on this picture."""
        checked = self._map._checked
        item = self._item_shown()
        if item != self._item:
            raise ShapeError(
                f"image: this is the picture of item {self._item}, the explorer shows item {item}; "
                "ImageAttention(explorer, its picture) makes one for that"
            )
        patches = self._patches
        if patches is None:
            patches = getattr(self._explorer, "patches", None)
        if patches is None:
            window = getattr(self._explorer, "window", None)
            if window is None:
                raise TypeError("patches: say where they are: Patches(rows, columns, prefix=…)")
            return Placing.of_window(*window)
        return Placing.of(patches, checked.shape, square=checked.queries is None)

    def _placed(self) -> Placing:
        """As of the map's last change: a head that could not be read has moved nothing."""
        if self.error:
            raise ShapeError(self.error)
        placing: Placing = self._placing
        return placing

    def _now(self, placing: Placing) -> dict[str, Any]:
        """All that follows from the map."""
        cell = self._map.hover or self._map.selection
        query, key = (placing.default_query, None) if cell is None else cell
        values, states = self._read(query)
        checked = self._map._checked
        self._shades = checked.colors
        row = overlay.row_of(
            placing, (query, key), values, states, checked.colors,
            names=self._readable(checked.tokens), query_name=self._readable(checked.rows)[query],
        )  # fmt: skip
        return {
            "_placing": placing,
            "_row": row,
            "_colors": self._map._colors,
            "_map_title": self._map.title,
            "_value_title": self._map.value_title,
            "error": "",
        }

    def _read(self, query: int) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        return self._map._checked.grid.row(query)

    def _readable(self, tokens: Any) -> list[str]:
        """Readable labels, made once per list of tokens: of the keys, and of other rows."""
        for known, names in self._names:
            if known is tokens:
                return names
        self._names = [*self._names[-1:], (tokens, labels.readable(tokens))]
        return self._names[-1][1]

    def _moved(self, _: Any) -> None:
        """Another cell: at once, but for a long head, whose rows are read when hovers settle."""
        if self.error:
            return
        try:
            long = isinstance(self._map._checked.grid, LongGrid)
            loop = asyncio.get_running_loop() if long else None
        except RuntimeError:
            loop = None
        if loop is None:
            self._show(self._placing)
            return
        if not self._waiting:
            self._waiting = True
            loop.call_later(_SETTLE, self._settled)

    def _settled(self) -> None:
        self._waiting = False
        if self.comm is not None and "_checked" in self._map.__dict__ and not self.error:
            self._show(self._placing)

    def _changed(self, _: Any) -> None:
        """Bring all to what the map is now; what cannot be drawn leaves the last good picture."""
        try:
            placing = self._place()
            pictures.check_sides(self._pictures[0], placing.rows, placing.columns)
            if placing.frames != len(self._pictures):
                raise ShapeError(
                    f"image: {placing.frames} frames of patches, {len(self._pictures)} pictures"
                )
        except (TypeError, ValueError) as failure:
            self.error = str(failure)
            return
        self._show(placing)

    def _show(self, placing: Placing) -> None:
        now = self._now(placing)
        with self.hold_sync():
            for name, value in now.items():
                self.set_trait(name, value)

    # -- telling the map ------------------------------------------------------------------------

    @t.validate("opacity")
    def _share(self, proposal: Any) -> float:
        if not 0 <= proposal["value"] <= 1:
            raise t.TraitError(f"opacity: got {proposal['value']}, expected 0 to 1")
        return float(proposal["value"])

    @t.validate("hover")
    def _a_key(self, proposal: Any) -> Any:
        key, keys = proposal["value"], self._map._checked.shape[1]
        if key is not None and not 0 <= key < keys:
            raise t.TraitError(f"hover: key {key} does not exist; there are 0 to {keys - 1}")
        return key

    @t.observe("hover")
    def _hovered(self, change: Any) -> None:
        key = change["new"]
        if key is None:
            self._map.hover = None
        elif not self.error:  # else what is shown is no row of the map as it is now
            self._map.hover = (self.query, key)

    @t.observe("_picked")
    def _pick(self, change: Any) -> None:
        """[key] becomes the query; [] lets go of it."""
        picked = change["new"]
        self.set_trait("_picked", None)
        if picked is None or self.error:
            return
        if not picked:
            self._map.hover = self._map.selection = None
        elif self._placed().square:
            self._map.hover = None
            self.query = picked[0]

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take a message from the browser, which may speak of a map that is gone by now."""
        if "_checked" not in self._map.__dict__:
            return
        keys = range(self._map._checked.shape[1])
        spoken = [sync_data.get("hover"), *(sync_data.get("_picked") or [])]
        if all(key is None or key in keys for key in spoken):
            super().set_state(sync_data)

    def _get_embed_state(self, drop_defaults: bool = False) -> Any:
        """Whole for `ipywidgets.embed`, which leaves defaults out; the front end is one here."""
        return super()._get_embed_state(drop_defaults=False)

    # -- files ----------------------------------------------------------------------------------

    def to_png(self) -> bytes:
        """What is shown, as PNG in the picture's own pixels: frames side by side, no text."""
        drawn = [
            overlay.blend(picture, colors, self.opacity, smooth=self.smooth)
            for picture, colors in zip(
                self._pictures, overlay.colors_of(self._row, self._shades), strict=True
            )
        ]
        return pixels.png(np.concatenate(drawn, axis=1), photo=True)

    @property
    def _summary(self) -> str:
        name = self.title if self.title is not None else self._map_title
        return f"{name + ': ' if name else ''}attention of {self._row.name} ({self._row.query})"

    def __repr__(self) -> str:
        return f"ImageAttention({'closed' if self.comm is None else self._summary})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Beside the live view the picture as it is now, and a line of text."""
        live = super()._repr_mimebundle_(**kwargs)
        data, metadata = live if isinstance(live, tuple) else (live, {})
        address = pixels.data_url("image/png", self.to_png())
        still = xml.img(f"{self._summary} over the picture", address)
        return {**(data or {}), "text/plain": repr(self), "text/html": still}, metadata

    def close(self) -> None:
        """Remove the picture from every page; the map stays as it is."""
        if self.comm is not None:
            self._map.unobserve(self._moved, names=["hover", "selection"])
            self._map.unobserve(self._changed, names=list(_MAP_TRAITS))
            if self._own_layout:
                self.layout.close()
        super().close()
        self._pictures = []


def _to_wire(picture: pictures.Picture) -> dict[str, Any]:
    data = pixels.png(picture, photo=True)
    return {"data": data, "width": picture.shape[1], "height": picture.shape[0]}
