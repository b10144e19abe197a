"""What is taken as a grid of weights, and how the rest is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from attnmap_widget import AttentionMap, ShapeError
from attnmap_widget.grid.weights import accept, accept_bool

W23 = [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]


class OnlyArray:
    """Something that offers nothing but `__array__`."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.array(W23)


@pytest.mark.parametrize(
    "given",
    [
        W23,
        [0.1, 0.2, 0.7, 0.5, 0.25, 0.25],
        tuple(map(tuple, W23)),
        np.array(W23),
        np.array(W23, dtype=">f8"),
        np.asfortranarray(W23),
        np.array(W23).ravel(),
        np.array(W23, dtype=object),
        [np.array(row) for row in W23],
        [[np.float32(weight) for weight in row] for row in W23],
        torch.tensor(W23),
        torch.tensor(W23, dtype=torch.float64),
        torch.tensor(W23, requires_grad=True),
        torch.tensor(W23).T.contiguous().T,
        torch.tensor(W23).to_sparse(),
        [torch.tensor(row, requires_grad=True) for row in W23],
        [[torch.tensor(weight) for weight in row] for row in W23],
        OnlyArray(),
    ],
    ids=repr,
)
def test_every_way_of_writing_a_grid_is_the_same_grid(given: object) -> None:
    values, missing = accept(given, 2, 3)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, np.array(W23, dtype=np.float32))
    assert not missing.any()


@pytest.mark.parametrize(
    "dtype",
    [torch.bfloat16, torch.half, torch.float8_e4m3fn, torch.float8_e5m2, torch.int32, torch.bool],
)
def test_every_torch_dtype_is_drawn_as_float32(dtype: torch.dtype) -> None:
    weights = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.25]]).to(dtype)
    values, _ = accept(weights, 2, 3)
    np.testing.assert_array_equal(values, weights.float().numpy())


@given(
    npst.arrays(
        np.float32,
        npst.array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements=st.floats(-1e3, 1e3, width=32),
    )
)
def test_flat_and_nested_lists_put_every_weight_in_its_cell(grid: np.ndarray) -> None:
    for given_grid in (grid.tolist(), grid.ravel().tolist(), grid):
        values, _ = accept(given_grid, *grid.shape)
        np.testing.assert_array_equal(values, grid)


@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_a_short_flat_list_leaves_the_rest_empty(queries: int, keys: int, data: st.DataObject):
    length = data.draw(st.integers(0, queries * keys))
    values, missing = accept([0.5] * length, queries, keys)
    assert (~np.isnan(values)).ravel().tolist() == [i < length for i in range(queries * keys)]
    np.testing.assert_array_equal(missing, np.isnan(values))


def test_none_and_masked_entries_are_no_weights() -> None:
    values, missing = accept([[0.5, None], [None, 0.25]], 2, 2)
    np.testing.assert_array_equal(np.isnan(values), [[False, True], [True, False]])
    np.testing.assert_array_equal(missing, np.isnan(values))
    masked = np.ma.masked_greater(np.array([[0.5, 9.0]]), 1)
    values, missing = accept(masked, 1, 2)
    assert values[0, 0] == 0.5
    assert missing.tolist() == [[False, True]]


