"""What a capture costs, as ratios of two things timed in one run (GPT-2's shape, 512 tokens)."""

from __future__ import annotations

import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

from attnmap_widget import capture

TOKENS, ROUNDS = 512, 5
QUERIES_AND_KEYS = 12 * 2 * TOKENS * 768 * 4


def build(backend: str) -> Any:
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=1000, n_positions=1024)
    return transformers.GPT2Model._from_config(config, attn_implementation=backend).eval()


def seconds(work: Callable[[], object]) -> float:
    """Processor time: other work on the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratios(works: dict[str, Callable[[], object]], base: str) -> dict[str, float]:
    """Medians over rounds in which all are timed one after the other, so load hits all alike."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(ROUNDS):
        times = {name: seconds(work) for name, work in works.items()}
        for name, taken in times.items():
            found[name].append(taken / times[base])
    return {name: statistics.median(values) for name, values in found.items()}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_forward_with_capture(capsys: pytest.CaptureFixture[str]) -> None:
    model, eager = build("sdpa"), build("eager")
    eager.load_state_dict(model.state_dict())
    ids = torch.randint(0, 1000, (1, TOKENS))

    def captured() -> Any:
        with capture(model) as cap:
            model(ids, use_cache=False)
        return cap

    with torch.no_grad():
        found = ratios(
            {
                "plain": lambda: model(ids, use_cache=False),
                "capture": captured,
                "eager": lambda: eager(ids, use_cache=False),
                "output_attentions": lambda: eager(ids, use_cache=False, output_attentions=True),
            },
            "plain",
        )
        kept = captured().nbytes
    with capsys.disabled():
        print(
            f"\ncapture ÷ plain forward {found['capture']:.3f}; eager {found['eager']:.2f}, with "
            f"output_attentions {found['output_attentions']:.2f}; kept {kept / 1e6:.1f} MB = "
            f"{kept / QUERIES_AND_KEYS:.2f} × q and k, all weights would be "
            f"{12 * 12 * TOKENS**2 * 4 / 1e6:.0f} MB"
        )
    assert found["capture"] <= 1.10
    assert found["capture"] < found["output_attentions"]
    assert kept <= 1.5 * QUERIES_AND_KEYS


PEAK = """
    import sys, torch
    from pathlib import Path
    from bench_capture import TOKENS, build, capture
    torch.set_num_threads(1)
    model, ids = build("sdpa"), torch.randint(0, 1000, (1, TOKENS))

    def peak():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    with torch.no_grad():
        for tokens in (8, TOKENS):
            with capture(model):
                model(ids[:, :8], use_cache=False)
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
            before = peak()
            if sys.argv[1] == "capture":
                with capture(model):
                    model(ids[:, :tokens], use_cache=False)
            else:
                model(ids[:, :tokens], use_cache=False)
    print((peak() - before) * 1024)
"""


def peak_growth(variant: str) -> int:
    """Bytes by which one forward raises the peak of a fresh process; the median of three."""
    path = [entry for entry in sys.path if entry]
    found = [
        int(
            subprocess.run(
                [sys.executable, "-c", textwrap.dedent(PEAK), variant],
                check=True, capture_output=True, text=True, env={"PYTHONPATH": ":".join(path)},
            ).stdout.split()[-1]
        )
        for _ in range(3)
    ]  # fmt: skip
    return int(statistics.median(found))


def test_peak_memory(capsys: pytest.CaptureFixture[str]) -> None:
    growth = peak_growth("capture") - peak_growth("plain")
    with capsys.disabled():
        print(f"\npeak memory grows by {growth / QUERIES_AND_KEYS:.2f} × q and k")
    assert growth <= 1.5 * QUERIES_AND_KEYS


@pytest.mark.parametrize("tokens", [16, 128])
def test_short_forwards(capsys: pytest.CaptureFixture[str], tokens: int) -> None:
    """A fixed cost per layer; no budget, but it must not get out of hand."""
    model = build("sdpa")
    ids = torch.randint(0, 1000, (1, tokens))

    def captured() -> None:
        with capture(model):
            model(ids, use_cache=False)

    with torch.no_grad():
        found = ratios({"plain": lambda: model(ids, use_cache=False), "capture": captured}, "plain")
    with capsys.disabled():
        print(f"\n{tokens} tokens: capture ÷ plain forward {found['capture']:.2f}")
    assert found["capture"] <= 2


def test_another_head(capsys: pytest.CaptureFixture[str]) -> None:
    """Choosing a head rebuilds that one: about what one plain head costs."""
    model = build("sdpa")
    ids = torch.randint(0, 1000, (1, TOKENS))
    with torch.no_grad(), capture(model) as cap:
        model(ids, use_cache=False)
    q, k = torch.randn(TOKENS, 64), torch.randn(TOKENS, 64)
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)

    def plain() -> object:
        return (q @ k.T * 0.125).masked_fill(hidden, -torch.inf).softmax(-1)

    found = ratios({"plain": plain, "head": lambda: cap.weights(7, 3)}, "plain")
    with capsys.disabled():
        print(f"\none head ÷ the same by hand {found['head']:.2f}")
    assert found["head"] <= 3
