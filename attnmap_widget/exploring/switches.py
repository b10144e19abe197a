"""The checkboxes of an explorer, which know whether they can be used and why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets

from .arranging import Knowledge


class Switch(ipywidgets.Checkbox):  # type: ignore[misc]
    """An `ipywidgets.Checkbox` that is there only where there is something to switch."""

    def __init__(self, description: str, callback: Callable[[bool], None]) -> None:
        self._name = description
        self._offering = False
        super().__init__(
            description=description, indent=False, layout={"width": "auto", "display": "none"}
        )

        def switched(change: dict[str, Any]) -> None:
            if not self._offering:
                callback(change["new"])

        self.observe(switched, names="value")

    def offer(self, value: bool, *, there: bool, why_not: str = "") -> None:
        """Show `value`; `why_not` says why it has no effect now."""
        self._offering = True
        try:
            with self.hold_sync():
                self.value = value
                self.disabled = bool(why_not)
                self.description = f"{self._name} ({why_not})" if why_not else self._name
                self.layout.display = None if there else "none"
        finally:
            self._offering = False


class Switches:
    """Those for an explorer's `merged` and `hide_special`."""

    def __init__(self, explorer: Any) -> None:
        self.words = Switch("Words", lambda on: explorer.set_trait("merged", on))
        self.special = Switch(
            "Special tokens", lambda on: explorer.set_trait("hide_special", not on)
        )

    def __iter__(self) -> Iterator[Switch]:
        return iter((self.words, self.special))

    def show(self, known: Knowledge, merged: bool, hide: bool, *, long: bool) -> None:
        """Bring them to what is shown; a long head is not held, so it cannot be arranged."""
        why_not = "not for a head this long" if long else ""
        self.words.offer(merged, there=known.words, why_not=why_not)
        self.special.offer(not hide, there=known.special, why_not=why_not)
