"""Sums, leans, checks and the text grid."""

from __future__ import annotations

import numpy as np
import pytest

from attnmap_widget import AttentionMap, Lean
from attnmap_widget.grid.reading import largest_keys

nan = float("nan")


def checks(weights: object, **options: object) -> str:
    array = np.asarray(weights, dtype=float)
    queries, keys = array.shape
    square = queries == keys
    rows = None if square else [f"q{i}" for i in range(queries)]
    return " | ".join(AttentionMap([f"k{i}" for i in range(keys)], array, rows, **options).checks)


def test_leans_and_sums() -> None:
    attention = AttentionMap(list("abc"), [[0.2, 0.7, 0.1], [0.5, 0.5, 0], [nan] * 3])
    assert attention.leans() == [Lean(0, 1, pytest.approx(0.7)), Lean(1, 0, 0.5), None]
    assert attention.row_sums.dtype == np.float64
    np.testing.assert_allclose(attention.row_sums, [1, 1, 0], atol=1e-6)
    short = AttentionMap(list("ab"), [0.25], ["q", "r"])
    assert short.leans() == [Lean(0, 0, 0.25), None]
    np.testing.assert_array_equal(short.row_sums, [0.25, 0])


def test_padding_is_out_of_the_leans() -> None:
    attention = AttentionMap(list("abc"), [[0.9, 0.05, 0.05]] * 3, padding=[1, 0, 0])
    assert attention.leans() == [
        None,
        Lean(1, 1, pytest.approx(0.05)),
        Lean(2, 1, pytest.approx(0.05)),
    ]


def test_a_good_grid_has_nothing_to_check() -> None:
    assert checks([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]]) == ""
    assert checks([[1, 0, 0], [0.3, 0.7, 0], [0.33, 0.33, 0.33]], causal=True) == ""
    assert checks([[0.333, 0.333, 0.334], [0.1, 0.2, 0.7]]) == ""


def test_what_looks_wrong_is_said() -> None:
    assert "do not sum to 1" in checks([[0, 0], [0.61, 0.5], [0.5, 0.61], [0.5, 0.43]])
    assert "dropout?" in checks([[0, 0], [0.61, 0.5], [0.5, 0.61], [0.5, 0.43]])
    assert "raw scores" in checks([[3.0, 4.0], [1.0, 7.0]])
    assert "below 0 (lowest -3.00)" in checks([[-3.0, 4.0], [1.0, 7.0]])
    assert "a sink" in checks([[0.1, 0.05], [0.06, 0.2], [0.2, 0.14]])
    assert "columns sum to 1" in checks(
        np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.4, 0.2, 0.4]]).T
    )
    assert "all rows are uniform" in checks(np.full((5, 5), 0.2))
    assert "all rows are uniform" in checks([[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3], causal=True)
    assert "1 row with no valid key (NaN): 1" in checks([[0.4, 0.6], [nan, nan]])


def test_unknown_cells_and_padding_are_not_judged() -> None:
    assert AttentionMap(list("ab"), [0.6]).checks == []
    padded = np.array([[1 / 3] * 3, [0, 1, 0], [0, 0.5, 0.5]])
    assert AttentionMap(list("abc"), padded * [[2], [1], [1]], padding=[1, 0, 0]).checks == []


def test_the_lessons_grid() -> None:
    attention = AttentionMap(["the", "cat", "sat"], [1, 0, 0, 0.3, 0.7, 0, 0.25, 0.25, 0.5])
    assert str(attention).splitlines() == [
        "      the  cat  sat",
        " the 1.00 0.00 0.00",
        " cat 0.30 0.70 0.00",
        " sat 0.25 0.25 0.50",
    ]


def test_wider_labels_widen_their_column_and_empty_cells_are_blank() -> None:
    attention = AttentionMap(
        ["a", "suitcase", "你好"], [[0.5, 0.25, 0.25], [1.0] + [None] * 2], ["trophy", "x"]
    )
    assert str(attention).splitlines() == [
        "          a suitcase 你好",
        "trophy 0.50     0.25 0.25",
        "     x 1.00",
    ]


def test_find_goes_round_the_rows_of_a_token() -> None:
    grid = [[1, 0, 0, 0], [0, 0, 0.9, 0.1], [0.2, 0.8, 0, 0], [0, 0.3, 0.3, 0.4]]
    attention = AttentionMap(["[CLS]", "[MASK]", "a", "[MASK]"], grid)
    assert [attention.find("[MASK]") for _ in range(3)] == [(1, 2), (3, 3), (1, 2)]
    assert attention.selection == (1, 2)
    assert attention.find("b") is None
    assert attention.selection == (1, 2)


def test_the_largest_keys_are_weights_that_the_row_may_give() -> None:
    values = np.array([[0.4, -0.9, 0.0, 0.6, 0.3]], dtype=np.float32)
    states = np.array([[0, 0, 1, 5, 3]], dtype=np.uint8)  # padding, and weight where none may be
    keys, weights = largest_keys(values[0], states[0], 8)
    assert keys.tolist() == [0, 4, 1]
    np.testing.assert_array_equal(weights, np.float32([0.4, 0.3, -0.9]))


def test_what_cannot_be_looked_at_is_a_dot_in_its_place() -> None:
    weights = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, nan, 0.8, 0.25]]
    grid = AttentionMap(["a", "bird", "c", "d"], weights, ["x", "y", "z"], causal=True)
    assert str(grid).splitlines() == [
        "        a bird    c    d",
        "   x 1.00    ·    ·    ·",
        "   y 0.50 0.50    ·    ·",
        "   z 0.20      0.80 0.25",
    ]
