"""All heads at a glance: what is read, what travels, what a click does."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
import threading
import weakref
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import anywidget
import comm
import numpy as np
import pytest
import torch
import traitlets
from comm.base_comm import BaseComm
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
from attnmap_widget.sheet import Known
from attnmap_widget.states import State
from attnmap_widget.thumbnails import FIRST, STEPS

TOP = FIRST + STEPS


class RecordingComm(BaseComm):
    """A comm that keeps what would travel to the browser."""

    def __init__(self, **kwargs: object) -> None:
        self.sent: list[tuple[dict, list]] = []
        super().__init__(**kwargs)

    def publish_msg(self, msg_type: str, data=None, buffers=None, **_: object) -> None:
        self.sent.append((data or {}, list(buffers or [])))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch):
    """Make grids whose messages can be read: sent(grid) -> [(state, bytes in buffers)]."""
    monkeypatch.setattr(comm, "create_comm", RecordingComm)

    def messages(grid: HeadGrid) -> list[tuple[dict, int]]:
        found = [
            (data["state"], sum(len(buffer) for buffer in buffers))
            for data, buffers in grid.comm.sent
            if data.get("method") == "update"
        ]
        grid.comm.sent.clear()
        return found

    return messages


def softmax_like(*shape: int, seed: int = 0) -> np.ndarray:
    weights = np.exp(3 * np.random.default_rng(seed).random(shape)).astype(np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


def levels(grid: HeadGrid, layer: int, head: int) -> np.ndarray:
    """The thumbnail of a head as it travels."""
    sheet, index = grid._filling.sheet, grid._filling.places[(layer, head)]
    rows, columns = sheet.shapes[index]
    return sheet.levels[index, : int(rows) * int(columns)].reshape(rows, columns)


def counting(calls: Counter[tuple[int, int]], shape: tuple[int, int] = (3, 5)):
    """A function source that counts what it is asked for."""

    def read(layer: int, head: int) -> np.ndarray:
        calls[(layer, head)] += 1
        return softmax_like(*shape, seed=10 * layer + head)

    return read


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


# ---- the numbers ---------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_explorer_and_each_head_is_read_once() -> None:
    calls: Counter[tuple[int, int]] = Counter()
    read = counting(calls, (5, 5))
    words = list("abcab")
    explorer = AttentionExplorer(read, words, layers=[0, 4], heads=3, causal=True)
    calls.clear()
    grid = explorer.heads()
    found = grid.summary
    assert set(calls.values()) == {1}
    assert len(calls) == 6
    assert found.layers.tolist() == [0, 0, 0, 4, 4, 4]
    assert found.heads.tolist() == [0, 1, 2, 0, 1, 2]
    expected = explorer.summary()
    for name in expected.columns:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert not np.isnan(found["induction"]).any()


def test_the_numbers_of_a_capture_are_those_of_its_summary() -> None:
    model, tokens, ids = examples.induction()
    explorer = explore(model, ids, tokens=tokens)
    found, expected = explorer.heads().summary, explorer.summary()
    for name in expected.columns:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert {value[:2] for value in found.top("previous", 2)} == {(0, 0), (0, 2)}
    assert min(found["induction"][4:]) > 0.8 > max(found["induction"][:4])


def test_columns_to_sort_and_tint_by_are_those_of_the_summary() -> None:
    grid = HeadGrid(softmax_like(4, 3, 5), sort_by="entropy", tint_by="previous")
    assert [column["name"] for column in grid._columns] == list(grid.summary.columns)
    with pytest.raises(ValueError, match="no column; there are entropy"):
        grid.tint_by = "previus"
    grid.sort_by = None
    assert (grid.sort_by, grid.tint_by) == (None, "previous")


# ---- long heads ----------------------------------------------------------------------------------


def attend(queries: int, keys: int, heads: int = 2) -> object:
    torch.manual_seed(3)
    q = torch.randn(1, heads, queries, 8)
    k, v = torch.randn(2, 1, heads, keys, 8).unbind(0)
    with capture() as cap:
        F.scaled_dot_product_attention(q, k, v)
    return cap


def test_a_head_above_a_million_weights_is_read_whole() -> None:
    cap = attend(900, 1300)
    grid = HeadGrid(cap)
    exact = cap.weights(0, 1).numpy()
    small = grid._filling.sheet
    assert small.known.tolist() == [Known.ALL, Known.ALL]
    assert grid._note == "900 × 1300 weights each · a cell is the largest of 41 × 41"
    height, width = 41, 41
    picture = levels(grid, 0, 1)
    assert picture.shape == (22, 32)
    for row, column in ((0, 0), (21, 31), (7, 19)):
        part = exact[row * height : (row + 1) * height, column * width : (column + 1) * width]
        assert abs((int(picture[row, column]) - FIRST) / STEPS - part.max() / exact.max()) < 0.003
    np.testing.assert_allclose(grid.summary["entropy"], cap.summary()["entropy"], rtol=1e-6)


def test_of_a_very_long_head_a_sample_is_read_and_said_to_be_one() -> None:
    cap = attend(4200, 4100)
    grid = HeadGrid(cap)
    assert grid._filling.sheet.known.tolist() == [Known.SAMPLE, Known.SAMPLE]
    assert "4200 × 4100 weights each" in grid._note
    assert "a sample of the queries is read" in grid._note
    assert levels(grid, 0, 1).shape == (32, 31)
    entropy = grid._filling.sheet.numbers[:, 0]
    np.testing.assert_allclose(entropy, cap.summary()["entropy"], rtol=0.02)
    with pytest.raises(ValueError, match=r"a sample of the queries.*reads all"):
        grid.summary  # noqa: B018


def test_small_heads_are_read_with_one_thread_of_torch_and_nothing_stays_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    seen: list[int] = []
    try:
        model, _, ids = examples.induction()
        with capture(model) as cap:
            model(ids)
        allowed = cap.allowed
        monkeypatch.setattr(
            cap, "allowed", lambda *a, **k: seen.append(torch.get_num_threads()) or allowed(*a, **k)
        )
        HeadGrid(cap)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


# ---- filling in ----------------------------------------------------------------------------------


class Gate:
    """Two layers of eight heads, each of which is there only once somebody lets it."""

    shape = (1, 8, 3, 5)

    def __init__(self) -> None:
        self.open = threading.Semaphore(0)
        self.layers = (self, self)

    def __getitem__(self, batch: int) -> _Item:
        return _Item(self.open)


class _Item:
    def __init__(self, gate: threading.Semaphore) -> None:
        self._gate = gate

    def __getitem__(self, head: int) -> np.ndarray:
        assert self._gate.acquire(timeout=20)
        return softmax_like(3, 5, seed=head)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """With nothing read before the constructor returns."""
    monkeypatch.setattr("attnmap_widget.heads._AT_ONCE", 0.0)
    monkeypatch.setattr("attnmap_widget.heads._ON_A_CHANGE", 0.0)
    return Gate()


async def until(true: object) -> None:
    while not true():  # type: ignore[operator]
        await asyncio.sleep(0.005)


def test_in_a_notebook_heads_come_by_and_by_and_only_the_new_ones_travel(sent, gate) -> None:
    async def notebook() -> None:
        grid = HeadGrid(gate.layers)
        assert grid._progress == [0, 16]
        sent(grid)
        gate.open.release(3)
        # Progress is told now and then, whenever a head has been read.
        while grid._progress[0] < 3:
            gate.open.release(1)
            await asyncio.sleep(0.25)
        read = grid._progress[0]
        first = sent(grid)
        assert [state["_sheet"]["slot"] for state, _ in first if "_sheet" in state] == [15]
        while grid._progress[0] == read:
            gate.open.release(1)
            await asyncio.sleep(0.25)
        parts = sent(grid)
        assert all("_sheet" not in state for state, _ in parts)
        assert all(state["_part"]["heads"] <= 5 for state, _ in parts)
        assert all(size < 1500 for _, size in parts)
        gate.open.release(16)
        await until(lambda: grid._progress is None)
        *_, last = [state for state, _ in sent(grid) if "_sheet" in state]
        assert (last["_part"], last["_sheet"]["heads"]) == (None, 16)
        assert (grid._filling.sheet.known == Known.ALL).all()
        assert sent(grid) == []

    asyncio.run(notebook())


def test_cancelling_keeps_what_has_been_read_and_says_so(sent, gate) -> None:
    async def notebook() -> None:
        grid = HeadGrid(gate.layers)
        gate.open.release(3)
        await until(lambda: grid._filling.done == 3)
        grid.set_state({"_cancels": 1})
        assert grid._progress is None
        assert grid.status == "stopped: 3 of 16 heads were read"
        assert len([state for state, _ in sent(grid) if "_sheet" in state]) == 1
        gate.open.release(20)
        await asyncio.sleep(0.1)
        assert grid._filling.done == 3
        assert int(np.isnan(grid.summary["entropy"]).sum()) == 13
        grid.cancel()
        assert sent(grid) == []

    asyncio.run(notebook())


def test_the_summary_waits_for_all_heads(gate) -> None:
    async def notebook() -> None:
        grid = HeadGrid(gate.layers)
        assert grid._progress == [0, 16]
        gate.open.release(16)
        assert not np.isnan(grid.summary["entropy"]).any()
        assert grid._progress is None

    asyncio.run(notebook())


def test_a_function_is_called_by_the_notebooks_own_thread_between_its_cells(gate) -> None:
    threads: set[str] = set()
    between: list[int] = []

    def read(layer: int, head: int) -> np.ndarray:
        threads.add(threading.current_thread().name)
        threading.Event().wait(0.02)
        return softmax_like(3, 5)

    async def notebook() -> None:
        grid = HeadGrid(read, layers=range(3), heads=8)
        assert grid._progress == [0, 24]
        while grid._progress is not None:
            await asyncio.sleep(0)
            between.append(grid._filling.done)

    asyncio.run(notebook())
    assert threads == {threading.main_thread().name}
    assert len(set(between)) >= 4


def test_an_explorer_that_goes_on_leaves_no_old_heads_behind(gate) -> None:
    async def notebook() -> None:
        explorer = AttentionExplorer(softmax_like(2, 2, 3, 5), axes="batch head query key")
        grid = explorer.heads()
        gate.open.release(1)  # the map's own
        explorer.use(gate.layers)
        assert grid._progress == [0, 16]
        explorer.use(softmax_like(3, 4, 6))
        gate.open.release(20)
        await until(lambda: grid._progress is None)
        await asyncio.sleep(0.05)
        assert grid._rows == [[0, 3]]
        assert levels(grid, 0, 2).shape == (4, 6)

    asyncio.run(notebook())


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


def test_arrays_need_no_torch() -> None:
    code = (
        "import sys, numpy as np; from attnmap_widget import HeadGrid; "
        "HeadGrid(np.ones((2, 3, 4)) / 4).summary; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
