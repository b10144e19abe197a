"""The grid of heads in a real JupyterLab: pointing, choosing, sorting, filling in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Kernel, Lab, open_tab, wait_until
from playwright.sync_api import Browser, Locator, Page, expect

CELLS = (
    """
import time
import numpy as np
from attnmap_widget import AttentionExplorer, HeadGrid, examples, explore

random = np.random.default_rng(1)
weights = np.exp(4 * random.random((6, 8, 5, 9)))
weights /= weights.sum(axis=-1, keepdims=True)
weights[4, 2] = 0.0
weights[4, 2, :, 7] = 1.0  # every query looks at one key
maps = AttentionExplorer(weights, list("abcdefghi"), list("vwxyz"), axes="layer head query key")
heads = maps.heads(class_name="heads")
""",
    "maps",
    "heads",
    """
model, tokens, ids = examples.induction()
induction = explore(model, ids, tokens=tokens)
causal = HeadGrid(induction, class_name="causal", tint_by="induction")
causal
""",
    """
def slowly(layer, head):
    time.sleep(0.15)
    return weights[layer, head]

source = AttentionExplorer(slowly, layers=[1, 3], heads=8)
filling = source.heads(class_name="filling")
filling
""",
)


class Heads:
    """A grid of heads on the page. Where a head is, its ARIA cell says."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        self.root = page.locator(f".attnmap-heads.{name}")
        self.grid = self.root.locator("[role=grid]")
        self.cell = self.root.locator("[role=gridcell]")
        self.readout = self.root.locator(".attnmap-readout")
        self.tooltip = self.root.locator(".attnmap-tooltip")

    def menu(self, label: str) -> Locator:
        return self.root.get_by_label(label)

    def walk(self, line: int, place: int) -> None:
        """By keyboard, from the first head."""
        self.grid.focus()
        self.page.keyboard.press("Control+Home")
        for key, times in (("ArrowDown", line), ("ArrowRight", place)):
            for _ in range(times):
                self.page.keyboard.press(key)

    def middle(self, line: int, place: int) -> dict[str, float]:
        """Within the grid; leaves no head current."""
        self.walk(line, place)
        expect(self.cell).to_have_attribute("aria-colindex", str(place + 1))
        expect(self.root.locator("[role=row]")).to_have_attribute("aria-rowindex", str(line + 1))
        x, y = self.cell.evaluate(
            """(cell) => {
                const [inner, outer] = [cell, cell.closest("[role=grid]")]
                    .map((element) => element.getBoundingClientRect());
                return [
                    (inner.left + inner.right) / 2 - outer.left,
                    (inner.top + inner.bottom) / 2 - outer.top,
                ];
            }"""
        )
        self.page.keyboard.press("Escape")
        self.grid.blur()
        return {"x": x, "y": y}

    def color(self, at: dict[str, float]) -> list[int]:
        found: list[int] = self.root.locator("canvas.attnmap-heads-canvas").evaluate(
            """(canvas, { x, y }) => [...canvas.getContext("2d").getImageData(
                x * devicePixelRatio, y * devicePixelRatio, 1, 1).data.slice(0, 3)]""",
            at,
        )
        return found


