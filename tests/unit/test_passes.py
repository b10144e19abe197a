"""Long computations beside the notebook."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from attnmap_widget.passes import Cancelled, Pass, Progress


class Listener:
    """Keeps what a pass reports."""

    def __init__(self) -> None:
        self.progress: list[float] = []
        self.done: list[Any] = []
        self.failed: list[str] = []
        self.threads: set[str] = set()

    def start(self, work: Any) -> Pass:
        return Pass(
            work,
            progress=self._note(self.progress),
            done=self._note(self.done),
            failed=lambda failure: self.failed.append(str(failure)),
        )

    def _note(self, into: list[Any]) -> Any:
        def note(news: Any) -> None:
            self.threads.add(threading.current_thread().name)
            into.append(news)

        return note


async def settled(listener: Listener, *, until: Any) -> None:
    while not until(listener):
        await asyncio.sleep(0.005)


def test_a_pass_runs_beside_the_loop_and_reports_on_it() -> None:
    listener = Listener()
    go = threading.Event()

    def work(progress: Progress, cancelled: Cancelled) -> str:
        assert go.wait(10)  # the loop is not blocked, or this would never come
        return threading.current_thread().name

    async def notebook() -> None:
        listener.start(work)
        assert listener.done == []
        go.set()
        await settled(listener, until=lambda seen: seen.done)

    asyncio.run(notebook())
    assert listener.done == ["attention pass"]
    assert listener.threads == {threading.main_thread().name}


def test_progress_is_reported_now_and_then() -> None:
    listener = Listener()

    def work(progress: Progress, cancelled: Cancelled) -> str:
        for step in range(2000):
            progress(step / 2000)
            threading.Event().wait(0.0005)
        return "done"

    async def notebook() -> None:
        listener.start(work)
        await settled(listener, until=lambda seen: seen.done)

    asyncio.run(notebook())
    assert 1 <= len(listener.progress) < 200
    assert listener.progress == sorted(listener.progress)


def test_a_cancelled_pass_stops_and_says_nothing_more() -> None:
    listener = Listener()
    stopped = threading.Event()

    def work(progress: Progress, cancelled: Cancelled) -> str:
        while not cancelled():
            threading.Event().wait(0.001)
        stopped.set()
        return "late"

    async def notebook() -> None:
        running = listener.start(work)
        await asyncio.sleep(0.02)
        running.cancel()
        assert await asyncio.to_thread(stopped.wait, 10)
        await asyncio.sleep(0.02)

    asyncio.run(notebook())
    assert (listener.done, listener.failed) == ([], [])


def test_a_failure_is_reported() -> None:
    listener = Listener()

    def work(progress: Progress, cancelled: Cancelled) -> str:
        raise RuntimeError("boom")

    async def notebook() -> None:
        listener.start(work)
        await settled(listener, until=lambda seen: seen.failed)

    asyncio.run(notebook())
    assert listener.failed == ["boom"]


def test_without_a_loop_the_work_is_done_at_once() -> None:
    listener = Listener()
    listener.start(lambda progress, cancelled: 7)
    assert listener.done == [7]
