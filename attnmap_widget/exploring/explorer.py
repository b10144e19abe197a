"""`AttentionExplorer`: menus for layer and head above a map, whatever the weights come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets as t

from ..files.explorer import ExplorerFiles
from ..grid.axes import VALUE
from ..grid.grids import LongGrid
from ..grid.options import Options, refuse_unknown
from ..images.patches import as_patches
from ..images.windows import Windows
from ..map import AttentionMap
from ..passes import Pass, Progress
from . import arranging, captions, choosing, steps
from .combined import offer
from .drawing import Drawing, Drawn
from .menus import LABELS, Menus
from .reading_on import read_whole
from .settling import Settling
from .sources import Choice, StackSource
from .texts import Texts

if TYPE_CHECKING:
    from ..heads.summary import HeadSummary
    from ..heads.widget import HeadGrid

_OF_SOURCE = (
    "_source", "_generated", "_tokens", "_queries", "patches", "_choice", "_long", "_told",
    "_by_hand", "_over",
)  # fmt: skip


class _Choice(t.Any):
    """A trait whose assignment is a choice: checked against the source, then drawn at once."""

    def set(self, obj: Any, value: Any) -> None:
        obj._choose({str(self.name): value})


class AttentionExplorer(Drawing, Settling, Menus, ExplorerFiles, ipywidgets.VBox):  # type: ignore[misc]
    """Menus for layer and head (and kind, batch item, step where there is a choice) above a map.

    Parameters
    ----------
    source:
        A capture; a tuple of layers as transformers returns it, each (batch, heads, queries,
        keys); a tuple of steps of layers, as `generate` returns it; the whole output of a model
        or of `generate`; an array (heads, queries, keys); an array of 4 axes with `axes`; or a
        function `(layer, head) -> weights` with `layers=[…], heads=n`.
    tokens:
        The keys (for one batch item, or a list of lists for all); their positions if left out.
    queries:
        The rows where they are other tokens: the decoder's, in an encoder-decoder model.
    patches:
        The keys are patches of a picture: `Patches(rows, columns)`, or (rows, columns) for a grid
        after a CLS token. They name themselves, so that tokens are only needed for other tokens of
        a sequence with a picture in it.
    tokenizer:
        Gives the tokens where none were given: by the ids that a capture saw run and those in
        `generated`. Anything with `convert_ids_to_tokens(ids)`.
    generated:
        What `generate` returned, ids or output: the token generated last, the beams of a beam
        search (then `batch` is a returned sequence), and where the generated part begins. Or that
        position alone, where the prompt ends. It is marked on both axes.
    beam_indices:
        After beam search, what `generate` returned under that name: (sequences, generated tokens)
        items of the batch. Not needed beside `generated=out`.
    axes:
        "layer head query key", "batch head query key" or "layer batch head query key"; with
        heads=n also "(head batch) query key" or "(batch head) query key", two on one axis.
    layer, head, kind, batch, step, measure:
        What to show first. `head` may be "mean" or "max"; `layer` too, over all layers, or
        "rollout" (Abnar & Zuidema 2020), and then `head` is "mean" if left out.
    words, query_words:
        Which pieces of `tokens` and of `queries` make a word, as `word_groups` gives it, or such
        groups per batch item; True reads it from the pieces' marks, as it is without `tokens` where
        a tokenizer gives them. The map then shows words (keys
        summed, queries averaged) while `merged` is True, which a box "Words" switches.
    special, query_special:
        Indices of the special tokens, or lists of them per batch item; a box "Special tokens"
        leaves them out. Nothing is rescaled, and what is left keeps its position.
    merged, hide_special:
        How the two boxes start: words where `words` says them, with all tokens.
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

    _drawn: Drawn

    def __init__(
        self,
        source: Any,
        tokens: Any = None,
        queries: Any = None,
        *,
        tokenizer: Any = None,
        generated: Any = None,
        beam_indices: Any = None,
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
        self._tokens, self._queries = captions.listed(tokens), captions.listed(queries)
        self._texts = Texts(tokenizer)
        self.patches = None if patches is None else as_patches(patches)
        reading = {"axes": axes, "layers": layers, "heads": heads}
        self._take(source, generated, beam_indices=beam_indices, kind=kind, **reading)
        by_tokenizer = words is True and self._reads
        self._told = arranging.knowledge(
            self._tokens,
            self._queries,
            words=None if by_tokenizer else words,
            query_words=query_words,
            special=special,
            query_special=query_special,
        )
        self._sized = {name: map_options[name] for name in arranging.SIZED if name in map_options}
        self._caption = str(map_options.pop("title", None) or "")
        self._softmax = map_options.pop("softmax", True)
        self._value_title = map_options.pop("value_title", VALUE)
        self._own_mask = not {"mask", "causal", "not_yet"} & map_options.keys()
        self._placed = {"padding", "positions", "generated"} - map_options.keys()
        if "query_offset" in map_options:
            self._placed.discard("positions")
        self._waiting: dict[str, Any] = {}
        self._by_hand: dict[str, Any] = {}
        self._long: dict[Choice, LongGrid] = {}
        self._pass: Pass | None = None
        self._choice = choosing.choose(
            self._source,
            {
                "layer": layer, "head": head, "kind": kind, "batch": batch, "step": step,
                "measure": measure,
            },
        )  # fmt: skip
        self._number = self._choice.head if isinstance(self._choice.layer, int) else None
        self._menus = self._make_menus()
        merged = merged and (by_tokenizer or self._told.words)
        self._drawn = self._draw_of(self._choice, bool(merged), hide_special)
        if by_tokenizer and not self._drawn.known.words:
            raise ValueError(
                "words: the tokenizer does not say which pieces make a word; give them"
            )
        self.merged, self.hide_special = merged, hide_special
        self._status = self._drawn.inputs["status"]
        self._map_options = map_options
        self.map = AttentionMap(**{**map_options, **self._drawn.inputs})
        self._set = self._sized_now()
        super().__init__([self._menus, self.map])
        self.add_class("attnmap-explorer")
        self._show_choice()
        self._listen_to_menus()
        self._show_switches()
        self.observe(self._switched, names=["merged", "hide_special"])
        self._read_on()

    def use(
        self,
        source: Any,
        tokens: Any = None,
        queries: Any = None,
        *,
        generated: Any = None,
        **reading: Any,
    ) -> None:
        """Explore another source.

        `reading` is axes, or layers and heads, and what is known of the tokens (words, special), as
        in the constructor; patches stay as they are if left out. What was chosen stays chosen where
        the new source has it. Raises like the constructor, and then nothing has changed.
        """
        before = {name: getattr(self, name) for name in _OF_SOURCE}
        known = {name: reading.pop(name) for name in arranging.KNOWN if name in reading}
        own = {"mask", "not_yet"} if self._own_mask else set()
        stale = dict.fromkeys(own | self._placed)  # of the source before
        self._take_by_hand()
        try:
            self._long, self._over = {}, None
            self._by_hand = {n: v for n, v in self._by_hand.items() if n not in stale}
            self._tokens, self._queries = captions.listed(tokens), captions.listed(queries)
            if "patches" in reading:
                grid = reading.pop("patches")
                self.patches = None if grid is None else as_patches(grid)
            self._take(source, generated, **reading)
            if known.get("words") is True and self._reads:
                known.pop("words")
            self._told = arranging.knowledge(self._tokens, self._queries, **known)
            self._choice = choosing.choose(self._source, {}, self._choice)
            drawn = self._draw_of(self._choice, *self._wish)
            self.map.update(**{**stale, **drawn.inputs}, error="")
        except BaseException:
            self.__dict__.update(before)
            raise
        self._note(drawn)
        self._stop()
        self.error = ""
        self._show_choice()
        self._show_switches()
        self._used += 1
        self._read_on()

    def _take(self, source: Any, generated: Any = None, **reading: Any) -> None:
        """Read what the source is, and what is known of how it was generated."""
        self._source, self._generated = steps.read_source(
            source, generated, self._tokens, self._queries, reading
        )

    @property
    def window(self) -> tuple[Windows, int] | None:
        """The windows of the layer that is shown, and which of them it is; None: it has none."""
        windows = offer(self._source, self._choice.layer, self._choice.kind).windows
        return None if windows is None else (windows, self._choice.batch % windows.count)

    def heads(self, **options: Any) -> HeadGrid:
        """All heads at a glance, linked: a click there chooses here. Options as for `HeadGrid`."""
        from ..heads.widget import HeadGrid

        return HeadGrid(self, **options)

    def map_of(
        self, layer: int | str | None = None, head: int | str | None = None, **choice: Any
    ) -> AttentionMap:
        """A map of its own of that layer and head, which stays as it is.

        `choice` may name kind, batch, step and measure; what is left out is as shown now. Raises
        ValueError for what does not exist, and whatever the source raises.
        """
        refuse_unknown(choice, LABELS)
        wanted = {"layer": layer, "head": head, **choice}
        drawn = self._inputs(choosing.choose(self._source, wanted, self._choice))
        return AttentionMap(**{**self._map_options, **drawn})

    def summary(
        self, *, padding: Any = None, delimiters: Any = None, progress: Progress | None = None
    ) -> HeadSummary:
        """What kind of head each is: one row for each (layer, head) of the source.

        Kind, batch item and step are those shown now; padding, mask and positions are the map's, if
        `padding` is left out. See `Capture.summary`, and `attnmap_widget.summary.measure` for what
        each number is.
        """
        from ..heads.summarizing import of_explorer

        return of_explorer(self, padding=padding, delimiters=delimiters, progress=progress)

    # -- choosing -------------------------------------------------------------------------------

    def _choose(self, wanted: dict[str, Any], *, beside: bool = False) -> None:
        self._waiting = {}  # an older choice must not overtake this one
        self._choice = choosing.choose(self._source, wanted, self._choice, number=self._number)
        if isinstance(self._choice.layer, int):
            self._number = self._choice.head
        self._show_choice()
        self._draw(beside=beside)

    def _show_choice(self) -> None:
        """Bring traits and menus to the current choice."""
        self._show_menus()
        before = dict(self._trait_values)
        self._trait_values.update(self._choice._asdict())
        for name, value in self._choice._asdict().items():  # told when all is in place
            if before.get(name) != value:
                self._notify_trait(name, before.get(name), value)

    # -- drawing --------------------------------------------------------------------------------

    def _draw(self, *, beside: bool = False, again: bool = False) -> None:
        """Draw what is chosen: now, or with `beside` later where reading it takes long.

        `again`: the same choice in another arrangement.
        """
        self._stop()
        self._take_by_hand()
        try:
            seen = self._read_chosen(beside=beside, again=again)
            if seen is None:
                return
            drawn = self._draw_of(self._choice, *self._wish, seen)
            if drawn.wish != self._drawn.wish:  # the pinned cell is of the same tokens as before
                cell, before = self.map.selection, self._drawn.shown
                drawn.inputs["selection"] = arranging.moved(cell, before, drawn.shown)
            self.map.update(**drawn.inputs, error="")
        except Exception as failure:  # noqa: BLE001 - whatever a source raises belongs in view
            self._fail(failure)
        except KeyboardInterrupt:
            self._fail(RuntimeError("interrupted"))
            raise
        else:
            self.error = ""
            self._note(drawn)
            self._show_switches()
            self._read_on()

    def _note(self, drawn: Drawn) -> None:
        """What the map shows now."""
        self._drawn, self._status, self._set = drawn, drawn.inputs["status"], self._sized_now()

    def _fail(self, failure: Exception) -> None:
        message = str(failure) or repr(failure)
        self.map.status = self._status  # nothing is being read any more
        self.error = self.map.error = (
            f"{captions.title(self._source, self._choice, None, self._caption)}: {message}"
        )

    def _inputs(self, choice: Choice) -> dict[str, Any]:
        """What a map of `choice` is given, with a long head read to its end."""
        return read_whole(self._draw_of(choice, *self._wish).inputs)

    @property
    def _options(self) -> Options:
        """The map's, as they are of single tokens also where it shows words."""
        options: Options = self.map._checked.options
        return replace(options, **self._drawn.sized)

    # -- words and special tokens ---------------------------------------------------------------

    @property
    def _wish(self) -> tuple[bool, bool]:
        return self.merged, self.hide_special

    def _switched(self, _: Any) -> None:
        if not self._pending:  # else it is drawn so once it is read
            self._draw(again=True)

    @t.validate("merged")
    def _can_merge(self, proposal: Any) -> bool:
        if proposal.value and not self._drawn.known.words:
            raise ValueError("merged: it is not known which pieces make a word; give words=…")
        return bool(proposal.value)

    def _show_switches(self) -> None:
        long = isinstance(self.map._checked.grid, LongGrid)
        self._switches.show(self._drawn.known, *self._wish, long=long)

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
            self._over = None
            self._source = StackSource([], named_layers=False)
            for widget in (*self._menus.children, *self.children, self):
                for part in ("layout", "style"):
                    if widget.has_trait(part) and widget is not self.map:
                        getattr(widget, part).close()
                if widget is not self:
                    widget.unobserve_all()
                    widget.close()
        super().close()
