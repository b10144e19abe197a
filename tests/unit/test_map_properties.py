"""Whatever the weights, masks and tokens: what travels is what was given, and no refusal costs."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ipywidgets.widgets.widget import _remove_buffers
from traitlets import TraitError

from attnmap_widget import AttentionMap

HOSTILE = [
    "",
    " ",
    "\n",
    "\0",
    "</script>",
    "<img onerror=x>",
    "\u202eabc",
    "\u0301",
    "\ufffd",
    "Ġ",
    "[PAD]",
]
tokens_of = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=6),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Mn"]), max_size=3),
    st.binary(max_size=4),
    st.integers(0, 200_000),
)
DTYPES = ["f2", "f4", "f8", "i1", "u1", "i8", "?"]


def lists_of(count: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(tokens_of, min_size=count, max_size=count)


@st.composite
def grids(draw: st.DrawFn, shape: tuple[int, int]) -> Any:
    """Weights in one of the forms that people have them in."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    fine: dict[str, Any] = {"allow_infinity": False, "width": 8 * dtype.itemsize}
    elements = (
        st.floats(-1e4, 1e4, **{**fine, "allow_nan": None})
        if dtype.kind == "f"
        else hnp.from_dtype(dtype)
    )
    if dtype.kind == "f":
        elements = st.one_of(elements, st.just(np.nan))
    array = draw(hnp.arrays(dtype, shape, elements=elements))
    form = draw(st.sampled_from(["array", "nested", "flat", "torch", "bfloat16", "fortran"]))
    if form == "nested":
        return array.tolist()
    if form == "flat":
        return array.ravel().tolist()
    if form == "torch":
        return torch.from_numpy(array)
    if form == "bfloat16":
        return torch.from_numpy(array).to(torch.bfloat16)
    return np.asfortranarray(array) if form == "fortran" else array


def plainly(weights: Any, shape: tuple[int, int]) -> Any:
    """The same as float32, by the shortest way."""
    if isinstance(weights, torch.Tensor):
        return weights.to(torch.float32).numpy()
    return np.array(weights, dtype=np.float64).reshape(shape).astype(np.float32)


@st.composite
def options_of(draw: st.DrawFn, shape: tuple[int, int]) -> dict[str, Any]:
    bools = hnp.arrays(bool, shape)
    choices: dict[str, st.SearchStrategy[Any]] = {
        "mask": bools,
        "not_yet": bools,
        "causal": st.booleans(),
        "query_offset": st.integers(0, 9),
        "padding": hnp.arrays(bool, shape[1]),
        "exclude_keys": st.lists(st.integers(0, shape[1] - 1), max_size=2),
        "selection": st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1)),
        "show_values": st.sampled_from([True, False, None]),
        "scheme": st.sampled_from(["Blues", "viridis", "RdBu", None]),
        "color_scale": st.sampled_from(["linear", "symmetric"]),
    }
    names = draw(st.sets(st.sampled_from(sorted(choices)), max_size=5))
    return {name: draw(choices[name]) for name in sorted(names)}


@st.composite
def given_maps(draw: st.DrawFn) -> dict[str, Any]:
    """What a map is made of; never only square."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 7)))
    one_list = shape[0] == shape[1] and draw(st.booleans())
    return {
        "tokens": draw(lists_of(shape[1])),
        "weights": draw(grids(shape)),
        "queries": None if one_list else draw(lists_of(shape[0])),
        **draw(options_of(shape)),
    }


def snapshot(shown: AttentionMap) -> tuple[Any, list[bytes]]:
    """All that a browser has of it, as it travels."""
    state, _, buffers = _remove_buffers(shown.get_state())
    state.pop("_esm"), state.pop("_css")
    text = json.dumps(state, allow_nan=False)
    text.encode()  # a lone surrogate would end the connection
    return json.loads(text), [bytes(buffer) for buffer in buffers]


@settings(max_examples=60)
@given(made=given_maps())
def test_what_travels_is_what_was_given(made: dict[str, Any]) -> None:
    shown = AttentionMap(**copy.deepcopy(made))
    shape = (len(shown.queries), len(shown.tokens))
    expected = plainly(made["weights"], shape)
    np.testing.assert_array_equal(shown.weights, expected)

    wire = shown.get_state()["weights"]
    assert (wire["shape"], wire["bin"]) == (list(shape), [1, 1])
    sent = np.frombuffer(wire["data"], dtype="<f4").reshape(shape)
    np.testing.assert_array_equal(sent, expected)
    if wire["states"] is None:
        assert (np.asarray(shown.states) <= 1).all()
    else:
        states = np.frombuffer(wire["states"], dtype=np.uint8).reshape(shape)
        np.testing.assert_array_equal(states, shown.states)
    state, _ = snapshot(shown)
    assert len(state["tokens"]["labels"]) == shape[1]
    assert state["queries"] is None or len(state["queries"]["labels"]) == shape[0]
    assert all(np.isfinite(end) for end in shown.shown_range)
    shown.close()


BAD: dict[str, Any] = {
    "weights": [np.zeros((9, 9)), np.zeros(3), [[np.inf]], "abc", [[1], [2, 3]], None, 1j],
    "tokens": [[], ["only", "two", "or", *"abcdefgh"], 5, [1.5], [None]],
    "scheme": ["Bluse", 7],
    "selection": [(9, 0), (0, -1), (0,), "ab", (0.5, 0)],
    "viewport": [(0, 0, 0, 1), (0, 99, 0, 1), (1, 2)],
    "color_range": [(1, 0), (0, np.inf), "low", (np.nan, 1)],
    "color_scale": ["cubic"],
    "mask": [np.zeros((9, 9), bool), np.full((1, 1), 0.5), "mask"],
    "padding": [[True] * 11, "pad"],
    "exclude_keys": [[99], [-1], 0.5],
    "query_offset": [-1, 0.5, "1"],
    "causal": [None, 2, "yes"],
    "show_values": ["yes", 3.5],
    "nonsense": [1],
}


@settings(max_examples=60)
@given(made=given_maps(), name=st.sampled_from(sorted(BAD)), data=st.data())
def test_a_refused_change_loses_nothing(made: dict[str, Any], name: str, data: Any) -> None:
    shown = AttentionMap(**copy.deepcopy(made))
    shape = (len(shown.queries), len(shown.tokens))
    before = snapshot(shown)
    told: list[str] = []
    shown.observe(lambda change: told.append(change["name"]))
    bad = data.draw(st.sampled_from(BAD[name]), label="bad")
    good = data.draw(options_of(shape), label="good")
    changes = {**good, name: bad}

    with pytest.raises((TypeError, ValueError, TraitError)) as refusal:
        shown.update(**changes)

    assert str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert snapshot(shown) == before
    assert told == []
    shown.update(title="still works")
    assert snapshot(shown)[0]["title"] == "still works"
    shown.close()


@settings(max_examples=60)
@given(first=given_maps(), second=given_maps())
def test_a_changed_map_is_as_one_made_anew(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Also onto another shape: nothing of the map before is left in what the browser has."""
    shown = AttentionMap(**copy.deepcopy(first))
    forgotten = {
        "mask": None, "not_yet": None, "padding": None, "causal": False, "query_offset": 0,
        "exclude_keys": (), "selection": None, "show_values": None, "scheme": None,
        "color_scale": "linear",
    }  # fmt: skip
    shown.update(**{**forgotten, **copy.deepcopy(second)})
    anew = AttentionMap(**copy.deepcopy(second))
    changed, made = snapshot(shown), snapshot(anew)
    for state, _ in (changed, made):
        state.pop("layout")
    assert changed == made
    shown.close()
    anew.close()
