"""A long computation beside the notebook: progress, result and cancelling, one at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

Progress = Callable[[float], None]
Cancelled = Callable[[], bool]
Work = Callable[[Progress, Cancelled], Any]

_BETWEEN_REPORTS = 0.2
"""Seconds; more often nobody reads."""
_TURN = 0.05
_BETWEEN_TURNS = 0.01
"""Seconds of the loop for work that takes turns, and for everything else in between."""


class Pass:
    """Runs `work(progress, cancelled)` in a thread and reports back on the event loop.

    Without a running event loop (a script) the work is done before the constructor returns.
    After `cancel` nothing is reported any more, not even a result that was on its way.
    """

    def __init__(
        self,
        work: Work,
        *,
        progress: Progress,
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._work, self._progress, self._done, self._failed = work, progress, done, failed
        self._stopped = False
        self._reported = time.monotonic()
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        if self._loop is None:
            self._run()
        else:
            threading.Thread(target=self._run, name="attention pass", daemon=True).start()

    def cancel(self) -> None:
        """Ask the work to stop; it notices at its next block."""
        self._stopped = True

    def _run(self) -> None:
        try:
            result = self._work(self._report, lambda: self._stopped)
        except Exception as failure:  # noqa: BLE001 - it belongs in view, not in a thread's log
            self._tell(self._failed, failure)
        else:
            self._tell(self._done, result)

    def _report(self, fraction: float) -> None:
        now = time.monotonic()
        if now - self._reported >= _BETWEEN_REPORTS:
            self._reported = now
            self._tell(self._progress, fraction)

    def _tell(self, listener: Callable[[Any], None], news: Any) -> None:
        def deliver() -> None:
            if not self._stopped:
                listener(news)

        if self._loop is None:
            deliver()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(deliver)


class Turns:
    """Work that is no matter for another thread, done on the event loop a little at a time.

    `step()` does a part of it and is False once there is none left. `progress` is called now and
    then, `done` at the end; after `cancel` neither is. Needs a running event loop.
    """

    def __init__(
        self, step: Callable[[], bool], *, progress: Callable[[], None], done: Callable[[], None]
    ) -> None:
        self._step, self._progress, self._done = step, progress, done
        self._stopped = False
        self._reported = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._take)

    def cancel(self) -> None:
        """Take no further turn."""
        self._stopped = True

    def _take(self) -> None:
        until = time.monotonic() + _TURN
        while not self._stopped:
            if not self._step():
                self._done()
                return
            now = time.monotonic()
            if now - self._reported >= _BETWEEN_REPORTS:
                self._reported = now
                self._progress()
            if now >= until:
                self._loop.call_later(_BETWEEN_TURNS, self._take)
                return


def in_loop() -> bool:
    """Whether an event loop runs, as in a notebook; in a script none does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
