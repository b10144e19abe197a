"""Maps over many heads: a sign of life at once, and beside the notebook where they take long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from ..errors import Stopped
from ..passes import Cancelled, Pass, Progress
from .combined import layers_of, read
from .sources import Choice, Extraction, FunctionSource, Source

_SIGN = 0.1
"""Seconds after which it is said what is being done."""
_LARGE = 1 << 20
"""Cells of all maps together, from which on it is said before."""
AT_ONCE = 1.0
"""Seconds that the notebook waits; what is going to take longer is read beside it."""


class Overdue(Exception):  # noqa: N818 (it is no error: it goes on elsewhere)
    """These maps take too long for the notebook to wait."""


def over_many(choice: Choice) -> bool:
    """Whether it is of more than one head."""
    return isinstance(choice.layer, str) or isinstance(choice.head, str)


def said(source: Source, choice: Choice) -> str:
    """What is being read, "30 layers"."""
    if isinstance(choice.layer, str):
        return f"{len(layers_of(source, choice.kind))} layers"
    return f"{source.offer(choice.layer, choice.kind).heads} heads"


def maps_of(source: Source, choice: Choice) -> int:
    """How many heads are read for it."""
    layers = layers_of(source, choice.kind) if isinstance(choice.layer, str) else [choice.layer]
    return sum(source.offer(layer, choice.kind).heads for layer in layers)


def read_here(
    source: Source, choice: Choice, *, cells: int, waits: bool, say: Callable[[str], None]
) -> Extraction:
    """The map of `choice`, read while the notebook waits.

    Raises Overdue where it is going to take longer than `AT_ONCE`, unless `waits`. `cells`: of one
    map, about.
    """
    begun, maps, done, silent = time.monotonic(), maps_of(source, choice), 0, True

    def tick() -> None:
        nonlocal done, silent
        spent = time.monotonic() - begun
        if silent and (spent > _SIGN or cells * maps > _LARGE):
            silent = False
            say(f"reading {said(source, choice)} …")
        if not waits and done and spent > _SIGN and spent * maps > AT_ONCE * done:
            raise Overdue
        done += 1

    return read(source, choice, tick)


def read_beside(
    source: Source,
    choice: Choice,
    *,
    say: Callable[[str], None],
    done: Callable[[Extraction], None],
    failed: Callable[[Exception], None],
) -> Pass:
    """The same beside the notebook, on whose loop the others are called. Needs a running loop."""
    maps, what = maps_of(source, choice), said(source, choice)
    if isinstance(source, FunctionSource):
        source = replace(source, function=_on_loop(source.function))

    def work(progress: Progress, cancelled: Cancelled) -> Extraction:
        begun = 0

        def tick() -> None:
            nonlocal begun
            if cancelled():
                raise Stopped
            progress(begun / maps)
            begun += 1

        return read(source, choice, tick)

    return Pass(
        work,
        progress=lambda share: say(f"reading {what}: {share:.0%}"),
        done=done,
        failed=failed,
    )


def _on_loop(function: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    """Somebody's function, which may not be made for threads, as another thread may call it."""
    loop = asyncio.get_running_loop()

    def call(layer: int, head: int) -> Any:
        result: Future[Any] = Future()
        loop.call_soon_threadsafe(partial(_fulfil, result, function, layer, head))
        return result.result()

    return call


def _fulfil(result: Future[Any], function: Callable[[int, int], Any], *head: int) -> None:
    try:
        result.set_result(function(*head))
    except Exception as failure:  # noqa: BLE001 - it is raised where it was asked for
        result.set_exception(failure)
