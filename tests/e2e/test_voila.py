"""Maps in Voilà: a notebook served as a page of its own, without code and without Lab."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from conftest import ShownMap, free_port, open_tab, serving
from playwright.sync_api import Browser, expect

ICONS = "https://cdn.jsdelivr.net/npm/@fortawesome/"
"""Voilà's own template asks for an icon font there, whatever the notebook holds."""
CELLS = (
    """
import ipywidgets
import numpy as np
from attnmap_widget import AttentionExplorer, AttentionMap

words = ["the", "cat", "sat"]
cat = AttentionMap(words, [[1, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]], class_name="cat")
said = ipywidgets.Label()
cat.observe(lambda change: setattr(said, "value", f"Pinned: {change['new']}"), names="selection")
ipywidgets.VBox([cat, said])
""",
    """
stack = np.stack([[np.eye(3), np.eye(3)[::-1]]] * 2)
heads = AttentionExplorer(stack, words, axes="layer head query key", class_name="heads")
ipywidgets.Tab([ipywidgets.Label("in front"), heads], titles=["Front", "Behind"])
""",
)


def test_map_and_menus_work_on_a_page_of_voila(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser, browser_context_args: dict[str, Any]
):
    base = tmp_path_factory.mktemp("voila")
    notebook = nbformat.v4.new_notebook(
        cells=list(map(nbformat.v4.new_code_cell, CELLS)),
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, base / "maps.ipynb")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = ("voila", "maps.ipynb", "--no-browser", f"--port={port}")
    with (
        serving(base, base, f"{url}/voila/static/voila.js", *command),
        open_tab(browser, browser_context_args, habit=ICONS) as tab,
    ):
        tab.page.goto(url)
        cat = ShownMap(tab.page.locator(".attnmap.cat"), queries=3, keys=3)
        expect(cat.canvas).to_be_visible()
        cat.hover(2, 1)
        expect(cat.readout).to_contain_text("sat (2) looks at cat (1) 0.30")
        cat.click(1, 1)
        cat.expect_pin(1, 1)
        expect(tab.page.get_by_text("Pinned: (1, 1)")).to_be_visible()

        heads = ShownMap(tab.page.locator(".attnmap.heads"), queries=3, keys=3)
        expect(heads.root).to_be_hidden()
        tab.page.get_by_role("tab", name="Behind").click()
        expect(heads.title).to_have_text("Layer 0 · Head 0")
        full = heads.color(0, 0)
        tab.page.get_by_role("combobox", name="Layer").select_option("1")
        tab.page.get_by_role("combobox", name="Head").select_option("1")
        expect(heads.title).to_have_text("Layer 1 · Head 1")
        heads.expect_color(0, 2, full)
        assert tab.offline.tried == []
