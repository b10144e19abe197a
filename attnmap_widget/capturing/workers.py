"""Python threads that share one pass; each computes with one torch thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
MOST_THREADS = 8

TICK = 0.03
"""Seconds between two reports."""
_ONE_THREAD = threading.Lock()
_SMALL = 1 << 21


def use_one_thread() -> None:
    """Let torch use one thread for what this Python thread computes, and nothing else change.

    ``torch.set_num_threads`` sets the calling thread, and what threads start with that use torch
    for the first time: the latter is put back by another thread at once.
    """
    with _ONE_THREAD:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        restore = threading.Thread(target=torch.set_num_threads, args=(before,))
        restore.start()
        restore.join()


@contextmanager
def one_thread_for(cells: int) -> Iterator[None]:
    """Read heads of at most so many cells with one torch thread, in the Python thread that asks.

    Over small tensors torch's own threads wait for each other: on a busy machine that took twenty
    times as long. Large heads keep them.
    """
    if cells > _SMALL:
        yield
        return
    before = torch.get_num_threads()
    use_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_order(tasks: Sequence[Callable[[], T]]) -> Iterator[T]:
    """The results one by one, in order, while the next ones are computed."""
    threads = max(1, min(MOST_THREADS, torch.get_num_threads(), len(tasks)))
    with ThreadPoolExecutor(threads, initializer=use_one_thread) as pool:
        ahead: deque[Future[T]] = deque()
        try:
            for number in range(len(tasks) + threads):
                if number < len(tasks):
                    ahead.append(pool.submit(tasks[number]))
                if number >= threads:
                    yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def finish(running: list[Future[None]], tick: Callable[[], None] = lambda: None) -> None:
    """Wait for all of them; ``tick`` is called meanwhile, and errors of any are raised."""
    pending = set(running)
    while pending:
        done, pending = wait(pending, timeout=TICK, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        tick()
