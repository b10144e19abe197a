"""`AttentionExplorer`: menus for layer and head above a map, whatever the weights come from."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets as t

from . import arranging, captions, choosing, placed
from .checked import refuse_unknown
from .combined import offer, read
from .grids import LongGrid
from .long import LongHead
from .map import AttentionMap
from .passes import Pass, Progress
from .patches import as_patches
from .selector import Selector
from .sources import CaptureSource, Choice, Source, StackSource, as_source
from .switches import Switch, Switches
from .weights import shape_of
from .windows import Windows

if TYPE_CHECKING:
    from .heads import HeadGrid
    from .summary import HeadSummary

_SETTLE = 0.03
"""Seconds in which further choices replace the one that is waiting to be drawn."""
_RESTED = 0.2
"""Seconds after a map was drawn from which on a choice need not wait for further ones."""
_AT_ONCE = 1 << 24
"""Cells of a head that is read at once; a longer one gets a first look while it is read."""
_KEPT = 8
"""Long heads that stay read."""
_LABELS = {
    "layer": "Layer", "head": "Head", "kind": "Kind", "batch": "Item", "step": "Step",
    "measure": "Measure",
}  # fmt: skip
_ALL_STEPS = "all"
_OF_SOURCE = ("_source", "_tokens", "_queries", "_choice", "_long", "_known")


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
    patches:
        The keys are patches of a picture: `Patches(rows, columns)`, or (rows, columns) for a grid
        after a CLS token. They name themselves, so that tokens are only needed for other tokens of
        a sequence with a picture in it.
    axes:
        "layer head query key", "batch head query key" or "layer batch head query key"; with
        heads=n also "(head batch) query key" or "(batch head) query key", two on one axis.
    layer, head, kind, batch, step, measure:
        What to show first. `head` may be "mean" or "max"; `layer` too, over all layers, or
        "rollout" (Abnar & Zuidema 2020), and then `head` is "mean" if left out.
    words, query_words:
        Which pieces of `tokens` and of `queries` make a word, as `word_groups` gives it, or such
        groups per batch item; True reads it from the pieces' marks. The map then shows words (keys
        summed, queries averaged) while `merged` is True, which a box "Words" switches.
    special, query_special:
        Indices of the special tokens, or lists of them per batch item; a box "Special tokens"
        leaves them out. Nothing is rescaled, and what is left keeps its position.
    merged, hide_special:
        How the two boxes start: words where they are known, with all tokens.
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

    layer = _Choice(help='True block number; "mean", "max" or "rollout" over all layers.')
    head = _Choice(help='Head number, "mean" or "max".')
    kind = _Choice(help='"self", "cross", "encoder", "decoder" or a tower; None = the only one.')
    batch = _Choice(help="Batch item.")
    step = _Choice(help="Step of a generation; None = all in one map.")
    measure = _Choice(help='"weights", or "value norms" ‖αv‖: what each key adds to the output.')
    merged = t.Bool(help="Show words instead of pieces, where it is known which make a word.")
    hide_special = t.Bool(help="Leave special tokens out, where it is known which are.")
    error = t.Unicode(help="Why the chosen map could not be drawn, or empty.")
    _used = t.Int(0, help="Counts the sources; who shows them all observes it.")

    def __init__(
        self,
        source: Any,
        tokens: Any = None,
        queries: Any = None,
        *,
        axes: str | None = None,
        layers: Sequence[int] | None = None,
        heads: int | None = None,
        layer: int | str | None = None,
        head: int | str | None = None,
        kind: str | None = None,
        batch: int = 0,
        step: int | None = None,
        patches: Any = None,
        measure: str | None = None,
        words: Any = None,
        query_words: Any = None,
        special: Any = None,
        query_special: Any = None,
        merged: bool = True,
        hide_special: bool = False,
        **map_options: Any,
    ) -> None:
        self._source: Source = as_source(source, axes=axes, layers=layers, heads=heads)
        self._tokens, self._queries = captions.listed(tokens), captions.listed(queries)
        self.patches = None if patches is None else as_patches(patches)
        self._known = arranging.knowledge(
            self._tokens,
            self._queries,
            words=words,
            query_words=query_words,
            special=special,
            query_special=query_special,
        )
        self._shown: arranging.Shown | None = None
        self._sized = {name: map_options[name] for name in arranging.SIZED if name in map_options}
        self._caption = str(map_options.pop("title", None) or "")
        self._softmax = map_options.pop("softmax", True)
        self._own_mask = not {"mask", "causal", "not_yet"} & map_options.keys()
        self._waiting: dict[str, Any] = {}
        self._settled = -math.inf
        self._long: dict[Choice, LongGrid] = {}
        self._pass: Pass | None = None
        self._choice = choosing.choose(
            self._source,
            {
                "layer": layer, "head": head, "kind": kind, "batch": batch, "step": step,
                "measure": measure,
            },
        )  # fmt: skip
        self._switches = Switches(self)
        self.merged = merged and self._known.words
        self.hide_special = hide_special
        drawn, self._shown = self._arranged(self._choice)
        self._status = drawn["status"]
        self._map_options = map_options
        self.map = AttentionMap(**{**map_options, **drawn})
        self._selectors = {name: Selector(_LABELS[name]) for name in _LABELS}
        self._menus = ipywidgets.HBox(
            [*self._selectors.values(), *self._switches],
            layout={"flex_flow": "row wrap", "grid_gap": "0 12px"},
        )
        super().__init__([self._menus, self.map])
        self.add_class("attnmap-explorer")
        self._show_choice()
        for name, selector in self._selectors.items():
            selector.on_choice(partial(self._picked, name))
        self._show_switches()
        self.observe(self._switched, names=["merged", "hide_special"])
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

    @property
    def measure_selector(self) -> Selector:
        """The `ipywidgets.Dropdown` for the measure; hidden where there are only weights."""
        return self._selectors["measure"]

    @property
    def words_switch(self) -> Switch:
        """The `ipywidgets.Checkbox` for words; hidden where it is not known what makes one."""
        return self._switches.words

    @property
    def special_switch(self) -> Switch:
        """The `ipywidgets.Checkbox` for special tokens; hidden where none is known."""
        return self._switches.special

    def use(self, source: Any, tokens: Any = None, queries: Any = None, **reading: Any) -> None:
        """Explore another source.

        `reading` is axes, or layers and heads, and what is known of the tokens (words, special), as
        in the constructor. What was chosen stays chosen where the new source has it. Raises like
        the constructor, and then nothing has changed.
        """
        before = {name: getattr(self, name) for name in _OF_SOURCE}
        known = {name: reading.pop(name) for name in arranging.KNOWN if name in reading}
        try:
            self._long = {}
            self._source = as_source(source, **reading)
            self._tokens, self._queries = captions.listed(tokens), captions.listed(queries)
            self._known = arranging.knowledge(self._tokens, self._queries, **known)
            self._choice = choosing.choose(self._source, {}, self._choice)
            drawn, shown = self._arranged(self._choice)
            self.map.update(**drawn, error="")
        except BaseException:
            self.__dict__.update(before)
            raise
        self._status, self._shown = drawn["status"], shown
        self._stop()
        self.error = ""
        self._show_choice()
        self._show_switches()
        self._used += 1
        self._read_on()

    @property
    def window(self) -> tuple[Windows, int] | None:
        """The windows of the layer that is shown, and which of them it is; None: it has none."""
        windows = offer(self._source, self._choice.layer, self._choice.kind).windows
        return None if windows is None else (windows, self._choice.batch % windows.count)

    def heads(self, **options: Any) -> HeadGrid:
        """All heads at a glance, linked: a click there chooses here. Options as for `HeadGrid`."""
        from .heads import HeadGrid

        return HeadGrid(self, **options)

    def map_of(
        self, layer: int | str | None = None, head: int | str | None = None, **choice: Any
    ) -> AttentionMap:
        """A map of its own of that layer and head, which stays as it is.

        `choice` may name kind, batch, step and measure; what is left out is as shown now. Raises
        ValueError for what does not exist, and whatever the source raises.
        """
        refuse_unknown(choice, _LABELS)
        wanted = {"layer": layer, "head": head, **choice}
        drawn = self._drawn_whole(choosing.choose(self._source, wanted, self._choice))
        return AttentionMap(**{**self._map_options, **drawn})

    # -- choosing -------------------------------------------------------------------------------

    def _picked(self, name: str, value: Any, soon: bool) -> None:
        """A menu was used: at once from Python, settled first from the browser.

        The kernel handles messages one by one, so while one map is extracted further choices
        pile up; only the last of them is drawn.
        """
        value = None if name == "step" and value == _ALL_STEPS else value
        self._pick({name: value}, soon)

    def _pick(self, wanted: dict[str, Any], soon: bool) -> None:
        try:
            loop = asyncio.get_running_loop() if soon else None
        except RuntimeError:
            loop = None
        if loop is None:
            self._choose(wanted)
            return
        if not self._waiting:
            rested = time.monotonic() - self._settled > _RESTED
            loop.call_later(0 if rested else _SETTLE, self._settle)
        self._waiting.update(wanted)

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if waiting and self.comm is not None:
            try:
                self._choose(waiting)
            except Exception as failure:  # noqa: BLE001 - nobody is there to catch it
                self._fail(failure)
        self._settled = time.monotonic()

    def _choose(self, wanted: dict[str, Any]) -> None:
        self._waiting = {}  # an older choice must not overtake this one
        self._choice = choosing.choose(self._source, wanted, self._choice)
        self._show_choice()
        self._draw()

    def _show_choice(self) -> None:
        """Bring traits and menus to the current choice."""
        layer, head, kind, batch, step, measure = self._choice
        there = offer(self._source, layer, kind)
        steps = [_ALL_STEPS, *range(there.steps)] if there.steps > 1 else [_ALL_STEPS]
        menus: dict[str, tuple[list[Any], Any]] = {
            "layer": (choosing.layers(self._source), layer),
            "head": (choosing.heads(layer, there.heads), head),
            "kind": (there.kinds, kind),
            "batch": (list(range(there.items)), batch),
            "step": (steps, _ALL_STEPS if step is None else step),
            "measure": (list(there.measures), measure),
        }
        self.batch_selector.description = _LABELS["batch"] if there.windows is None else "Window"
        for name, (choices, chosen) in menus.items():
            named = partial(choosing.named, name, there)
            self._selectors[name].offer(choices, chosen, named)
            if name not in ("layer", "head"):
                self._selectors[name].layout.display = None if len(choices) > 1 else "none"
        before = dict(self._trait_values)
        self._trait_values.update(self._choice._asdict())
        for name, value in self._choice._asdict().items():  # told when all is in place
            if before.get(name) != value:
                self._notify_trait(name, before.get(name), value)

    # -- drawing --------------------------------------------------------------------------------

    def _draw(self, *, switched: bool = False) -> None:
        self._stop()
        try:
            drawn, shown = self._arranged(self._choice)
            if switched:  # the pinned cell is of the same tokens as before
                drawn["selection"] = arranging.moved(self.map.selection, self._shown, shown)
            self.map.update(**drawn, error="")
        except Exception as failure:  # noqa: BLE001 - whatever a source raises belongs in view
            self._fail(failure)
        except KeyboardInterrupt:
            self._fail(RuntimeError("interrupted"))
            raise
        else:
            self.error = ""
            self._status, self._shown = drawn["status"], shown
            self._show_switches()
            self._read_on()

    def _fail(self, failure: Exception) -> None:
        message = str(failure) or repr(failure)
        self.error = self.map.error = (
            f"{captions.title(self._source, self._choice, None, self._caption)}: {message}"
        )

    def _drawn(self, choice: Choice) -> dict[str, Any]:
        """What the map shows for `choice`; of a long head a first look, if it is the first time."""
        return self._arranged(choice)[0]

    def _arranged(self, choice: Choice) -> tuple[dict[str, Any], arranging.Shown | None]:
        """The same, with the tokens of which its rows and columns are; None: each of its own."""
        seen = read(self._source, choice)
        shape = shape_of(seen.weights)
        tokens, queries, status = placed.labels(
            self._source, choice, shape, self._tokens, self._queries, patches=self.patches
        )
        drawn = {
            "weights": seen.weights,
            "tokens": tokens,
            "queries": queries,
            "title": captions.title(self._source, choice, seen, self._caption),
            "status": status,
            "softmax": self._softmax and captions.is_softmax(choice),
        }
        if self._own_mask and isinstance(self._source, CaptureSource):
            there = offer(self._source, choice.layer, choice.kind)
            many = choice.step is None and there.steps > 1
            drawn["mask"] = seen.allowed
            drawn["not_yet"] = captions.not_yet(seen.weights) if many else None
        long = isinstance(seen.weights, LongHead)
        if long:
            drawn["weights"] = self._long_grid(choice, seen.weights)
        shown = None
        if not long and len(shape := shape_of(seen.weights)) == 2:
            shown = self._known.shown(self._source, choice, shape, *self._wish)
        if shown is not None:
            drawn["title"] += self._known.said(*self._wish)
            drawn = arranging.arrange(drawn, shown, self._sized)
        elif self._known.any or self._shown is not None:
            drawn = arranging.plain(drawn, self._sized)
        return drawn, shown

    # -- words and special tokens ---------------------------------------------------------------

    @property
    def _wish(self) -> tuple[bool, bool]:
        return self.merged, self.hide_special

    def _switched(self, _: Any) -> None:
        self._draw(switched=True)

    @t.validate("merged")
    def _can_merge(self, proposal: Any) -> bool:
        if proposal.value and not self._known.words:
            raise ValueError("merged: it is not known which pieces make a word; give words=…")
        return bool(proposal.value)

    def _show_switches(self) -> None:
        long = isinstance(self.map._checked.grid, LongGrid)
        self._switches.show(self._known, *self._wish, long=long)

    def _drawn_whole(self, choice: Choice) -> dict[str, Any]:
        """The same, with a long head read to its end; where nothing reads on, it has to be."""
        drawn = self._drawn(choice)
        grid = drawn["weights"]
        if (
            isinstance(grid, LongGrid)
            and isinstance(grid.source, LongHead)
            and grid.survey.read < 1
        ):
            drawn["weights"] = grid.source.read(lambda _: None, lambda: False)
        return drawn

    # -- long heads -----------------------------------------------------------------------------

    def _long_grid(self, choice: Choice, head: LongHead) -> LongGrid:
        grid = self._long.get(choice)
        if grid is None and math.prod(head.shape) <= _AT_ONCE:
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
            self.map.update(weights=whole, status=status)

        progress(0)
        assert isinstance(grid.source, LongHead)
        self._pass = Pass(grid.source.read, progress=progress, done=done, failed=self._fail)

    def _stop(self) -> None:
        if self._pass is not None:
            self._pass.cancel()
            self._pass = None

    def summary(
        self, *, padding: Any = None, delimiters: Any = None, progress: Progress | None = None
    ) -> HeadSummary:
        """What kind of head each is: one row for each (layer, head) of the source.

        Kind, batch item and step are those shown now; padding, mask and positions are the map's, if
        `padding` is left out. See `Capture.summary`, and `attnmap_widget.summary.measure` for what
        each number is.
        """
        from .summarizing import of_explorer

        return of_explorer(self, padding=padding, delimiters=delimiters, progress=progress)

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
            for widget in (*self._menus.children, *self.children, self):
                for part in ("layout", "style"):
                    if widget.has_trait(part) and widget is not self.map:
                        getattr(widget, part).close()
                if widget is not self:
                    widget.unobserve_all()
                    widget.close()
        super().close()
