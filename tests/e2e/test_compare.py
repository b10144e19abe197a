"""Two maps and their difference in a real JupyterLab: what is done to one is done to all three."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Kernel, Lab, ShownMap, open_tab, wait_until
from playwright.sync_api import Browser, Page, expect

TOKENS = 16
IT, TROPHY, SUITCASE = 11, 2, 9
CELLS = (
    """
from attnmap_widget import compare, examples

pair = compare(examples.pronoun("big"), examples.pronoun("small"), names=("big", "small"))
pair
""",
    """
from attnmap_widget import explore

model, tokens, ids = examples.induction()
explorer = explore(model, ids, tokens=tokens, layer=1, head=0)
heads = compare(explorer, explorer.map_of(0, 2))
heads
""",
)


@dataclass
class Notebook:
    page: Page
    kernel: Kernel

    def maps(self, cell: int, tokens: int) -> list[ShownMap]:
        """The three maps of that output."""
        output = self.page.locator(".jp-OutputArea-output").nth(cell)
        roots = output.locator(".attnmap")
        expect(roots).to_have_count(3)
        return [ShownMap(roots.nth(n), tokens, tokens) for n in range(3)]


@pytest.fixture(scope="module")
def notebook(
    lab: Lab, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[Notebook]:
    with open_tab(browser, browser_context_args) as tab:
        name = lab.write("compare.ipynb", *CELLS)
        lab.open(tab.page, name)
        with lab.kernel(name) as kernel:
            yield Notebook(tab.page, kernel)


def expect_in_line(maps: list[ShownMap]) -> None:
    """Wait until the cells of all stand at one height and are of one size."""

    def apart() -> float:
        boxes = [shown.canvas.bounding_box() for shown in maps]
        sides = [[box[side] for box in boxes if box] for side in ("y", "width", "height")]
        assert all(len(side) == len(maps) and min(side[1:]) > 0 for side in sides)
        return max(max(side) - min(side) for side in sides)

    wait_until(lambda: apart() <= 1, True, "equal cells at one height")


def places(name: str) -> str:
    return f"[pair.a.{name}, pair.b.{name}, pair.difference_map.{name}]"


def test_equal_cells_stand_at_equal_heights_whatever_labels_and_titles(
    notebook: Notebook,
) -> None:
    notebook.page.set_viewport_size({"width": 1200, "height": 1000})
    try:
        maps = notebook.maps(0, TOKENS)
        expect_in_line(maps)
        assert len({round(shown.canvas.bounding_box()["x"]) for shown in maps}) == 3  # type: ignore[index]
        notebook.kernel.run(
            "pair.difference_map.title = 'a title that breaks into lines ' * 3\n"
            "pair.b.error = 'and what is wrong, at a length of several lines, above a map'"
        )
        expect(maps[1].root.get_by_role("alert")).to_be_visible()
        expect(maps[2].title).to_contain_text("breaks into lines")
        expect_in_line(maps)
        notebook.kernel.run("pair.difference_map.title, pair.b.error = 'small − big', ''")
        expect_in_line(notebook.maps(1, 12))
    finally:
        notebook.page.set_viewport_size({"width": 1280, "height": 1000})


def test_hovering_one_shows_the_cell_in_all_three(notebook: Notebook) -> None:
    maps = notebook.maps(0, TOKENS)
    for used, (query, key) in enumerate([(IT, TROPHY), (IT, SUITCASE), (14, 3)]):
        maps[used].hover(query, key)
        notebook.kernel.expect(places("hover"), [[query, key]] * 3)
        for shown in maps:
            expect(shown.readout).to_contain_text(f"({query})")
            expect(shown.readout).to_contain_text(f"({key})")
    expect(maps[0].readout).to_contain_text("big (14)")
    expect(maps[1].readout).to_contain_text("small (14)")
    expect(maps[2].readout).to_contain_text("big | small (14)")
    notebook.page.mouse.move(0, 0)
    notebook.kernel.expect(places("hover"), [None] * 3)


def test_pinning_one_pins_all_and_python_pins_all(notebook: Notebook) -> None:
    maps = notebook.maps(0, TOKENS)
    maps[2].click(IT, SUITCASE)
    notebook.kernel.expect(places("selection"), [[IT, SUITCASE]] * 3)
    for shown in maps:
        shown.expect_pin(IT, SUITCASE)
    notebook.kernel.run("pair.b.selection = (3, 7)")
    notebook.kernel.expect(places("selection"), [[3, 7]] * 3)
    for shown in maps:
        shown.expect_pin(3, 7)
    notebook.kernel.run("pair.a.selection = None")
    notebook.kernel.expect(places("selection"), [None] * 3)


def test_zooming_one_zooms_all(notebook: Notebook) -> None:
    maps = notebook.maps(0, TOKENS)
    whole = [0, TOKENS, 0, TOKENS]
    maps[1].grid.focus()
    notebook.page.keyboard.press("+")
    wait_until(
        lambda: notebook.kernel.value(f"len(set({places('viewport')}))"), 1, "different windows"
    )
    wait_until(lambda: notebook.kernel.value("pair.a.viewport") == whole, False, "a is still whole")
    maps[0].grid.focus()
    notebook.page.keyboard.press("0")
    notebook.kernel.expect(places("viewport"), [whole] * 3)


def test_no_message_goes_round_in_circles(notebook: Notebook) -> None:
    maps = notebook.maps(0, TOKENS)
    notebook.kernel.run(
        "told = []\n"
        "for each in (pair.a, pair.b, pair.difference_map):\n"
        "    each.observe(lambda change: told.append(change['new']), 'hover')"
    )
    maps[0].hover(5, 6)
    notebook.kernel.expect(places("hover"), [[5, 6]] * 3)
    notebook.page.mouse.move(0, 0)
    notebook.kernel.expect(places("hover"), [None] * 3)
    notebook.page.wait_for_timeout(500)
    # Cells that the pointer crossed on its way are told too; what counts is that it ends.
    assert notebook.kernel.value("told[-3:]") == [None] * 3
    assert notebook.kernel.value("len(told) % 3") == 0
    crossed = notebook.kernel.value("len({tuple(cell) for cell in told if cell})")
    assert notebook.kernel.value("len(told)") <= 6 * (crossed + 1)


def test_the_comparison_follows_the_explorers_menus(notebook: Notebook) -> None:
    maps = notebook.maps(1, 12)
    expect(maps[0].title).to_have_text("a: Layer 1 · Head 0")
    output = notebook.page.locator(".jp-OutputArea-output").nth(1)
    output.get_by_label("Head", exact=True).select_option("mean")
    expect(maps[0].title).to_have_text("a: Layer 1 · mean of 4 heads")
    expect(maps[2].title).to_have_text("b − a: Layer 0 · Head 2 − Layer 1 · mean of 4 heads")
    output.get_by_label("Layer", exact=True).select_option("rollout")
    expect(maps[0].title).to_have_text("a: rollout of layers 0–1, mean of 4 heads")
    found = notebook.kernel.value("[heads.largest(1)[0].query, heads.largest(1)[0].key]")
    table = output.get_by_role("table", name="Largest differences")
    expect(table.get_by_role("row").nth(1)).to_contain_text(f"({found[0]})")
    expect(table.get_by_role("row").nth(1)).to_contain_text(f"({found[1]})")


def test_they_stand_side_by_side_and_wrap_where_it_is_narrow(notebook: Notebook) -> None:
    def boxes() -> list[dict[str, float]]:
        return [shown.root.bounding_box() for shown in notebook.maps(0, TOKENS)]  # type: ignore[misc]

    page = notebook.page
    wide = boxes()
    assert len({round(box["y"]) for box in wide}) == 1
    page.set_viewport_size({"width": 560, "height": 1000})
    try:
        wait_until(lambda: len({round(box["x"]) for box in boxes()}), 1, "columns when narrow")
        panel = page.locator(".jp-OutputArea-output").first.bounding_box()
        assert panel is not None
        assert all(box["x"] + box["width"] <= panel["x"] + panel["width"] + 1 for box in boxes())
    finally:
        page.set_viewport_size({"width": 1280, "height": 1000})


def test_a_saved_page_is_linked_without_a_kernel(
    notebook: Notebook, browser: Browser, browser_context_args: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "pair.html"
    notebook.kernel.run(f"pair.save({str(path)!r}, theme='dark')")
    with open_tab(browser, browser_context_args) as tab:
        tab.page.goto(path.as_uri())
        roots = tab.page.locator(".attnmap")
        expect(roots).to_have_count(3)
        maps = [ShownMap(roots.nth(n), TOKENS, TOKENS) for n in range(3)]
        expect_in_line(maps)
        maps[2].click(IT, TROPHY)
        for shown in maps:
            shown.expect_pin(IT, TROPHY)
            expect(shown.readout).to_contain_text("it (11) looks at trophy (2)")
        expect(maps[2].readout).to_contain_text("looks at trophy (2): difference ")
        legends = tab.page.locator(".attnmap-legend-title")
        expect(legends).to_have_text(["weight", "weight", "difference"])
        expect(tab.page.get_by_role("table", name="Largest differences")).to_be_visible()