@pytest.fixture(scope="module")
def opened(
    lab: Lab, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[tuple[Page, Kernel]]:
    with open_tab(browser, browser_context_args) as tab:
        name = lab.write("heads.ipynb", *CELLS)
        lab.open(tab.page, name)
        with lab.kernel(name) as kernel:
            yield tab.page, kernel


def test_a_click_on_a_head_shows_it_in_the_explorer(opened: tuple[Page, Kernel]) -> None:
    page, kernel = opened
    heads = Heads(page, "heads")
    title = page.locator(".attnmap-explorer .attnmap-title")
    expect(title).to_have_text("Layer 0 · Head 0")
    at = heads.middle(3, 5)
    heads.grid.hover(position=at)  # type: ignore[arg-type]
    expect(heads.readout).to_contain_text("Layer 3 · Head 5 · entropy")
    expect(heads.tooltip).to_contain_text("Layer 3 · Head 5")
    heads.grid.click(position=at)  # type: ignore[arg-type]
    expect(title).to_have_text("Layer 3 · Head 5")
    kernel.expect("[maps.layer, maps.head, list(heads.selection)]", [3, 5, [3, 5]])
    shown = kernel.value("bool(np.allclose(maps.map.weights, weights[3, 5]))")
    assert shown is True


def test_arrows_and_enter_do_the_same_and_lab_keeps_its_cell(opened: tuple[Page, Kernel]) -> None:
    page, kernel = opened
    heads = Heads(page, "heads")
    cell = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    heads.walk(1, 2)
    before = page.evaluate(cell)
    page.keyboard.press("End")
    expect(heads.readout).to_contain_text("Layer 1 · Head 7")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    kernel.expect("[maps.layer, maps.head]", [2, 7])
    expect(page.locator(".attnmap-explorer .attnmap-title")).to_have_text("Layer 2 · Head 7")
    assert page.evaluate(cell) == before
    expect(heads.cell).to_have_attribute("aria-selected", "true")
    expect(heads.cell).to_have_attribute("aria-label", heads.readout.inner_text())


def test_a_choice_in_the_explorer_or_in_python_moves_the_outline(
    opened: tuple[Page, Kernel],
) -> None:
    page, kernel = opened
    heads = Heads(page, "heads")
    kernel.run("maps.layer, maps.head = 5, 1")
    page.mouse.move(5, 5)
    heads.grid.blur()
    expect(heads.readout).to_contain_text("Layer 5 · Head 1")
    kernel.run("heads.selection = (4, 2)")
    expect(page.locator(".attnmap-explorer .attnmap-title")).to_have_text("Layer 4 · Head 2")
    kernel.run("maps.head = 'mean'")
    expect(heads.readout).to_contain_text("Point at a head")
    kernel.expect("heads.selection", None)


def test_sorted_by_a_column_the_first_is_the_largest(opened: tuple[Page, Kernel]) -> None:
    page, kernel = opened
    heads = Heads(page, "heads")
    heads.menu("Sort by").select_option("rows that lean")
    kernel.expect("heads.sort_by", "leaning")
    heads.walk(0, 0)
    expect(heads.readout).to_contain_text("Layer 4 · Head 2 · rows that lean 1.00")
    page.keyboard.press("Enter")
    kernel.expect("[maps.layer, maps.head]", [4, 2])
    heads.menu("Tint by").select_option("entropy")
    kernel.expect("heads.tint_by", "entropy")
    expect(heads.root.locator(".attnmap-legend")).to_contain_text("bar: entropy (bits)0.00")
    top = kernel.value("list(heads.summary.sorted('entropy').row(4, 2).values())[2]")
    assert top == 0.0
    kernel.run("heads.sort_by = heads.tint_by = None")
    expect(heads.menu("Sort by")).to_have_value("")


def test_one_range_or_each_its_own_and_both_themes(lab: Lab, opened: tuple[Page, Kernel]) -> None:
    page, kernel = opened
    causal = Heads(page, "causal")
    at = causal.middle(0, 2)
    forbidden = {"x": at["x"] + 38, "y": at["y"] - 38}
    zero = {"x": at["x"] - 38, "y": at["y"] + 38}
    assert min(causal.color(zero)) > 225
    assert causal.color(forbidden) != causal.color(zero)
    lab.set_theme(page, "JupyterLab Dark")
    try:
        expect(causal.root).to_have_attribute("data-theme", "dark")
        wait_until(lambda: sum(causal.color(zero)) < 200, True, "zero in the dark")
        assert max(causal.color(forbidden)) < 90
        ink = causal.readout.evaluate("(line) => getComputedStyle(line).color")
        assert min(json.loads(ink.replace("rgb(", "[").replace(")", "]"))) > 150
    finally:
        lab.set_theme(page, "JupyterLab Light")
    expect(causal.root).to_have_attribute("data-theme", "light")
    causal.menu("Colours").select_option("each head's own")
    kernel.expect("causal.range", "head")
    expect(causal.root.locator(".attnmap-size")).to_contain_text("each head by its own")


def test_heads_fill_in_and_can_be_stopped(opened: tuple[Page, Kernel]) -> None:
    page, kernel = opened
    filling = Heads(page, "filling")
    kernel.expect("filling._progress", None)  # all have come
    expect(filling.root.locator(".attnmap-busy")).to_be_hidden()
    filling.walk(1, 7)
    expect(filling.readout).to_contain_text("Layer 3 · Head 7 · entropy")
    kernel.run("source.use(slowly, layers=[2, 4], heads=8)")
    expect(filling.root.locator(".attnmap-busy-text")).to_contain_text("of 16 heads")
    filling.root.get_by_role("button", name="Cancel").click()
    kernel.expect("filling._progress", None)
    expect(filling.root.locator(".attnmap-status")).to_contain_text("of 16 heads were read")
    read = kernel.value("filling._filling.done")
    assert read < 16
    filling.walk(1, 7)
    expect(filling.readout).to_have_text("Layer 4 · Head 7 · not read yet")
