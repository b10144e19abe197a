"""`AttentionExplorer`: menus for layer and head above a map, whatever the weights come from."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets
import traitlets as t

from . import captions, choosing
from .grids import LongGrid, Streamed
from .map import AttentionMap
from .passes import Pass
from .selector import Selector
from .sources import CaptureSource, Choice, Extraction, Source, StackSource, as_source, read
from .weights import shape_of

_SETTLE = 0.03
"""Seconds in which further choices replace the one that is waiting to be drawn."""
_AT_ONCE = 1 << 24
"""Cells of a head that is read at once; a longer one gets a first look while it is read."""
_KEPT = 8
"""Long heads that stay read."""
_CHOICES = ("layer", "head", "kind", "batch", "step")
_LABELS = {"layer": "Layer", "head": "Head", "kind": "Kind", "batch": "Item", "step": "Step"}
_ALL_STEPS = "all"


def _counted(seen: Extraction, grid: LongGrid) -> Extraction:
    """Over how many heads a mean was taken, which only the pass over them tells."""
    heads = getattr(grid.source, "heads", None)
    return seen if heads is None else seen._replace(heads=heads)


class _Choice(t.Any):
    """A trait whose assignment is a choice: checked against the source, then drawn at once."""

    def set(self, obj: Any, value: Any) -> None:
        obj._choose({str(self.name): value})


class AttentionExplorer(ipywidgets.VBox):  # type: ignore[misc]
    """Menus for layer and head (and kind, batch item, step where there is a choice) above a map.

    Parameters
    ----------
    source:
        A capture; a tuple of layers as transformers returns it, each (batch, heads, queries,
        keys); an array (heads, queries, keys); an array of 4 axes with `axes`; or a function
        `(layer, head) -> weights` with `layers=[…], heads=n`.
    tokens:
        The keys (for one batch item, or a list of lists for all); their positions if left out.
    queries:
        The rows where they are other tokens: the decoder's, in an encoder-decoder model.
    axes:
        "layer head query key", "batch head query key" or "layer batch head query key".
    layer, head, kind, batch, step:
        What to show first. `head` may be "mean" or "max".
    **map_options:
        Options of the `AttentionMap`.

    Raises
    ------
    ShapeError
        a source that is no stack of maps, could be two things, or does not fit the tokens.
    ValueError
        a layer, head, kind, batch item or step that does not exist, with those that do.
    CaptureError
        the capture recorded nothing.

    Once it stands, a map that cannot be read shows its message in place (`error`): the last good
    map stays and the menus work.
    """

    layer = _Choice(help="True block number.")
    head = _Choice(help='Head number, "mean" or "max".')
    kind = _Choice(help='"self", "cross", "encoder", "decoder" or a tower; None = the only one.')
    batch = _Choice(help="Batch item.")
    step = _Choice(help="Step of a generation; None = all in one map.")
    error = t.Unicode(help="Why the chosen map could not be drawn, or empty.")

    def __init__(
        self,
        source: Any,
        tokens: Any = None,
        queries: Any = None,
        *,
        axes: str | None = None,
        layers: Sequence[int] | None = None,
        heads: int | None = None,
        layer: int | None = None,
        head: int | str = 0,
        kind: str | None = None,
        batch: int = 0,
        step: int | None = None,
        **map_options: Any,
    ) -> None:
        self._source: Source = as_source(source, axes=axes, layers=layers, heads=heads)
        self._tokens, self._queries = captions.listed(tokens), captions.listed(queries)
        self._caption = str(map_options.pop("title", ""))
        self._own_mask = not {"mask", "causal", "not_yet"} & map_options.keys()
        self._waiting: dict[str, Any] = {}
        self._long: dict[Choice, LongGrid] = {}
        self._pass: Pass | None = None
        self._choice = choosing.choose(
            self._source,
            {"layer": layer, "head": head, "kind": kind, "batch": batch, "step": step},
        )
        drawn = self._drawn(self._choice)
        self._status = drawn["status"]
        self.map = AttentionMap(**{**map_options, **drawn})
        self._selectors = {name: Selector(_LABELS[name]) for name in _CHOICES}
        self._menus = ipywidgets.HBox(
            list(self._selectors.values()), layout={"flex_flow": "row wrap", "grid_gap": "0 12px"}
        )
        super().__init__([self._menus, self.map])
        self.add_class("attnmap-explorer")
        self._show_choice()
        for name, selector in self._selectors.items():
            selector.on_choice(partial(self._picked, name))
        self._read_on()

    @property
    def layer_selector(self) -> Selector:
        """The `ipywidgets.Dropdown` for the layer."""
        return self._selectors["layer"]

    @property
    def head_selector(self) -> Selector:
        """The `ipywidgets.Dropdown` for the head."""
        return self._selectors["head"]

    @property
    def kind_selector(self) -> Selector:
        """The `ipywidgets.Dropdown` for the kind; hidden where there is one only."""
        return self._selectors["kind"]

    @property
    def batch_selector(self) -> Selector:
        """The `ipywidgets.Dropdown` for the batch item; hidden where there is one only."""
        return self._selectors["batch"]

    @property
    def step_selector(self) -> Selector:
        """The `ipywidgets.Dropdown` for the step of a generation; hidden where there is one."""
        return self._selectors["step"]

    def use(self, source: Any, tokens: Any = None, queries: Any = None, **reading: Any) -> None:
        """Explore another source; `reading` is axes, or layers and heads, as in the constructor.

        What was chosen stays chosen where the new source has it. Raises like the constructor, and
        then nothing has changed.
        """
        before = self._source, self._tokens, self._queries, self._choice, self._long
        try:
            self._long = {}
            self._source = as_source(source, **reading)
            self._tokens, self._queries = captions.listed(tokens), captions.listed(queries)
            self._choice = choosing.choose(self._source, {}, self._choice)
            drawn = self._drawn(self._choice)
            self.map.update(**drawn, error="")
        except BaseException:
            self._source, self._tokens, self._queries, self._choice, self._long = before
            raise
        self._status = drawn["status"]
        self._stop()
        self.error = ""
        self._show_choice()
        self._read_on()

    # -- choosing -------------------------------------------------------------------------------

    def _picked(self, name: str, value: Any, soon: bool) -> None:
        """A menu was used: at once from Python, settled first from the browser.

        The kernel handles messages one by one, so while one map is extracted further choices
        pile up; only the last of them is drawn.
        """
        value = None if name == "step" and value == _ALL_STEPS else value
        try:
            loop = asyncio.get_running_loop() if soon else None
        except RuntimeError:
            loop = None
        if loop is None:
            self._choose({name: value})
            return
        if not self._waiting:
            loop.call_later(_SETTLE, self._settle)
        self._waiting[name] = value

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if waiting and self.comm is not None:
            try:
                self._choose(waiting)
            except Exception as failure:  # noqa: BLE001 - nobody is there to catch it
                self._fail(failure)

    def _choose(self, wanted: dict[str, Any]) -> None:
        self._waiting = {}  # an older choice must not overtake this one
        self._choice = choosing.choose(self._source, wanted, self._choice)
        self._show_choice()
        self._draw()

    def _show_choice(self) -> None:
        """Bring traits and menus to the current choice."""
        layer, head, kind, batch, step = self._choice
        offer = self._source.offer(layer, kind)
        steps = [_ALL_STEPS, *range(offer.steps)] if offer.steps > 1 else [_ALL_STEPS]
        menus: dict[str, tuple[list[Any], Any]] = {
            "layer": (self._source.layers, layer),
            "head": (choosing.heads(offer.heads), head),
            "kind": (offer.kinds, kind),
            "batch": (list(range(offer.items)), batch),
            "step": (steps, _ALL_STEPS if step is None else step),
        }
        for name, (choices, chosen) in menus.items():
            self._selectors[name].offer(choices, chosen)
            if name not in ("layer", "head"):
                self._selectors[name].layout.display = None if len(choices) > 1 else "none"
        before = dict(self._trait_values)
        self._trait_values.update(self._choice._asdict())
        for name, value in self._choice._asdict().items():  # told when all is in place
            if before.get(name) != value:
                self._notify_trait(name, before.get(name), value)

    # -- drawing --------------------------------------------------------------------------------

    def _draw(self) -> None:
        self._stop()
        try:
            drawn = self._drawn(self._choice)
            self.map.update(**drawn, error="")
        except Exception as failure:  # noqa: BLE001 - whatever a source raises belongs in view
            self._fail(failure)
        except KeyboardInterrupt:
            self._fail(RuntimeError("interrupted"))
            raise
        else:
            self.error = ""
            self._status = drawn["status"]
            self._read_on()

    def _fail(self, failure: Exception) -> None:
        message = str(failure) or repr(failure)
        self.error = self.map.error = (
            f"{captions.title(self._source, self._choice, None, self._caption)}: {message}"
        )

    def _drawn(self, choice: Choice) -> dict[str, Any]:
        """What the map shows for `choice`; of a long head a first look, if it is the first time."""
        seen = read(self._source, choice)
        tokens, queries, status = captions.labels(
            self._source, choice, shape_of(seen.weights), self._tokens, self._queries
        )
        drawn = {
            "weights": seen.weights,
            "tokens": tokens,
            "queries": queries,
            "status": status,
        }
        if self._own_mask and isinstance(self._source, CaptureSource):
            many = choice.step is None and self._source.offer(choice.layer, choice.kind).steps > 1
            drawn["mask"] = seen.allowed
            drawn["not_yet"] = captions.not_yet(seen.weights) if many else None
        if isinstance(seen.weights, Streamed):
            grid = drawn["weights"] = self._long_grid(choice, seen.weights)
            seen = _counted(seen, grid)
        drawn["title"] = captions.title(self._source, choice, seen, self._caption)
        return drawn

    # -- long heads -----------------------------------------------------------------------------

    def _long_grid(self, choice: Choice, head: Streamed) -> LongGrid:
        grid = self._long.get(choice)
        reads = getattr(head, "reads", 1)
        if grid is None and math.prod(head.shape) * reads <= _AT_ONCE:
            grid = head.read(lambda _: None, lambda: False)
        if grid is None:
            return head.first_look()
        self._keep(choice, grid)
        return grid

    def _keep(self, choice: Choice, grid: LongGrid) -> None:
        """Remember the heads that were read last, so that going back costs nothing."""
        self._long.pop(choice, None)
        self._long[choice] = grid
        while len(self._long) > _KEPT:
            del self._long[next(iter(self._long))]

    def _read_on(self) -> None:
        """After a first look, read the whole head beside the notebook."""
        grid, choice = self.map._checked.grid, self._choice
        if not isinstance(grid, LongGrid) or grid.survey.read == 1:
            return
        queries, keys = grid.shape
        status = self._status

        def progress(fraction: float) -> None:
            self.map.status = f"reading {queries} × {keys} weights: {fraction:.0%}"

        def done(whole: LongGrid) -> None:
            self._keep(choice, whole)
            seen = _counted(Extraction(whole), whole)
            title = captions.title(self._source, choice, seen, self._caption)
            self.map.update(weights=whole, status=status, title=title)

        progress(0)
        assert isinstance(grid.source, Streamed)
        self._pass = Pass(grid.source.read, progress=progress, done=done, failed=self._fail)

    def _stop(self) -> None:
        if self._pass is not None:
            self._pass.cancel()
            self._pass = None

    # -- files ----------------------------------------------------------------------------------

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
        from .files.html import explorer_to_html

        return explorer_to_html(self, layers, heads, theme, quantize=quantize)

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write all chosen maps as .html (options of `to_html`), or as another file the map shown.

        Returns the path. ValueError for a suffix that is not known.
        """
        from .files import put

        target = Path(path)
        if target.suffix.lower() not in (".html", ".htm"):
            return self.map.save(target, **options)
        put(target, self.to_html(**options))
        return target

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Beside the live view the picture of the map that is shown, and a line of text."""
        live = super()._repr_mimebundle_(**kwargs)
        still, _ = self.map._repr_mimebundle_()
        said = f"AttentionExplorer showing {still['text/plain']}"
        return {**live, "text/plain": said, "text/html": still["text/html"]}

    def close(self) -> None:
        """Remove explorer, menus and map from every page and let go of the source."""
        if self.comm is not None:
            self._stop()
            self._long.clear()
            self._source = StackSource([], named_layers=False)
            for widget in (*self._selectors.values(), *self.children, self):
                for part in ("layout", "style"):
                    if widget.has_trait(part) and widget is not self.map:
                        getattr(widget, part).close()
                if widget is not self:
                    widget.unobserve_all()
                    widget.close()
        super().close()
