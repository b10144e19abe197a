"""Maps in a real JupyterLab: what a pointer does, what the screen shows, what the kernel knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Kernel, Lab, Offline, ShownMap, open_tab
from playwright.sync_api import Browser, Locator, Page, expect

REPOSITORY = Path(__file__).parents[2]
AXE = REPOSITORY / "js" / "node_modules" / "axe-core" / "axe.min.js"
CELLS = (
    """
import ipywidgets
from attnmap_widget import AttentionMap

words = ["the", "cat", "the", "mat"]
weights = [
    [1.00, 0.00, 0.00, 0.00],
    [0.20, 0.50, 0.30, 0.00],
    [0.10, 0.15, 0.25, 0.50],
    [0.05, 0.80, 0.10, 0.05],
]
""",
    "AttentionMap(words, weights, title='Cats', class_name='cat')",
    "cat = _",
    """
twice = AttentionMap(words, weights, class_name="twice")
events = []
twice.observe(lambda change: events.append(change["new"]), names="selection")
twice
""",
    "twice",
    """
behind = AttentionMap(["a", "b", "c"], [[1, 0, 0], [0, 1, 0], [0.25, 0.75, 0]], class_name="behind")
ipywidgets.Tab([ipywidgets.Label("in front"), behind], titles=["Front", "Behind"])
""",
)


@dataclass
class Notebook:
    """A notebook that is open and has run."""

    page: Page
    kernel: Kernel
    offline: Offline

    def shown(self, name: str, queries: int, keys: int, nth: int = 0) -> ShownMap:
        """The nth view of the map with that class name."""
        root = self.page.locator(f".attnmap.{name}").nth(nth)
        return ShownMap(root, queries, keys)


@pytest.fixture(scope="module")
def notebook(
    lab: Lab, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[Notebook]:
    with open_tab(browser, browser_context_args) as tab:
        name = lab.write("maps.ipynb", *CELLS)
        lab.open(tab.page, name)
        with lab.kernel(name) as kernel:
            yield Notebook(tab.page, kernel, tab.offline)


@pytest.fixture(scope="module")
def quickstart(
    lab: Lab, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[Notebook]:
    """The quick start; its last output, a trained BERT's explorer, is called `bert_maps`."""
    with open_tab(browser, browser_context_args) as tab:
        name = lab.copy("quickstart.ipynb")
        lab.open(tab.page, name)
        with lab.kernel(name) as kernel:
            kernel.run("bert_maps = Out[max(Out)]")
            yield Notebook(tab.page, kernel, tab.offline)


@pytest.fixture
def cat(notebook: Notebook) -> ShownMap:
    """The map of "the cat the mat", with nothing pinned and no pointer on it."""
    notebook.page.mouse.move(0, 0)
    notebook.kernel.run("cat.selection = None")
    notebook.kernel.expect("[cat.hover, cat.selection]", [None, None])
    return notebook.shown("cat", queries=4, keys=4)


def blue(weight: float, largest: float = 1.0) -> tuple[int, ...]:
    """The colour of a weight in the default scheme of a light theme."""
    tables = json.loads((REPOSITORY / "attnmap_widget" / "static" / "schemes.json").read_text())
    step = round(255 * weight / largest)
    return tuple(bytes.fromhex(tables["Blues"]["ramp"][6 * step : 6 * step + 6]))


def near(color: tuple[int, ...]) -> Any:
    """Equal to a colour but for a step of rounding."""
    return pytest.approx(color, abs=3)


def test_the_quick_start_draws_every_map(quickstart: Notebook):
    maps = quickstart.page.locator(".attnmap")
    expect(maps).to_have_count(4)
    for root in maps.all():
        root.scroll_into_view_if_needed()
        expect(root.locator("canvas.attnmap-cells")).to_be_visible()
        expect(root.locator(".attnmap-error")).to_be_hidden()


def test_the_quick_start_reads_a_trained_model(quickstart: Notebook):
    kernel = quickstart.kernel
    kernel.run("bert_maps.layer, bert_maps.head = 3, 1")
    tokens = kernel.value("bert_maps.map.tokens")
    it, trophy, big = (tokens.index(token) for token in ("it", "trophy", "big"))
    bert = ShownMap(quickstart.page.locator(".attnmap").last, len(tokens), len(tokens))
    expect(bert.title).to_have_text("Layer 3 · Head 1")

    bert.hover(it, trophy)
    weight = kernel.value(f"float(bert_maps.map.weights[{it}, {trophy}])")
    expect(bert.readout).to_contain_text(f"it ({it}) looks at trophy ({trophy}) {weight:.2f}")
    expect(bert.tooltip).to_contain_text("it → trophy")
    kernel.expect("bert_maps.map.hover", [it, trophy])

    bert.click(it, big)
    kernel.expect("bert_maps.map.selection", [it, big])
    bert.expect_pin(it, big)

    kernel.run(f"bert_maps.map.selection = ({big}, {it})")
    quickstart.page.mouse.move(0, 0)
    expect(bert.readout).to_contain_text(f"big ({big}) looks at it ({it})")
    bert.expect_pin(big, it)


