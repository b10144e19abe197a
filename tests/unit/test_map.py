"""`AttentionMap` as its user and the browser meet it."""

from __future__ import annotations

import gc
import json
import re
import weakref
from pathlib import Path

import anywidget
import numpy as np
import pytest
from comm_support import sent
from traitlets import TraitError

from attnmap_widget import AttentionMap, ShapeError

__all__ = ["sent"]  # a fixture
THE_CAT = ["the", "cat", "the", "mat"]


def test_reads_back_what_was_given() -> None:
    attention = AttentionMap(THE_CAT, np.eye(4), title="Layer 5 · Head 3", class_name="wide")
    assert attention.tokens == THE_CAT
    assert attention.queries == THE_CAT
    assert attention.weights.dtype == np.float32
    assert attention.weights.shape == (4, 4)
    assert (attention.scheme, attention.show_values) == ("Blues", None)
    assert (attention.title, attention.class_name) == ("Layer 5 · Head 3", "wide")
    assert (attention.hover, attention.selection, attention.error) == (None, None, "")


def test_rectangular_maps_keep_their_own_rows() -> None:
    weights = np.arange(15).reshape(3, 5) / 10
    attention = AttentionMap(["A", "B", "B", "C", "D"], weights, ["x", "y", "z"])
    assert attention.queries == ["x", "y", "z"]
    assert attention.weights[1, 1] != attention.weights[1, 2]
    assert attention.get_state("queries")["queries"]["labels"] == ["x", "y", "z"]


def test_queries_left_out_follow_the_tokens() -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    assert attention.get_state("queries")["queries"] is None
    attention.tokens = list("xyz")
    assert attention.queries == list("xyz")
    attention.queries = list("uvw")
    attention.tokens = list("abc")
    assert attention.queries == list("uvw")
    attention.queries = None
    assert attention.queries == list("abc")


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("weights", np.ones((3, 2)), ShapeError),
        ("weights", (), ShapeError),
        ("weights", [["a"] * 3] * 3, TypeError),
        ("tokens", list("ab"), ShapeError),
        ("tokens", "abc", TypeError),
        ("tokens", [], ValueError),
        ("tokens", [["a", "b", "c"]], TypeError),
        ("tokens", [0.5, 1.5, 2.5], TypeError),
        ("tokens", None, TypeError),
        ("queries", list("ab"), ShapeError),
        ("scheme", "blurple", ValueError),
        ("color_scale", "cubic", ValueError),
        ("color_range", (1, 0), ValueError),
        ("clip_percentile", 101, ValueError),
        ("clip_percentile", 0.99, ValueError),
        ("clip_percentile", 1, ValueError),
        ("mask", np.ones((2, 3), dtype=bool), ShapeError),
        ("causal", "yes", TypeError),
        ("padding", [True], ShapeError),
        ("exclude_keys", (3,), ValueError),
        ("exclude_keys", (-1,), ValueError),
        ("query_offset", -1, ValueError),
        ("query_offset", 0.5, TypeError),
        ("selection", (3, 0), ValueError),
        ("selection", (0, -1), ValueError),
        ("selection", 5, ValueError),
        ("selection", (True, 0), ValueError),
    ],
)
def test_a_refused_assignment_changes_nothing(
    sent, name: str, value: object, error: type[Exception]
) -> None:
    attention = AttentionMap(list("abc"), np.eye(3), selection=(1, 1))
    before = json.dumps(attention.get_state(), default=lambda raw: raw.hex())
    with pytest.raises(error, match=name.partition("_")[0]):
        setattr(attention, name, value)
    with pytest.raises(error):
        attention.update(title="never", **{name: value})
    with pytest.raises(error):
        AttentionMap(**{"tokens": list("abc"), "weights": np.eye(3), name: value})
    assert json.dumps(attention.get_state(), default=lambda raw: raw.hex()) == before
    assert sent(attention) == []


def test_unknown_options_get_the_close_names() -> None:
    with pytest.raises(TypeError, match="did you mean scheme"):
        AttentionMap(["a"], [1], shceme="Reds")
    with pytest.raises(TypeError, match="did you mean weights"):
        AttentionMap(["a"], [1]).update(wieghts=[1])


