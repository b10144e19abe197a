"""`AttentionExplorer`: menus for layer and head above a map, whatever the weights come from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import ipywidgets
import numpy as np
import traitlets as t

from .map import AttentionMap
from .selector import Selector
from .sources import CaptureSource, Choice, Extraction, Source, StackSource, as_source, read
from .weights import shape_of

_SETTLE = 0.03
"""Seconds in which further choices replace the one that is waiting to be drawn."""
_CHOICES = ("layer", "head", "kind", "batch", "step")
_LABELS = {"layer": "Layer", "head": "Head", "kind": "Kind", "batch": "Item", "step": "Step"}
_ALL_STEPS = "all"


class _Choice(t.Any):
    """A trait whose assignment is a choice: checked against the source, then drawn at once."""

    def set(self, obj: Any, value: Any) -> None:
        obj._choose({str(self.name): value})

    def store(self, obj: Any, value: Any) -> None:
        super().set(obj, value)


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
        self._tokens, self._queries = tokens, queries
        self._caption = str(map_options.pop("title", ""))
        self._own_mask = not {"mask", "causal", "not_yet"} & map_options.keys()
        self._waiting: dict[str, Any] = {}
        self._choice = self._resolve(
            {"layer": layer, "head": head, "kind": kind, "batch": batch, "step": step}
        )
        drawn = self._drawn(self._choice)
        self.map = AttentionMap(**{**map_options, **drawn})
        self._selectors = {name: Selector(_LABELS[name]) for name in _CHOICES}
        self._menus = ipywidgets.HBox(
            list(self._selectors.values()), layout={"flex_flow": "row wrap"}
        )
        super().__init__([self._menus, self.map])
        self._show_choice()
        for name, selector in self._selectors.items():
            selector.on_choice(partial(self._picked, name))

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
        before = self._source, self._tokens, self._queries, self._choice
        try:
            self._source = as_source(source, **reading)
            self._tokens, self._queries = tokens, queries
            self._choice = self._resolve({})
            self.map.update(**self._drawn(self._choice), error="")
        except BaseException:
            self._source, self._tokens, self._queries, self._choice = before
            raise
        self.error = ""
        self._show_choice()

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
        if waiting:
            self._choose(waiting)

    def _choose(self, wanted: dict[str, Any]) -> None:
        self._waiting = {}  # an older choice must not overtake this one
        self._choice = self._resolve(wanted)
        self._show_choice()
        self._draw()

    def _resolve(self, wanted: dict[str, Any]) -> Choice:
        """The whole choice: what is wanted must exist, the rest is kept where it still does."""
        before: Choice | None = self.__dict__.get("_choice")
        layers = self._source.layers
        if wanted.get("layer") is not None:
            layer = _existing("layer", wanted["layer"], layers)
        else:
            near = before.layer if before else layers[0]
            layer = min(layers, key=lambda other: abs(other - near))
        kinds = self._source.offer(layer, None).kinds
        if wanted.get("kind") is not None:
            kind = _existing("kind", wanted["kind"], kinds)
        else:
            kind = before.kind if before and before.kind in kinds else kinds[0]
        offer = self._source.offer(layer, kind)
        head = _kept("head", wanted, before.head if before else 0, offer.heads, ("mean", "max"))
        batch = _kept("batch", wanted, before.batch if before else 0, offer.items)
        step = wanted.get("step", before.step if before else None)
        if step is not None:
            step = _kept("step", wanted, step, offer.steps)
        return Choice(layer, head, kind, batch, step)

    def _show_choice(self) -> None:
        """Bring traits and menus to the current choice."""
        layer, head, kind, batch, step = self._choice
        offer = self._source.offer(layer, kind)
        steps = [_ALL_STEPS, *range(offer.steps)] if offer.steps > 1 else [_ALL_STEPS]
        menus: dict[str, tuple[list[Any], Any]] = {
            "layer": (self._source.layers, layer),
            "head": (_heads(offer.heads), head),
            "kind": (offer.kinds, kind),
            "batch": (list(range(offer.items)), batch),
            "step": (steps, _ALL_STEPS if step is None else step),
        }
        for name, (choices, chosen) in menus.items():
            self._selectors[name].offer(choices, chosen)
            if name not in ("layer", "head"):
                self._selectors[name].layout.display = None if len(choices) > 1 else "none"
        with self.hold_trait_notifications():
            for name, value in zip(_CHOICES, self._choice, strict=True):
                getattr(type(self), name).store(self, value)

    # -- drawing --------------------------------------------------------------------------------

    def _draw(self) -> None:
        try:
            self.map.update(**self._drawn(self._choice), error="")
        except Exception as failure:  # noqa: BLE001 - whatever a source raises belongs in view
            message = str(failure) or repr(failure)
            self.error = self.map.error = f"{self._title(self._choice, None)}: {message}"
        else:
            self.error = ""

    def _drawn(self, choice: Choice) -> dict[str, Any]:
        """What the map shows for `choice`."""
        seen = read(self._source, choice)
        shape = shape_of(seen.weights)
        tokens, queries, status = self._labels(choice, shape)
        drawn = {
            "weights": seen.weights,
            "tokens": tokens,
            "queries": queries,
            "title": self._title(choice, seen),
            "status": status,
        }
        if self._own_mask and isinstance(self._source, CaptureSource):
            many = choice.step is None and self._source.offer(choice.layer, choice.kind).steps > 1
            drawn["mask"] = seen.allowed
            drawn["not_yet"] = _not_yet(seen.weights) if many else None
        return drawn

    def _labels(
        self, choice: Choice, shape: tuple[int, ...]
    ) -> tuple[Sequence[Any], Sequence[Any] | None, str]:
        """(keys, rows or None for the same, status) for one map."""
        tokens, queries = (_of_item(g, choice.batch) for g in (self._tokens, self._queries))
        if isinstance(self._source, StackSource):
            keys = None if tokens is None else len(tokens)
            self._source.refuse_misfit(keys if queries is None else len(queries), keys)
        if len(shape) != 2:
            return tokens or ["?"], queries, ""  # the map says what is wrong with such a shape
        rows, keys = shape
        if choice.kind == "decoder" and self._queries is not None:
            tokens = queries
        elif choice.kind == "decoder" and self._queries is None:
            tokens = None
        if choice.kind == "cross":
            return tokens or range(keys), queries or range(rows), ""
        if self._source.offer(choice.layer, choice.kind).steps > 1:
            return _generated(tokens, choice, rows, keys)
        if tokens is None:
            return range(keys), None if rows == keys else range(rows), ""
        if queries is None or choice.kind in ("encoder", "decoder"):
            return tokens, None, ""
        return tokens, queries, ""

    def _title(self, choice: Choice, seen: Extraction | None) -> str:
        parts = [self._caption] if self._caption else []
        offer = self._source.offer(choice.layer, choice.kind)
        if getattr(self._source, "named_layers", True):
            parts.append(f"Layer {choice.layer}")
        if choice.kind is not None and len(offer.kinds) > 1:
            parts.append(choice.kind)
        if isinstance(choice.head, str):
            used = offer.heads if seen is None else seen.heads[0]
            of = offer.heads if used == offer.heads else f"{used} of {offer.heads}"
            parts.append(f"{choice.head} of {of} heads")
        else:
            parts.append(f"Head {choice.head}")
        if offer.items > 1:
            parts.append(f"item {choice.batch}")
        if choice.step is not None:
            parts.append(f"step {choice.step}")
        return " · ".join(parts)

    def close(self) -> None:
        """Remove explorer, menus and map from every page and let go of the source."""
        if self.comm is not None:
            self.map.close()
            for selector in self._selectors.values():
                selector.close()
            self._menus.close()
            self._source = StackSource([], named_layers=False)
        super().close()


def _heads(count: int) -> list[int | str]:
    return [*range(count), *(("mean", "max") if count > 1 else ())]


def _existing(name: str, wanted: Any, offered: Sequence[Any]) -> Any:
    """`wanted` as it is offered; ValueError listing what is."""
    if not isinstance(wanted, bool):
        for value in offered:
            if value == wanted:
                return value
    shown = ", ".join(map(str, offered[:40])) + (", …" if len(offered) > 40 else "")
    raise ValueError(f"{name}: {wanted!r} does not exist; there are: {shown}")


def _kept(
    name: str, wanted: dict[str, Any], before: Any, count: int, words: tuple[str, ...] = ()
) -> Any:
    """What is wanted, or else what was there before, as far as it goes."""
    if wanted.get(name) is not None:
        return _existing(name, wanted[name], [*range(count), *words])
    return before if isinstance(before, str) else min(before, count - 1)


def _of_item(tokens: Any, batch: int) -> Any:
    """The tokens of one batch item: the list itself, or its entry in a list of lists."""
    if tokens is None or isinstance(tokens, str) or not hasattr(tokens, "__len__"):
        return tokens
    nested = len(tokens) > 0 and isinstance(tokens[0], (list, tuple))
    return list(tokens[batch]) if nested else tokens


def _generated(
    tokens: Any, choice: Choice, rows: int, keys: int
) -> tuple[Sequence[Any], Sequence[Any] | None, str]:
    """Labels by position after generate: row r of the last `rows` positions, the rest unused."""
    known = list(range(keys)) if tokens is None else list(tokens)
    status = ""
    if tokens is not None and len(known) == keys + 1:
        status = (
            f"the last token, {known[keys]!r} at {keys}, was generated and never looked: no row"
        )
        known = known[:keys]
    return known, None if rows == keys else known[keys - rows :], status


def _not_yet(weights: Any) -> Any:
    """True, (queries, keys), where a later key has no weight: it did not exist at that step."""
    values = np.asarray(weights, dtype=np.float32)
    rows, keys = values.shape
    later = np.arange(keys)[None, :] > np.arange(rows)[:, None] + (keys - rows)
    return np.isnan(values) & later
