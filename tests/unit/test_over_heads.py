"""Mean and maximum over heads too long to hold: windows and one pass equal brute force."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnmap_widget import AttentionExplorer, Capture, State, capture
from attnmap_widget.errors import Stopped
from attnmap_widget.exploring import reading_on, sources
from attnmap_widget.grid.grids import LongGrid
from attnmap_widget.grid.over_heads import OverHeads
from attnmap_widget.grid.states import cell_states
from attnmap_widget.grid.tiles import pooled

QUERIES, KEYS, HEADS = 1100, 1400, 3


@pytest.fixture(autouse=True)
def nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_HELD_LIMIT", 1000)


@pytest.fixture(scope="module")
def captured() -> Capture:
    torch.manual_seed(3)
    q, k = torch.randn(2, HEADS, QUERIES, 8), torch.randn(2, HEADS, KEYS, 8)
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(KEYS - QUERIES)
    with capture() as cap:
        torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    return cap


def brute_force(weights: np.ndarray, how: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nothing but NaN
        reduce: Any = np.nanmean if how == "mean" else np.nanmax
        return np.asarray(reduce(weights.astype(np.float64), axis=0), dtype=np.float32)


@pytest.mark.parametrize("how", ["mean", "max"])
def test_windows_and_survey_equal_brute_force(captured: Capture, how: str) -> None:
    ex = AttentionExplorer(captured, head=how, batch=1)
    grid = ex.map._checked.grid
    assert isinstance(grid, LongGrid)
    assert ex.map.title == f"Layer 0 · {how} of 3 heads · item 1"
    whole = brute_force(captured.weights(0, None, batch=1).numpy(), how)
    np.testing.assert_allclose(np.asarray(ex.map.weights), whole, atol=1e-6)
    np.testing.assert_allclose(ex.map.row_sums, whole.sum(axis=1), atol=1e-5)
    leans = ex.map.leans()
    np.testing.assert_allclose([lean.weight for lean in leans], whole.max(axis=1), atol=1e-6)
    found = whole[np.arange(QUERIES), [lean.key for lean in leans]]
    np.testing.assert_allclose(found, whole.max(axis=1), atol=1e-6)
    if how == "mean":
        assert ex.map.checks == []
    mask = np.tril(np.ones(whole.shape, dtype=bool), KEYS - QUERIES)
    states = cell_states(whole, np.zeros(whole.shape, dtype=bool), mask=mask)

    def read(window: Any) -> Any:
        q0, q1, k0, k1 = window
        return whole[q0:q1, k0:k1], states[q0:q1, k0:k1]

    for pool in ("max", "mean"):
        ex.map.pool = pool
        expected = pooled(read, whole.shape, (0, QUERIES, 0, KEYS), pool=pool)
        np.testing.assert_allclose(ex.map._checked.tile.values, expected.values, atol=1e-6)
        hidden = ex.map._checked.tile.states == State.CANNOT_LOOK
        np.testing.assert_array_equal(hidden, expected.states == State.CANNOT_LOOK)


class Given:
    """Heads that are arrays; `closed` is True where none of them may look."""

    def __init__(self, weights: np.ndarray, closed: np.ndarray) -> None:
        self.count, self.shape = len(weights), weights.shape[1:]
        self._weights, self._closed = weights, closed

    def prepare(self, head: int, cancelled: Any) -> bool:
        return False

    def weights(self, rows: range, keys: range) -> list[np.ndarray]:
        return [head[np.ix_(rows, keys)] for head in self._weights]

    def allowed(self, rows: range, keys: range) -> np.ndarray:
        return ~self._closed[np.ix_(rows, keys)]


@settings(deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 30), st.integers(1, 40), st.integers(0, 2**32),
    st.sampled_from(["mean", "max"]),
)  # fmt: skip
def test_heads_without_a_weight_in_a_cell_are_not_counted_there(
    heads: int, queries: int, keys: int, seed: int, how: str
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(heads, queries, keys)).astype(np.float32)
    weights[rng.random(weights.shape) < 0.2] = np.nan
    weights[rng.random(heads) < 0.3] = np.nan  # whole heads
    closed = rng.random((queries, keys)) < 0.3
    source = OverHeads(Given(weights, closed), how)
    expected = brute_force(weights, how)
    grid = source.read()
    values, states = source.window((0, queries, 0, keys))
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    nothing = np.zeros(expected.shape, dtype=bool)
    same = cell_states(expected, nothing, mask=~closed)
    np.testing.assert_array_equal(states, same)
    there = ~np.isnan(weights).all(axis=(1, 2))
    assert source.heads == (there.sum(), heads)
    np.testing.assert_allclose(grid.row_sums(), np.nansum(expected, axis=1), atol=1e-5)
    np.testing.assert_array_equal(grid.tile().values, expected)
    for row, lean in enumerate(grid.leans()):
        assert (lean is None) == bool(np.isnan(expected[row]).all())
        assert lean is None or lean.weight == np.nanmax(expected[row])


def test_a_head_without_a_weight_is_told_in_the_title() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, HEADS, 1100, 8), torch.randn(1, HEADS, 1200, 8)
    mask = torch.zeros(1, HEADS, 1100, 1200)
    mask[:, 1] = -torch.inf
    with capture() as cap:
        torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    ex = AttentionExplorer(cap, head="mean")
    if np.isnan(cap.weights(0, 1).numpy()).all():
        assert ex.map.title == "Layer 0 · mean of 2 of 3 heads"
        ex.head = 0
        ex.head = "mean"
        assert ex.map.title == "Layer 0 · mean of 2 of 3 heads"
    np.testing.assert_allclose(
        np.asarray(ex.map.weights), brute_force(cap.weights(0, None).numpy(), "mean"), atol=1e-6
    )


def test_progress_is_told_and_a_pass_can_be_stopped(captured: Capture) -> None:
    source = sources.over_long_heads(
        sources.CaptureSource(captured), sources.Choice(0, "mean", None, 0, None), "mean"
    )
    assert source is not None
    told: list[float] = []
    source.read(told.append)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)
    assert len(told) >= HEADS
    with pytest.raises(Stopped):  # while the first head is got ready
        source.read(lambda _: None, lambda: True)
    told.clear()
    with pytest.raises(Stopped):  # and between the heads of a few rows
        source.read(told.append, lambda: bool(told) and told[-1] > 0.5)
    assert 0.5 < told[-1] < 1


def test_beside_a_notebook_a_newer_choice_stops_the_pass(
    captured: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_on, "_AT_ONCE", 0)
    whole = brute_force(captured.weights(0, None).numpy(), "mean")

    async def notebook() -> None:
        ex = AttentionExplorer(captured, head="max")
        assert "reading 1100 × 1400 weights" in ex.map.status
        ex.head = "mean"
        known = np.flatnonzero(~np.isnan(ex.map.row_sums))
        assert 0 < len(known) < QUERIES / 50
        np.testing.assert_allclose(ex.map.weights[5:9, 3:60], whole[5:9, 3:60], atol=1e-6)
        leans = ex.map.leans()
        for row in known:
            assert leans[row].weight == pytest.approx(whole[row].max(), abs=1e-6)
        while "reading" in ex.map.status:
            await asyncio.sleep(0.01)
        assert ex.map.title == "Layer 0 · mean of 3 heads · item 0"
        np.testing.assert_allclose(ex.map.row_sums, whole.sum(axis=1), atol=1e-5)
        ex.close()

    asyncio.run(notebook())


def test_the_mask_is_the_heads_own(captured: Capture) -> None:
    ex = AttentionExplorer(captured, head="mean")
    with pytest.raises(ValueError, match=r"causal: .*mask of its source"):
        ex.map.causal = True
