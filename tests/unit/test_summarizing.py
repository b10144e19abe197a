"""Head summaries of captures and explorers: the right heads, tokens, masks and positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from capture_support import (
    SPECIAL,
    VOCABULARY,
    bert_config,
    build,
    llama_config,
    padded_inputs,
    t5_config,
    token_ids,
)
from torch import nn

from attnmap_widget import AttentionExplorer, ShapeError, capture, examples
from attnmap_widget.capturing import AttentionCall
from attnmap_widget.heads import measuring, summarizing
from attnmap_widget.heads.summary import COLUMNS, HeadSummary, measure

BY_POSITION = ("distance", "diagonal", "previous", "induction", "duplicate")
ATTENTION = {"do_sample": False, "max_new_tokens": 4, "min_new_tokens": 4}


def captured(model: Any, *args: Any, **inputs: Any) -> Any:
    with torch.no_grad(), capture(model) as cap:
        model(*args, **inputs)
    return cap


def assert_rows(summary: HeadSummary, expected: dict[tuple[int, int], dict[str, float]]) -> None:
    assert [(row["layer"], row["head"]) for row in summary] == list(expected)
    for row in summary:
        for name, number in expected[row["layer"], row["head"]].items():
            np.testing.assert_allclose(row[name], number, rtol=1e-6, err_msg=name)


def test_the_shipped_model_has_its_heads_on_top() -> None:
    model, tokens, ids = examples.induction(["owl", "pen", "cat", "sun", "key"] * 2)
    summary = captured(model, ids).summary(tokens)
    assert len(summary) == 8
    assert {(layer, head) for layer, head, _ in summary.top("previous", 2)} == {(0, 0), (0, 2)}
    assert all(value > 0.9 for *_, value in summary.top("previous", 2))
    induction = summary.top("induction", 4)
    assert {layer for layer, *_ in induction} == {1}
    assert all(value > 0.8 for *_, value in induction)
    assert summary["induction"][summary.layers == 0].max() < 0.3


def test_each_row_is_what_its_map_says_and_is_read_in_bands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = padded_inputs(13, real=9)
    cap = captured(build("BertModel", bert_config()), **inputs)
    padding, tokens = inputs["attention_mask"][1] == 0, inputs["input_ids"][1].tolist()
    tokens[5:8] = tokens[1:4]
    expected = {
        (layer, head): measure(
            cap.weights(layer, head, batch=1),
            tokens,
            mask=cap.allowed(layer, head, batch=1),
            padding=padding,
        )
        for layer in (0, 1)
        for head in range(3)
    }
    monkeypatch.setattr(measuring, "_BAND_CELLS", 30)
    sizes, told = [], []
    read = AttentionCall.weights

    def noted(call: AttentionCall, *args: Any) -> torch.Tensor:
        sizes.append(read(call, *args).numel())
        return read(call, *args)

    monkeypatch.setattr(AttentionCall, "weights", noted)
    summary = cap.summary(tokens, batch=1, padding=padding, progress=told.append)
    assert_rows(summary, expected)
    assert max(sizes) <= 30
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(told) == len(sizes) == 6 * 7
    assert not np.isnan(summary["induction"]).any()
    # a padding mask of the whole batch, and a list of tokens for each of its items
    both = cap.summary([["x"] * 13, tokens], batch=1, padding=inputs["attention_mask"] == 0)
    assert_rows(both, expected)


def test_rows_that_their_mask_leaves_nothing_are_out() -> None:
    model = build("LlamaForCausalLM", llama_config(), "eager")
    ids = token_ids(1, 9)
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    padded = captured(model, input_ids=ids, attention_mask=mask).summary(padding=mask[0] == 0)
    positions = torch.arange(6)[None]
    alone = captured(model, input_ids=ids[:, 3:], position_ids=positions).summary()
    for name in ("entropy", "previous", "first", "diagonal", "distance", "leaning"):
        np.testing.assert_allclose(padded[name], alone[name], atol=1e-5)


def test_a_generation_is_one_map_and_a_step_keeps_its_position() -> None:
    model, ids = build("LlamaForCausalLM", llama_config()), token_ids(1, 7)
    ids[0, 4:7] = ids[0, 1:4]
    with capture(model) as cap:
        out = model.generate(ids, attention_mask=torch.ones_like(ids), **ATTENTION)
    tokens = out[0].tolist()  # the last one was generated and never looked
    whole = captured(model, out[:, :-1]).summary(tokens[:-1])
    summary = cap.summary(tokens)
    for name in set(COLUMNS) - {"delimiters", "padding"}:
        np.testing.assert_allclose(summary[name], whole[name], atol=1e-5, err_msg=name)
    step = cap.summary(tokens, step=2)
    for head, row in enumerate(step):
        weights = cap.weights(row["layer"], head % 6, step=2)
        assert weights.shape == (1, 9)
        assert row["previous"] == pytest.approx(float(weights[0, 7]))
        assert row["diagonal"] == pytest.approx(float(weights[0, 8]))
        assert row["first"] == pytest.approx(float(weights[0, 0]))


def test_a_step_of_a_sliding_cache_has_the_tokens_of_its_own_positions() -> None:
    config = transformers.MistralConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=1, num_attention_heads=6,
        num_key_value_heads=2, intermediate_size=40, sliding_window=4, **SPECIAL,
    )  # fmt: skip
    model, ids = build("MistralForCausalLM", config), token_ids(1, 7)
    with capture(model) as cap:
        model.generate(ids, attention_mask=torch.ones_like(ids), **ATTENTION)
    # The last step is at position 9 and looks at 6 to 9: at "x" before, then at "y", then itself.
    tokens = [*"abcdef", "x", "y", "z", "x", "last"]
    assert cap.calls[-1].shape[2:] == (1, 4)
    row = cap.summary(tokens, step=3).row(0, 4)
    weights = cap.weights(0, 4, step=3)[0].tolist()
    assert (row["duplicate"], row["induction"]) == pytest.approx(tuple(weights[:2]))
    assert math.isnan(row["first"])


def test_queries_after_a_cache_stand_where_the_mask_says() -> None:
    model, ids = build("LlamaForCausalLM", llama_config()), token_ids(1, 9)
    with torch.no_grad():
        cache = model(ids[:, :5], use_cache=True).past_key_values
    cap = captured(model, ids[:, 5:], cache=cache)
    assert cap.calls[0].shape[2:] == (4, 9)
    summary = cap.summary(ids[0].tolist())
    own = cap.weights(1, 2).numpy()[np.arange(4), np.arange(4) + 5]
    assert summary.row(1, 2)["diagonal"] == pytest.approx(own.mean())


def test_extra_keys_at_the_end_are_no_earlier_positions() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(12, 3, add_bias_kv=True, add_zero_attn=True).eval()
    inputs = torch.randn(4, 1, 12)
    cap = captured(attention, inputs, inputs, inputs)
    assert cap.calls[0].shape[2:] == (4, 6)
    summary = cap.summary()
    assert all(np.isnan(summary[name]).all() for name in BY_POSITION)
    known = cap.summary(query_offset=0)
    own = cap.weights(0, 1).numpy()[np.arange(4), np.arange(4)]
    assert known.row(0, 1)["diagonal"] == pytest.approx(own.mean())


def test_of_several_kinds_one_is_chosen_and_cross_attention_has_no_diagonal() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    source, target = token_ids(1, 6), token_ids(1, 4)
    cap = captured(model, input_ids=source, decoder_input_ids=target)
    with pytest.raises(ValueError, match="several kinds"):
        cap.summary()
    with pytest.raises(ValueError, match="encoder"):
        cap.summary(kind="tower")
    with pytest.raises(ShapeError, match="got 4, the weights have 6"):
        cap.summary(list("wxyz"), kind="cross")
    cross = cap.summary(list("a.a.a."), kind="cross")
    assert len(cross) == 6
    assert all(np.isnan(cross[name]).all() for name in BY_POSITION)
    expected = cap.weights(1, 2, kind="cross")[:, 1::2].sum(1).mean()
    assert cross.row(1, 2)["delimiters"] == pytest.approx(float(expected), rel=1e-5)
    explorer = cap.explore(list("abcabc"), queries=list("xxyy"), kind="decoder")
    assert str(explorer.summary()) == str(cap.summary(list("xxyy"), kind="decoder"))
    assert not np.isnan(explorer.summary()["duplicate"]).any()
    explorer.kind = "encoder"
    assert str(explorer.summary()) == str(cap.summary(list("abcabc"), kind="encoder"))


def stack(layers: int, heads: int, queries: int, keys: int) -> np.ndarray:
    weights = np.random.default_rng(5).random((layers, heads, queries, keys), dtype=np.float32)
    return weights / weights.sum(-1, keepdims=True)


def test_cross_attention_of_a_generation_is_summarized_too() -> None:
    """Its rows are other tokens than its keys: the source has eight, the decoder ran five."""
    model, source = build("T5ForConditionalGeneration", t5_config()), token_ids(1, 8)
    with torch.no_grad(), capture(model) as cap:
        out = model.generate(source, **ATTENTION, num_beams=1)
    names = [f"s{i}" for i in source[0].tolist()]
    explorer = cap.explore(names, queries=[f"t{i}" for i in out[0].tolist()], kind="cross")
    summary = explorer.summary(delimiters={names[2]})
    at = [index for index, name in enumerate(names) if name == names[2]]
    for row in summary:
        weights = cap.weights(row["layer"], row["head"], kind="cross")
        assert weights.shape == (out.shape[1] - 1, 8)
        expected = weights[:, at].sum(dim=1).mean().item()
        assert row["delimiters"] == pytest.approx(expected, rel=1e-5)


def test_an_explorer_of_layers_or_of_a_function_is_summarized_too() -> None:
    weights, tokens = stack(2, 3, 5, 5), list("abab.")
    expected = {(i, j): measure(weights[i, j], tokens) for i in (0, 1) for j in range(3)}
    layers = AttentionExplorer(weights, tokens, axes="layer head query key")
    assert_rows(layers.summary(), expected)
    function = AttentionExplorer(
        lambda layer, head: weights[layer // 4, head], tokens, layers=[0, 4], heads=3
    )
    assert_rows(function.summary(), {(4 * i, j): row for (i, j), row in expected.items()})


def test_an_explorer_takes_padding_mask_and_positions_from_its_map() -> None:
    weights, tokens = stack(2, 1, 3, 5), list("aba.a")
    options: dict[str, Any] = {"causal": True, "query_offset": 2, "padding": [1, 0, 0, 0, 0]}
    explorer = AttentionExplorer(
        weights, tokens, tokens[2:], axes="layer head query key", **options
    )
    mask = np.arange(5) <= np.arange(3)[:, None] + 2
    known = {"mask": mask, "padding": options["padding"], "query_offset": 2}
    expected = {(i, 0): measure(weights[i, 0], tokens, **known) for i in (0, 1)}
    assert_rows(explorer.summary(), expected)
    other = explorer.summary(padding=[0] * 5, delimiters={"b"})
    assert math.isnan(other.row(0, 0)["padding"])
    assert other.row(1, 0)["delimiters"] == pytest.approx(weights[1, 0, :, 1].mean())
    of_others = AttentionExplorer(
        weights[..., :3], list("abc"), list("xyz"), axes="layer head query key"
    )
    assert np.isnan(of_others.summary()["diagonal"]).all()


def test_the_boxes_for_words_and_special_tokens_change_no_number() -> None:
    explorer = AttentionExplorer(
        stack(2, 1, 3, 5),
        list("abcab"),
        list("cab"),
        axes="layer head query key",
        words=[[0, 1], [2], [3, 4]],
        query_words=[[0], [1, 2]],
        special=[0],
        causal=True,
        query_offset=2,
        padding=([1, 0, 0, 0, 0], [0, 0, 0]),
        merged=False,
    )
    expected = {(row["layer"], row["head"]): row for row in explorer.summary()}
    assert not math.isnan(expected[0, 0]["distance"])
    for merged, hide in ((True, False), (True, True), (False, True)):
        explorer.merged, explorer.hide_special = merged, hide
        assert explorer.error == ""
        assert_rows(explorer.summary(), expected)
        assert_rows(explorer.heads().summary, expected)


def test_an_explorer_says_how_far_it_is_and_then_what_it_said_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(summarizing, "_BETWEEN_REPORTS", 0)
    explorer = AttentionExplorer(stack(2, 2, 4, 4), list("abca"), axes="layer head query key")
    said: list[str] = []
    explorer.map.observe(lambda change: said.append(change["new"]), names="status")
    explorer.summary()
    assert said == [*(f"measuring all heads: {share}%" for share in (25, 50, 75, 100)), ""]
    told: list[float] = []
    explorer.summary(progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1]
    assert len(said) == 5


def test_positions_that_its_map_was_given_are_those_that_are_measured() -> None:
    weights, tokens = stack(2, 1, 2, 5), list("abcab")
    given: dict[str, Any] = {"axes": "layer head query key", "queries": ["a", "b"]}
    places = (range(4, 9), [7, 8])
    explorer = AttentionExplorer(weights, tokens, positions=places, causal=True, **given)
    away = np.abs(np.subtract.outer([7, 8], range(4, 9)))
    may = np.arange(4, 9) <= np.array([[7], [8]])
    summary, shown = explorer.summary(), np.where(may, weights[:, 0], 0)
    distance = ((shown * away).sum(-1) / shown.sum(-1)).mean(-1)
    np.testing.assert_allclose(summary["distance"], distance, rtol=1e-6)
    np.testing.assert_allclose(
        summary["diagonal"], weights[:, 0, [0, 1], [3, 4]].mean(-1), rtol=1e-6
    )
    assert np.isnan(summary["first"]).all()  # the sequence begins before these keys
    for name, column in explorer.heads().summary._values.items():
        np.testing.assert_array_equal(column, summary[name], err_msg=name)
    only_keys = AttentionExplorer(weights, tokens, positions=range(4, 9), **given).summary()
    assert np.isnan([only_keys["distance"], only_keys["first"]]).all()


def test_where_positions_skip_none_just_before_is_made_up_and_padding_skips_nothing() -> None:
    weights, tokens = stack(2, 1, 5, 5), list("abcab")
    skipping = AttentionExplorer(
        weights, tokens, axes="layer head query key", positions=[0, 1, 2, 5, 6]
    ).summary()
    for name in BY_POSITION:
        assert np.isnan(skipping[name]).all(), name
    np.testing.assert_allclose(skipping["first"], weights[:, 0, :, 0].mean(-1), rtol=1e-6)
    padded = AttentionExplorer(
        weights,
        tokens,
        axes="layer head query key",
        positions=[0, 0, 0, 1, 2],
        padding=[1, 1, 0, 0, 0],
    ).summary()
    for at in (0, 1):
        expected = measure(weights[at, 0], tokens, padding=[1, 1, 0, 0, 0])
        np.testing.assert_equal(padded.row(at, 0), {"layer": at, "head": 0, **expected})
