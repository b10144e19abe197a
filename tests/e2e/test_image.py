"""A real vision transformer over a real picture in a real JupyterLab: picture and map as one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import NOTEBOOKS, Kernel, Lab, ShownMap, open_tab, wait_until
from playwright.sync_api import Browser, Locator, Page, expect

ROWS, COLUMNS = 21, 32
KEYS = 1 + ROWS * COLUMNS
# By the model's own formula, for one head: nothing of the package takes part.
BY_HAND = """
import torch

@torch.no_grad()
def by_hand(layer, head):
    kept = {}
    block = model.encoder.layer[layer]
    hook = block.register_forward_pre_hook(lambda _, args: kept.update(states=args[0]))
    model(pixels)
    hook.remove()
    states = block.norm1(kept["states"])[0]
    q, k = (
        getattr(block.attention, name)(states).view(-1, 6, 64)[:, head]
        for name in ("q_proj", "k_proj")
    )
    return torch.softmax(q @ k.T * 64**-0.5, -1)
"""


@dataclass
class Shown:
    """The picture and its map on the page."""

    page: Page
    kernel: Kernel
    picture: Locator
    map: ShownMap

    def at(self, row: int, column: int) -> dict[str, Any]:
        """The middle of a patch within the picture."""
        box = self.picture.locator(".attnmap-frame").bounding_box()
        assert box is not None
        x, y = (column + 0.5) / COLUMNS * box["width"], (row + 0.5) / ROWS * box["height"]
        return {"position": {"x": x, "y": y}}

    def color(self, row: int, column: int) -> list[int]:
        """What is drawn over a patch."""
        return self.picture.locator(".attnmap-overlay").evaluate(
            "(canvas, [x, y]) => [...canvas.getContext('2d').getImageData(x, y, 1, 1).data]",
            [column, row],
        )


@pytest.fixture(scope="module")
def shown(lab: Lab, browser: Browser, browser_context_args: dict[str, Any]) -> Iterator[Shown]:
    with open_tab(
        browser, {**browser_context_args, "viewport": {"width": 1280, "height": 1900}}
    ) as tab:
        shutil.copytree(NOTEBOOKS / "trained", lab.root / "trained", dirs_exist_ok=True)
        shutil.copytree(NOTEBOOKS / "images", lab.root / "images", dirs_exist_ok=True)
        name = lab.copy("image.ipynb")
        lab.open(tab.page, name)
        picture = tab.page.locator(".attnmap-image")
        picture.locator(".attnmap-picture[data-ready]").wait_for()
        root = tab.page.locator(".attnmap:not(.attnmap-image)")
        with lab.kernel(name) as kernel:
            yield Shown(tab.page, kernel, picture, ShownMap(root, KEYS, KEYS))


@pytest.fixture(autouse=True)
def rest(shown: Shown) -> None:
    """Nothing is pinned, and no pointer on picture or map."""
    shown.page.mouse.move(0, 0)
    shown.kernel.run("explorer.map.selection = explorer.map.hover = None")
    shown.kernel.expect("[explorer.map.hover, explorer.map.selection]", [None, None])


def test_the_weights_over_the_picture_are_the_models_own(shown: Shown) -> None:
    shown.kernel.run(BY_HAND)
    assert shown.kernel.value(
        "float((by_hand(8, 4)[0, 1:].view(21, 32) - torch.tensor(over.on_picture[0])).abs().max())"
    ) == pytest.approx(0, abs=1e-5)
    expect(shown.picture.locator(".attnmap-title")).to_have_text("Layer 8 · Head 4")
    expect(shown.picture.locator(".attnmap-beside-token")).to_have_text(["CLS (0)0.0220"])


def test_hovering_a_patch_hovers_its_cell_in_the_map(shown: Shown) -> None:
    key = 1 + 8 * COLUMNS + 12
    shown.picture.locator(".attnmap-frame").hover(**shown.at(8, 12))
    shown.kernel.expect("explorer.map.hover", [0, key])
    weight = shown.kernel.value("float(explorer.map.weights[0, 269])")
    for readout in (shown.picture.locator(".attnmap-readout"), shown.map.readout):
        expect(readout).to_contain_text(f"CLS (0) looks at r8c12 ({key}) {weight:.3g}")
    expect(shown.map.root.locator(".attnmap-crosshair").first).to_be_visible()
    shown.page.mouse.move(0, 0)
    shown.kernel.expect("explorer.map.hover", None)
    expect(shown.map.root.locator(".attnmap-crosshair").first).to_be_hidden()


def test_hovering_the_map_shows_that_row_over_the_picture(shown: Shown) -> None:
    before = shown.color(9, 22)
    shown.map.root.scroll_into_view_if_needed()
    shown.map.hover(1 + 8 * COLUMNS + 12, 1 + 9 * COLUMNS + 22)
    wait_until(lambda: shown.kernel.value("over.query") > 0, True, "the hovered query")
    hovered = shown.kernel.value("explorer.map.hover")
    names = shown.kernel.value("[explorer.map.tokens[at] for at in explorer.map.hover]")
    expect(shown.picture.locator(".attnmap-readout")).to_contain_text(
        f"{names[0]} ({hovered[0]}) looks at {names[1]} ({hovered[1]})"
    )
    wait_until(lambda: shown.color(9, 22) != before, True, "another colour")
    expect(shown.picture.locator(".attnmap-looking")).to_be_visible()


def test_a_click_makes_a_patch_the_query_and_escape_lets_go(shown: Shown) -> None:
    key = 1 + 9 * COLUMNS + 22
    frame = shown.picture.locator(".attnmap-frame")
    frame.click(**shown.at(9, 22))
    shown.kernel.expect("over.query", key)
    shown.kernel.expect("(explorer.map.selection or [None])[0]", key)
    expect(shown.map.root.locator(".attnmap-pin")).to_be_visible()
    expect(shown.picture.locator(".attnmap-readout")).to_contain_text(f"r9c22 ({key}) looks at")
    grid = shown.picture.locator(".attnmap-frames")
    grid.focus()
    shown.page.keyboard.press("ArrowRight")
    shown.kernel.expect("explorer.map.hover", [key, key + 1])
    shown.kernel.run("explorer.map.selection = None")
    shown.kernel.expect("over.query", key)  # the hovered one
    frame.click(**shown.at(9, 22))  # the same patch once more
    shown.kernel.expect("(explorer.map.selection or [None])[0]", key)
    grid.focus()
    shown.page.keyboard.press("Escape")
    shown.kernel.expect("explorer.map.selection", None)
    shown.kernel.expect("over.query", 0)


def test_another_head_is_drawn_at_once_in_both_themes(shown: Shown, lab: Lab) -> None:
    eye = shown.color(7, 12)
    shown.kernel.run("explorer.layer, explorer.head = 5, 0")
    expect(shown.picture.locator(".attnmap-title")).to_have_text("Layer 5 · Head 0")
    expect(shown.picture.locator(".attnmap-beside-token")).to_have_text(["CLS (0)0.75"])
    wait_until(lambda: shown.color(7, 12) != eye, True, "another colour")
    shown.kernel.run("explorer.layer, explorer.head = 8, 4")
    wait_until(lambda: shown.color(7, 12), eye, "the colour of the eye")
    lab.set_theme(shown.page, "JupyterLab Dark")
    expect(shown.picture).to_have_attribute("data-theme", "dark")
    wait_until(lambda: sum(shown.color(0, 0)[:3]) < sum(shown.color(7, 12)[:3]), True, "dark zero")
    lab.set_theme(shown.page, "JupyterLab Light")
    expect(shown.picture).to_have_attribute("data-theme", "light")
    wait_until(lambda: shown.color(7, 12), eye, "the colour of the eye")
