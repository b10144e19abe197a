"""A drop-down menu that keeps its value when its options change and knows who changed it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets
import traitlets as t


class Selector(ipywidgets.Dropdown):  # type: ignore[misc]
    """An `ipywidgets.Dropdown` for an explorer.

    A bare one jumps to the first entry whenever its options are set, with an event for each jump.
    """

    options: Any
    value: Any
    index: Any

    def __init__(self, description: str) -> None:
        self._from_browser = False
        self._offering = False
        self._wanted: Any = None
        super().__init__(
            options=[("", None)],
            description=description,
            layout={"width": "auto"},
            style={"description_width": "initial"},
        )

    def offer(self, values: Iterable[Any], value: Any, names: Iterable[str] | None = None) -> None:
        """Offer `values`, with `value` chosen; no choice of the user is reported for it.

        `names`: what the menu says of each; None: the values themselves.
        """
        values = list(values)
        options = list(zip(map(str, values) if names is None else names, values, strict=True))
        self._wanted = value
        self._offering = True
        try:
            with self.hold_sync():
                if list(self.options) != options:
                    self.options = options
                elif self.value != value:
                    self.value = value
        finally:
            self._offering = False

    def on_choice(self, callback: Callable[[Any, bool], None]) -> None:
        """Call `callback(value, from_browser)` on each choice that is not an `offer`."""

        def chosen(change: dict[str, Any]) -> None:
            if not self._offering:
                callback(change["new"], self._from_browser)

        self.observe(chosen, names="value")

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take a message from the browser."""
        self._from_browser = True
        try:
            super().set_state(sync_data)
        finally:
            self._from_browser = False

    @t.observe("options")
    def _propagate_options(self, change: Any) -> None:
        """As in `Dropdown`, but onto the wanted entry instead of the first."""
        if not self._offering:
            super()._propagate_options(change)
            return
        self.set_trait("_options_labels", tuple(label for label, _ in self._options_full))
        self._options_values = tuple(value for _, value in self._options_full)
        index = self._options_values.index(self._wanted)
        if self.index == index:
            self._propagate_index(t.Bunch(new=index))
        else:
            self.index = index
