"""Mean, maximum and rollout in numpy: equal to loops over single cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from attnmap_widget import ShapeError
from attnmap_widget.aggregates import max_of, mean_of, reduce, rollout

WEIGHTS = st.one_of(st.just(math.nan), st.floats(0, 1, width=32))
STACKS = npst.arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6)),
    elements=WEIGHTS,
)


@given(STACKS)
def test_mean_and_max_are_over_the_maps_that_have_a_weight_there(stack: np.ndarray) -> None:
    mean, largest = mean_of(stack), max_of(iter(stack))
    assert (mean.dtype, largest.dtype) == (np.float32, np.float32)
    for place in np.ndindex(stack.shape[1:]):
        there = [float(one[place]) for one in stack if not math.isnan(one[place])]
        expected = (math.fsum(there) / len(there), max(there)) if there else (math.nan, math.nan)
        np.testing.assert_allclose((mean[place], largest[place]), expected, rtol=1e-6, atol=1e-44)
    used = sum(not np.isnan(one).all() for one in stack)
    assert reduce("mean", stack)[1:] == (used, len(stack))


def test_one_map_alone_is_not_taken_for_a_list_of_rows() -> None:
    for maps in (np.eye(3), np.ones((2, 4, 3, 3))):
        for reduced in (mean_of, max_of):
            with pytest.raises(ShapeError, match=r"map 0 has shape .*, expected \(queries, keys\)"):
                reduced(maps)


def test_maps_of_different_shapes_are_not_averaged() -> None:
    with pytest.raises(ShapeError, match=r"map 1 is \(3, 2\), map 0 is \(2, 3\)"):
        mean_of([np.ones((2, 3)), np.ones((3, 2))])
    with pytest.raises(ShapeError, match="no map to take a max of"):
        max_of([])
    with pytest.raises(ValueError, match="infinite at query 0, key 1"):
        mean_of([[[0, math.inf, 1]]])


def shares(weights: np.ndarray) -> list[list[float]]:
    count = len(weights)
    passed = [
        [0.5 * float(weights[i, j]) + 0.5 * (i == j) for j in range(count)] for i in range(count)
    ]
    return [[weight / sum(row) for weight in row] for row in passed]


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 5)).flatmap(
        lambda size: npst.arrays(
            np.float32, (size[0], size[1], size[1]), elements=st.floats(0, 1, width=32)
        )
    )
)
def test_rollout_follows_every_path_through_the_layers(layers: np.ndarray) -> None:
    """The share of input j in output i: over all paths, the product of the shares on the way."""
    count = layers.shape[1]
    steps = [shares(layer) for layer in layers]
    expected = np.eye(count)
    for output in range(count):
        reached = {output: 1.0}  # walked backwards, from the output down to the inputs
        for step in reversed(steps):
            before: dict[int, float] = {}
            for place, share in reached.items():
                for source in range(count):
                    before[source] = before.get(source, 0.0) + share * step[place][source]
            reached = before
        expected[output] = [reached[source] for source in range(count)]
    found = rollout(layers)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_the_order_of_the_layers_counts() -> None:
    first, second = np.array([[1, 0], [1, 0]]), np.array([[0, 1], [0, 1]])
    np.testing.assert_allclose(rollout([first, second]), [[0.75, 0.25], [0.5, 0.5]])
    np.testing.assert_allclose(rollout([second, first]), [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "there are no layers"),
        ([np.ones((2, 3))], "map 0 of the layers is 2×3, expected one square map"),
        ([np.ones((2, 3, 3))], "map 0 of the layers is 2×3×3"),
        ([np.eye(3), np.eye(4)], "map 1 of the layers has 4 tokens, the layers before have 3"),
    ],
)
def test_rollout_refuses_what_is_no_stack_of_squares(layers: list, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        rollout(layers)


def test_rollout_refuses_cells_without_a_weight_and_scores() -> None:
    with pytest.raises(ValueError, match=r"map 1 .* no weight \(NaN\) in row 1 \(2 in all\)"):
        rollout([np.eye(3), [[1, 0, 0], [math.nan, 1, 0], [0, math.nan, 1]]])
    with pytest.raises(ValueError, match="below 0 at query 1, key 0"):
        rollout([[[1, 0], [-2, 1]]])