def test_update_is_one_change_and_one_message(sent) -> None:
    attention = AttentionMap(list("abc"), np.eye(3), selection=(2, 2))
    seen: list[tuple] = []
    attention.observe(
        lambda change: seen.append((attention.weights.shape, len(attention.tokens))),
        names=["tokens", "weights"],
    )
    attention.update(tokens=list("ab"), weights=[[1, 0], [0.5, 0.5]], title="two")
    assert seen == [((2, 2), 2)] * 2  # no observer ever sees half of it
    assert attention.selection is None  # that cell is gone
    (state, size) = sent(attention)[0]
    assert {"tokens", "weights", "title", "selection"} <= state.keys()
    assert size == 4 * 4
    assert sent(attention) == []


def test_only_what_changed_travels(sent) -> None:
    attention = AttentionMap(range(64), np.full((64, 64), 1 / 64))
    sent(attention)
    attention.scheme = "Reds"
    attention.show_values = False
    attention.selection = (3, 5)
    attention.title = "t"
    attention.color_range = (0, 1)
    assert sum(size for _, size in sent(attention)) <= 3 * 768  # ramps, never the matrix
    attention.weights = np.eye(64)
    messages = sent(attention)
    assert sum("weights" in state for state, _ in messages) == 1
    assert sum(size for _, size in messages) == 64 * 64 * 4 + 768
    attention.causal = True
    messages = sent(attention)
    assert [state["weights"]["shape"] for state, _ in messages if "weights" in state] == [[64, 64]]


def test_the_browser_sends_cells_and_nothing_comes_back(sent) -> None:
    attention = AttentionMap(list("abcdefg"), np.full((3, 7), 1 / 7), list("xyz"))
    events: list[object] = []
    attention.observe(lambda change: events.append(change["new"]), names="selection")
    attention.set_state({"hover": [2, 5]})
    attention.set_state({"selection": [2, 5]})
    assert attention.hover == (2, 5)
    assert attention.selection == (2, 5)
    assert all(type(index) is int for index in attention.selection)
    assert events == [(2, 5)]
    assert sent(attention) == []
    attention.set_state({"selection": [9, 0]})  # a click on a grid that is gone by now
    assert attention.selection == (2, 5)
    attention.set_state({"selection": None, "hover": None})
    assert attention.selection is None


def test_numpy_integers_are_cells_too() -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    attention.selection = np.argwhere(attention.weights == 1)[1]
    assert attention.selection == (1, 1)
    assert type(attention.selection[0]) is int


def test_tokens_may_be_ids_arrays_or_bytes() -> None:
    assert AttentionMap(np.array([5, 17]), np.eye(2)).tokens == [5, 17]
    assert AttentionMap((b"a", b"\xf0"), np.eye(2)).tokens == [b"a", b"\xf0"]
    assert AttentionMap(np.array(["x", "y"]), np.eye(2)).tokens == ["x", "y"]


def test_state_is_json_even_with_hostile_tokens() -> None:
    tokens = ["</script>", "\ud83d", '"><img src=x onerror=alert(1)>', "\x00", b"\xff"]
    attention = AttentionMap(tokens, np.full((5, 5), np.nan))
    state = json.dumps(attention.get_state(["tokens", "_colors", "_checks"]), default=lambda _: 0)
    state.encode("utf-8")
    json.loads(state, parse_constant=pytest.fail)  # a bare NaN is no JSON


def test_positions_and_titles_send_no_weights(sent) -> None:
    attention = AttentionMap(list("abcde"), np.full((3, 5), 0.2), list("xyz"), causal=False)
    sent(attention)
    attention.positions = (range(2, 7), [9, 11, 12])
    states = sent(attention)
    assert {name for state, _ in states for name in state} == {"tokens", "queries"}
    assert sum(size for _, size in states) == 4 * (5 + 3)
    attention.update(tokens=list("vwxyz"), positions=range(5))
    sizes = [size for state, size in sent(attention) if "tokens" in state]
    assert sizes == [4 * 5]  # once
    attention.query_title = "Token"
    assert "weights" not in {name for state, _ in sent(attention) for name in state}