def test_another_head_is_chosen_drawn_and_in_the_kernel(quickstart: Notebook):
    kernel = quickstart.kernel
    kernel.run(
        "bert_maps.layer, bert_maps.head = 3, 1\n"
        "eager = AutoModel.from_pretrained(folder, attn_implementation='eager')\n"
        "inputs = tokenizer(sentence, return_tensors='pt')\n"
        "truth = eager(**inputs, output_attentions=True).attentions[3][0, 7].detach().numpy()"
    )
    before = kernel.value("bert_maps.map.weights.tolist()")
    output = quickstart.page.locator(".jp-OutputArea-output", has=quickstart.page.locator("select"))

    output.last.get_by_role("combobox", name="Head").select_option("7")

    bert = ShownMap(output.last.locator(".attnmap"), len(before), len(before))
    expect(bert.title).to_have_text("Layer 3 · Head 7")
    kernel.expect("[bert_maps.layer, bert_maps.head]", [3, 7])
    assert kernel.value("float(abs(bert_maps.map.weights - truth).max())") < 1e-5

    after, (_, largest) = kernel.value(
        "[bert_maps.map.weights.tolist(), bert_maps.map.shown_range]"
    )
    assert after != before
    for query, row in enumerate(after):
        for key, weight in enumerate(row):
            bert.expect_color(query, key, near(blue(weight, largest)))

    kernel.run("bert_maps.head = 'mean'")
    expect(output.last.get_by_role("combobox", name="Head")).to_have_value("mean")
    expect(bert.title).to_contain_text("mean of 12 heads")


def test_a_new_sentence_is_captured_again(quickstart: Notebook):
    box = quickstart.page.locator(".widget-text input").last

    box.fill("a smaller case")
    box.press("Enter")

    tokens = ["[CLS]", "a", "smaller", "case", "[SEP]"]
    quickstart.kernel.expect("bert_maps.map.tokens", tokens)
    labels = quickstart.page.locator(".attnmap").last.locator(".attnmap-row-label")
    expect(labels).to_have_text(tokens)


def test_repeated_tokens_report_their_own_positions(notebook: Notebook, cat: ShownMap):
    cat.hover(1, 2)
    expect(cat.readout).to_contain_text("cat (1) looks at the (2) 0.30")
    expect(cat.tooltip).to_contain_text("cat → the")
    expect(cat.tooltip).to_contain_text("0.30")
    notebook.kernel.expect("cat.hover", [1, 2])

    cat.hover(1, 0)
    expect(cat.readout).to_contain_text("cat (1) looks at the (0) 0.20")
    notebook.kernel.expect("cat.hover", [1, 0])

    cat.hover(2, 3)
    expect(cat.readout).to_contain_text("the (2) looks at mat (3) 0.50")
    notebook.kernel.expect("[cat.hover, cat.tokens]", [[2, 3], ["the", "cat", "the", "mat"]])


def test_leaving_the_map_clears_the_hover(notebook: Notebook, cat: ShownMap):
    cat.hover(3, 1)
    notebook.kernel.expect("cat.hover", [3, 1])
    expect(cat.tooltip).to_be_visible()

    notebook.page.mouse.move(0, 0)

    notebook.kernel.expect("cat.hover", None)
    expect(cat.tooltip).to_be_hidden()


def test_each_cell_has_the_colour_of_its_weight(notebook: Notebook, cat: ShownMap):
    expect(cat.title).to_have_text("Cats")
    weights = notebook.kernel.value("cat.weights.tolist()")

    drawn = [[cat.color(query, key) for key in range(4)] for query in range(4)]

    assert drawn == [[near(blue(weight)) for weight in row] for row in weights]


def test_hovering_changes_no_colour(cat: ShownMap):
    before = [cat.color(query, key) for query in range(4) for key in range(4)]

    cat.hover(1, 1)
    expect(cat.tooltip).to_be_visible()

    assert [cat.color(query, key) for query in range(4) for key in range(4)] == before


