"""The menus and boxes of an explorer: what they offer, and what is chosen in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from . import choosing, steps
from .combined import offer
from .selector import Selector
from .sources import MEASURES
from .switches import Switch, Switches

if TYPE_CHECKING:
    from .sources import Choice, Source

LABELS = {
    "layer": "Layer", "head": "Head", "kind": "Kind", "batch": "Item", "step": "Step",
    "measure": "Measure",
}  # fmt: skip
"""What there is to choose, by name."""
_ALL_STEPS = "all"


class Menus:
    """Mixed into `AttentionExplorer`: a menu for each part of its choice, and two boxes."""

    _source: Source
    _choice: Choice
    _selectors: dict[str, Selector]
    _switches: Switches
    _several: tuple[Source, set[str]] | None = None
    """Of which parts there is a choice in some layer of that source."""

    def _pick(self, wanted: dict[str, Any], soon: bool) -> None:
        raise NotImplementedError

    def _step_names(self, count: int) -> list[str]:
        raise NotImplementedError

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
        """The `ipywidgets.Dropdown` for the kind; hidden where no layer has several."""
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

    def _make_menus(self) -> ipywidgets.HBox:
        self._selectors = {name: Selector(label) for name, label in LABELS.items()}
        self._switches = Switches(self)
        return ipywidgets.HBox(
            [*self._selectors.values(), *self._switches],
            layout={"flex_flow": "row wrap", "grid_gap": "0 12px"},
        )

    def _listen_to_menus(self) -> None:
        for name, selector in self._selectors.items():
            selector.on_choice(partial(self._picked, name))

    def _picked(self, name: str, value: Any, soon: bool) -> None:
        """A menu was used: at once from Python, settled first from the browser.

        The kernel handles messages one by one, so while one map is extracted further choices
        pile up; only the last of them is drawn.
        """
        value = None if name == "step" and value == _ALL_STEPS else value
        try:
            self._pick({name: value}, soon)
        except Exception:
            self._show_menus()  # of what is shown still
            raise

    def _show_menus(self) -> None:
        """Offer what there is, with the current choice chosen."""
        layer, head, kind, batch, step, measure = self._choice
        there = offer(self._source, layer, kind)
        numbers = [_ALL_STEPS, *range(there.steps)] if there.steps > 1 else [_ALL_STEPS]
        rows = steps.rows_of(self._source, self._choice)
        if self._several is None or self._several[0] is not self._source:
            self._several = self._source, choosing.several(self._source)
        menus: dict[str, tuple[list[Any], Any]] = {
            "layer": (choosing.menu_of_layers(self._source, self._choice, rows), layer),
            "head": (choosing.heads(layer, there.heads), head),
            "kind": (there.kinds, kind),
            "batch": (list(range(there.items)), batch),
            "step": (numbers, _ALL_STEPS if step is None else step),
            "measure": (list(there.measures), measure),
        }
        self.batch_selector.description = LABELS["batch"] if there.windows is None else "Window"
        for name, (choices, chosen) in menus.items():
            if name == "step" and there.steps > 1:
                names = [_ALL_STEPS, *self._step_names(there.steps)]
            else:
                names = [choosing.named(name, there, value) for value in choices]
            one = len(choices) < 2
            if name == "measure" and one and name in self._several[1]:
                # Disabled, and as wide as when it is not.
                self._selectors[name].offer(MEASURES, chosen)
            else:
                self._selectors[name].offer(choices, chosen, names)
            if name not in ("layer", "head"):  # one that does not apply now keeps its place
                shown = name in self._several[1]
                self._selectors[name].layout.display = None if shown else "none"
                self._selectors[name].disabled = one
