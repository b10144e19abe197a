"""What a head summary says, against a reading of its definitions cell by cell."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from attnmap_widget import ShapeError
from attnmap_widget.heads import measuring
from attnmap_widget.heads.summary import COLUMNS, HeadSummary, measure

NAN = math.nan


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else NAN


def by_hand(
    weights: np.ndarray,
    tokens: list[str],
    allowed: np.ndarray,
    padding: list[bool],
    offset: int | None,
) -> dict[str, float]:
    """The definitions, one cell after the other."""
    queries, keys = weights.shape
    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for row in range(queries):
        at = None if offset is None else offset + row
        if at is not None and at < keys and padding[at]:
            continue
        given_ = {key: float(weights[row, key]) for key in range(keys)}
        given_ = {key: weight for key, weight in given_.items() if not math.isnan(weight)}
        cells = {key: w for key, w in given_.items() if allowed[row, key] and not padding[key]}
        if not cells:
            continue

        def put(name: str, wanted: set[int], cells: dict[int, float] = cells) -> None:
            if wanted & cells.keys():
                found[name].append(sum(cells[key] for key in wanted & cells.keys()))

        total = sum(cells.values())
        found["largest"].append(max(cells.values()))
        found["leaning"].append(max(cells.values()) >= 0.5)
        if total > 0 and min(cells.values()) >= 0:
            shares = [weight / total for weight in cells.values() if weight > 0]
            entropy = -sum(p * math.log2(p) for p in shares)
            found["entropy"].append(entropy)
            found["effective_keys"].append(2**entropy)
            if at is not None:
                far = sum(weight * abs(at - key) for key, weight in cells.items())
                found["distance"].append(far / total)
        padded = [weight for key, weight in given_.items() if padding[key]]
        if padded:
            found["padding"].append(sum(padded))
        put("first", {padding.index(False)})
        put("delimiters", {key for key in range(keys) if tokens[key] in (".", "[SEP]")})
        if at is None:
            continue
        put("diagonal", {at})
        put("previous", {at - 1})
        if at < keys:
            earlier = {key for key in range(at) if tokens[key] == tokens[at]}
            put("duplicate", earlier)
            put("induction", {key + 1 for key in earlier if key + 1 < at})
    return {name: mean(numbers) for name, numbers in found.items()}


@st.composite
def grids(draw: st.DrawFn) -> dict[str, Any]:
    queries, keys = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = random.random((queries, keys)).astype(np.float32) ** draw(st.sampled_from([1, 6]))
    if draw(st.booleans()):
        weights /= weights.sum(1, keepdims=True)
    weights[random.random(weights.shape) < 0.15] = 0
    weights[random.random(weights.shape) < draw(st.sampled_from([0, 0.2]))] = np.nan
    weights[random.random(weights.shape) < draw(st.sampled_from([0, 0.05]))] *= -1
    return {
        "weights": weights,
        "tokens": draw(st.lists(st.sampled_from("ab."), min_size=keys, max_size=keys)),
        "allowed": random.random(weights.shape) < draw(st.sampled_from([0.6, 1])),
        "padding": [*(random.random(keys - 1) < draw(st.sampled_from([0, 0.3]))), False],
        "offset": draw(st.one_of(st.none(), st.integers(0, 9))) if queries != keys else 0,
    }


@settings(max_examples=300, deadline=None)
@given(grids(), st.integers(1, 40))
def test_numbers_are_those_of_the_definitions_in_bands_of_any_height(
    grid: dict[str, Any], cells: int
) -> None:
    tokens, offset = grid["tokens"], grid["offset"]
    whole = measuring._BAND_CELLS
    measuring._BAND_CELLS = cells
    try:
        found = measure(
            grid["weights"],
            tokens,
            mask=grid["allowed"],
            padding=grid["padding"],
            query_offset=offset,
        )
    finally:
        measuring._BAND_CELLS = whole
    expected = by_hand(grid["weights"], tokens, grid["allowed"], grid["padding"], offset)
    assert list(found) == list(COLUMNS)
    for name, number in expected.items():
        assert_allclose(found[name], number, rtol=1e-9, atol=1e-12, err_msg=name)


def test_effective_keys_of_a_uniform_row_and_of_a_one_hot_row() -> None:
    uniform = measure(np.full((2, 5), 0.2))
    assert uniform["effective_keys"] == pytest.approx(5.0)
    assert uniform["entropy"] == pytest.approx(math.log2(5))
    one_hot = measure(np.eye(7)[:3])
    assert (one_hot["effective_keys"], one_hot["entropy"], one_hot["leaning"]) == (1, 0, 1)
    # the mean of 2^entropy over rows, not 2^mean: (5 + 1) / 2
    both = measure(np.array([[0.2] * 5, [0, 0, 1, 0, 0]]))
    assert both["effective_keys"] == pytest.approx(3.0)


def test_a_row_with_a_sink_keeps_its_masses_and_its_entropy_is_that_of_its_shares() -> None:
    found = measure([[0.1, 0.1, 0.0], [0.05, 0.05, 0.0]], query_offset=0)
    assert found["effective_keys"] == pytest.approx(2.0)
    assert found["largest"] == pytest.approx(0.075)
    assert found["first"] == pytest.approx(0.075)
    assert found["diagonal"] == pytest.approx((0.1 + 0.05) / 2)


def test_what_counts_as_induction_and_as_a_duplicate() -> None:
    weights = np.arange(30, dtype=np.float32).reshape(5, 6)[:, :5] / 100
    found = measure(weights, ["a", "b", "a", "a", "b"])
    # a at 2: after the a at 0 comes 1. a at 3: after 0 comes 1, after 2 comes itself, which is no
    # induction. b at 4: after the b at 1 comes 2.
    assert found["induction"] == pytest.approx((0.13 + 0.19 + 0.26) / 3)
    assert found["duplicate"] == pytest.approx((0.12 + (0.18 + 0.20) + 0.25) / 3)
    alone = measure(weights, list("abcde"))
    assert math.isnan(alone["induction"])
    assert math.isnan(alone["duplicate"])


def test_positions_that_are_not_known_are_not_invented() -> None:
    weights = np.full((2, 3), 1 / 3)
    by_position = ("distance", "diagonal", "previous", "induction", "duplicate")
    unknown, cross = measure(weights, list("aaa")), measure(np.eye(3), list("aaa"), cross=True)
    assert all(math.isnan(found[name]) for found in (unknown, cross) for name in by_position)
    assert unknown["first"] == pytest.approx(1 / 3)
    last = measure([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], list("aaa"), query_offset=1)
    assert last["diagonal"] == pytest.approx((0.2 + 0.4) / 2)
    assert last["previous"] == pytest.approx((0.1 + 0.3) / 2)
    # Positions 5 and 6 in a window that begins at 4: the first token of the sequence is not here.
    later = measure([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], list("aaa"), query_offset=5, key_offset=4)
    assert later["diagonal"] == last["diagonal"]
    assert math.isnan(later["first"])


def test_left_padding_shifts_the_first_token_and_padding_rows_are_out() -> None:
    weights = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0.1, 0.9, 0], [0, 0, 0.7, 0.3]])
    found = measure(weights, padding=[1, 1, 0, 0])
    assert found["first"] == pytest.approx((0.9 + 0.7) / 2)
    assert found["padding"] == pytest.approx(0.05)
    assert found["previous"] == pytest.approx(0.7)  # the row at 2 has none before it
    pair = measure(weights, padding=([1, 1, 0, 0], [0, 0, 0, 1]))
    assert pair["padding"] == pytest.approx((1 + 1 + 0.1) / 3)


def test_delimiters_are_special_tokens_and_stops_or_what_is_said() -> None:
    weights = np.array([[0.01, 0.02, 0.04, 0.08, 0.16, 0.32]])
    tokens = ["<|endoftext|>", "Ġ,", "[SEP]", "▁word", b".", "..."]
    assert measure(weights, tokens)["delimiters"] == pytest.approx(0.01 + 0.02 + 0.04 + 0.16)
    assert measure(weights, tokens, delimiters={"word"})["delimiters"] == pytest.approx(0.08)
    ids = [7, 50256, 7, 3, 4, 5]
    assert measure(weights, ids, delimiters={50256})["delimiters"] == pytest.approx(0.02)
    assert math.isnan(measure(weights, ids)["delimiters"])
    with pytest.raises(TypeError, match="one str"):
        measure(weights, tokens, delimiters=".,")


def test_a_head_without_any_weight_has_no_numbers() -> None:
    empty = measure(np.full((3, 4), np.nan))
    assert all(math.isnan(number) for number in empty.values())
    hidden = measure(np.full((3, 3), 1 / 3), mask=np.zeros((3, 3), dtype=bool))
    assert all(math.isnan(number) for number in hidden.values())


def test_what_is_no_head_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"shape \(1, 2, 2\)"):
        measure(np.ones((1, 2, 2)))
    with pytest.raises(ShapeError, match="tokens: got 2, the weights have 3 keys"):
        measure(np.ones((2, 3)), list("ab"))
    with pytest.raises(ShapeError, match="padding"):
        measure(np.ones((2, 3)), padding=[0, 1])
    with pytest.raises(ShapeError, match="mask"):
        measure(np.ones((2, 3)), mask=np.ones((3, 2), dtype=bool))
    with pytest.raises(ValueError, match="infinite"):
        measure([[1.0, -math.inf]])


def test_summaries_are_read_without_torch() -> None:
    modules = "attnmap_widget.heads.moments, attnmap_widget.heads.summary"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def rows() -> list[dict[str, Any]]:
    return [
        {"layer": 1, "head": 0, "entropy": 2.5, "induction": 0.25},
        {"layer": 1, "head": 1, "entropy": 0.5, "induction": NAN},
        {"layer": 3, "head": 0, "entropy": 1.5, "induction": 0.75},
    ]


def test_a_summary_is_read_by_column_by_row_and_by_rank() -> None:
    summary = HeadSummary.from_rows(rows())
    assert len(summary) == 3
    assert_array_equal(summary.layers, [1, 1, 3])
    assert_array_equal(summary.heads, [0, 1, 0])
    assert_array_equal(summary["entropy"], [2.5, 0.5, 1.5])
    assert list(summary.columns) == ["entropy", "induction"]
    assert summary.columns["entropy"].unit == "bits"
    assert summary.row(3, 0)["induction"] == 0.75
    assert_array_equal([tuple(row.values()) for row in summary], [[*r.values()] for r in rows()])
    assert summary.top("induction") == [(3, 0, 0.75), (1, 0, 0.25)]
    assert summary.top("entropy", 1) == [(1, 0, 2.5)]
    assert_array_equal(summary.sorted("entropy")["entropy"], [2.5, 1.5, 0.5])
    rising = summary.sorted("induction", rising=True)
    assert_array_equal(rising.layers, [1, 3, 1])  # NaN last
    with pytest.raises(ValueError, match="read-only"):
        summary["entropy"][0] = 1
    with pytest.raises(KeyError, match="entropy, induction"):
        summary["entropie"]
    with pytest.raises(ValueError, match="top: got -1"):
        summary.top("entropy", -1)
    with pytest.raises(ValueError, match="layer 2, head 0"):
        summary.row(2, 0)


def test_rows_that_make_no_table_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1"):
        HeadSummary.from_rows([rows()[0], {"layer": 1, "head": 1, "entropy": 1.0}])
    with pytest.raises(ValueError, match="'entropie'"):
        HeadSummary.from_rows([{"layer": 0, "head": 0, "entropie": 1.0}])
    assert len(HeadSummary.from_rows([])) == 0


def test_a_summary_is_a_table_as_text_as_html_and_as_a_frame() -> None:
    given_ = [{**row, "padding": NAN} for row in rows()]
    summary = HeadSummary.from_rows(given_)
    assert str(summary) == (
        "layer  head  entropy  induction\n"
        "    1     0     2.50       0.25\n"
        "    1     1     0.50          –\n"
        "    3     0     1.50       0.75\n"
        "no value: padding"
    )
    html = summary._repr_html_()
    assert html.count("<tr>") == 4
    assert "<td>0.75</td>" in html
    frame = summary.to_pandas()
    pd.testing.assert_frame_equal(frame, pd.DataFrame(given_)[list(frame.columns)])
    many = HeadSummary(np.zeros(23, int), np.arange(23), {"entropy": np.ones(23)})
    assert str(many).endswith("\n3 more rows")
    assert len(str(many).splitlines()) == 22
