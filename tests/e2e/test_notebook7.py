"""Maps in Jupyter Notebook 7: Lab's parts behind other pages, started by its own command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import Kernel, Lab, Offline, ShownMap, jupyter_server, open_tab
from playwright.sync_api import Browser, Page, expect

CELLS = (
    """
import numpy as np
from attnmap_widget import AttentionExplorer, AttentionMap

words = ["the", "cat", "the", "mat"]
weights = [[1, 0, 0, 0], [0.2, 0.5, 0.3, 0], [0.1, 0.15, 0.25, 0.5], [0.05, 0.8, 0.1, 0.05]]
cat = AttentionMap(words, weights, title="Cats", class_name="cat")
cat
""",
    """
heads = np.stack([np.eye(3), np.eye(3)[::-1]])
ex = AttentionExplorer(heads, ["a", "b", "c"], class_name="heads")
ex
""",
)


@dataclass
class Opened:
    server: Lab
    page: Page
    kernel: Kernel
    offline: Offline


@pytest.fixture(scope="module")
def opened(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[Opened]:
    base = tmp_path_factory.mktemp("notebook")
    with (
        jupyter_server(base, "notebook", "JupyterNotebookApp", "notebooks") as server,
        open_tab(browser, browser_context_args) as tab,
    ):
        name = server.write("maps.ipynb", *CELLS)
        server.open(tab.page, name)
        with server.kernel(name) as kernel:
            yield Opened(server, tab.page, kernel, tab.offline)


def test_a_map_is_drawn_and_talks_with_the_kernel(opened: Opened):
    page, kernel = opened.page, opened.kernel
    assert page.evaluate("window.jupyterapp.name") == "Jupyter Notebook"
    cat = ShownMap(page.locator(".attnmap.cat"), queries=4, keys=4)
    expect(cat.title).to_have_text("Cats")

    cat.hover(1, 2)
    expect(cat.readout).to_contain_text("cat (1) looks at the (2) 0.30")
    expect(cat.tooltip).to_contain_text("cat → the")
    kernel.expect("cat.hover", [1, 2])

    cat.click(3, 1)
    cat.expect_pin(3, 1)
    kernel.expect("cat.selection", [3, 1])

    kernel.run("cat.selection = (2, 0)")
    cat.expect_pin(2, 0)


def test_the_menus_of_an_explorer_work(opened: Opened):
    page, kernel = opened.page, opened.kernel
    heads = ShownMap(page.locator(".attnmap.heads"), queries=3, keys=3)
    expect(heads.title).to_have_text("Head 0")
    full = heads.color(0, 0)

    page.get_by_role("combobox", name="Head").select_option("1")

    expect(heads.title).to_have_text("Head 1")
    kernel.expect("ex.head", 1)
    heads.expect_color(0, 2, full)


def test_the_theme_of_the_notebook_is_that_of_the_map(opened: Opened):
    heads = ShownMap(opened.page.locator(".attnmap.heads"), queries=3, keys=3)
    expect(heads.root).to_have_attribute("data-theme", "light")

    opened.server.set_theme(opened.page, "JupyterLab Dark")

    expect(heads.root).to_have_attribute("data-theme", "dark")
    opened.kernel.run("ex.map.selection = (1, 1)")
    heads.expect_pin(1, 1)


def test_nothing_but_this_machine_was_asked(opened: Opened):
    assert opened.offline.tried == []
