"""Two thousand heads and two hundred maps in one JupyterLab: nothing is kept, in kernel or page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect
from where import e2e

SWITCHES, MAPS, BATCH = 2000, 200, 10
CELL = """
import gc, time, tracemalloc
import ipywidgets
import numpy as np
from ipywidgets.widgets.widget import _instances
from attnmap_widget import AttentionExplorer, AttentionMap

random = np.random.default_rng(0)
stack = random.dirichlet(np.ones(72), size=(8, 60)).astype(np.float32)
explorer = AttentionExplorer(stack, range(72), range(60), class_name="steady")
shelf = ipywidgets.Output()
maps = []

def switch(first, count):
    for n in range(first, first + count):
        explorer.head = n % 8
        time.sleep(0.01)

def put(count):
    for n in range(count):
        weights = random.dirichlet(np.ones(80), size=64)
        maps.append(AttentionMap(range(80), weights, range(64), class_name="passing"))
        shelf.append_display_data(maps[-1])

def take_away():
    shelf.outputs = ()
    while maps:
        maps.pop().close()

def resident():
    status = open("/proc/self/status").read()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024

def measure():
    gc.collect()
    return [tracemalloc.get_traced_memory()[0], resident(), len(_instances)]

tracemalloc.start()
display(explorer, shelf)
"""


@dataclass
class Held:
    """What is held after a collection."""

    traced: int
    resident: int
    widgets: int
    heap: int
    nodes: int
    listeners: int
    canvases: int
    """Also those that are on no page: a map that is kept keeps its own."""


class Soak:
    def __init__(self, page: Page, kernel: Any, session: CDPSession) -> None:
        self.page, self.kernel, self.session = page, kernel, session
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def switch(self, first: int, count: int) -> None:
        self.kernel.run(f"switch({first}, {count})")
        title = self.page.locator(".attnmap.steady .attnmap-title")
        expect(title).to_have_text(re.compile(rf"Head {(first + count - 1) % 8}$"))

    def pass_by(self, count: int) -> None:
        """That many maps are shown and closed."""
        passing = self.page.locator(".attnmap.passing")
        self.kernel.run(f"put({count})")
        expect(passing).to_have_count(count)
        self.kernel.run("take_away()")
        expect(passing).to_have_count(0)

    def measure(self) -> Held:
        self.page.wait_for_timeout(500)
        for _ in range(2):
            self.session.send("HeapProfiler.collectGarbage")
        heap = self.session.send("Runtime.getHeapUsage")["usedSize"]
        dom = self.session.send("Memory.getDOMCounters")
        kernel, canvases = self.kernel.value("measure()"), self.alive("HTMLCanvasElement")
        return Held(*kernel, heap, dom["nodes"], dom["jsEventListeners"], canvases)

    def alive(self, name: str) -> int:
        """How many objects of that class the page still holds."""
        evaluate = {"expression": f"{name}.prototype", "objectGroup": "soak"}
        prototype = self.session.send("Runtime.evaluate", evaluate)["result"]["objectId"]
        found = self.session.send(
            "Runtime.queryObjects", {"prototypeObjectId": prototype, "objectGroup": "soak"}
        )
        length = "function () { return this.length; }"
        size = {"objectId": found["objects"]["objectId"], "functionDeclaration": length}
        count = self.session.send("Runtime.callFunctionOn", size)["result"]["value"]
        self.session.send("Runtime.releaseObjectGroup", {"objectGroup": "soak"})
        return int(count)


@pytest.fixture(scope="module")
def soak(lab: Any, browser: Browser, browser_context_args: dict[str, Any]) -> Iterator[Soak]:
    with e2e.open_tab(browser, browser_context_args) as tab:
        lab.open(tab.page, lab.write("soak.ipynb", CELL))
        tab.page.locator(".attnmap.steady canvas.attnmap-cells").wait_for()
        with lab.kernel("soak.ipynb") as kernel:
            soak = Soak(tab.page, kernel, tab.page.context.new_cdp_session(tab.page))
            yield soak
            assert soak.errors == []


def report(capsys: pytest.CaptureFixture[str], what: str, before: Held, after: Held) -> None:
    with capsys.disabled():
        print(f"\n{what}\n  before {before}\n  after  {after}")


def test_two_thousand_heads(soak: Soak, capsys: pytest.CaptureFixture[str]) -> None:
    step = 100
    for first in range(0, 400, step):
        soak.switch(first, step)
    before = soak.measure()
    for first in range(400, 400 + SWITCHES, step):
        soak.switch(first, step)
    after = soak.measure()
    report(capsys, f"{SWITCHES} heads", before, after)
    # A head is 17 kB: a list of them all would be 34 MB.
    assert after.traced - before.traced < 1e6
    assert after.resident - before.resident < 15e6
    assert after.heap - before.heap < 4e6
    assert after.widgets == before.widgets
    assert after.canvases == before.canvases
    assert after.nodes - before.nodes < 200
    assert after.listeners - before.listeners < 20


def test_two_hundred_maps(soak: Soak, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        soak.pass_by(BATCH)
    before = soak.measure()
    for _ in range(MAPS // BATCH):
        soak.pass_by(BATCH)
    after = soak.measure()
    report(capsys, f"{MAPS} maps", before, after)
    assert after.traced - before.traced < 1.5e6
    assert after.resident - before.resident < 15e6
    assert after.widgets == before.widgets
    assert after.canvases == before.canvases
    assert after.listeners - before.listeners < 50
    assert after.nodes - before.nodes < 20 * MAPS  # the host's own, which it keeps for any widget
    # Each widget brings its own copy of the front end, and a page never unloads a module.
    assert after.heap - before.heap < 0.5e6 * MAPS