def test_a_click_pins_and_escape_clears(notebook: Notebook, cat: ShownMap):
    cat.click(3, 1)
    notebook.kernel.expect("cat.selection", [3, 1])
    cat.expect_pin(3, 1)

    notebook.page.mouse.move(0, 0)
    notebook.kernel.expect("cat.hover", None)
    expect(cat.readout).to_contain_text("mat (3) looks at cat (1) 0.80")

    notebook.page.keyboard.press("Escape")
    notebook.kernel.expect("cat.selection", None)
    expect(cat.pin).to_be_hidden()


def test_a_selection_from_python_is_on_the_screen(notebook: Notebook, cat: ShownMap):
    notebook.kernel.run("cat.selection = (2, 0)")

    cat.expect_pin(2, 0)
    expect(cat.readout).to_contain_text("the (2) looks at the (0) 0.10")
    notebook.kernel.run("cat.selection = None")
    expect(cat.pin).to_be_hidden()


def test_new_weights_from_python_are_drawn(notebook: Notebook, cat: ShownMap):
    notebook.kernel.run("cat.weights = [[0, 1, 0, 0]] * 4")
    try:
        cat.expect_color(0, 1, near(blue(1.0)))
        cat.expect_color(0, 0, near(blue(0.0)))
    finally:
        notebook.kernel.run("cat.weights = weights")
    cat.expect_color(0, 0, near(blue(1.0)))


def test_a_map_shown_twice_is_one_map(notebook: Notebook):
    first, second = (notebook.shown("twice", queries=4, keys=4, nth=nth) for nth in (0, 1))

    first.click(1, 2)

    notebook.kernel.expect("events", [[1, 2]])
    for view in (first, second):
        view.expect_pin(1, 2)

    second.click(3, 3)

    notebook.kernel.expect("events", [[1, 2], [3, 3]])
    for view in (first, second):
        expect(view.readout).to_contain_text("mat (3) looks at mat (3) 0.05")
        view.expect_pin(3, 3)

    clear_output(notebook.page, cell=4)
    expect(notebook.page.locator(".attnmap.twice")).to_have_count(1)
    first.click(0, 0)

    notebook.kernel.expect("events", [[1, 2], [3, 3], [0, 0]])
    expect(first.readout).to_contain_text("the (0) looks at the (0) 1.00")


def test_a_map_that_was_hidden_at_first_is_drawn_when_shown(notebook: Notebook):
    behind = notebook.shown("behind", queries=3, keys=3)
    expect(behind.root).to_be_hidden()

    notebook.page.get_by_role("tab", name="Behind").click()

    expect(behind.canvas).to_be_visible()
    behind.expect_color(2, 1, near(blue(0.75)))
    behind.hover(2, 1)
    expect(behind.readout).to_contain_text("c (2) looks at b (1) 0.75")
    notebook.kernel.expect("behind.hover", [2, 1])


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_both_themes_are_readable(lab: Lab, notebook: Notebook, cat: ShownMap, theme: str):
    dark = theme.endswith("Dark")
    notebook.kernel.run("cat.selection = (3, 1)")
    lab.set_theme(notebook.page, theme)
    try:
        expect(cat.pin).to_be_visible()
        # Zero recedes into the page, whichever way the page is.
        cat.expect_color(0, 3, near(blue(1.0) if dark else blue(0.0)))
        cat.expect_color(0, 0, near(blue(0.0) if dark else blue(1.0)))
        assert violations(notebook.page, cat.root) == []
    finally:
        lab.set_theme(notebook.page, "JupyterLab Light")


def test_nothing_but_this_machine_was_asked(notebook: Notebook, quickstart: Notebook):
    assert notebook.offline.tried + quickstart.offline.tried == []


def clear_output(page: Page, cell: int) -> None:
    """As from Lab's menu."""
    page.evaluate(
        """(cell) => {
            window.jupyterapp.shell.currentWidget.content.activeCellIndex = cell;
            return window.jupyterapp.commands.execute("notebook:clear-cell-output");
        }""",
        cell,
    )


def violations(page: Page, root: Locator) -> list[tuple[str, str]]:
    """What axe, contrast included, finds wrong inside an element."""
    page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
    root.scroll_into_view_if_needed()  # what is outside the window is not checked
    found = root.evaluate(
        """async (element) => {
            // Lab's body has no height, which axe takes to mean that nothing on the page is seen.
            document.body.style.height = "100vh";
            const found = await axe.run(element);
            document.body.style.height = "";
            return found;
        }"""
    )
    assert "color-contrast" in {rule["id"] for rule in found["passes"] + found["violations"]}
    return [(v["id"], node["html"]) for v in found["violations"] for node in v["nodes"]]
