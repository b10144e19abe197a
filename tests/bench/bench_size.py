"""What travels, what is written and what an import costs, beside the least it could be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from peer_pages import causal, names, state_bytes

from attnmap_widget import AttentionExplorer, AttentionMap

IMPORT = "import resource, {}; print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
PEAK = """
import sys
sys.path.insert(0, sys.argv[1])
from bench_size import causal, names, AttentionExplorer, peak
explorer = AttentionExplorer(tuple(causal(64)[:, None]), names(64))
explorer.layer = 3
weights = tuple(causal(512)[:, None])
peak()
before = peak()
explorer = AttentionExplorer(weights, names(512))
for layer in range(1, 12):
    explorer.layer = layer
print(peak() - before)
"""


def peak() -> int:
    """Bytes of memory that this process had at most since it was asked last (on Linux)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run(code: str, *given: str) -> float:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled already
    environment["OPENBLAS_NUM_THREADS"] = "1"  # numpy's others spin until the process ends
    command = [sys.executable, "-c", code, *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def test_an_import(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("anywidget", "anywidget, numpy", "attnmap_widget")
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(7):
        for name, times in found.items():
            times.append(run(IMPORT.format(name)))
    bare, base, ours = (min(found[name]) for name in names)
    with capsys.disabled():
        print(f"\nimport attnmap_widget ÷ anywidget and numpy {ours / base:.2f}, ÷ anywidget alone "
              f"{ours / bare:.2f}")  # fmt: skip
    assert ours <= 1.3 * base


def test_the_first_display(capsys: pytest.CaptureFixture[str]) -> None:
    tokens = 512
    explorer = AttentionExplorer(tuple(causal(tokens)[:, None]), names(tokens))
    bundle = len(AttentionMap._esm.encode()) + len(AttentionMap._css.encode())
    state, weights = state_bytes(explorer), 4 * tokens**2
    picture = len(json.dumps(explorer._repr_mimebundle_(), default=str))
    with capsys.disabled():
        print(
            f"\n12 × 12 heads of {tokens}: {(state + picture) / 1e6:.2f} MB at first display = "
            f"{(state + picture) / weights:.2f} × one head (front end {bundle / 1e3:.0f} kB, "
            f"picture for readers without a kernel {picture / 1e3:.0f} kB)"
        )
    assert state <= 1.15e6
    assert state + picture <= 1.25e6


def test_a_page_of_all_heads(capsys: pytest.CaptureFixture[str]) -> None:
    explorer = AttentionExplorer(tuple(causal(32)[:, None]), names(32))
    size = len(explorer.to_html().encode())
    with capsys.disabled():
        print(f"\none page of 12 × 12 heads of 32: {size / 1e3:.0f} kB")
    assert size <= 900e3


def test_the_kernel_holds_little_more_than_one_head(capsys: pytest.CaptureFixture[str]) -> None:
    head = 4 * 512**2
    growth = run(PEAK, str(Path(__file__).parent))
    with capsys.disabled():
        print(
            f"\nexplorer over 151 MB of weights: {growth / 1e6:.1f} MB = {growth / head:.1f} heads"
        )
    assert growth <= 20 * head
