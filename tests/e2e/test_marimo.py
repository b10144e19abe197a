"""Maps in marimo, in its editor: the map bare, reactive on its selection, driven by menus.

marimo shows anywidgets as they are and no widgets of ipywidgets, so an explorer's own menus are
not to be seen there. The README's recipe takes their place: its cells are run here to the letter.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from conftest import ShownMap, free_port, open_tab, serving
from playwright.sync_api import Browser, expect

README = Path(__file__).parents[2] / "README.md"
SETTINGS = """
[tool.marimo.runtime]
auto_instantiate = true
[tool.marimo.display]
theme = "system"
"""
CELLS = (
    """
import marimo as mo
import numpy as np
from attnmap_widget import AttentionExplorer, AttentionMap
""",
    """
words = ["the", "cat", "sat"]
stack = np.stack([[np.eye(3), np.eye(3)[::-1]]] * 2)
ex = AttentionExplorer(stack, words, axes="layer head query key", class_name="heads")
""",
    """
AttentionMap(words, [[1, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]], class_name="bare")
""",
    """
mo.md(f"Chosen: {ex.map.title}; pinned: {pinned.value['selection']}") if (layer, head) else None
""",
)


def recipe() -> list[str]:
    """The cells of the README's recipe, which are apart by an empty line."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "mo.ui.dropdown" in block)
    return str(block).strip().split("\n\n")


def notebook(*cells: str) -> str:
    """The file of a marimo notebook: each cell is the body of a function."""
    functions = (f"@app.cell\ndef _():\n{indent(cell.strip(), '    ')}\n" for cell in cells)
    return "\n\n".join(["import marimo\n\napp = marimo.App()", *functions])


def test_a_map_bare_reactive_and_driven_by_menus(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser, browser_context_args: dict[str, Any]
):
    base = tmp_path_factory.mktemp("marimo")
    (base / "maps.py").write_text(notebook(*CELLS, *recipe()), encoding="utf-8")
    (base / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = ("marimo", "edit", "maps.py", "--headless", "--no-token", "--skip-update-check")
    with (
        serving(base, base, f"{url}/health", *command, f"--port={port}"),
        open_tab(browser, browser_context_args) as tab,
    ):
        tab.page.goto(url)
        bare = ShownMap(tab.page.locator(".attnmap.bare"), queries=3, keys=3)
        expect(bare.canvas).to_be_visible()
        bare.hover(2, 1)
        expect(bare.readout).to_contain_text("sat (2) looks at cat (1) 0.30")
        bare.click(1, 1)
        bare.expect_pin(1, 1)

        heads = ShownMap(tab.page.locator(".attnmap.heads"), queries=3, keys=3)
        expect(heads.title).to_have_text("Layer 0 · Head 0")
        full = heads.color(0, 0)
        tab.page.get_by_label("Layer", exact=True).select_option("1")
        expect(heads.title).to_have_text("Layer 1 · Head 0")
        tab.page.get_by_label("Head", exact=True).select_option("1")
        expect(heads.title).to_have_text("Layer 1 · Head 1")
        heads.expect_color(0, 2, full)

        heads.click(2, 0)
        expect(tab.page.get_by_text("pinned: [2, 0]")).to_be_visible()
        heads.expect_pin(2, 0)

        expect(heads.root).to_have_attribute("data-theme", "light")
        tab.page.emulate_media(color_scheme="dark")
        expect(heads.root).to_have_attribute("data-theme", "dark")
        heads.expect_pin(2, 0)
        assert tab.offline.tried == []
