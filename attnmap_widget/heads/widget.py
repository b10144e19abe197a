"""`HeadGrid`: all heads at a glance, each a thumbnail that can be pointed at and chosen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets as t

from .. import assets
from ..exploring import captions
from ..exploring.given import as_source
from ..exploring.sources import FunctionSource
from ..files.heads_methods import HeadGridFiles
from ..grid import schemes
from ..grid.options import refuse_unknown
from ..passes import Cancelled, Pass, Progress, Turns, in_loop
from . import captions as head_captions
from .filling import Filling, Look, of_explorer, of_source
from .measuring import COLUMNS
from .summary import HeadSummary

if TYPE_CHECKING:
    from ..exploring.explorer import AttentionExplorer

_AT_ONCE = 0.4
"""Seconds in which heads are read before the constructor returns; the rest follow beside it."""
_ON_A_CHANGE = 0.05
"""The same before an explorer goes on to another kind, item or source."""
_LINKED = ("layer", "head")
_FIXED = ("kind", "batch", "step", "_used")
_LOOK = ("mask", "causal", "query_offset", "positions", "padding", "exclude_keys")
"""Options of the explorer's map that the heads are looked at with."""

Head = tuple[int, int]
"""(layer, head)."""


class HeadGrid(HeadGridFiles, anywidget.AnyWidget):
    """All heads at a glance: a thumbnail of each, layers down and heads across.

    Parameters
    ----------
    source:
        An `AttentionExplorer`, with which the grid is then linked: a click or Enter chooses its
        layer and head, and what it shows is outlined. Or anything that an explorer takes: a
        capture, layers, an array, a function with `layers` and `heads`.
    tokens, queries, axes, layers, heads, kind, batch, step:
        As for `AttentionExplorer`, for a source that is none.
    **options:
        Any of the public traits, by name.

    Thumbnails are pooled to at most 32 × 32 cells, each the largest weight of its bin. Every head
    is read once, for its thumbnail and for its numbers. What takes longer than a moment goes on
    beside the notebook (a function source: between its cells) and fills the grid bit by bit, until
    `cancel`; in a script all is read before the constructor returns. A head that cannot be read
    says so in its place. Of heads above 4096 × 4096 weights a sample of the queries is read.

    Raises
    ------
    ShapeError, ValueError, TypeError, CaptureError
        as `AttentionExplorer` does.
    """

    _esm = assets.for_widget("heads.js")
    _css = assets.for_widget("heads.css")

    selection = t.Any(None, help="(layer, head) that is chosen, or None.").tag(
        sync=True, echo_update=False, to_json=lambda head, _: None if head is None else list(head)
    )
    range = t.Enum(
        ["shared", "head"], "shared", help="One colour range for all heads, or each its own."
    ).tag(sync=True)
    sort_by = t.Unicode(
        None, allow_none=True, help="Column of `summary`, largest first; None: in layer order."
    ).tag(sync=True)
    tint_by = t.Unicode(
        None, allow_none=True, help="Column of `summary` that is drawn as a bar at each head."
    ).tag(sync=True)
    title = t.Unicode(help="Caption.").tag(sync=True)
    class_name = t.Unicode(help="Extra CSS classes on the widget's root.").tag(sync=True)
    status = t.Unicode(help="One quiet line.").tag(sync=True)
    error = t.Unicode(help="One line, shown as an error.").tag(sync=True)

    _sheet = t.Int(0, help="Counts what was sent; on the wire it is the sheet.").tag(
        sync=True, to_json=lambda _, self: self._filling.sheet.to_wire()
    )
    _part = t.Any(None).tag(
        sync=True, to_json=lambda at, self: at and self._filling.sheet.to_wire(at)
    )
    _rows: Any = t.List().tag(sync=True)
    _named = t.Bool(True).tag(sync=True)
    _columns: Any = t.List().tag(sync=True)
    _colors = t.Dict().tag(sync=True)
    _tint = t.Any(None).tag(sync=True)
    _progress = t.Any(None).tag(sync=True)
    _errors: Any = t.List().tag(sync=True)
    _note = t.Unicode().tag(sync=True)
    _cancels = t.Int(0).tag(sync=True)

    _filling: Filling
    _explorer: AttentionExplorer | None = None
    _pass: Pass | Turns | None = None
    _cancelled = _from_browser = _following = False
    _sent_cells = 0

    def __init__(
        self,
        source: Any,
        tokens: Any = None,
        queries: Any = None,
        *,
        axes: str | None = None,
        layers: Sequence[int] | None = None,
        heads: int | None = None,
        kind: str | None = None,
        batch: int = 0,
        step: int | None = None,
        **options: Any,
    ) -> None:
        refuse_unknown(options, _OPTIONS)
        self._caption = str(options.pop("title", None) or "")
        self._own_layout = "layout" not in options
        if hasattr(source, "layer_selector"):
            given = tokens, queries, axes, layers, heads, kind, step
            if any(one is not None for one in given) or batch:
                raise TypeError("HeadGrid: an explorer has its own tokens, kind, batch and step")
            self._explorer = source
            self._caption = self._caption or source._caption
            options.setdefault("scheme", source.map.scheme)
            self._filling = of_explorer(source)
        else:
            self._filling = of_source(
                as_source(source, axes=axes, layers=layers, heads=heads),
                Look(captions.listed(tokens), captions.listed(queries)),
                {"kind": kind, "batch": batch, "step": step},
            )
        self._scheme = schemes.find(options.pop("scheme", schemes.SEQUENTIAL_DEFAULT))
        chosen = options.pop("selection", None)
        self._columns = [
            {"name": name, "title": column.title, "unit": column.unit, "text": column.definition}
            for name, column in COLUMNS.items()
        ]
        self._tint = schemes.find("YlOrBr").ramp.tobytes()
        self._read_at_once(_AT_ONCE)
        self.title = head_captions.title(self._caption, self._filling)
        self._tell()
        super().__init__(**options)
        self.selection = chosen
        if self._explorer is not None:
            self._explorer.observe(self._follow, names=_LINKED)
            self._explorer.observe(self._again, names=_FIXED)
            self._explorer.map.observe(self._told, names=_LOOK)
            self._follow()
        self._read_on()

    # -- reading in Python ----------------------------------------------------------------------

    @property
    def summary(self) -> HeadSummary:
        """The numbers of all heads, as the thumbnails were read; waits until all have been.

        After `cancel` those that were not read are NaN. ValueError where heads are so long that
        only a sample was read: `explorer.summary()` and `capture.summary()` read all of them.
        """
        self._read_all()
        filling = self._filling
        if filling.sampled:
            raise ValueError(
                "summary: of heads this long the grid reads a sample of the queries; the summary() "
                "of the capture or the explorer reads all"
            )
        return filling.summary()

    def cancel(self) -> None:
        """Stop reading; what has been read stays."""
        if self._progress is not None:
            self._cancelled = True
            self._stop()
            self._finish(self._filling)

    # -- choosing -------------------------------------------------------------------------------

    @t.validate("selection")
    def _accept_selection(self, proposal: Any) -> Head | None:
        given = proposal["value"]
        if given is None:
            return None
        try:
            layer, head = given
            found = self._need().heads[self._need().places[(layer, head)]]
        except (TypeError, ValueError, KeyError):
            raise ValueError(
                f"selection: got {given!r}, expected (layer, head) of this grid, or None; {self}"
            ) from None
        return found

    @t.validate("sort_by", "tint_by")
    def _accept_column(self, proposal: Any) -> str | None:
        name = proposal["value"]
        if name is not None and name not in COLUMNS:
            raise ValueError(
                f"{proposal['trait'].name}: {name!r} is no column; there are {', '.join(COLUMNS)}"
            )
        return None if name is None else str(name)

    @t.observe("selection")
    def _chosen(self, change: Any) -> None:
        explorer, head = self._explorer, change["new"]
        if self._following or explorer is None or head is None or explorer.comm is None:
            return
        if (explorer.layer, explorer.head) != head:
            explorer._pick({"layer": head[0], "head": head[1]}, soon=self._from_browser)

    @t.observe("_cancels")
    def _asked_to_cancel(self, change: Any) -> None:
        if self._from_browser:
            self.cancel()

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take a message from the browser, which may speak of heads that are gone by now."""
        if "_filling" not in self.__dict__:
            return
        place = sync_data.get("selection")
        known = place is None or place in map(list, self._filling.places)
        fitting = {name: it for name, it in sync_data.items() if name != "selection" or known}
        self._from_browser = True
        try:
            super().set_state(fitting)
        finally:
            self._from_browser = False

    def _follow(self, change: Any = None) -> None:
        """Outline what the explorer shows; a mean over heads is none of them."""
        explorer = self._explorer
        assert explorer is not None
        shown = (explorer.layer, explorer.head)
        self._following = True
        try:
            self.selection = shown if shown in self._filling.places else None
        finally:
            self._following = False

    def _told(self, change: Any) -> None:
        """The map was told something else; a mask that the model used comes with each head."""
        if change["name"] != "mask" or not self._filling.look.own_mask:
            self._again()

    def _again(self, change: Any = None) -> None:
        """The explorer shows another kind, item, step or source, or looks at it otherwise."""
        explorer = self._explorer
        if explorer is None or explorer.comm is None:
            return
        now = of_explorer(explorer)
        if now.same_as(self._filling):
            return
        self._stop()
        with self.hold_sync():
            self._filling = now
            self._cancelled = False
            self._read_at_once(_ON_A_CHANGE)
            self.title, self.status = head_captions.title(self._caption, self._filling), ""
            self._part = None
            self._sheet += 1
            self._tell()
            self._follow()
        self._read_on()

    # -- filling --------------------------------------------------------------------------------

    def _read_at_once(self, seconds: float) -> None:
        """In a script everything; in a notebook what a moment is enough for."""
        until = time.monotonic() + seconds
        with self._filling.in_one_thread():
            while (not in_loop() or time.monotonic() < until) and self._filling.read_next():
                pass

    def _read_on(self) -> None:
        filling = self._filling
        if filling.done == len(filling.heads):
            return
        report, finish = partial(self._report, filling), partial(self._finish, filling)
        if isinstance(filling.source, FunctionSource):
            # Somebody's function may not be made for threads.
            self._pass = Turns(filling.read_next, progress=report, done=finish)
            return

        def work(progress: Progress, cancelled: Cancelled) -> None:
            with filling.in_one_thread():
                while filling.read_next(cancelled):
                    progress(0.0)

        self._pass = Pass(
            work, progress=lambda _: report(), done=lambda _: finish(), failed=self._fail
        )

    def _report(self, filling: Filling) -> None:
        """Send what is new."""
        if filling is not self.__dict__.get("_filling") or self._progress is None:
            return
        cells = self._sent_cells
        fresh = filling.take_fresh()
        with self.hold_sync():
            self._tell()
            if cells == filling.sheet.levels.shape[1]:
                self._part = fresh or self._part
            else:  # the first of larger thumbnails: all places are larger now
                self._part = None
                self._sheet += 1

    def _finish(self, filling: Filling) -> None:
        """Send all of it once more, so that every view and every saved state is whole."""
        if filling is not self.__dict__.get("_filling") or self._progress is None:
            return
        filling.take_fresh()
        with self.hold_sync():
            self._part = None
            self._sheet += 1
            self._tell()

    def _scheme_of(self, filling: Filling) -> schemes.Scheme:
        negative = bool((filling.sheet.ranges[:, 0] < 0).any())
        if negative and not self._scheme.diverging:
            return schemes.find(schemes.DIVERGING_DEFAULT)
        return self._scheme

    def _read_all(self) -> None:
        """Wait until all heads have been read; after `cancel` nothing more is."""
        filling = self._need()
        with filling.in_one_thread():
            while not self._cancelled and filling.read_next():
                pass
        self._finish(filling)

    def _fail(self, failure: Exception) -> None:
        self.error = str(failure) or repr(failure)

    def _stop(self) -> None:
        if self._pass is not None:
            self._pass.cancel()
            self._pass = None

    def _tell(self) -> None:
        """Bring the traits that follow from what was read up to date."""
        filling = self._filling
        read, all_ = filling.done, len(filling.heads)
        self._rows, self._named = list(map(list, filling.rows)), filling.source.named_layers
        scheme = self._scheme_of(filling)
        self._colors = {"ramp": scheme.ramp.tobytes(), "diverging": scheme.diverging}
        self._progress = None if self._cancelled or read == all_ else [read, all_]
        if self._cancelled:
            self.status = f"stopped: {read} of {all_} heads were read"
        self._errors = head_captions.errors(filling)
        self._note = head_captions.note(filling)
        self._sent_cells = filling.sheet.levels.shape[1]

    # -- the widget -----------------------------------------------------------------------------

    def _get_embed_state(self, drop_defaults: bool = False) -> Any:
        """Whole for `ipywidgets.embed`, which leaves defaults out; the front end is one here."""
        return super()._get_embed_state(drop_defaults=False)

    def __repr__(self) -> str:
        if "_filling" not in self.__dict__:
            return "HeadGrid(closed)"
        filling = self._filling
        layers = f"layers {[layer for layer, _ in filling.rows]}, "
        said = layers if filling.source.named_layers else ""
        left = "" if filling.done == len(filling.heads) else f", {filling.done} read"
        return f"HeadGrid({said}{len(filling.heads)} heads{left})"

    def _need(self) -> Filling:
        if "_filling" not in self.__dict__:
            raise RuntimeError("this grid is closed")
        return self._filling

    def close(self) -> None:
        """Remove the grid from every page and let go of its thumbnails; the explorer stays."""
        self._stop()
        self._cancelled = True
        if self._explorer is not None and self.comm is not None:
            self._explorer.unobserve(self._follow, names=_LINKED)
            self._explorer.unobserve(self._again, names=_FIXED)
            self._explorer.map.unobserve(self._told, names=_LOOK)
        if self.comm is not None and self._own_layout:
            self.layout.close()
        super().close()
        self._explorer = None
        self.__dict__.pop("_filling", None)


_OPTIONS = {
    *("selection", "range", "sort_by", "tint_by", "title", "class_name", "scheme"),
    *("layout", "tooltip", "tabbable"),
}
