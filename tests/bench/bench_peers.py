"""Beside what one would pick instead: `make bench-peers`, or run this file.

Twelve layers of twelve heads with random causal weights. Each tool runs in a process and a browser
of its own, one after the other on one machine, and has `BENCH_PATIENCE` seconds (45) for each step;
one that does not make it is not asked for more tokens. BENCH_SIZES="16 128" takes other lengths.
The section goes into README.md, or the file given, between `<!-- peers -->` and `<!-- /peers -->`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from peer_browser import Libraries, look
from peer_pages import TOOLS
from peer_tables import Found, section, write_between
from playwright.sync_api import sync_playwright
from where import ROOT

SIZES = [int(size) for size in os.environ.get("BENCH_SIZES", "16 64 128 256 512 1024").split()]
PATIENCE = float(os.environ.get("BENCH_PATIENCE", "45"))


def make(tool: str, tokens: int, folder: Path) -> dict[str, float]:
    """The tool's page in `folder`, and what it cost; nothing where that took too long."""
    command = [sys.executable, str(Path(__file__).with_name("peer_pages.py")), tool, str(tokens)]
    try:
        done = subprocess.run(
            [*command, str(folder)],
            capture_output=True, text=True, timeout=PATIENCE + 10, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {}
    except subprocess.CalledProcessError as failure:
        print(f"    {failure.stderr.strip().splitlines()[-1:]}", flush=True)
        return {"refused": 1}
    made: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return made


def measure(tool: str) -> Iterator[tuple[int, dict[str, float]]]:
    """What was found for each length, up to the first at which nothing was painted."""
    libraries = Libraries(ROOT / ".bench")
    for tokens in sorted(SIZES):
        with tempfile.TemporaryDirectory() as folder:
            found = make(tool, tokens, Path(folder))
            if "bytes" in found:
                page = Path(folder) / "page.html"
                seen = see(libraries, tool, page)
                quick = seen.get("paint", PATIENCE) < 3
                for _ in range(2 if quick else 0):  # the best of three, as load only ever adds
                    again = see(libraries, tool, page)
                    seen = {
                        name: min(value, again.get(name, value)) for name, value in seen.items()
                    }
                found |= seen
        yield tokens, found
        if "paint" not in found:
            return


def see(libraries: Libraries, tool: str, page: Path) -> dict[str, float]:
    with sync_playwright() as playwright:
        return look(playwright, libraries, tool, page, PATIENCE)


def main(file: Path) -> None:
    found: Found = {}
    for tool in TOOLS:
        for tokens, figures in measure(tool):
            found[tool, tokens] = figures
            print(tool, tokens, {k: round(v, 3) for k, v in figures.items()}, flush=True)
    text = section(found, sorted(SIZES), PATIENCE)
    print(text)
    write_between(file, "peers", text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "README.md")