def test_a_later_edit_of_the_array_does_not_reach_the_map() -> None:
    given = np.eye(3, dtype=np.float32)
    attention = AttentionMap(["a", "b", "c"], given)
    given[0, 0] = 5
    assert attention.weights[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        attention.weights[0, 0] = 5
    attention.weights = given
    assert attention.weights[0, 0] == 5


@pytest.mark.parametrize(
    ("given", "queries", "keys", "words"),
    [
        (None, 2, 3, ["None", "fused backend", "capture(model)"]),
        ((), 2, 3, ["fused backend", "capture(model)"]),
        ((None, None), 2, 3, ["fused backend", "capture(model)"]),
        (((), ()), 2, 3, ["fused backend", "capture(model)"]),
        (np.zeros((7, 3)), 3, 7, ["looks transposed: got 7×3, expected 3×7", "weights.T"]),
        (
            np.zeros((92, 92)),
            90,
            90,
            ["2 more keys than tokens (block padding?)", "give weights[:90, :90]"],
        ),
        (np.zeros((5, 5)), 7, 7, ["2 fewer keys than tokens"]),
        (np.zeros((6, 64)), 6, 6, ["58 more keys", "hidden state"]),
        (np.zeros((7, 6)), 6, 6, ["1 more row than queries"]),
        (np.zeros((4, 9)), 6, 6, ["neither axis fits"]),
        (np.zeros((12, 2, 3)), 2, 3, ["12×2×3", "heads", "AttentionExplorer", "weights[heads]"]),
        (np.zeros((1, 2, 3)), 2, 3, ["1×2×3", "AttentionExplorer"]),
        (torch.zeros(4, 12, 2, 3), 2, 3, ["batch or layers and heads", "AttentionExplorer"]),
        (np.zeros((1, 54, 28, 28)), 54, 54, ["54 queries found on axis 1, expected on the last"]),
        ((np.zeros((1, 4, 2, 3)), np.zeros((1, 4, 2, 3))), 2, 3, ["tuple of layers"]),
        (np.float64(3.0), 2, 3, ["expected 2×3"]),
        (np.zeros(5), 2, 3, ["5 values, expected 6", "flat *list*"]),
        ([0.0] * 7, 2, 3, ["7 values, expected 6", "1 too many"]),
        ([[1.0, 0.0, 0.0]], 2, 3, ["got 1×3, expected 2×3"]),
        ([[1.0, 0.0, 0.0], [1.0]], 2, 3, ["ragged: row 1", "None where there is none"]),
        ([[1.0, 0.0, 0.0], 1.0], 2, 3, ["ragged: row 1"]),
    ],
)
def test_another_shape_is_refused_with_both_shapes_and_the_fix(
    given: object, queries: int, keys: int, words: list[str]
) -> None:
    with pytest.raises(ShapeError) as refused:
        accept(given, queries, keys)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([["0.5", 0.5]], TypeError, "not a real number"),
        (np.array([["0.5", "0.5"]]), TypeError, "strings"),
        ([[0.5, 1j]], TypeError, "not a real number"),
        (np.array([[0.5, 1j]]), TypeError, "complex"),
        (torch.tensor([[0.5, 1j]]), TypeError, "complex"),
        (torch.empty(1, 2, device="meta"), ValueError, "meta"),
        ([[{}, 0.5]], TypeError, "not a real number"),
        ({"a": 1}, TypeError, "dict"),
        ("0.5 0.5", TypeError, "str"),
        ([[float("inf"), 0.0]], ValueError, "infinite at query 0, key 0"),
        (np.array([[0.0, -np.inf]]), ValueError, "infinite at query 0, key 1"),
        ([[0.0, 1e300]], ValueError, "infinite"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_what_is_no_real_number_is_refused(
    given: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        accept(given, 1, 2)


def test_a_mask_is_booleans_of_the_grids_shape() -> None:
    np.testing.assert_array_equal(accept_bool("mask", [[1, 0]], (1, 2)), [[True, False]])
    np.testing.assert_array_equal(
        accept_bool("mask", torch.tensor([[True, False]]), (1, 2)), [[True, False]]
    )
    with pytest.raises(ShapeError, match=r"mask: got shape \(2,\), expected \(1, 2\)"):
        accept_bool("mask", [True, False], (1, 2))
    with pytest.raises(TypeError, match="mask: expected True and False"):
        accept_bool("mask", [[0.0, -1e9]], (1, 2))


def test_lists_need_no_torch() -> None:
    code = (
        "import sys; from attnmap_widget import AttentionMap; "
        "AttentionMap(['a', 'b'], [[1, 0], [.5, .5]]); "
        "sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
