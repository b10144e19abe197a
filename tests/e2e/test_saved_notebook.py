"""Notebooks that were saved: what is still seen where no kernel, and no script, runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import Lab, open_tab
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, expect

CELLS = (
    """
import numpy as np
from attnmap_widget import AttentionExplorer, AttentionMap

weights = np.exp(np.random.default_rng(0).random((512, 512)))
weights /= weights.sum(axis=1, keepdims=True)
""",
    "AttentionMap(['a', '</script>', 'c'], [[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], title='T')",
    "AttentionExplorer(np.stack([np.eye(3), np.eye(3)[::-1]]), ['a', 'b', 'c'], head=1)",
    "AttentionMap(range(512), weights)",
)
TITLES = ["T: 3 queries × 3 keys", "Head 1: 3 queries × 3 keys", "Attention map: 512 queries"]


def executed(*cells: str, times: int = 1, state: bool = False) -> Any:
    """A notebook whose cells have run, the last one so many times."""
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    client = NotebookClient(notebook, timeout=120, store_widget_state=state)
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        for _ in range(times - 1):
            client.execute_cell(notebook.cells[-1], len(cells) - 1)
        client.set_widgets_metadata()
    nbformat.validate(notebook)
    return notebook


@pytest.fixture(scope="module")
def notebook() -> Any:
    return executed(*CELLS)


def test_a_converted_notebook_shows_the_pictures_without_scripts(
    notebook: Any, browser: Browser, browser_context_args: dict[str, Any], tmp_path: Path
):
    page, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
    (tmp_path / "notebook.html").write_text(page, encoding="utf-8")
    with open_tab(browser, {**browser_context_args, "java_script_enabled": False}) as tab:
        tab.page.goto((tmp_path / "notebook.html").as_uri())
        for title in TITLES:
            picture = tab.page.locator(f'img[alt^="{title}"]')
            expect(picture).to_be_visible()
            box = picture.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) > 150


def test_a_notebook_that_is_not_trusted_shows_the_pictures_in_lab(
    notebook: Any, lab: Lab, browser: Browser, browser_context_args: dict[str, Any]
):
    (lab.root / "foreign.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    with open_tab(browser, browser_context_args) as tab:
        tab.page.goto(f"{lab.url}/lab/tree/foreign.ipynb?token={lab.token}")
        for title in TITLES:
            picture = tab.page.locator(f'.jp-OutputArea img[alt^="{title}"]')
            picture.scroll_into_view_if_needed()
            expect(picture).to_be_visible()
            assert picture.evaluate("image => image.naturalWidth") > 150


def test_the_text_says_what_the_map_is(notebook: Any):
    said = [cell.outputs[0].data["text/plain"] for cell in notebook.cells[1:]]

    assert "AttentionMap('T', 3 queries × 3 keys, Blues)" in said[0]
    assert "AttentionMap('Head 1', 3 queries × 3 keys, Blues)" in said[1]
    assert "AttentionMap(512 queries × 512 keys, Blues)" in said[2]


def test_running_a_cell_twenty_times_keeps_the_file_small():
    once, often = (executed(CELLS[0], CELLS[3], times=times) for times in (1, 20))

    assert len(nbformat.writes(often)) < 2 * len(nbformat.writes(once))
    assert len(nbformat.writes(once)) < 250_000


def test_widget_metadata_has_its_state_key():
    saved = executed(*CELLS[:2], state=True)

    assert saved.metadata["widgets"]
    for entry in saved.metadata["widgets"].values():
        assert entry["state"]
