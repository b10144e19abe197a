"""Reading all heads: once each, their numbers, long ones, beside the notebook."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import numpy as np
import pytest
import torch
from comm_support import sent
from heads_support import counting, levels, softmax_like
from torch.nn import functional as F

from attnmap_widget import AttentionExplorer, HeadGrid, capture, examples, explore
from attnmap_widget.heads.sheet import Known
from attnmap_widget.heads.thumbnails import FIRST, STEPS

__all__ = ["sent"]  # a fixture

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
    monkeypatch.setattr("attnmap_widget.heads.widget._AT_ONCE", 0.0)
    monkeypatch.setattr("attnmap_widget.heads.widget._ON_A_CHANGE", 0.0)
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
