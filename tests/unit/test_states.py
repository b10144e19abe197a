"""What each cell of a map is."""

from __future__ import annotations

import numpy as np
import pytest

from attnmap_widget import AttentionMap, ShapeError, State
from attnmap_widget.grid.states import leaks

nan = float("nan")
W, Z, E, C, N, P, Y = State  # in the order of their codes


def states(*args: object, **options: object) -> list[list[int]]:
    return AttentionMap(*args, **options).states.tolist()


def test_the_codes_are_fixed() -> None:
    assert [int(state) for state in State] == [0, 1, 2, 3, 4, 5, 6]


def test_weight_zero_and_empty() -> None:
    assert states(["a", "b", "c"], [0.5, 0, 0.5, 1], ["q", "r"]) == [[W, Z, W], [W, E, E]]


def test_a_row_of_nan_had_no_valid_key_but_a_row_not_given_is_empty() -> None:
    assert states(["a", "b"], [[nan, nan], [0.4, 0.6]]) == [[N, N], [W, W]]
    assert states(["a", "b"], [[None, None], [0.4, 0.6]]) == [[E, E], [W, W]]
    assert states(["a", "b"], [[nan, 1.0], [0.4, 0.6]]) == [[E, W], [W, W]]


def test_causal_and_offset() -> None:
    grid = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0]]
    keys, queries = list("abcd"), list("xyz")
    assert states(keys, grid, queries, causal=True) == [[W, C, C, C], [W, W, C, C], [Z, Z, W, C]]
    # The last two of five queries: row 0 stands at position 3 and sees keys 0 to 3.
    last = [[0.2, 0.2, 0.3, 0.3, 0], [0.2, 0.2, 0.2, 0.2, 0.2]]
    found = states(list("abcde"), last, list("de"), causal=True, query_offset=3)
    assert found == [[W, W, W, W, C], [W, W, W, W, W]]


def test_without_a_flag_the_upper_triangle_is_plain_weights() -> None:
    assert states(["a", "b"], [[0.5, 0.5], [0.5, 0.5]]) == [[W, W], [W, W]]


def test_weight_where_nobody_may_look_is_kept_and_found() -> None:
    attention = AttentionMap(list("abc"), [[1, 0, 0.3], [0.5, 0.5, 0], [0, 0, 1]], causal=True)
    assert attention.states.tolist() == [[W, C, C], [W, W, C], [Z, Z, W]]
    assert attention.weights[0, 2] == np.float32(0.3)
    found = leaks(attention.weights, attention.states)
    assert found.tolist() == [[False, False, True], [False] * 3, [False] * 3]
    assert any("mass above the diagonal 0.30" in check for check in attention.checks)


def test_masked_nan_cells_are_cannot_look_and_hopeless_rows_say_so() -> None:
    mask = [[True, False], [False, False]]
    assert states(["a", "b"], [[1, nan], [nan, nan]], mask=mask) == [[W, C], [N, N]]
    assert states(["a", "b"], [[1, 0], [0, 0]], mask=mask) == [[W, C], [C, C]]


def test_padding_covers_columns_and_in_a_map_of_one_token_list_rows() -> None:
    grid = np.full((3, 3), 1 / 3)
    pad = [True, False, False]
    assert states(list("abc"), grid, padding=pad) == [[P, P, P], [P, W, W], [P, W, W]]
    assert states(list("abc"), grid, list("xyz"), padding=pad) == [[P, W, W]] * 3
    both = (pad, [False, False, True])
    assert states(list("abc"), grid, list("xyz"), padding=both) == [[P, W, W], [P, W, W], [P] * 3]


def test_keys_that_did_not_exist_yet() -> None:
    grid = [[1, nan, nan], [0.5, 0.5, nan], [0.2, 0.2, 0.6]]
    later = np.triu(np.ones((3, 3), dtype=bool), 1)
    assert states(list("abc"), grid, not_yet=later) == [[W, Y, Y], [W, W, Y], [W, W, W]]


def test_a_mask_of_another_shape_is_refused_and_the_map_stays() -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    with pytest.raises(ShapeError, match=r"mask: got shape \(2, 2\), expected \(3, 3\)"):
        attention.mask = np.eye(2, dtype=bool)
    assert attention.mask is None
    attention.mask = np.tri(3, dtype=bool)
    with pytest.raises(ShapeError, match="mask: the one set before has shape"):
        attention.update(tokens=list("ab"), weights=np.eye(2))
    assert attention.tokens == list("abc")
    attention.update(tokens=list("ab"), weights=np.eye(2), mask=None)
    assert attention.states.tolist() == [[W, Z], [Z, W]]
