"""What rows and columns are called, and where they stand: for show, never for identity."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

from attnmap_widget import AttentionMap, ShapeError, State

KEYS, QUERIES = list("abcde"), list("xyz")
GRID = np.arange(1, 16).reshape(3, 5) / 40


def positions(attention: AttentionMap, name: str) -> list[int] | None:
    """As they travel."""
    found = attention.get_state(name)[name]["positions"]
    return None if found is None else np.frombuffer(found, dtype="<u4").tolist()


@pytest.mark.parametrize("given", [[2, 3, 5, 8, 13], np.array([2, 3, 5, 8, 13]), range(2, 7)])
def test_positions_of_the_keys_are_read_out_and_indices_stay_indices(given) -> None:
    attention = AttentionMap(KEYS, GRID, QUERIES, positions=given, selection=(1, 4))
    assert attention.positions.tolist() == list(given)
    assert positions(attention, "tokens") == list(given)
    assert positions(attention, "queries") is None
    assert attention.selection == (1, 4)
    assert f'e</tspan><tspan fill="#57606a"> ({given[4]})' in attention.to_svg()


def test_one_list_names_the_rows_too_a_pair_each_side() -> None:
    square = np.eye(3)
    assert AttentionMap(QUERIES, square, positions=[4, 5, 9]).get_state("queries") == {
        "queries": None
    }
    pair = AttentionMap(KEYS, GRID, QUERIES, positions=(None, [7, 8, 9]))
    assert positions(pair, "tokens") is None
    assert positions(pair, "queries") == [7, 8, 9]
    assert pair.positions[0] is None
    one_side = AttentionMap(QUERIES, square, positions=([4, 5, 9], None))
    assert positions(one_side, "tokens") == [4, 5, 9]
    assert positions(one_side, "queries") is None


def test_two_integers_are_the_positions_of_two_keys() -> None:
    assert AttentionMap(["a", "b"], [[0.5, 0.5]], ["q"], positions=(4, 6)).positions.tolist() == [
        4,
        6,
    ]


def test_query_offset_is_where_the_rows_begin() -> None:
    attention = AttentionMap(KEYS, GRID, QUERIES, query_offset=6)
    assert positions(attention, "queries") == [6, 7, 8]
    AttentionMap(KEYS, GRID, QUERIES, query_offset=6, positions=(None, [6, 8, 9]))
    with pytest.raises(ValueError, match="row 0 is at 6 by query_offset and at 5 by positions"):
        AttentionMap(KEYS, GRID, QUERIES, query_offset=6, positions=(None, [5, 6, 7]))
    attention.positions = [0, 1, 2, 3, 7]  # of the keys alone
    with pytest.raises(ValueError, match="query_offset"):
        attention.positions = (None, [5, 6, 7])
    assert attention.positions.tolist() == [0, 1, 2, 3, 7]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([1, 2, 3], ShapeError, "got 3, expected 5"),
        ((None, [1, 2]), ShapeError, "positions of the queries: got 2, expected 3"),
        ([1, 2, 3, 4, 0.5], TypeError, "0.5 at index 4"),
        ([1, 2, -3, 4, 5], ValueError, "-3 at index 2"),
        ([1, 2, 3, 4, True], ValueError, "True at index 4"),
        ([1, 2, 3, 4, 1 << 32], ValueError, "4294967296 at index 4"),
        ("abcde", TypeError, "expected a list"),
        (3, TypeError, "expected a list"),
    ],
)
def test_what_is_no_position_is_refused_and_changes_nothing(given, error, said: str) -> None:
    attention = AttentionMap(KEYS, GRID, QUERIES, positions=[2, 3, 5, 8, 13])
    with pytest.raises(error, match=said):
        attention.positions = given
    assert positions(attention, "tokens") == [2, 3, 5, 8, 13]


def test_positions_of_another_grid_are_not_dropped_in_silence() -> None:
    attention = AttentionMap(KEYS, GRID, QUERIES, positions=[2, 3, 5, 8, 13])
    with pytest.raises(ShapeError, match="positions: the one set before"):
        attention.update(tokens=KEYS[:4], weights=GRID[:, :4])
    attention.update(tokens=KEYS[:4], weights=GRID[:, :4], positions=[2, 3, 5, 8])
    attention.update(tokens=KEYS, weights=GRID, positions=None)
    assert positions(attention, "tokens") is None


def test_causal_goes_by_positions() -> None:
    rows = AttentionMap(
        KEYS, GRID, QUERIES, positions=([0, 4, 5, 6, 7], [4, 5, 9]), causal=True
    ).states
    assert (rows == State.CANNOT_LOOK).tolist() == [
        [False, False, True, True, True],
        [False, False, False, True, True],
        [False] * 5,
    ]
    window = AttentionMap(KEYS, GRID, QUERIES, positions=range(5, 10), query_offset=6, causal=True)
    assert (window.states == State.CANNOT_LOOK).sum(axis=1).tolist() == [3, 2, 1]
    assert "where the query cannot look" in " ".join(window.checks)


def test_sentences_name_positions() -> None:
    grid = np.full((3, 5), np.nan)
    grid[0] = 0.2
    attention = AttentionMap(KEYS, grid, QUERIES, positions=(range(5, 10), [20, 21, 30]))
    assert any(text.endswith("(NaN): 21, 30") for text in attention.checks)
    attention.exclude_keys = (2,)
    assert "key 7 is out of the scale" in attention.to_svg()


def test_rows_and_columns_of_another_kind() -> None:
    grid = [[-3.0, 5.0, 0.5], [2.0, 2.0, 9.0]]
    attention = AttentionMap(
        ["E0", "E1", "E2"],
        grid,
        ["the", "cat"],
        query_title="Token",
        key_title="Expert",
        selection=(1, 2),
    )
    assert attention.checks == []  # no promise that its rows sum to 1
    assert repr(attention) == "AttentionMap(2 × 3 (Token × Expert), RdBu)"
    svg = attention.to_svg()
    assert ">Token</text>" in svg
    assert ">Expert</text>" in svg
    assert "Query" not in svg
    assert "Key" not in svg
    assert "looks at" not in svg
    assert attention.to_csv().startswith("Token × Expert,E0,E1,E2\r\n")
    assert attention.to_text().startswith("Attention map: 2 × 3 (Token × Expert)\n")
    attention.update(query_title="Query", key_title="Key")
    assert len(attention.checks) > 0
    assert "looks at" in attention.to_svg()


def test_states_in_words_of_that_kind() -> None:
    grid = [[0.5, float("nan"), 0.1], [float("nan")] * 3]
    mask = [[True, True, False], [True] * 3]
    svg = AttentionMap(
        ["a", "b", "c"], grid, ["x", "y"], mask=mask, query_title="Text", key_title="Second"
    ).to_svg()
    assert "no valid Second" in svg
    assert "weight where masked" in svg
    assert "cannot look" not in svg


@pytest.mark.parametrize("name", ["query_title", "key_title", "value_title"])
@pytest.mark.parametrize("given", ["", "  ", "two\nlines", None, 3])
def test_a_title_is_a_line_of_text(name: str, given: object) -> None:
    attention = AttentionMap(KEYS, GRID, QUERIES, query_title="Token")
    with pytest.raises((TypeError, ValueError), match=name):
        attention.update(**{name: given})
    assert attention.query_title == "Token"


@pytest.mark.parametrize(
    "title", ["\u0645\u06cc\u200c\u0634\u0648\u062f", "\U0001f468\u200d\U0001f467"]
)
def test_a_title_may_have_what_joins_letters_and_emoji(title: str) -> None:
    assert AttentionMap(KEYS, GRID, QUERIES, key_title=title).key_title == title
    with pytest.raises(ValueError, match="say in one line"):
        AttentionMap(KEYS, GRID, QUERIES, key_title="\u200d \u200c")


def test_titles_are_text_in_every_file() -> None:
    attention = AttentionMap(KEYS, GRID, QUERIES, key_title="a<b> & $x$")
    assert "a&lt;b&gt; &amp; $x$" in attention.to_svg()
    assert "a<b>" not in attention.to_html()


def test_a_saved_page_keeps_positions_and_titles() -> None:
    attention = AttentionMap(
        KEYS, GRID, QUERIES, positions=(None, [7, 8, 300]), query_title="Token"
    )
    page = attention.to_html()
    data = json.loads(re.search(r'id="attnmap-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    state = data["shared"]
    assert (state["query_title"], state["key_title"]) == ("Token", "Key")
    assert data["labels"][state["tokens"]]["positions"] is None
    stored = data["buffers"][data["labels"][state["queries"]]["positions"]]
    assert np.frombuffer(base64.b64decode(stored), dtype="<u4").tolist() == [7, 8, 300]
