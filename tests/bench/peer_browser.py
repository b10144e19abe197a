"""Opens a tool's page in the machine's Chromium and times what a user waits for."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Playwright, Route
from where import CHROMIUM_FLAGS, chromium

LIBRARIES = {
    "require.min.js": ("requirejs@2.3.6", "require.js"),
    "jquery.min.js": ("jquery@2.1.0", "dist/jquery.min.js"),  # 2.0.0 is not in the registry
    "d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
}
"""What pages load from a CDN, by the end of its address, and the package that has it."""

PAINTED = {
    "attnmap live": "document.querySelector('.attnmap-legend-ramp')",
    "attnmap page": "document.querySelector('.attnmap-legend-ramp')",
    "bertviz head_view": "document.querySelector('#vis line')",
    "bertviz model_view": "document.querySelector('#vis line')",
    "circuitsvis": "window.large = [...document.querySelectorAll('canvas')].at(-1), large && "
    "large.getContext('2d').getImageData(large.width * 0.3, large.height * 0.7, 1, 1).data[3]",
    "attnview": "document.querySelector('#weights tr')",
    "plotly": "document.querySelector('.heatmaplayer image, .hm image')",
    "matplotlib": "document.images[0]?.complete",
}
"""When the first map, or what the tool has in its place, is there."""

_CHOOSE = """(() => {
    const menu = [...document.querySelectorAll("select")][%d];
    menu.selectedIndex = 1;
    menu.dispatchEvent(new Event("change", { bubbles: true }));
})()"""
SWITCH = {
    "attnmap live": _CHOOSE % 0,
    "attnmap page": _CHOOSE % 0,
    "bertviz head_view": _CHOOSE % 0,
    "bertviz model_view": "[...document.querySelectorAll('#vis rect')].at(-1)"
    ".dispatchEvent(new MouseEvent('click', { bubbles: true }))",
    "circuitsvis": "document.querySelectorAll('h4')[1].parentElement.click()",
    "attnview": _CHOOSE % 0,
}
"""Another layer, where the tool has several, else another head; none: it is made anew in Python."""

_WATCH = """(() => {
    const look = () => {
        if (document.body && (%s)) setTimeout(() => { window.paintedAt = performance.now(); });
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""
_TIMED = """async () => {
    const start = performance.now();
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    %s;
    await frame();
    let last = await frame();
    for (;;) {  // until the page has time for frames again
        const next = await frame();
        if (next - last < 50) break;
        last = next;
    }
    return (performance.now() - start) / 1000;
}"""


class Libraries:
    """Local copies of what pages ask a CDN for, from the package registry."""

    def __init__(self, cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        self._files: dict[str, bytes] = {}
        for name, (package, member) in LIBRARIES.items():
            file = cache / f"{package.replace('@', '-')}.tgz"
            if not file.exists():
                command = ["npm", "pack", "--silent", "--pack-destination", str(cache), package]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with tarfile.open(file) as archive:
                found = archive.extractfile(f"package/{member}")
                assert found is not None
                self._files[name] = found.read()
        plotly = importlib.util.find_spec("plotly")
        if plotly is not None and plotly.origin is not None:
            bundle = Path(plotly.origin).parent / "package_data" / "plotly.min.js"
            self._files["plotly-bench.min.js"] = bundle.read_bytes()

    def serve(self, route: Route) -> None:
        body = self._files.get(route.request.url.rsplit("/", 1)[-1])
        if body is None:
            route.abort()
        else:
            route.fulfill(body=body, content_type="text/javascript")


def look(
    playwright: Playwright, libraries: Libraries, tool: str, page: Path, patience: float
) -> dict[str, float]:
    """Seconds to the first paint and of a switch, nodes, heap; without those that did not come."""
    found: dict[str, float] = {}
    browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
    try:
        tab = browser.new_page(viewport={"width": 1280, "height": 1000})
        tab.set_default_timeout(patience * 1000)
        tab.route(re.compile("^https?://"), libraries.serve)
        tab.add_init_script(_WATCH % PAINTED[tool])
        deadline = time.monotonic() + patience
        tab.goto(page.as_uri(), wait_until="commit")
        while not (painted := evaluate(tab, "window.paintedAt ?? 0", deadline)):
            time.sleep(0.02)
        found["paint"] = painted / 1000
        found["nodes"] = tab.evaluate("document.querySelectorAll('*').length")
        session = tab.context.new_cdp_session(tab)
        session.send("HeapProfiler.collectGarbage")
        usage = session.send("Runtime.getHeapUsage")
        found["heap"] = usage["usedSize"] + usage.get("backingStorageSize", 0)
        if tool in SWITCH:
            deadline = time.monotonic() + patience
            found["switch"] = evaluate(tab, f"({_TIMED % SWITCH[tool]})()", deadline)
    except (Error, TimeoutError):
        pass  # it did not come in time, or its tab crashed
    finally:
        browser.close()
    return found


def evaluate(tab: Any, expression: str, deadline: float) -> float:
    """The value of an expression, or TimeoutError: a page that is busy does not answer."""
    left = (deadline - time.monotonic()) * 1000
    if left <= 0:
        raise TimeoutError
    handle = tab.wait_for_function(f"async () => ({{ value: await ({expression}) }})", timeout=left)
    return float(handle.evaluate("found => found.value"))