def test_the_front_end_knows_every_synced_trait() -> None:
    source = (Path(__file__).parents[2] / "js/src/model.ts").read_text(encoding="utf-8")
    body = re.search(r"export interface State \{(.*?)\n\}", source, re.DOTALL)
    assert body is not None
    declared = set(re.findall(r"^\t(\w+):", body.group(1), re.MULTILINE))
    inherited = set(anywidget.AnyWidget.class_traits(sync=True))
    assert declared == set(AttentionMap.class_traits(sync=True)) - inherited


def test_a_share_where_percent_are_meant_is_refused_with_the_fix() -> None:
    with pytest.raises(ValueError, match=r"of 0\.99 give 99"):
        AttentionMap(list("abc"), np.eye(3), clip_percentile=0.99)
    AttentionMap(list("abc"), np.eye(3), clip_percentile=99)


def test_no_title_is_none() -> None:
    attention = AttentionMap(list("abc"), np.eye(3), title=None, status=None)
    assert (attention.title, attention.status) == ("", "")
    attention.update(title="here", error="bad")
    attention.title = attention.error = None
    assert (attention.title, attention.error) == ("", "")
    with pytest.raises(TraitError, match="title"):
        attention.title = 5


def test_text_form_says_what_it_is() -> None:
    attention = AttentionMap(list("abc"), np.eye(3), title="Layer 0")
    assert repr(attention) == "AttentionMap('Layer 0', 3 queries × 3 keys, Blues)"
    bundle, _ = attention._repr_mimebundle_()
    assert "3 queries × 3 keys" in bundle["text/plain"]


def test_a_closed_map_frees_its_arrays() -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    arrays = [weakref.ref(attention.weights), weakref.ref(attention.states)]
    attention.close()
    gc.collect()
    assert [array() for array in arrays] == [None, None]
    gone = weakref.ref(attention)
    del attention
    gc.collect()
    assert gone() is None


def test_an_update_with_one_bad_plain_trait_changes_nothing() -> None:
    attention = AttentionMap(list("abc"), np.eye(3), title="before")
    with pytest.raises(TraitError, match="title"):
        attention.update(weights=np.full((3, 3), 1 / 3), title=5)
    assert attention.title == "before"
    np.testing.assert_array_equal(attention.weights, np.eye(3))


def test_an_observer_that_raises_keeps_nobody_from_hearing(sent) -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    heard: list[str] = []
    attention.observe(lambda change: 1 / 0, names="tokens")
    attention.observe(lambda change: heard.append(change["name"]), names="weights")
    sent(attention)
    with pytest.raises(ZeroDivisionError):
        attention.update(tokens=list("abcd"), weights=np.eye(4))
    assert heard == ["weights"]
    [(state, _)] = sent(attention)
    assert {"tokens", "queries", "weights"} <= state.keys()


def test_held_notifications_change_no_more_than_without() -> None:
    attention = AttentionMap(list("ab"), [[-1, 1], [0.5, 0.5]])
    with attention.hold_trait_notifications():
        attention.weights = [[-0.5, 0.5], [0.5, 0.5]]
        attention.update(tokens=list("xy"))
    attention.padding = [True, False]
    assert attention.states[0].tolist() == [5, 5]  # the rows are still those of the tokens
    attention.weights = np.eye(2)
    assert attention.scheme == "Blues"


def test_editing_the_list_that_was_read_changes_nothing() -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    attention.tokens.append("d")
    assert attention.tokens == list("abc")


@pytest.mark.parametrize(
    "message",
    [{"hover": [1]}, {"hover": ["a", 2]}, {"hover": {}}, {"hover": [1.5, 2]}, {"hover": 3},
     {"viewport": [0, 1]}, {"viewport": "abcd"}, {"selection": [0, 99]}],
)  # fmt: skip
def test_a_broken_message_is_dropped_and_the_rest_of_it_is_taken(message: dict) -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    attention.set_state({**message, "title": "heard"})
    assert attention.title == "heard"
    assert (attention.hover, attention.selection) == (None, None)


def test_a_closed_map_says_so() -> None:
    attention = AttentionMap(list("abc"), np.eye(3))
    attention.close()
    with pytest.raises(RuntimeError, match="closed"):
        attention.scheme = "Reds"
