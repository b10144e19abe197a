"""Maps on static pages: what notebooks become, and a page of ours inside a page of theirs.

The pages with live widgets are those of `nbconvert` and of `ipywidgets.embed`, drawn by the
html-manager of Jupyter; by default all three of its scripts come from a CDN, here from a folder.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import ipywidgets
import nbformat
import numpy as np
import pytest
from conftest import ShownMap, Tab, open_tab
from ipywidgets.embed import embed_minimal_html
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, expect

from attnmap_widget import AttentionExplorer, AttentionMap

REPOSITORY = Path(__file__).parents[2]
SHARED = Path(sys.prefix) / "share" / "jupyter"
MANAGER = "@jupyter-widgets/html-manager@1.0.15"
WORDS = ["the", "cat", "sat"]
WEIGHTS = [[1, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder and the address it is served at, with all that widgets need on a page."""
    folder = tmp_path_factory.mktemp("site")
    packed = subprocess.run(
        ["npm", "pack", "--silent", "--prefer-offline", "--pack-destination", folder, MANAGER],
        cwd=REPOSITORY / "js",
        capture_output=True,
        check=True,
        text=True,
    ).stdout.strip()
    with tarfile.open(folder / packed) as package:
        script = package.extractfile("package/dist/embed-amd.js")
        assert script is not None
        (folder / "embed-amd.js").write_bytes(script.read())
    shutil.copy(SHARED / "nbextensions" / "anywidget" / "index.js", folder / "anywidget.js")
    shutil.copy(SHARED / "voila" / "templates" / "base" / "static" / "require.min.js", folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield folder, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def tab(browser: Browser, browser_context_args: dict[str, Any]) -> Iterator[Tab]:
    with open_tab(browser, browser_context_args) as opened:
        yield opened


def expect_alive(shown: ShownMap) -> None:
    """Hovering reads, clicking pins."""
    expect(shown.canvas).to_be_visible()
    shown.hover(2, 1)
    expect(shown.readout).to_contain_text("sat (2) looks at cat (1) 0.30")
    shown.click(1, 1)
    shown.expect_pin(1, 1)


def test_a_converted_notebook_with_saved_state_is_live(site: tuple[Path, str], tab: Tab):
    folder, url = site
    cell = nbformat.v4.new_code_cell(
        "from attnmap_widget import AttentionMap\n"
        f"AttentionMap({WORDS}, {WEIGHTS}, title='Saved', selection=(2, 2))"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, timeout=120).execute()
    page, _ = HTMLExporter(
        require_js_url="require.min.js", widget_renderer_url="embed-amd.js", mathjax_url=""
    ).from_notebook_node(notebook)
    (folder / "converted.html").write_text(page, encoding="utf-8")

    tab.page.goto(f"{url}/converted.html")

    shown = ShownMap(tab.page.locator(".attnmap"), queries=3, keys=3)
    expect(shown.title).to_have_text("Saved")
    shown.expect_pin(2, 2)
    expect_alive(shown)
    assert tab.offline.tried == []


def test_exported_widgets_are_live_and_linked(site: tuple[Path, str], tab: Tab):
    folder, url = site
    left, right = (AttentionMap(WORDS, WEIGHTS, class_name=name) for name in ("left", "right"))
    link = ipywidgets.jslink((left, "selection"), (right, "selection"))
    explorer = AttentionExplorer(np.eye(3)[None], WORDS, class_name="explorer")
    exported = io.StringIO()
    try:
        embed_minimal_html(
            exported, views=[ipywidgets.HBox([left, right]), explorer], embed_url="embed-amd.js"
        )
    finally:
        for widget in (link, left, right, explorer):
            widget.close()
    local = '<script src="require.min.js">'
    page = re.sub('<script src="https://[^>]*>', local, exported.getvalue())
    (folder / "exported.html").write_text(page, encoding="utf-8")

    tab.page.goto(f"{url}/exported.html")

    maps = {
        name: ShownMap(tab.page.locator(f".attnmap.{name}"), queries=3, keys=3)
        for name in ("left", "right", "explorer")
    }
    expect_alive(maps["left"])
    maps["right"].expect_pin(1, 1)
    expect(maps["explorer"].title).to_have_text("Head 0")
    maps["explorer"].hover(0, 0)
    expect(maps["explorer"].readout).to_contain_text("the (0) looks at the (0) 1.00")
    assert tab.offline.tried == []


def test_a_saved_page_works_in_a_frame_of_a_sphinx_site(
    site: tuple[Path, str], tab: Tab, tmp_path: Path
):
    """myst-nb with its defaults, of a notebook whose output is `IPython.display.IFrame`."""
    folder, url = site
    stack = np.stack([[np.eye(3), WEIGHTS]])
    explorer = AttentionExplorer(stack, WORDS, axes="layer head query key")
    (tmp_path / "_static").mkdir()
    explorer.save(tmp_path / "_static" / "heads.html")
    explorer.close()
    frame = '<iframe width="700" height="420" src="_static/heads.html" title="Heads"></iframe>'
    output = nbformat.v4.new_output("display_data", {"text/html": frame})
    cell = nbformat.v4.new_code_cell("IFrame('_static/heads.html', 700, 420)", outputs=[output])
    text = nbformat.v4.new_markdown_cell("# Attention\n\nIn a page about something else.")
    nbformat.write(nbformat.v4.new_notebook(cells=[text, cell]), tmp_path / "index.ipynb")
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_nb']\nhtml_static_path = ['_static']\nnb_execution_mode = 'off'\n"
    )
    subprocess.run([sys.executable, "-m", "sphinx", "-q", tmp_path, folder / "docs"], check=True)

    tab.page.goto(f"{url}/docs/index.html")

    inside = tab.page.frame_locator("iframe")
    shown = ShownMap(inside.locator(".attnmap"), queries=3, keys=3)
    expect(shown.title).to_have_text("Layer 0 · Head 0")
    inside.get_by_role("combobox", name="Head").select_option("1")
    expect(shown.title).to_have_text("Layer 0 · Head 1")
    expect_alive(shown)
    assert tab.offline.tried == []
