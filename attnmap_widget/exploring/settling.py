"""Choices that come one upon the other: the last of them is drawn, and the notebook goes on."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

_SETTLE = 0.03
"""Seconds in which further choices replace the one that is waiting to be drawn."""
_RESTED = 0.2
"""Seconds after a map was drawn from which on a choice need not wait for further ones."""


class Settling:
    """Mixed into `AttentionExplorer`."""

    comm: Any
    _waiting: dict[str, Any]
    _settled = -math.inf

    def _choose(self, wanted: dict[str, Any], *, beside: bool = False) -> None:
        raise NotImplementedError

    def _fail(self, failure: Exception) -> None:
        raise NotImplementedError

    def _pick(self, wanted: dict[str, Any], soon: bool) -> None:
        """Choose; `soon`: from the browser, where nobody waits for the call to return."""
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
                self._choose(waiting, beside=True)
            except Exception as failure:  # noqa: BLE001 - nobody is there to catch it
                self._fail(failure)
        self._settled = time.monotonic()
