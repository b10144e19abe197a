"""A real JupyterLab, the machine's own Chromium, and the notebook's kernel seen from outside."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import nbformat
import pytest
from jupyter_client import BlockingKernelClient
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    Position,
    Route,
    expect,
)

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
KERNEL_IS_IDLE = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    return panel?.sessionContext?.session?.kernel?.status === "idle";
}"""
ERRORS_IN_OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .flatMap((cell) => cell.model.outputs?.toJSON() ?? [])
    .filter((output) => output.output_type === "error")
    .map((output) => `${output.ename}: ${output.evalue}`)"""
MIDDLE_OF_CELL = """(grid, [across, down]) => {
    const [outer, cells] = [grid, grid.querySelector("canvas.attnmap-cells")]
        .map((element) => element.getBoundingClientRect());
    return [
        cells.left - outer.left + across * cells.width,
        cells.top - outer.top + down * cells.height,
    ];
}"""
CELL_OF_PIN = """(grid, [queries, keys]) => {
    const [pin, cells] = [".attnmap-pin", "canvas.attnmap-cells"]
        .map((selector) => grid.querySelector(selector).getBoundingClientRect());
    const key = ((pin.left + pin.right) / 2 - cells.left) / cells.width * keys;
    const query = ((pin.top + pin.bottom) / 2 - cells.top) / cells.height * queries;
    const one = pin.width < 1.5 * cells.width / keys && pin.height < 1.5 * cells.height / queries;
    return one ? [Math.floor(query), Math.floor(key)] : null;
}"""
COLOR_AT = """(canvas, [across, down]) => {
    const [x, y] = [Math.floor(across * canvas.width), Math.floor(down * canvas.height)];
    return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data.slice(0, 3)];
}"""

PATIENCE = 30
"""Seconds that something may take on a busy machine before it counts as not happening."""

expect.set_options(timeout=PATIENCE * 1000)


def wait_until(read: Callable[[], object], value: object, what: str) -> None:
    """Read again until it equals value."""
    deadline = time.monotonic() + PATIENCE
    while (seen := read()) != value:
        assert time.monotonic() < deadline, f"{what} is {seen!r}, not {value!r}"
        time.sleep(0.05)


# ---- the browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """CHROMIUM, then the PATH, else the runner's own; js/vitest.config.ts looks the same way."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    executable = {} if found is None else {"executable_path": found}
    return {**browser_type_launch_args, **executable, "args": CHROMIUM_FLAGS}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": {"width": 1280, "height": 1000}}


def is_local(url: str) -> bool:
    """Whether an address is this machine, or no address at all (data:, blob:)."""
    parts = urlsplit(url)
    remote = parts.scheme in {"http", "https", "ws", "wss"}
    return not remote or parts.hostname in {"127.0.0.1", "localhost"}


class Offline:
    """Cuts a browser context off from everything but this machine, and keeps what was tried.

    What a host's own page asks for by `habit` is refused too, and not held against the maps.
    """

    def __init__(self, context: BrowserContext, habit: str | None = None) -> None:
        self.tried: list[str] = []
        self._habit = habit
        context.route(lambda url: not is_local(url), self._refuse)
        context.on("page", lambda page: page.on("websocket", lambda socket: self._note(socket.url)))

    def _refuse(self, route: Route) -> None:
        self._note(route.request.url)
        route.abort()

    def _note(self, url: str) -> None:
        if not is_local(url) and not (self._habit and url.startswith(self._habit)):
            self.tried.append(url)


@dataclass
class Tab:
    page: Page
    offline: Offline


@contextmanager
def open_tab(
    browser: Browser, context_args: dict[str, Any], habit: str | None = None
) -> Iterator[Tab]:
    """A page in a context of its own; the tests of a module share one, as opening takes seconds."""
    context = browser.new_context(**context_args)
    context.set_default_timeout(PATIENCE * 1000)
    offline = Offline(context, habit)
    try:
        yield Tab(context.new_page(), offline)
    finally:
        context.close()
    assert offline.tried == []


# ---- the kernel ----------------------------------------------------------------------------------


class Kernel:
    """The notebook's own kernel, reached beside the browser by a second client."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def run(self, code: str) -> str:
        """Run code in the notebook's namespace and return what it prints."""
        text: list[str] = []
        reply = self._client.execute_interactive(
            code,
            store_history=False,
            output_hook=lambda message: text.append(message["content"].get("text", "")),
            timeout=60,
        )["content"]
        assert reply["status"] == "ok", f"{reply['ename']}: {reply['evalue']}"
        return "".join(text)

    def value(self, expression: str) -> Any:
        """What an expression is now, by way of JSON: tuples come as lists."""
        return json.loads(self.run(f"import json; print(json.dumps({expression}))"))

    def expect(self, expression: str, value: object) -> None:
        """Wait until the expression is value: the browser's message may be on its way."""
        wait_until(lambda: self.value(expression), value, expression)


# ---- JupyterLab ----------------------------------------------------------------------------------


