"""What is left on the page when the kernel restarts, is cut off or dies: a map that still reads."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import Kernel, Lab, ShownMap, open_tab, wait_until
from playwright.sync_api import Browser, Page, expect

GONE = re.compile("kernel that drew this is gone")
COARSE = re.compile("finer cells need a running kernel")
SMALL = (
    """
import os
import numpy as np
from attnmap_widget import AttentionExplorer, AttentionMap

weights = [[0.7, 0.2, 0.1, 0.0], [0.1, 0.1, 0.3, 0.5], [0.25, 0.4, 0.25, 0.1]]
small = AttentionMap(list("abcd"), weights, list("xyz"), class_name="small")
small
""",
    """
stack = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 3, 4)).astype(np.float32)
heads = AttentionExplorer(stack[0], list("abcde"), list("wxyz"), class_name="heads")
heads
""",
)
LONG = """
import os
import numpy as np
from attnmap_widget import AttentionMap

spikes = np.zeros((1500, 2400), dtype=np.float32)
spikes[700, 1300] = 1
long = AttentionMap(range(2400), spikes, range(1500), class_name="long")
long
"""
PASS = """
import os
import torch
from torch.nn import functional as F
from attnmap_widget import capture

q, k = torch.randn(2, 1, 1, 49152, 64).unbind()
with torch.no_grad(), capture() as cap:
    F.scaled_dot_product_attention(q, k, k, is_causal=True)
long = cap.explore(class_name="long")
long
"""
REMEMBER_SOCKETS = """() => {
    window.sockets = [];
    window.WebSocket = class extends WebSocket {
        constructor(...given) {
            super(...given);
            window.sockets.push(this);
        }
    };
}"""


class Open:
    """A notebook that has run, and what went wrong in its page."""

    def __init__(self, lab: Lab, page: Page, name: str, kernel: Kernel) -> None:
        self.lab, self.page, self.name, self.kernel = lab, page, name, kernel
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.pid = kernel.value("os.getpid()")

    def shown(self, name: str, queries: int, keys: int) -> ShownMap:
        return ShownMap(self.page.locator(f".attnmap.{name}"), queries, keys)

    def status(self, name: str) -> Any:
        return self.page.locator(f".attnmap.{name} .attnmap-status")

    def dismiss(self) -> None:
        """Lab's own word on what happened."""
        self.page.locator(".jp-Dialog").get_by_role("button").last.click()
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)

    def run_again(self) -> None:
        self.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def restarted(self) -> bool:
        with self.lab.kernel(self.name) as kernel:
            return bool(kernel.value("__import__('os').getpid()") != self.pid)


@pytest.fixture
def opened(lab: Lab, browser: Browser, browser_context_args: dict[str, Any]) -> Any:
    @contextmanager
    def opening(name: str, *cells: str) -> Iterator[Open]:
        with open_tab(browser, browser_context_args) as tab:
            tab.page.add_init_script(f"({REMEMBER_SOCKETS})()")
            lab.open(tab.page, lab.write(name, *cells))
            with lab.kernel(name) as kernel:
                notebook = Open(lab, tab.page, name, kernel)
                yield notebook
            assert notebook.errors == []

    return opening


def test_a_restarted_kernel_leaves_maps_that_read(opened: Any):
    with opened("restarted.ipynb", *SMALL) as notebook:
        small = notebook.shown("small", queries=3, keys=4)
        heads = notebook.shown("heads", queries=4, keys=5)
        small.click(1, 3)
        notebook.kernel.expect("small.selection", [1, 3])
        title = heads.title.inner_text()

        notebook.page.evaluate(
            "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
        )

        for name in ("small", "heads"):
            expect(notebook.status(name)).to_have_text(GONE)
        small.hover(2, 1)
        expect(small.readout).to_contain_text("z (2) looks at b (1) 0.40")
        small.expect_pin(1, 3)
        small.click(0, 0)
        small.expect_pin(0, 0)
        # A menu is the host's; what it shows is not what is drawn, and the title says what is.
        notebook.page.get_by_role("combobox", name="Head").select_option("2")
        heads.hover(3, 4)
        expect(heads.readout).to_contain_text("z (3) looks at e (4)")
        expect(heads.title).to_have_text(title)
        for name in ("small", "heads"):
            expect(notebook.page.locator(f".attnmap.{name} .attnmap-error")).to_be_hidden()

        notebook.run_again()

        expect(notebook.status("small")).to_be_hidden()
        small.click(2, 0)
        with notebook.lab.kernel(notebook.name) as kernel:
            kernel.expect("small.selection", [2, 0])


def test_a_dropped_connection_is_waited_out(opened: Any):
    with opened("dropped.ipynb", LONG) as notebook:
        page, long = notebook.page, notebook.shown("long", queries=1500, keys=2400)
        expect(long.canvas).to_be_visible()

        page.context.set_offline(True)
        page.evaluate("window.sockets.forEach((socket) => socket.close())")
        zoom_in(long)

        expect(notebook.status("long")).to_have_text(COARSE)
        long.grid.hover()
        expect(long.readout).to_contain_text("looks at")
        if page.locator(".jp-Dialog").count():
            notebook.dismiss()

        page.context.set_offline(False)

        wait_until(lambda: connection(page), "connected", "the connection")
        # Lab brings the kernel's state back, in which everything is in view.
        expect(notebook.status("long")).not_to_have_text(COARSE)
        zoom_in(long)
        expect(long.root.locator(".attnmap-size")).not_to_contain_text("per cell")
        long.grid.click()
        wait_until(
            lambda: notebook.kernel.value("long.selection is not None"), True, "the selection"
        )


def test_a_kernel_killed_in_a_long_pass_leaves_its_first_look(opened: Any):
    with opened("killed.ipynb", PASS) as notebook:
        long = notebook.shown("long", queries=49152, keys=49152)
        expect(notebook.status("long")).to_contain_text("reading 49152 × 49152 weights")

        os.kill(notebook.pid, signal.SIGKILL)

        notebook.dismiss()
        expect(notebook.status("long")).to_have_text(GONE)
        long.hover(30000, 10000)
        expect(long.readout).to_contain_text(
            re.compile(r"30\d{3} \(30\d{3}\).*10\d{3} \(10\d{3}\)")
        )
        expect(long.tooltip).to_be_visible()
        expect(long.root.locator(".attnmap-error")).to_be_hidden()
        wait_until(notebook.restarted, True, "a new kernel")


def zoom_in(shown: ShownMap) -> None:
    shown.grid.focus()
    for _ in range(4):
        shown.grid.press("+")


def connection(page: Page) -> str:
    found: str = page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.connectionStatus"
    )
    return found
