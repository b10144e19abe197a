"""Saved pages, opened from a file in a real Chromium that can reach nothing at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ShownMap, Tab, open_tab, wait_until
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect

from attnmap_widget import AttentionExplorer, AttentionMap, HeadGrid, compare

REPOSITORY = Path(__file__).parents[2]
AXE = REPOSITORY / "js" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = ['"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>", "<!--", "]]>"]
QUERIES, KEYS = 3, 5


def weights(layer: int, head: int) -> Any:
    """Different in every cell of every map; rows sum to 1."""
    raw = np.exp(np.random.default_rng(10 * layer + head).random((QUERIES, KEYS)) * 3)
    return (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)


def blue(weight: float, largest: float) -> tuple[int, ...]:
    tables = json.loads((REPOSITORY / "attnmap_widget" / "static" / "schemes.json").read_text())
    step = min(255, int(255 * weight / largest + 0.5))
    return tuple(bytes.fromhex(tables["Blues"]["ramp"][6 * step : 6 * step + 6]))


class Visit:
    """A page that was opened from a file, and every request that it made besides."""

    def __init__(self, tab: Tab, path: Path) -> None:
        self.page: Page = tab.page
        self.requests: list[str] = []
        self.errors: list[str] = []

        def watch(route: Route) -> None:
            if route.request.url == path.as_uri():
                route.continue_()
                return
            self.requests.append(route.request.url)
            route.abort()

        self.page.route("**/*", watch)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.goto(path.as_uri())
        expect(self.page.locator("canvas[class*=attnmap]").first).to_be_visible()

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def map(self, queries: int = QUERIES, keys: int = KEYS) -> ShownMap:
        return ShownMap(self.page.locator(".attnmap"), queries, keys)

    def violations(self) -> list[tuple[str, str]]:
        self.page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("() => axe.run()")
        assert "color-contrast" in {rule["id"] for rule in found["passes"] + found["violations"]}
        return [(v["id"], node["html"]) for v in found["violations"] for node in v["nodes"]]


@pytest.fixture
def visit(browser: Browser, browser_context_args: dict[str, Any], tmp_path: Path) -> Iterator[Any]:
    with open_tab(browser, browser_context_args) as tab:

        def open_file(source: Any, **options: Any) -> Visit:
            return Visit(tab, source.save(tmp_path / "page.html", **options))

        yield open_file


@pytest.fixture
def explorer() -> AttentionExplorer:
    stack = np.stack([[weights(layer, head) for head in range(3)] for layer in range(2)])
    return AttentionExplorer(
        stack,
        ["the", "cat", "the", "mat", "."],
        ["le", "chat", "dort"],
        axes="layer head query key",
        layer=1,
        head=2,
        title="Small model",
    )


def expect_colors(shown: ShownMap, expected: Any) -> None:
    largest = float(expected.max())
    seen = [[shown.color(query, key) for key in range(KEYS)] for query in range(QUERIES)]
    assert seen == [
        [pytest.approx(blue(float(weight), largest), abs=1) for weight in row] for row in expected
    ]


def test_a_map_is_live(visit: Any):
    saved = AttentionMap(
        ["the", "cat", "the", "mat", "."], weights(0, 0), ["le", "chat", "dort"], title="Cross"
    )
    opened = visit(saved)
    shown = opened.map()

    expect(shown.title).to_have_text("Cross")
    expect_colors(shown, weights(0, 0))
    shown.hover(2, 3)
    expect(shown.readout).to_contain_text(f"dort (2) looks at mat (3) {weights(0, 0)[2, 3]:.2f}")
    expect(shown.tooltip).to_contain_text("dort → mat")

    shown.click(1, 2)
    opened.page.mouse.move(0, 0)
    expect(shown.readout).to_contain_text("chat (1) looks at the (2)")
    shown.expect_pin(1, 2)

    opened.page.keyboard.press("ArrowRight")
    expect(shown.readout).to_contain_text("chat (1) looks at mat (3)")
    opened.page.keyboard.press("Escape")
    expect(shown.pin).to_be_hidden()
    expect(opened.page.locator(".attnmap-legend")).to_contain_text("weight")
    assert (opened.requests, opened.errors) == ([], [])


def test_the_pin_and_the_states_come_along(visit: Any):
    saved = AttentionMap(
        ["a", "b", "c"], np.eye(3), causal=True, selection=(2, 1), status="a quiet line"
    )
    opened = visit(saved)
    shown = opened.map(3, 3)

    shown.expect_pin(2, 1)
    expect(shown.readout).to_contain_text("c (2) looks at b (1) 0")
    expect(opened.page.locator(".attnmap-legend")).to_contain_text("cannot look")
    expect(opened.page.locator(".attnmap-status")).to_have_text("a quiet line")


@pytest.mark.parametrize("quantize", [False, True])
def test_menus_switch_layer_and_head(visit: Any, explorer: AttentionExplorer, quantize: bool):
    opened = visit(explorer, quantize=quantize)
    shown = opened.map()
    layer, head = (
        opened.page.get_by_role("combobox", name=name, exact=True) for name in ("Layer", "Head")
    )

    expect(layer).to_have_value("1")
    expect(head).to_have_value("2")
    expect(shown.title).to_have_text("Small model · Layer 1 · Head 2")
    expect_colors(shown, weights(1, 2))

    shown.click(2, 4)
    head.select_option("0")
    expect(shown.title).to_have_text("Small model · Layer 1 · Head 0")
    expect_colors(shown, weights(1, 0))
    layer.select_option("0")
    expect(shown.title).to_have_text("Small model · Layer 0 · Head 0")
    expect_colors(shown, weights(0, 0))
    shown.expect_pin(2, 4)

    note = opened.page.locator(".note")
    expect(note).to_contain_text("6 maps of 2 layers, 3 queries × 5 keys each")
    expect(note).to_contain_text("8-bit weights, each within ±" if quantize else "exact")
    assert (opened.requests, opened.errors) == ([], [])


@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_axe_finds_nothing(visit: Any, explorer: AttentionExplorer, theme: str):
    explorer.map.selection = (1, 1)
    opened = visit(explorer, theme=theme)

    assert opened.violations() == []
    dark = opened.page.locator(".attnmap").get_attribute("data-theme") == "dark"
    assert dark == (theme == "dark")
    if theme == "auto":
        opened.page.emulate_media(color_scheme="dark")
        expect(opened.page.locator('.attnmap[data-theme="dark"]')).to_be_visible()
        assert opened.violations() == []


def test_a_comparison_is_pinned_in_all_three_and_fits_a_narrow_page(visit: Any):
    tokens = ["a" * 70, "cat", "the", "mat", "."]
    pair = compare(*((tokens, weights(*head), ["le", "chat", "dort"]) for head in ((0, 0), (1, 2))))
    pair.b.selection = (2, 3)
    opened = visit(pair)
    expect(opened.page.locator(".attnmap-pin:visible")).to_have_count(3)
    opened.page.set_viewport_size({"width": 320, "height": 800})
    wait_until(lambda: opened.page.evaluate("document.documentElement.scrollWidth"), 320, "width")
    assert (opened.requests, opened.errors) == ([], [])


def test_tokens_are_text_and_nothing_else(visit: Any):
    saved = AttentionMap(HOSTILE, weights(0, 0)[:3, :4], HOSTILE[:3], title="</title><b>&amp;")
    opened = visit(saved)
    shown = opened.map(3, 4)
    shown.hover(0, 1)

    expect(shown.tooltip).to_contain_text(HOSTILE[0])
    expect(shown.tooltip).to_contain_text(HOSTILE[1])
    expect(shown.title).to_have_text("</title><b>&amp;")
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("script").count() == 2
    assert (opened.requests, opened.errors) == ([], [])


def test_a_pooled_map_says_so_and_keeps_its_spike(visit: Any):
    grid = np.zeros((1500, 1200), dtype=np.float32)
    grid[1234, 17] = 1
    opened = visit(AttentionMap([f"k{i}" for i in range(1200)], grid, list(range(1500))))

    expect(opened.page.locator(".attnmap-size")).to_contain_text("3 × 3 per cell")
    middle = opened.page.locator("canvas.attnmap-cells").evaluate(
        """(canvas, [across, down]) => {
            const box = canvas.getBoundingClientRect();
            return [box.x + across * box.width, box.y + down * box.height];
        }""",
        [(17 // 3 + 0.5) / 400, (1234 // 3 + 0.5) / 500],
    )
    opened.page.mouse.move(*middle)
    expect(opened.page.locator(".attnmap-readout")).to_contain_text("1234 (1234) looks at k17 (17)")
    assert (opened.requests, opened.errors) == ([], [])


def test_without_scripts_there_is_still_a_picture(
    browser: Browser, browser_context_args: dict[str, Any], tmp_path: Path
):
    saved = AttentionMap(["a", "b"], [[1, 0], [0.25, 0.75]]).save(tmp_path / "page.html")
    with open_tab(browser, {**browser_context_args, "java_script_enabled": False}) as tab:
        tab.page.goto(saved.as_uri())
        picture = tab.page.locator("noscript svg")
        expect(picture).to_be_visible()
        expect(picture).to_contain_text("0.75")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_heads_are_live_without_a_kernel(visit: Any, theme: str):
    stack = np.stack([[weights(layer, head) for head in range(4)] for layer in range(3)])
    source = HeadGrid(stack, axes="layer head query key", title=HOSTILE[1])
    opened = visit(source, theme=theme)
    page = opened.page
    expect(page.locator(".attnmap-title")).to_have_text(HOSTILE[1])
    expect(page.locator(".attnmap-size")).to_contain_text("3 layers · 12 heads · 3 × 5 weights")

    grid = page.get_by_role("grid")
    grid.focus()
    page.keyboard.press("Control+End")
    page.keyboard.press("Enter")
    readout = page.locator(".attnmap-readout")
    expect(readout).to_contain_text("Layer 2 · Head 3 · entropy")
    assert opened.violations() == []
    page.get_by_label("Sort by").select_option("largest")
    page.get_by_label("Tint by").select_option("entropy")
    page.keyboard.press("Escape")
    grid.hover(position={"x": 20, "y": 20})
    best = source.summary.top("largest", 1)[0]
    expect(readout).to_contain_text(f"Layer {best.layer} · Head {best.head} · ")
    expect(page.locator(".attnmap-legend")).to_contain_text("bar: entropy (bits)")
    expect(page.locator(".note")).to_contain_text("12 heads · ")
    assert (opened.requests, opened.errors) == ([], [])
