"""Thirty-two thousand tokens of a real model in a real JupyterLab: zoomed, hovered, checked."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Kernel, Lab, ShownMap, open_tab, wait_until
from playwright.sync_api import Browser, expect

TOKENS = 32_768
# Layer 0 by its own formula, for one query: nothing of the package takes part.
BY_HAND = """
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

@torch.no_grad()
def by_hand(head, query):
    attention, seen = model.layers[0].self_attn, ids[:, : query + 1]
    states = model.layers[0].input_layernorm(model.embed_tokens(seen))
    q, k = (
        projection(states).view(1, query + 1, -1, attention.head_dim).transpose(1, 2)
        for projection in (attention.q_proj, attention.k_proj)
    )
    q, k = apply_rotary_pos_emb(q, k, *model.rotary_emb(states, torch.arange(query + 1)[None]))
    scores = q[0, head, -1] @ k[0, head // attention.num_key_value_groups].T
    return torch.softmax(scores * attention.head_dim**-0.5, -1)
"""


def zoom(kernel: Kernel, window: list[int]) -> None:
    kernel.run(f"long.map.viewport = {tuple(window)}")
    kernel.expect("long.map._detail.bin", [1, 1])


@pytest.fixture
def by_the_browser(browser: Browser, browser_context_args: dict[str, Any]) -> Any:
    with open_tab(browser, browser_context_args) as tab:
        yield tab


def test_a_head_of_a_real_model_is_read_at_any_zoom(lab: Lab, by_the_browser: Any) -> None:
    page = by_the_browser.page
    lab.open(page, lab.copy("long.ipynb"))
    root = page.locator(".attnmap")
    expect(root.locator("canvas.attnmap-cells")).to_be_visible()
    with lab.kernel("long.ipynb") as kernel:
        kernel.run(BY_HAND)
        wait_until(lambda: "reading" in kernel.value("long.map.status"), False, "the whole head")
        expect(root.locator(".attnmap-status")).to_contain_text("each cell the largest of 64 × 64")
        assert kernel.value("float(abs(1 - long.map.row_sums).max())") < 1e-4

        # By its keys the browser zooms until each cell is one weight.
        root.locator(".attnmap-grid").focus()
        for _ in range(12):
            page.keyboard.press("+")
        wait_until(
            lambda: kernel.value("long.map._detail is not None and long.map._detail.bin == (1, 1)"),
            True,
            "exact weights in view",
        )
        q0, q1, k0, k1 = kernel.value("long.map.viewport")
        assert 0 < q1 - q0 <= 1024
        assert 0 < k1 - k0 <= 1024

        # A window around the diagonal, far in the text, and one weight in it.
        window = [30_000, 30_032, 29_990, 30_040]
        zoom(kernel, window)
        shown = ShownMap(root, window[1] - window[0], window[3] - window[2])
        expect(root.locator('.attnmap-row-label[data-index="30000"]')).to_be_visible()
        query, key = 30_020, 30_019
        shown.hover(query - window[0], key - window[2])
        kernel.expect("long.map.hover", [query, key])
        weight = kernel.value(f"float(by_hand(long.head, {query})[{key}])")
        seen = kernel.value(f"float(long.map.weights[{query}, {key}])")
        assert seen == pytest.approx(weight, rel=1e-4, abs=1e-7)
        expect(root.locator(".attnmap-readout")).to_contain_text(f"({query}) looks at")
        expect(root.locator(".attnmap-readout")).to_contain_text(f"({key})")

        largest = kernel.value(f"by_hand(long.head, {query}).topk(8).indices.tolist()")
        assert kernel.value("long.map._top['keys']") == largest

        page.keyboard.press("0")
        kernel.expect("long.map.viewport", [0, TOKENS, 0, TOKENS])
    assert by_the_browser.offline.tried == []
