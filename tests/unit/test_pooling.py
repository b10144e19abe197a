"""Many cells to one: the largest or the mean, in Python as in brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from wire_support import places_of, values_of

from attnmap_widget import AttentionExplorer, AttentionMap, capture
from attnmap_widget.grid.pooling import Bins
from attnmap_widget.grid.states import State, cell_states, counted, leaks
from attnmap_widget.grid.tiles import Tile, Window, pooled


def brute_force(values: np.ndarray, states: np.ndarray, bin_: tuple[int, int]) -> np.ndarray:
    """(R, C) float64: the mean of what counts in each bin, NaN where nothing does."""
    (queries, keys), (rows, columns) = values.shape, bin_
    there = (counted(states) | leaks(values, states)) & ~np.isnan(values)
    means = np.full((-(-queries // rows), -(-keys // columns)), np.nan)
    for r, c in np.ndindex(*means.shape):
        part = slice(r * rows, (r + 1) * rows), slice(c * columns, (c + 1) * columns)
        if there[part].any():
            means[r, c] = values[part][there[part]].mean(dtype=np.float64)
    return means


@given(
    st.integers(1, 40), st.integers(1, 60), st.integers(1, 9), st.booleans(), st.integers(0, 2**32)
)
def test_each_cell_is_the_mean_of_what_counts(
    queries: int, keys: int, limit: int, causal: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(queries, keys)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[rng.random(values.shape) < 0.2] = 0
    padding = rng.random(keys) < 0.2
    missing = np.isnan(values) & (rng.random(values.shape) < 0.5)
    states = cell_states(values, missing, causal=causal, padding=(padding, None))

    def read(window: Window) -> tuple[np.ndarray, np.ndarray]:
        q0, q1, k0, k1 = window
        return values[q0:q1, k0:k1], states[q0:q1, k0:k1]

    whole = (0, queries, 0, keys)
    largest = pooled(read, (queries, keys), whole, limit)
    mean = pooled(read, (queries, keys), whole, limit, "mean")
    assert mean.bin == largest.bin
    np.testing.assert_array_equal(mean.states, largest.states)
    np.testing.assert_array_equal(mean.at, largest.at)
    expected = brute_force(values, states, mean.bin)
    nothing = np.isnan(expected)
    np.testing.assert_allclose(mean.values[~nothing], expected[~nothing], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mean.values[nothing], largest.values[nothing])


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 7), st.integers(0, 2**32))
def test_bins_may_be_filled_a_few_rows_at_a_time(
    queries: int, keys: int, step: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, (queries, keys)).astype(np.float32)  # many are equal
    states = cell_states(values, np.zeros(values.shape, dtype=bool))
    bin_ = (int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    once, apart = (Bins(range(queries), range(keys), bin_, means=True) for _ in range(2))
    once.add(0, values, states)
    for first in range(0, queries, step):
        rows = slice(first, first + step)
        apart.add(first, values[rows], states[rows])
    for name in ("values", "states", "query", "key"):
        np.testing.assert_array_equal(getattr(once, name), getattr(apart, name))
    np.testing.assert_allclose(once.means(), apart.means(), rtol=1e-6)


def test_a_map_pooled_by_mean_says_so_and_is_coloured_by_means() -> None:
    weights = np.zeros((1500, 2000), dtype=np.float32)
    weights[1234, 1777] = 1
    attention = AttentionMap(range(2000), weights, range(1500))
    assert attention.pool == "max"
    assert attention.shown_range == (0, 1)
    sent: list[str] = []
    attention.observe(lambda change: sent.append(change["name"]), names=["weights", "pool"])
    attention.pool = "mean"
    assert sent == ["pool"]  # no other weights
    assert attention.status == "1500 × 2000 weights, each cell the mean of 3 × 4"
    wire = attention.get_state("weights")["weights"]
    assert wire["pool"] == "mean"
    seen = values_of(wire)
    assert seen[1234 // 3, 1777 // 4] == pytest.approx(1 / 12)
    assert seen.sum() == pytest.approx(1 / 12)
    query, key = places_of(wire)
    assert (query[411, 444], key[411, 444]) == (1234, 1777)
    assert attention.shown_range == (0, pytest.approx(1 / 12))
    attention.viewport = (100, 1500, 500, 2000)
    detail = attention.get_state("_detail")["_detail"]
    assert detail["pool"] == "mean"
    assert values_of(detail).max() == pytest.approx(1 / 9)
    attention.exclude_keys = (1777,)  # with its whole bin: what else is in it, a mean does not say
    assert attention.shown_range == (0, 1)
    assert "mean of 3 × 3 per cell" in attention.to_svg()
    for bad in ("median", None, 3):
        with pytest.raises(ValueError, match=r"pool: got .*, accepted are max, mean"):
            attention.pool = bad
    assert attention.pool == "mean"


def test_a_small_map_is_pooled_where_it_is_drawn_only() -> None:
    attention = AttentionMap(list("abc"), np.eye(3), pool="mean")
    wire = attention.get_state("weights")["weights"]
    np.testing.assert_array_equal(values_of(wire), np.eye(3))
    assert (wire["pool"], attention.status) == ("mean", "")


def test_other_pooling_of_the_same_weights_travels() -> None:
    weights = np.random.default_rng(3).random((1100, 1300), dtype=np.float32)
    attention = AttentionMap(range(1300), weights, range(1100))
    sent: list[object] = []
    attention.send_state = lambda key=None: sent.append(key)  # type: ignore[method-assign]
    attention.pool = "mean"
    assert "weights" in sent
    attention.scheme = "Reds"
    assert sent.count("weights") == 1


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_a_long_head_is_pooled_as_its_array(pool: str) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 2, 1100, 8), torch.randn(1, 2, 1500, 8)
    allowed = torch.ones(1100, 1500, dtype=torch.bool).tril(300)
    with capture() as cap:
        torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=allowed)
    explorer = AttentionExplorer(cap, head=1, pool=pool)
    whole = cap.weights(0, 1).numpy()
    states = cell_states(whole, np.zeros(whole.shape, dtype=bool), mask=allowed.numpy())

    def read(window: Window) -> tuple[np.ndarray, np.ndarray]:
        q0, q1, k0, k1 = window
        return whole[q0:q1, k0:k1], states[q0:q1, k0:k1]

    def same(tile: Tile, window: Window) -> None:
        expected = pooled(read, (1100, 1500), window, pool=pool)
        assert tile.bin == expected.bin
        np.testing.assert_allclose(tile.values, expected.values, atol=1e-6)
        np.testing.assert_array_equal(
            tile.states == State.CANNOT_LOOK, expected.states == State.CANNOT_LOOK
        )

    same(explorer.map._checked.tile, (0, 1100, 0, 1500))
    explorer.map.viewport = (40, 1100, 90, 1300)
    assert explorer.map._checked.detail is not None
    same(explorer.map._checked.detail, (40, 1100, 90, 1300))
    explorer.map.pool = "mean"  # another pooling needs no other pass
    assert "each cell the mean of 3 × 3" in explorer.map.status
