"""Word pieces into words, and maps without some of their tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnmap_widget import AttentionMap, ShapeError, State
from attnmap_widget.words import drop, merge, word_groups

nan = float("nan")
PIECES = ["un", "##believ", "##able", "cat"]


def softmax(*shape: int) -> np.ndarray:
    scores = np.exp(np.random.default_rng(3).normal(size=shape))
    return scores / scores.sum(axis=-1, keepdims=True)


# -- which pieces make a word --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "groups"),
    [
        (["[CLS]", *PIECES, "##s", ".", "[SEP]"], [[0], [1, 2, 3], [4, 5], [6], [7]]),
        (["##able", "cat", "##s"], [[0], [1, 2]]),
        (["東", "##京", "に"], [[0, 1], [2]]),
        (["a", "##"], None),
        (
            ["The", "Ġun", "believ", "able", "Ġcat", ".", "Ċ", "x"],
            [[0], [1, 2, 3], [4], [5], [6], [7]],
        ),
        (["don", "'t", "Ġgo", "!", "!"], [[0], [1], [2], [3], [4]]),
        (["Ġ", "12", "3", "ĠðŁ", "ĻĤ"], [[0, 1, 2], [3, 4]]),
        (["<s>", "the", "Ġcat", "s", "</s>"], [[0], [1], [2, 3], [4]]),
        (["Ġç", "Ĭ", "¶", "æ", "ħ", "ĭ"], [[0, 1, 2], [3, 4, 5]]),
        (
            ["▁the", "▁un", "believ", "▁", "c", "at", ",", "</s>"],
            [[0], [1, 2], [3, 4, 5], [6], [7]],
        ),
        (["▁", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "▁a"], [[0, 1, 2, 3, 4], [5]]),
        (["▁caf", "é", "s"], [[0, 1, 2]]),
        (["▁नम", "स्ते"], [[0, 1]]),
    ],
)
def test_by_the_marks_of_the_pieces(tokens: list[str], groups: list[list[int]] | None) -> None:
    if groups is None:
        with pytest.raises(ValueError, match="none of them has a mark"):
            word_groups(tokens)
    else:
        assert word_groups(tokens) == groups


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["the", "cat"], "none of them has a mark"),
        (["the", "##s", "Ġcat"], "several alphabets"),
        (["Ġorġ", "u"], "Maltese"),
        (["▁▂▃", "cat"], "none of them has a mark"),
    ],
)
def test_doubt_is_refused_and_a_style_settles_it(tokens: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        word_groups(tokens)
    assert word_groups(["the", "cat"], style="##") == [[0], [1]]
    assert word_groups(["the", "cat"], style="Ġ") == [[0, 1]]
    with pytest.raises(ValueError, match="accepted are '##'"):
        word_groups(tokens, style="@@")
    with pytest.raises(TypeError, match="17 at index 1 is no text"):
        word_groups(["▁a", 17])


def test_by_offsets() -> None:
    text = "The unbelievable cat, naïve 状态 🙂"
    offsets = [
        (0, 0), (0, 3), (4, 6), (6, 12), (12, 16), (16, 20), (20, 21), (21, 24), (24, 27), (28, 29),
        (29, 30), (30, 32), (31, 32), (0, 0),
    ]  # fmt: skip
    groups = [[0], [1], [2, 3, 4], [5], [6], [7, 8], [9], [10], [11, 12], [13]]
    assert word_groups(offsets=offsets, text=text) == groups
    assert word_groups(list("abcdefghijklmn"), offsets=offsets, text=text) == groups
    with pytest.raises(ShapeError, match="got 14, but there are 2 tokens"):
        word_groups(["a", "b"], offsets=offsets, text=text)
    with pytest.raises(ValueError, match="another text"):
        word_groups(offsets=offsets, text="The")
    with pytest.raises(ValueError, match="go back"):
        word_groups(offsets=[(0, 3), (0, 0), (4, 7), (0, 3)], text=text)
    with pytest.raises(TypeError, match=r"piece 1 has None, expected \(start, end\)"):
        word_groups(offsets=[(0, 3), None], text=text)
    with pytest.raises(TypeError, match="give text"):
        word_groups(offsets=offsets)
    with pytest.raises(TypeError, match="give tokens"):
        word_groups()


def test_by_word_ids() -> None:
    ids = [None, 0, 0, 1, None, None, 1, 1]
    assert word_groups(word_ids=ids) == [[0], [1, 2], [3], [4], [5], [6, 7]]
    with pytest.raises(ShapeError, match="word_ids: got 8"):
        word_groups(PIECES, word_ids=ids)


# -- merging -------------------------------------------------------------------------------------


def test_keys_are_summed_and_queries_averaged() -> None:
    weights = np.array(
        [
            [0.7, 0.1, 0.1, 0.1],
            [0.2, 0.3, 0.2, 0.3],
            [0.0, 0.1, 0.3, 0.6],
            [0.1, 0.2, 0.3, 0.4],
        ]
    )
    merged = merge(PIECES, weights, word_groups(PIECES))
    assert merged.tokens == ["unbelievable", "cat"]
    assert merged.queries is None
    assert merged.positions.tolist() == [0, 3]
    np.testing.assert_allclose(merged.weights, [[2 / 3, 1 / 3], [0.6, 0.4]], rtol=1e-6)
    attention = AttentionMap(*merged)
    np.testing.assert_allclose(attention.row_sums, 1, atol=1e-6)
    assert attention.checks == []
    assert attention.positions.tolist() == [0, 3]
    assert str(attention).splitlines()[0].split() == ["unbelievable", "cat"]


def test_rows_of_their_own() -> None:
    weights = softmax(2, 4)
    kept = merge(PIECES, weights, [[0, 1, 2], [3]], ["x", "y"])
    assert (kept.tokens, kept.queries) == (["unbelievable", "cat"], ["x", "y"])
    np.testing.assert_allclose(kept.weights, np.c_[weights[:, :3].sum(1), weights[:, 3]], rtol=1e-6)
    both = merge(PIECES, weights, [[0, 1, 2], [3]], ["x", "##y"], [[0, 1]])
    assert both.queries == ["xy"]
    np.testing.assert_allclose(both.weights, kept.weights.mean(axis=0)[None], rtol=1e-6)
    rows_only = merge(PIECES, weights, None, ["x", "##y"], [[0, 1]])
    np.testing.assert_allclose(rows_only.weights, weights.mean(axis=0)[None], rtol=1e-6)
    assert [list(places) for places in both.positions] == [[0, 3], [0]]
    assert AttentionMap(*both).queries == ["xy"]
    square = merge(PIECES, softmax(4, 4), [[0, 1, 2], [3]], query_groups=[[0], [1], [2], [3]])
    assert (square.tokens, square.queries) == (["unbelievable", "cat"], PIECES)


def test_a_stack_is_merged_as_each_of_its_maps() -> None:
    stack = softmax(2, 3, 5, 4)
    groups, query_groups = [[0, 1], [2], [3]], [[0], [1, 2, 3], [4]]
    queries = list("vwxyz")
    merged = merge(PIECES, torch.tensor(stack), groups, queries, query_groups)
    assert merged.weights.shape == (2, 3, 3, 3)
    for layer in range(2):
        for head in range(3):
            one = merge(PIECES, stack[layer, head], groups, queries, query_groups)
            np.testing.assert_allclose(merged.weights[layer, head], one.weights, rtol=1e-6)
    np.testing.assert_allclose(merged.weights.sum(axis=-1), 1, rtol=1e-6)


def test_a_word_of_which_some_pieces_have_no_weight() -> None:
    weights = [
        [0.4, nan, 0.6, nan, nan],
        [0.1, 0.2, 0.3, nan, 0.4],
        [nan, nan, nan, nan, nan],
        [0.2, 0.2, 0.2, 0.2, 0.2],
    ]
    keys, queries = list("abcde"), list("wxyz")
    merged = merge(keys, weights, [[0, 1], [2], [3], [4]], queries, [[0, 1], [2, 3]])
    # The row y has no weights and is no part of the mean; in w, e counts as 0.
    expected = [[0.35, 0.45, nan, 0.2], [0.4, 0.2, 0.2, 0.2]]
    np.testing.assert_allclose(merged.weights, expected, rtol=1e-6)
    np.testing.assert_allclose(np.nansum(merged.weights, axis=1), 1, rtol=1e-6)


def test_not_given_and_not_a_number_stay_apart() -> None:
    weights = [[None, None, 1.0], [nan, nan, nan], [0.5, 0.25, 0.25]]
    merged = merge(list("abc"), weights, [[0, 1], [2]], query_groups=[[0], [1], [2]])
    states = AttentionMap(*merged).states
    assert states.tolist() == [
        [State.EMPTY, State.WEIGHT],
        [State.NO_VALID_KEY, State.NO_VALID_KEY],
        [State.WEIGHT, State.WEIGHT],
    ]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([[0, 1], [1, 2], [3]], "index 1 is in more than one place"),
        ([[0, 1], [3]], "index 2 is in no group"),
        ([[0, 1, 2], [3, 4]], "index 4 does not exist; there are 0 to 3"),
        ([[0, 1, 2], [3], []], "group 2 is empty"),
        ([[-1], [0, 1, 2]], "index -1 does not exist"),
        ([[0, 1, 2], [True]], "index True"),
    ],
)
def test_groups_that_are_none_are_refused(groups: list[list[int]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        merge(PIECES, softmax(4, 4), groups)
    with pytest.raises(ValueError, match="query_groups: "):
        merge(list("ab"), softmax(4, 2), None, PIECES, groups)


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected \\(…, 4 queries, 4 keys\\)"):
        merge(PIECES, softmax(3, 4), [[0, 1, 2], [3]])
    with pytest.raises(TypeError, match="expected indices"):
        merge(PIECES, softmax(4, 4), [["un"], [1, 2, 3]])
    for groups in (5, [0, 1, 2, 3], [None]):
        with pytest.raises(TypeError, match=r"groups: got .*, expected lists of indices"):
            merge(PIECES, softmax(4, 4), groups)
    with pytest.raises(TypeError, match="indices: got 2, expected a list of indices"):
        drop(PIECES, softmax(4, 4), 2)
    with pytest.raises(ShapeError, match="tokens: an empty list"):
        merge([], np.zeros((0, 0)), [])


def test_words_read_as_words() -> None:
    eye = np.eye(4)
    assert merge(["Ġun", "believ", "Ã", "©"], eye, [[0, 1, 2, 3]]).tokens == ["ĠunbelievÃ©"]
    assert merge(["▁", "<0xE2>", "<0x82>", "<0xAC>"], eye, [[0, 1, 2, 3]]).tokens == ["▁€"]
    assert merge([b"a", b"b", b"\xc3", b"\xa9"], eye, [[0], [1], [2, 3]]).tokens[2] == b"\xc3\xa9"
    assert merge([17, 4, "x", b"y"], eye, [[0], [1, 2], [3]]).tokens == [17, "4 x", b"y"]


sizes = st.integers(1, 7)


@settings(max_examples=60, deadline=None)
@given(st.data(), sizes, sizes)
def test_whatever_the_groups_rows_sum_to_one(data: st.DataObject, rows: int, columns: int) -> None:
    def cut(count: int) -> list[list[int]]:
        ends = data.draw(st.lists(st.booleans(), min_size=count - 1, max_size=count - 1))
        groups = [[0]]
        for index, new in enumerate(ends, 1):
            if new:
                groups.append([index])
            else:
                groups[-1].append(index)
        return groups

    missing = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    weights = softmax(rows, columns)
    weights[missing] = nan
    keys, queries = range(columns), [f"q{n}" for n in range(rows)]
    merged = merge(keys, weights, cut(columns), queries, cut(rows))
    sums = merged.weights.sum(axis=1)
    np.testing.assert_allclose(sums[~np.isnan(sums)], 1, rtol=1e-5)
    assert np.isnan(merged.weights).any() <= any(missing)


# -- leaving tokens out --------------------------------------------------------------------------


def test_special_tokens_are_left_out_and_nothing_is_shifted() -> None:
    weights = softmax(4, 4)
    part = drop(["<s>", "a", "b", "</s>"], weights, (0, 3))
    np.testing.assert_array_equal(part.weights, weights[1:3, 1:3].astype(np.float32))
    attention = AttentionMap(*part, selection=(1, 0))
    assert attention.tokens == ["a", "b"]
    assert attention.positions.tolist() == [1, 2]
    assert 'b</tspan><tspan fill="#57606a"> (2)' in attention.to_svg()
    assert "left out" in attention.checks[0]


def test_keys_and_rows_apart() -> None:
    weights = softmax(3, 5)
    part = drop(list("abcde"), weights, [1, 4], list("xyz"), [0])
    np.testing.assert_array_equal(part.weights, weights[1:][:, [0, 2, 3]].astype(np.float32))
    assert (part.tokens, part.queries) == (list("acd"), list("yz"))
    assert [list(places) for places in part.positions] == [[0, 2, 3], [1, 2]]
    rows_stay = drop(list("abcde"), weights, [1, 4], list("xyz"))
    assert rows_stay.queries == list("xyz")
    keys_only = drop(list("abc"), softmax(3, 3), [1], query_indices=())
    assert (keys_only.tokens, keys_only.queries) == (["a", "c"], list("abc"))
    stack = drop(list("abcde"), softmax(2, 3, 5), [1, 4], list("xyz"))
    assert stack.weights.shape == (2, 3, 3)


def test_positions_that_were_known_are_kept() -> None:
    part = drop(list("abcd"), softmax(4, 4), [0], positions=[10, 11, 20, 21])
    assert part.positions.tolist() == [11, 20, 21]
    again = merge(part.tokens, part.weights, [[0], [1, 2]], positions=part.positions)
    assert again.positions.tolist() == [11, 20]


@pytest.mark.parametrize(
    ("indices", "said"),
    [((4,), "index 4 does not exist"), ((-1,), "index -1"), (range(4), "all 4 are left out")],
)
def test_what_is_not_there_cannot_be_left_out(indices, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        drop(PIECES, softmax(4, 4), indices)
