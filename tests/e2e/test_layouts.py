"""Maps among other widgets in JupyterLab: linked, side by side, folded away, out of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Kernel, Lab, ShownMap, open_tab
from playwright.sync_api import Browser, Page, expect

CELLS = (
    """
import ipywidgets
import numpy as np
import pandas as pd
from attnmap_widget import AttentionExplorer, AttentionMap

words = ["the", "cat", "sat"]
weights = [[1, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5]]

def shown(name, **options):
    return AttentionMap(words, weights, class_name=name, **options)
""",
    """
front, back = shown("front"), shown("back")
ipywidgets.jslink((front, "selection"), (back, "selection"))
ipywidgets.jslink((front, "title"), (back, "title"))
seen = []
back.observe(lambda change: seen.append([change["name"], change["new"]]), names=["selection"])
ipywidgets.HBox([front, back])
""",
    """
left, right = shown("left"), shown("right")
ipywidgets.link((left, "selection"), (right, "selection"))
ipywidgets.link((left, "scheme"), (right, "scheme"))
grid = ipywidgets.GridspecLayout(1, 2, width="900px")
grid[0, 0], grid[0, 1] = left, right
grid
""",
    """
folded, explorer = shown("folded"), AttentionExplorer(np.eye(3)[None], words, class_name="deep")
inner = ipywidgets.Accordion([folded, explorer], titles=["Map", "Explorer"])
ipywidgets.Tab([ipywidgets.Label("in front"), inner], titles=["Front", "Behind"])
""",
    """
frame = pd.DataFrame(
    [[1.0, np.nan, 0.0], [0.25, 0.75, 0.0]], index=["le", "chat"], columns=["the", "cat", "sat"]
)
table = AttentionMap.from_frame(frame, class_name="table")
table
""",
)


@pytest.fixture(scope="module")
def opened(
    lab: Lab, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[tuple[Page, Kernel]]:
    wide = {**browser_context_args, "viewport": {"width": 1400, "height": 1000}}
    with open_tab(browser, wide) as tab:
        name = lab.write("layouts.ipynb", *CELLS)
        lab.open(tab.page, name)
        with lab.kernel(name) as kernel:
            yield tab.page, kernel


def named(page: Page, name: str, queries: int = 3) -> ShownMap:
    return ShownMap(page.locator(f".attnmap.{name}"), queries, keys=3)


def test_jslink_joins_two_maps_in_the_browser(opened: tuple[Page, Kernel]):
    page, kernel = opened
    front, back = named(page, "front"), named(page, "back")
    beside = [shown.canvas.bounding_box() for shown in (front, back)]
    assert beside[0]["x"] + beside[0]["width"] < beside[1]["x"]
    assert beside[0]["y"] == pytest.approx(beside[1]["y"], abs=1)

    front.click(2, 1)

    for shown in (front, back):
        shown.expect_pin(2, 1)
    kernel.expect("[front.selection, back.selection]", [[2, 1], [2, 1]])
    kernel.expect("seen", [["selection", [2, 1]]])

    back.click(1, 1)

    for shown in (front, back):
        shown.expect_pin(1, 1)
    kernel.expect("seen", [["selection", [2, 1]], ["selection", [1, 1]]])

    kernel.run("back.selection, back.title = None, 'Both'")

    for shown in (front, back):
        expect(shown.pin).to_be_hidden()
        expect(shown.title).to_have_text("Both")
    kernel.expect("[front.selection, front.title]", [None, "Both"])


def test_link_joins_two_maps_through_the_kernel(opened: tuple[Page, Kernel]):
    page, kernel = opened
    left, right = named(page, "left"), named(page, "right")

    right.click(2, 2)

    for shown in (left, right):
        shown.expect_pin(2, 2)
    kernel.expect("[left.selection, right.selection]", [[2, 2], [2, 2]])

    blue = right.color(0, 0)
    kernel.run("left.scheme = 'Reds'")
    for shown in (left, right):
        shown.expect_color(0, 0, pytest.approx((103, 0, 13), abs=3))  # the dark end of Reds
    assert kernel.value("right.scheme") == "Reds"

    kernel.run("right.scheme = 'blues'")
    left.expect_color(0, 0, blue)


def test_maps_folded_away_at_first_are_drawn_when_opened(opened: tuple[Page, Kernel]):
    page, kernel = opened
    folded, deep = named(page, "folded"), named(page, "deep")
    expect(folded.root).to_be_hidden()

    page.get_by_role("tab", name="Behind").click()
    expect(folded.root).to_be_hidden()
    page.get_by_text("Map", exact=True).click()
    expect(folded.canvas).to_be_visible()
    folded.hover(2, 2)
    expect(folded.readout).to_contain_text("sat (2) looks at sat (2) 0.50")
    kernel.expect("folded.hover", [2, 2])

    page.get_by_text("Explorer", exact=True).click()
    expect(deep.canvas).to_be_visible()
    expect(folded.canvas).to_be_hidden()
    deep.hover(1, 1)
    expect(deep.readout).to_contain_text("cat (1) looks at cat (1) 1.00")


def test_a_frame_is_a_map_and_a_map_a_frame(opened: tuple[Page, Kernel]):
    page, kernel = opened
    table = named(page, "table", queries=2)

    expect(table.root.locator(".attnmap-row-label")).to_have_text(["le", "chat"])
    table.hover(1, 1)
    expect(table.readout).to_contain_text("chat (1) looks at cat (1) 0.75")
    table.hover(0, 1)
    expect(table.readout).to_contain_text("empty")

    kernel.run("pd.testing.assert_frame_equal(table.to_frame(), frame.astype('float32'))")
