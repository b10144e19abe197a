"""Long sequences, as ratios of two things timed in one run: `pytest tests/bench`, or run this file.

One causal head, d = 64. ATTNMAP_BENCH_64K=1 adds 64 k tokens. Times are the best of a few runs,
taken in turns, because other work on the machine only ever adds to them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attnmap_widget.capturing.operations import Causal, Multiply
from attnmap_widget.capturing.records import Rebuilt
from attnmap_widget.capturing.streaming import HeadStream

WIDTH = 64
LENGTHS = [1024, 4096, 16384, 32768] + ([65536] if os.environ.get("ATTNMAP_BENCH_64K") else [])
LONG = [length for length in LENGTHS if length >= 16384]
ROUNDS = {1024: 30, 4096: 15, 16384: 8, 32768: 4, 65536: 2}
WINDOW = 512


@cache
def operands(length: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(1, 1, length, WIDTH, generator=generator) * 2,
        torch.randn(1, 1, length, WIDTH, generator=generator),
    )


def record_of(length: int) -> Rebuilt:
    query, key = operands(length)
    return Rebuilt(query, key, (Multiply(WIDTH**-0.5), Causal()), (1, 1, length, length))


def best(rounds: int, *tasks: Callable[[], object]) -> list[float]:
    """Seconds of the fastest run of each task; they take turns."""
    found = [float("inf")] * len(tasks)
    for _ in range(rounds):
        for place, task in enumerate(tasks):
            start = time.perf_counter()
            task()
            found[place] = min(found[place], time.perf_counter() - start)
    return found


def bare_matmul(length: int) -> None:
    """The scores on and below the diagonal and nothing else, in blocks thrown away."""
    query, key = operands(length)
    q, k = query[0, 0], key[0, 0]
    rows, columns = 256, 2048
    out = torch.empty(rows * columns)
    for start in range(0, length, rows):
        for first in range(0, start + rows, columns):
            width = min(start + rows, first + columns) - first
            part = k[first : first + width].T
            torch.mm(q[start : start + rows], part, out=out[: rows * width].view(rows, width))


@cache
def times_of(length: int) -> dict[str, float]:
    query, key = operands(length)
    record = record_of(length)
    names = ["survey", "sdpa", "matmul", "coarse"]
    seconds = best(
        ROUNDS[length],
        lambda: HeadStream(record, 0, 0).survey(),
        lambda: F.scaled_dot_product_attention(query, key, key, is_causal=True),
        lambda: bare_matmul(length),
        lambda: HeadStream(record, 0, 0).coarse(),
    )
    return dict(zip(names, seconds, strict=True))


@cache
def window_times(length: int) -> dict[str, float]:
    query, key = operands(length)
    q, k = query[0, 0], key[0, 0]
    q0, k0 = length // 2, length // 4
    rows, keys = slice(q0, q0 + WINDOW), slice(k0, k0 + WINDOW)
    record = record_of(length)
    stream = HeadStream(record, 0, 0)
    stream.window(q0, q0 + WINDOW, k0, k0 + WINDOW)

    def bare() -> None:
        (q[rows] @ k[keys].T).exp_()

    names = ["known", "unknown", "matmul + exp"]
    seconds = best(
        30,
        lambda: stream.window(q0, q0 + WINDOW, k0, k0 + WINDOW),
        lambda: HeadStream(record, 0, 0).window(q0, q0 + WINDOW, k0, k0 + WINDOW),
        bare,
    )
    return dict(zip(names, seconds, strict=True))


def extra_megabytes(length: int) -> float:
    """Growth of the process's peak memory over one survey, in a process of its own."""
    command = [sys.executable, __file__, "memory", str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def peak_megabytes() -> float:
    """Of this process. Linux's ru_maxrss would start from that of the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # bytes on macOS


def print_extra_megabytes(length: int) -> None:
    record = record_of(length)
    HeadStream(record_of(512), 0, 0).survey()  # what torch loads at its first use
    before = peak_megabytes()
    HeadStream(record, 0, 0).survey()
    print(peak_megabytes() - before)


@pytest.mark.parametrize("length", LONG)
def test_looking_costs_less_than_attending(length: int) -> None:
    times = times_of(length)
    assert times["survey"] <= times["sdpa"]


@pytest.mark.parametrize("length", LONG)
def test_a_first_picture_takes_a_tenth(length: int) -> None:
    times = times_of(length)
    assert times["coarse"] <= 0.1 * times["survey"]


def test_a_window_costs_its_own_matmul() -> None:
    times = window_times(32768)
    assert times["known"] <= 2 * times["matmul + exp"]


@pytest.mark.skipif(sys.platform == "win32", reason="no getrusage")
def test_memory_of_a_pass() -> None:
    assert extra_megabytes(32768) <= 100


def table() -> str:
    """The ratios, as a Markdown table."""
    lines = [
        "| tokens | survey, ms | ÷ SDPA | ÷ matmul | coarse ÷ survey | extra MB (full matrix) |"
        " 512² window ÷ matmul + exp: sums known, unknown |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for length in LENGTHS:
        times, window = times_of(length), window_times(length)
        survey, base = times["survey"], window["matmul + exp"]
        lines.append(
            f"| {length} | {survey * 1e3:.0f} | {survey / times['sdpa']:.2f} |"
            f" {survey / times['matmul']:.2f} | {times['coarse'] / survey:.3f} |"
            f" {extra_megabytes(length):.0f} ({length**2 * 4 / 1e6:.0f}) |"
            f" {window['known'] / base:.2f}, {window['unknown'] / base:.1f} |"
        )
    return "\n".join(lines)


def test_print_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{table()}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        print_extra_megabytes(int(sys.argv[2]))
    else:
        print(table())
