"""Heads made small: no peak lost, no state taken for a zero, no shape taken for another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnmap_widget.grid.states import State, cell_states
from attnmap_widget.heads.thumbnails import FIRST, STEPS, coarser, side, thumbnail

TOP = FIRST + STEPS


def states_of(values: np.ndarray, **options: object) -> np.ndarray:
    return cell_states(values, np.isnan(values), **options)  # type: ignore[arg-type]


def test_a_lone_spike_stays_visible_in_its_bin() -> None:
    values = np.zeros((3000, 700), dtype=np.float32)
    values[2222, 17] = 0.5
    small = thumbnail(values, states_of(values), 32)
    assert small.levels.shape == (32, 8)  # 4.3 : 1 is drawn as 4 : 1
    assert small.pooled == (94, 88)
    assert small.levels[2222 // 94, 17 // 88] == TOP
    assert (small.levels == FIRST).sum() == small.levels.size - 1
    assert (small.low, small.high, small.shape) == (0.0, 0.5, (3000, 700))


@pytest.mark.parametrize(
    ("shape", "small"),
    [
        ((6, 15), (6, 15)),
        ((1, 9), (1, 9)),
        ((64, 512), (8, 32)),
        ((512, 48), (32, 8)),
        ((4096, 3), (32, 3)),
        ((33, 33), (17, 17)),
    ],
)
def test_a_rectangular_map_keeps_its_shape(shape: tuple[int, int], small: tuple[int, int]) -> None:
    values = np.full(shape, 0.25, dtype=np.float32)
    assert thumbnail(values, states_of(values), 32).levels.shape == small


@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 70),
    longest=st.integers(3, 12),
    seed=st.integers(0, 99),
    signed=st.booleans(),
)
def test_each_cell_is_the_largest_of_its_bin(
    rows: int, columns: int, longest: int, seed: int, signed: bool
) -> None:
    random = np.random.default_rng(seed)
    values = (random.random((rows, columns)) - 0.5 * signed).astype(np.float32)
    values[random.random(values.shape) < 0.4] = np.nan
    small = thumbnail(values, states_of(values), longest)
    height, width = small.pooled
    assert max(small.levels.shape) <= longest
    assert small.levels.shape == (math.ceil(rows / height), math.ceil(columns / width))
    for row, column in np.ndindex(small.levels.shape):
        part = values[
            row * height : (row + 1) * height, column * width : (column + 1) * width
        ].ravel()
        there = part[~np.isnan(part)]
        level = int(small.levels[row, column])
        if not there.size:
            assert level in (State.EMPTY, State.NO_VALID_KEY)
            continue
        assert level >= FIRST
        span = small.high - small.low
        weight = small.low + (level - FIRST) / STEPS * span
        assert abs(abs(weight) - np.abs(there).max()) <= span / STEPS


def test_states_have_levels_of_their_own_and_zero_is_none_of_them() -> None:
    values = np.array([[0.0, 0.0, 0.0, 0.3], [np.nan, 1.0, 0.0, 0.0]], dtype=np.float32)
    padding = np.array([False, False, False, True])
    states = states_of(values, causal=True, padding=(padding, None))
    levels = thumbnail(values, states, 32).levels
    assert levels.tolist() == [
        [FIRST, State.CANNOT_LOOK, State.CANNOT_LOOK, State.PADDING],
        [State.EMPTY, TOP, State.CANNOT_LOOK, State.PADDING],
    ]


def test_weight_where_none_may_be_is_drawn() -> None:
    values = np.array([[0.6, 0.4], [0.5, 0.5]], dtype=np.float32)
    levels = thumbnail(values, states_of(values, causal=True), 32).levels
    assert levels[0, 1] == FIRST + round(0.4 / 0.6 * STEPS)


def test_negative_weights_lie_around_an_exact_zero() -> None:
    values = np.array([[-0.2, 0.0, 0.15]], dtype=np.float32)
    small = thumbnail(values, states_of(values), 32)
    assert (small.low, small.high) == pytest.approx((-0.2, 0.2))
    middle = FIRST + STEPS // 2
    assert small.levels.tolist() == [[FIRST, middle, FIRST + round(0.875 * STEPS)]]


def test_excluded_keys_leave_the_range_and_are_clipped() -> None:
    values = np.array([[0.97, 0.01, 0.02]], dtype=np.float32)
    small = thumbnail(values, states_of(values), 32, exclude_keys=(0,))
    assert small.high == pytest.approx(0.02)
    assert small.levels.tolist() == [[TOP, FIRST + STEPS // 2, TOP]]


def test_nothing_but_zeros_is_zero() -> None:
    values = np.zeros((2, 3), dtype=np.float32)
    assert (thumbnail(values, states_of(values), 32).levels == FIRST).all()


def test_more_heads_have_smaller_thumbnails() -> None:
    assert [side(n) for n in (1, 72, 144, 256, 1024, 5120)] == [32, 32, 32, 32, 16, 8]


def test_levels_pool_again_by_magnitude_below_every_weight_the_states() -> None:
    levels = np.array([[3, 8, 2], [3, 9, 2]], dtype=np.uint8)
    assert coarser(levels, 2, signed=False).tolist() == [[9, 2]]
    middle = FIRST + STEPS // 2
    signed = np.array([[middle + 5, middle - 9, 3, 3]], dtype=np.uint8)
    assert coarser(signed, 2, signed=True).tolist() == [[middle - 9, 3]]
