"""All heads at a glance: what is shown, what a click does, what is left behind."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
import weakref
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import anywidget
import numpy as np
import pytest
import torch
import traitlets
from comm_support import sent
from heads_support import counting, levels, softmax_like
from torch.nn import functional as F

from attnmap_widget import (
    AttentionExplorer,
    CaptureError,
    HeadGrid,
    ShapeError,
    capture,
    examples,
    explore,
)
from attnmap_widget.grid.states import State
from attnmap_widget.heads.sheet import Known
from attnmap_widget.heads.thumbnails import FIRST, STEPS

__all__ = ["sent"]  # a fixture

# ---- what is shown -------------------------------------------------------------------------------


def test_each_head_is_its_own_small_picture() -> None:
    weights = softmax_like(2, 3, 4, 7)
    grid = HeadGrid(weights, axes="layer head query key")
    for layer, head in np.ndindex(2, 3):
        expected = np.rint(weights[layer, head] / weights[layer, head].max() * STEPS) + FIRST
        assert (levels(grid, layer, head) == expected).all()
    assert grid._rows == [[0, 3], [1, 3]]
    assert repr(grid) == "HeadGrid(layers [0, 1], 6 heads)"


def test_layers_have_their_true_numbers_and_their_own_counts_of_heads() -> None:
    grid = HeadGrid((softmax_like(1, 3, 5, 5), softmax_like(1, 4, 2, 6)))
    assert grid._rows == [[0, 3], [1, 4]]
    assert levels(grid, 1, 3).shape == (2, 6)
    grid = HeadGrid(lambda layer, head: softmax_like(3, 4), layers=[1, 3], heads=2)
    assert grid._rows == [[1, 2], [3, 2]]
    grid.selection = (3, 1)
    with pytest.raises(ValueError, match=r"\(0, 1\), expected \(layer, head\).*\[1, 3\]"):
        grid.selection = (0, 1)
    assert grid.selection == (3, 1)


def test_one_stack_of_heads_is_no_layer() -> None:
    grid = HeadGrid(softmax_like(4, 3, 5))
    assert (grid._named, len(grid._filling.heads)) == (False, 4)
    assert repr(grid) == "HeadGrid(4 heads)"


def test_144_heads_are_one_message_of_less_than_160_kb() -> None:
    weights = np.tril(softmax_like(12, 12, 128, 128))
    grid = HeadGrid(weights, axes="layer head query key")
    state = grid.get_state()
    binary = [name for name, value in state.items() if isinstance(value, dict) and "data" in value]
    assert binary == ["_sheet"]
    assert len(state["_sheet"]["data"]) <= 160_000
    assert levels(grid, 11, 11).shape == (32, 32)


def test_what_cannot_be_looked_at_is_no_zero() -> None:
    explorer = AttentionExplorer(np.tril(softmax_like(2, 3, 3)), causal=True)
    picture = levels(explorer.heads(), 0, 1)
    assert (picture[np.triu_indices(3, 1)] == State.CANNOT_LOOK).all()
    assert (picture[np.tril_indices(3)] >= FIRST).all()
    model, tokens, ids = examples.induction()
    explorer = explore(model, ids, tokens=tokens)
    assert (levels(explorer.heads(), 1, 2)[np.triu_indices(12, 1)] == State.CANNOT_LOOK).all()


def test_padding_of_the_map_is_padding_here() -> None:
    explorer = AttentionExplorer(softmax_like(2, 3, 4), padding=[0, 0, 1, 0], queries=list("xyz"))
    picture = levels(explorer.heads(), 0, 0)
    assert (picture[:, 2] == State.PADDING).all()
    assert (picture[:, [0, 1, 3]] >= FIRST).all()


def test_a_head_that_cannot_be_read_says_so_and_the_others_are_there() -> None:
    def read(layer: int, head: int) -> np.ndarray:
        if head == 1:
            raise RuntimeError("boom")
        return softmax_like(3, 4) if head == 0 else softmax_like(3, 4, 5)

    grid = HeadGrid(read, layers=[2, 5], heads=3)
    assert grid._filling.sheet.known.tolist() == 2 * [Known.ALL, Known.ERROR, Known.ERROR]
    errors = dict(grid._errors)
    assert errors["boom"] == [1, 4]
    assert [heads for text, heads in errors.items() if "(3, 4, 5)" in text] == [[2, 5]]
    assert np.isnan(grid.summary["entropy"]).tolist() == 2 * [False, True, True]


@pytest.mark.parametrize(
    ("source", "options", "error", "words"),
    [
        (softmax_like(2, 3, 4, 5), {}, ShapeError, "look alike"),
        (softmax_like(2, 4, 5), {"tokens": list("abc")}, ShapeError, "5 keys, but there are 3"),
        (softmax_like(2, 4, 5), {"batch": 1}, ValueError, "batch: 1 does not exist"),
        (softmax_like(2, 4, 5), {"sort_by": "entrop"}, traitlets.TraitError, None),
        (softmax_like(2, 4, 5), {"cmap": "Blues"}, TypeError, "here it is scheme"),
        (lambda layer, head: 0, {}, TypeError, "needs layers"),
        ((None, None), {}, ShapeError, "fused"),
    ],
)
def test_what_no_grid_can_be_made_of_is_refused(source, options, error, words) -> None:
    if error is traitlets.TraitError:
        error, words = ValueError, "'entrop' is no column; there are entropy"
    with pytest.raises(error, match=words):
        HeadGrid(source, **options)


def test_an_empty_capture_is_refused() -> None:
    with capture(torch.nn.Linear(2, 2)) as cap:
        pass
    with pytest.raises(CaptureError):
        HeadGrid(cap)


# ---- linked with an explorer ---------------------------------------------------------------------


def test_choosing_here_chooses_there_and_the_other_way_round() -> None:
    calls: Counter[tuple[int, int]] = Counter()
    explorer = AttentionExplorer(counting(calls), layers=range(5), heads=6)
    grid = explorer.heads()
    assert grid.selection == (0, 0)
    calls.clear()
    grid.selection = (3, 5)
    assert (explorer.layer, explorer.head) == (3, 5)
    assert explorer.map.title == "Layer 3 · Head 5"
    assert calls == {(3, 5): 1}  # one extraction for both
    explorer.layer = 1
    assert grid.selection == (1, 5)
    explorer.head = "mean"
    assert grid.selection is None
    explorer.head = 2
    assert grid.selection == (1, 2)


def test_a_click_is_one_choice_however_fast_others_follow(sent) -> None:
    calls: Counter[tuple[int, int]] = Counter()
    explorer = AttentionExplorer(counting(calls), layers=range(5), heads=6)
    grid = explorer.heads()
    sent(grid)
    calls.clear()

    async def notebook() -> None:
        for head in ([1, 0], [2, 3], [3, 5]):
            grid.set_state({"selection": head})
        await asyncio.sleep(0.1)

    asyncio.run(notebook())
    assert (explorer.layer, explorer.head) == (3, 5)
    assert calls == {(3, 5): 1}
    assert grid.selection == (3, 5)
    assert all(type(number) is int for number in grid.selection)
    assert sent(grid) == []  # nothing that the browser does not know
    grid.set_state({"selection": [9, 9]})  # of heads that are gone by now
    assert grid.selection == (3, 5)


def test_two_grids_of_one_explorer_agree() -> None:
    explorer = AttentionExplorer((softmax_like(1, 3, 4, 4), softmax_like(1, 3, 4, 4, seed=1)))
    one, other = explorer.heads(), HeadGrid(explorer)
    one.selection = (1, 2)
    assert other.selection == (1, 2)


def test_the_grid_follows_to_another_item_and_another_source(sent) -> None:
    weights = softmax_like(2, 3, 4, 6)
    explorer = AttentionExplorer(weights, axes="batch head query key", title="Mine")
    grid = explorer.heads()
    assert grid.title == "Mine · item 0"
    sent(grid)
    explorer.batch = 1
    assert grid.title == "Mine · item 1"
    expected = np.rint(weights[1, 2] / weights[1, 2].max() * STEPS) + FIRST
    assert (levels(grid, 0, 2) == expected).all()
    assert [("_sheet" in state, size > 200) for state, size in sent(grid)] == [(True, True)]
    explorer.head = 2
    explorer.use((softmax_like(1, 4, 2, 5), softmax_like(1, 4, 2, 5)))
    assert grid._rows == [[0, 4], [1, 4]]
    assert levels(grid, 1, 3).shape == (2, 5)
    assert (grid.selection, grid.title) == ((0, 2), "Mine")


def test_what_the_map_is_told_later_is_seen_in_the_grid_too() -> None:
    stack = np.tril(np.full((2, 3, 4, 4), 0.25, np.float32))
    explorer = AttentionExplorer(stack, axes="layer head query key")
    grid = explorer.heads()
    before = grid._filling
    explorer.head = 2
    assert grid._filling is before
    explorer.map.causal = True
    assert (levels(grid, 1, 2)[0] == [254, *[State.CANNOT_LOOK] * 3]).all()
    explorer.map.update(causal=False, mask=np.eye(4, dtype=bool)[::-1])
    assert levels(grid, 1, 2)[0].tolist() == [254, 3, 3, 8]  # a leak, and zero where it may
    grid.close()
    explorer.map.causal = True


def test_the_grid_of_an_encoder_decoder_shows_the_layers_of_its_kind() -> None:
    calls: dict[str, object] = {}

    class Cross(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            own = F.scaled_dot_product_attention(x, x, x)
            return own + F.scaled_dot_product_attention(x, y, y)

    model = torch.nn.Sequential()
    model.layers = torch.nn.ModuleList([Cross(), Cross()])
    x, y = torch.randn(1, 3, 4, 8), torch.randn(1, 3, 6, 8)

    def run() -> None:
        for layer in model.layers:
            layer(x, y)

    with capture(model) as cap:
        run()
    calls["kinds"] = cap.kinds(0)
    assert len(cap.kinds(0)) == 2
    explorer = cap.explore(kind=cap.kinds(0)[1])
    grid = explorer.heads()
    assert cap.kinds(0)[1] in grid.title
    assert levels(grid, 1, 0).shape == (4, 6)
    explorer.kind = cap.kinds(0)[0]
    assert levels(grid, 1, 0).shape == (4, 4)


# ---- the widget ----------------------------------------------------------------------------------


def test_the_front_end_knows_every_synced_trait() -> None:
    source = (Path(__file__).parents[2] / "js/src/heads-model.ts").read_text(encoding="utf-8")
    body = re.search(r"export interface HeadsState \{(.*?)\n\}", source, re.DOTALL)
    assert body is not None
    declared = set(re.findall(r"^\t(\w+):", body.group(1), re.MULTILINE))
    inherited = set(anywidget.AnyWidget.class_traits(sync=True))
    assert declared == set(HeadGrid.class_traits(sync=True)) - inherited
    known = re.search(r"Known = \{(.*?)\}", source)
    assert known is not None
    codes = {name: int(code) for name, code in re.findall(r"(\w+): (\d)", known.group(1))}
    assert codes == {known.name.lower(): int(known) for known in Known}
    sheet = (Path(__file__).parents[2] / "js/src/heads-sheet.ts").read_text(encoding="utf-8")
    assert f"FIRST = {FIRST};" in sheet
    assert f"STEPS = {STEPS};" in sheet


def test_negative_weights_bring_a_diverging_scheme() -> None:
    assert HeadGrid(softmax_like(2, 3, 4))._colors["diverging"] is False
    assert HeadGrid(softmax_like(2, 3, 4) - 0.2)._colors["diverging"] is True
    assert HeadGrid(softmax_like(2, 3, 4), scheme="puor")._colors["diverging"] is True


def test_a_saved_notebook_keeps_a_small_picture() -> None:
    grid = HeadGrid(np.tril(softmax_like(12, 12, 64, 64)), axes="layer head query key")
    bundle, _ = grid._repr_mimebundle_()
    assert bundle["text/plain"].startswith("HeadGrid(layers [0, 1,")
    assert bundle["text/html"].startswith('<img alt="HeadGrid(')
    assert len(bundle["text/html"]) < 400_000
    drawing = ET.fromstring(grid.to_svg("dark"))
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert "Layer 11" in texts
    assert "one colour range for all heads: 0 to .90" not in texts
    assert any(str(text).startswith("one colour range for all heads: 0 to") for text in texts)
    with pytest.raises(ValueError, match="theme"):
        grid.to_svg("blue")


def test_a_closed_grid_frees_its_arrays_and_the_explorer_stays() -> None:
    explorer = AttentionExplorer(softmax_like(3, 4, 5))
    grid = explorer.heads()
    gone = weakref.ref(grid._filling)
    grid.close()
    explorer.head = 1
    gc.collect()
    assert gone() is None
    assert (repr(grid), explorer.map.title) == ("HeadGrid(closed)", "Head 1")
    with pytest.raises(RuntimeError, match="closed"):
        grid.summary  # noqa: B018
    grid.close()


def test_a_strange_or_late_message_changes_nothing() -> None:
    grid = HeadGrid(np.ones((2, 3, 4)) / 4)
    grid.set_state({"selection": [[0], 1]})
    assert grid.selection is None
    grid.close()
    grid.set_state({"selection": [0, 1]})
    assert repr(grid) == "HeadGrid(closed)"


def test_arrays_need_no_torch() -> None:
    code = (
        "import sys, numpy as np; from attnmap_widget import HeadGrid; "
        "HeadGrid(np.ones((2, 3, 4)) / 4).summary; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
