"""Every notebook runs from a clean kernel and shows what is kept in its file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from notebook_runs import FOLDER, LIVE, run

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_kept_in_it(path: Path):
    kept, shown = nbformat.read(path, as_version=4), run(path)
    assert list(_said(shown)) == list(_said(kept))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_kept_notebook_is_small_and_needs_no_kernel(path: Path):
    text = path.read_text()
    assert len(text) < 500_000
    assert LIVE not in text
    assert "widgets" not in json.loads(text)["metadata"]
    nbformat.validate(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_to_look_for_and_what_is_not_shown(path: Path):
    prose = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown"]
    assert any("look" in text.lower() for text in prose[:3])
    assert "not show" in prose[-1]


def _said(notebook: Any) -> Iterator[tuple[int, str, list[str], str]]:
    """What each output is and says. Digits may differ from one processor to the next."""
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            text = output.get("text", "") or data.get("text/plain", "")
            # A number with its sign, and the spaces that line it up.
            yield number, output.output_type, sorted(data), re.sub(r"[ -]*\d+", "0", text)