@dataclass
class Lab:
    """A server with JupyterLab or, at other addresses, another front end built from its parts."""

    url: str
    token: str
    root: Path
    runtime: Path
    pages: str = "doc/tree"

    def write(self, name: str, *cells: str) -> str:
        """Put a notebook of these code cells where Lab finds it."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, self.root / name)
        return name

    def copy(self, name: str) -> str:
        """Put a copy of one of the repository's notebooks where Lab finds it."""
        shutil.copy(NOTEBOOKS / name, self.root / name)
        return name

    def open(self, page: Page, name: str) -> None:
        """Open a notebook in an empty workspace and run every cell, none of which may fail."""
        page.goto(f"{self.url}/{self.pages}/{quote(name)}?token={self.token}&reset")
        page.wait_for_function("window.jupyterapp?.restored.then(() => true)")
        page.wait_for_function(KERNEL_IS_IDLE)
        page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        assert page.evaluate(ERRORS_IN_OUTPUTS) == []

    def set_theme(self, page: Page, theme: str) -> None:
        """Switch to a theme by its name, as in Lab's menu, and wait until it is all there is."""
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme
        )
        page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
        page.locator("#jupyterlab-splash").wait_for(state="detached")

    @contextmanager
    def kernel(self, name: str) -> Iterator[Kernel]:
        """The kernel of an open notebook."""
        with urllib.request.urlopen(f"{self.url}/api/sessions?token={self.token}") as answer:
            sessions = json.load(answer)
        identity = next(s["kernel"]["id"] for s in sessions if s["path"] == name)
        client = BlockingKernelClient(connection_file=str(self.runtime / f"kernel-{identity}.json"))
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield Kernel(client)
        finally:
            client.stop_channels()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{url} did not answer:\n{log.read_text(encoding='utf-8')[-3000:]}")


def nobodys_environment(base: Path) -> dict[str, str]:
    """One with no configuration, setting or workspace of whoever runs the tests."""
    theirs = {k: v for k, v in os.environ.items() if not k.startswith(("IPYTHON", "JUPYTER"))}
    return {
        **theirs,
        "IPYTHONDIR": str(base / "ipython"),
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(base / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(base / "workspaces"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "XDG_CACHE_HOME": str(base / "cache"),
        "XDG_CONFIG_HOME": str(base / "config"),
        "XDG_STATE_HOME": str(base / "state"),
    }


@contextmanager
def serving(base: Path, root: Path, answers: str, *module: str) -> Iterator[None]:
    """A Python module that serves pages, in a process of its own, from its first answer on."""
    log = base / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            env=nobodys_environment(base),
            cwd=root,
            stdout=out,
            stderr=out,
        )
    try:
        wait_until_it_answers(answers, process, log)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def jupyter_server(base: Path, module: str, app: str, pages: str) -> Iterator[Lab]:
    """The server of a Jupyter front end, whose tests may reach into it."""
    root, runtime = base / "root", base / "runtime"
    root.mkdir()
    runtime.mkdir(mode=0o700)
    news = base / "settings" / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    (news / "notification.jupyterlab-settings").write_text(
        '{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8"
    )
    port, token = free_port(), "tests"
    url = f"http://127.0.0.1:{port}"
    command = [
        *(module, "--no-browser", "--allow-root"),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"),
        f"--{app}.expose_app_in_browser=True",
    ]
    with serving(base, root, f"{url}/api?token={token}", *command):
        yield Lab(url, token, root, runtime, pages)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with jupyter_server(
        tmp_path_factory.mktemp("lab"), "jupyterlab", "LabApp", "doc/tree"
    ) as server:
        yield server


# ---- the map on the page -------------------------------------------------------------------------


class ShownMap:
    """One displayed map, by the query and key of its cells."""

    def __init__(self, root: Locator, queries: int, keys: int) -> None:
        self.root = root
        self.grid = root.locator(".attnmap-grid")
        self.canvas = root.locator("canvas.attnmap-cells")
        self.pin = root.locator(".attnmap-pin")
        self.readout = root.locator(".attnmap-readout")
        self.title = root.locator(".attnmap-title")
        self.tooltip = root.locator(".attnmap-tooltip")
        self._shape = (queries, keys)

    def _position(self, query: int, key: int) -> Position:
        """The middle of a cell within the grid element, which stays true while the page scrolls."""
        x, y = self.grid.evaluate(MIDDLE_OF_CELL, self._inside(query, key))
        return {"x": x, "y": y}

    def _inside(self, query: int, key: int) -> list[float]:
        """The middle of a cell as fractions of the canvas, which covers exactly the cells."""
        queries, keys = self._shape
        return [(key + 0.5) / keys, (query + 0.5) / queries]

    def hover(self, query: int, key: int) -> None:
        self.grid.hover(position=self._position(query, key))

    def click(self, query: int, key: int) -> None:
        self.grid.click(position=self._position(query, key))

    def expect_pin(self, query: int, key: int) -> None:
        """Wait until the pin's outline is around that cell and no other."""
        expect(self.pin).to_be_visible()
        queries, keys = self._shape
        wait_until(
            lambda: self.grid.evaluate(CELL_OF_PIN, [queries, keys]),
            [query, key],
            f"the pin of {self.root}",
        )

    def color(self, query: int, key: int) -> tuple[int, ...]:
        """The colour in the middle of a cell; digits and outlines are drawn elsewhere."""
        return tuple(self.canvas.evaluate(COLOR_AT, self._inside(query, key)))

    def expect_color(self, query: int, key: int, color: object) -> None:
        """Wait until a cell has that colour."""
        wait_until(lambda: self.color(query, key), color, f"the colour of ({query}, {key})")
