"""What travels to the browser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_support import places_of, values_of

from attnmap_widget import AttentionMap, State
from attnmap_widget.grid.states import cell_states
from attnmap_widget.grid.tiles import Window, pooled, tile


def test_a_grid_of_a_million_cells_travels_whole_and_one_more_row_does_not() -> None:
    whole = np.zeros((1024, 1024), dtype=np.float32)
    assert tile(whole, np.zeros(whole.shape, dtype=np.uint8)).bin == (1, 1)
    more = np.zeros((1025, 1024), dtype=np.float32)
    assert tile(more, np.zeros(more.shape, dtype=np.uint8)).bin == (3, 2)


def test_a_lone_spike_survives_with_its_true_position() -> None:
    weights = np.zeros((4096, 4096), dtype=np.float32)
    weights[4000, 17] = 1
    attention = AttentionMap(range(4096), weights)
    wire = attention.get_state("weights")["weights"]
    seen = values_of(wire)
    assert seen.shape == (512, 512)
    assert (seen == 1).sum() == 1
    assert [place[seen == 1].tolist() for place in places_of(wire)] == [[4000], [17]]
    assert "4096 × 4096" in attention.status


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_each_pooled_cell_is_the_largest_weight_of_its_bin(
    queries: int, keys: int, limit: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(queries, keys)).astype(np.float32)
    values[rng.random(values.shape) < 0.2] = np.nan
    missing = np.isnan(values)
    states = cell_states(values, missing)

    def read(window: Window) -> tuple[np.ndarray, np.ndarray]:
        q0, q1, k0, k1 = window
        return values[q0:q1, k0:k1], states[q0:q1, k0:k1]

    seen = pooled(read, (queries, keys), (0, queries, 0, keys), limit)
    rows, columns = seen.bin
    assert seen.at is not None
    assert max(seen.values.shape) <= limit
    for row in range(seen.values.shape[0]):
        for column in range(seen.values.shape[1]):
            q, k = row * rows, column * columns
            there = values[q : q + rows, k : k + columns]
            query, key = divmod(int(seen.at[row, column]), keys)
            assert q <= query < q + rows
            assert k <= key < k + columns
            np.testing.assert_equal(seen.values[row, column], values[query, key])
            assert seen.states[row, column] == states[query, key]
            if not np.isnan(there).all():
                assert abs(seen.values[row, column]) == np.nanmax(np.abs(there))


def test_states_travel_only_where_a_cell_is_not_a_plain_weight() -> None:
    plain = AttentionMap(list("ab"), [[1, 0], [0.5, 0.5]])
    assert plain.get_state("weights")["weights"]["states"] is None
    causal = AttentionMap(list("ab"), [[1, 0], [0.5, 0.5]], causal=True)
    wire = causal.get_state("weights")["weights"]
    assert list(wire["states"]) == [0, State.CANNOT_LOOK, 0, 0]


def test_no_list_of_numbers_and_no_nan_in_the_json_part() -> None:
    attention = AttentionMap(range(60), np.full((60, 60), np.nan))
    wire = attention.get_state("weights")["weights"]
    assert isinstance(wire["data"], bytes)
    assert all(len(part) <= 4 for part in wire.values() if isinstance(part, list))


def test_a_viewport_of_a_large_grid_is_answered_with_exact_cells() -> None:
    weights = np.random.default_rng(0).random((1500, 2000), dtype=np.float32)
    attention = AttentionMap(range(2000), weights, range(1500))
    assert attention.viewport == (0, 1500, 0, 2000)
    assert attention.get_state(["viewport", "_detail"]) == {"viewport": None, "_detail": None}
    attention.viewport = (700, 900, 1000, 1300)
    detail = attention.get_state("_detail")["_detail"]
    assert (detail["size"], detail["window"]) == ([1500, 2000], [700, 900, 1000, 1300])
    assert (detail["bin"], detail["at"]) == ([1, 1], None)
    seen = np.frombuffer(detail["data"], dtype="<f4").reshape(detail["shape"])
    np.testing.assert_array_equal(seen, weights[700:900, 1000:1300])
    attention.weights = weights[::-1]
    detail = attention.get_state("_detail")["_detail"]
    seen = np.frombuffer(detail["data"], dtype="<f4").reshape(detail["shape"])
    np.testing.assert_array_equal(seen, weights[::-1][700:900, 1000:1300])
    attention.viewport = None
    assert attention.viewport == (0, 1500, 0, 2000)
    assert attention.get_state("_detail")["_detail"] is None


def test_a_large_viewport_is_pooled_with_true_positions() -> None:
    weights = np.zeros((1500, 2000), dtype=np.float32)
    weights[1234, 1777] = 1
    attention = AttentionMap(range(2000), weights, range(1500))
    attention.viewport = (100, 1500, 500, 2000)
    detail = attention.get_state("_detail")["_detail"]
    assert detail["bin"] == [3, 3]
    seen = np.frombuffer(detail["data"], dtype="<f4").reshape(detail["shape"])
    assert [place[seen == 1].tolist() for place in places_of(detail)] == [[1234], [1777]]


def test_a_viewport_outside_the_grid_is_refused_and_ignored_from_the_browser() -> None:
    attention = AttentionMap(range(5), np.full((3, 5), 0.2), range(3))
    for bad in ((0, 4, 0, 5), (2, 2, 0, 5), (-1, 2, 0, 5), (0, 3, 0), "abcd", (0.5, 2, 0, 5)):
        with pytest.raises((ValueError, TypeError), match="viewport"):
            attention.viewport = bad
    attention.set_state({"viewport": [0, 2, 1, 3]})
    assert attention.viewport == (0, 2, 1, 3)
    attention.set_state({"viewport": [0, 9, 1, 3]})
    assert attention.viewport == (0, 2, 1, 3)
    attention.set_state({"viewport": None})
    assert attention.viewport == (0, 3, 0, 5)


def test_the_largest_keys_of_a_row_travel_where_the_browser_has_no_whole_rows() -> None:
    weights = np.random.default_rng(1).random((1200, 1500), dtype=np.float32)
    attention = AttentionMap(range(1500), weights, range(1200))
    assert attention.get_state("_top")["_top"] is None
    attention.set_state({"hover": [7, 3]})
    top = attention.get_state("_top")["_top"]
    expected = np.argsort(-weights[7])[:8]
    assert (top["query"], top["keys"]) == (7, expected.tolist())
    np.testing.assert_array_equal(np.float32(top["weights"]), weights[7][expected])
    attention.weights = weights[::-1]
    assert attention.get_state("_top")["_top"]["keys"] == np.argsort(-weights[-8])[:8].tolist()
    attention.set_state({"hover": None})
    assert attention.get_state("_top")["_top"] is None
    small = AttentionMap(list("ab"), np.eye(2), hover=(0, 0))
    assert small.get_state("_top")["_top"] is None
