"""Maps over layers and heads, and value norms, in an explorer: the numbers and their names."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from capture_support import (
    bert_config,
    build,
    gpt2_config,
    llama_config,
    padded_inputs,
    t5_config,
    token_ids,
)
from torch.nn import functional as F

from attnmap_widget import AttentionExplorer, State, capture
from attnmap_widget.aggregates import rollout

LAYERS, HEADS, TOKENS = 4, 3, 5
T = list("abcde")


def stack(*shape: int, seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).random(shape).astype(np.float32) ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


def explorer(weights: np.ndarray, **options: Any) -> AttentionExplorer:
    return AttentionExplorer(weights, T, axes="layer head query key", **options)


def shown(ex: AttentionExplorer) -> np.ndarray:
    assert ex.error == ex.map.error == ""
    return np.asarray(ex.map.weights)


def captured(name: str, config: Any, **inputs: Any) -> Any:
    model = build(name, config)
    with torch.no_grad(), capture(model) as cap:
        model(**inputs)
    return cap


def test_the_layer_menu_offers_what_is_over_all_layers() -> None:
    ex = explorer(stack(LAYERS, HEADS, TOKENS, TOKENS), layer=2, head=1)
    assert ex.layer_selector.options[-4:] == (
        ("3", 3), ("all layers: mean", "mean"), ("all layers: max", "max"), ("rollout", "rollout"),
    )  # fmt: skip
    ex.layer_selector.value = "rollout"
    assert (ex.layer, ex.head) == ("rollout", "mean")
    assert [value for _, value in ex.head_selector.options] == ["mean", "max"]
    ex.layer_selector.value = 1
    assert (ex.layer, ex.head) == (1, 1)
    ex.head = 2
    assert ex.map.title == "Layer 1 · Head 2"


@pytest.mark.parametrize("over", ["mean", "max", "rollout"])
def test_the_way_back_from_all_layers_leads_to_the_head_that_was_chosen(over: str) -> None:
    weights = stack(LAYERS, HEADS, TOKENS, TOKENS)
    ex = explorer(weights, layer=3, head=1)
    ex.layer_selector.value = over
    ex.head_selector.value = "max"
    ex.layer_selector.value = "mean"
    ex.layer_selector.value = 3
    assert (ex.layer, ex.head, ex.head_selector.value) == (3, 1, 1)
    np.testing.assert_array_equal(shown(ex), weights[3, 1])
    ex.layer = over
    ex.layer, ex.head = 2, "max"
    ex.layer = over
    ex.layer = 0
    assert ex.head == "max"
    only = explorer(weights, layer=over)
    only.layer = 2
    assert only.head == "mean"
    ex.layer, ex.head = over, "mean"
    ex.use(weights[:, :2], T, axes="layer head query key")
    ex.layer = 1
    assert ex.head == "max"
    ex.head, ex.layer = 1, over
    assert ex.map_of(layer=2).title == "Layer 2 · mean of 2 heads"
    ex.use(weights[:, :1], T, axes="layer head query key")
    ex.layer = 1
    assert ex.head == 0


@pytest.mark.parametrize(
    ("layer", "head", "title"),
    [
        ("mean", "mean", "mean of 4 layers × 3 heads"),
        ("max", "max", "max of 4 layers × 3 heads"),
        ("mean", "max", "mean of 4 layers, max of 3 heads"),
        ("max", "mean", "max of 4 layers, mean of 3 heads"),
        ("rollout", "mean", "rollout of layers 0–3, mean of 3 heads"),
        ("rollout", "max", "rollout of layers 0–3, max of 3 heads"),
    ],
)
def test_over_layers_and_heads(layer: str, head: str, title: str) -> None:
    weights = stack(LAYERS, HEADS, TOKENS, TOKENS)
    ex = explorer(weights, layer=layer, head=head)
    over_heads = getattr(weights, head)(axis=1)
    expected = rollout(over_heads) if layer == "rollout" else getattr(over_heads, layer)(axis=0)
    np.testing.assert_allclose(shown(ex), expected, atol=1e-6)
    assert ex.map.title == title
    assert ex.map.checks == []


def test_maps_without_weights_are_left_out_and_not_counted() -> None:
    weights = stack(LAYERS, HEADS, 2, TOKENS)
    weights[1, 2] = np.nan
    weights[3, 0, 1] = np.nan
    ex = AttentionExplorer(weights, T, ["p", "q"], axes="layer head query key", layer="mean")
    np.testing.assert_allclose(shown(ex), np.nanmean(weights, axis=(0, 1)), atol=1e-6)
    assert ex.map.title == "mean of 4 layers × 3 heads, 11 of 12 maps have weights"


def test_layers_with_different_heads_count_each_map_once() -> None:
    layers = (torch.tensor(stack(1, 2, 5, 5)), torch.tensor(stack(1, 6, 5, 5, seed=1)))
    ex = AttentionExplorer(layers, T, layer="mean")
    every = np.concatenate([layer[0].numpy() for layer in layers])
    np.testing.assert_allclose(shown(ex), every.mean(axis=0), atol=1e-6)
    assert ex.map.title == "mean of 2 layers × 2 to 6 heads"


def test_one_head_each_needs_no_word_on_heads() -> None:
    weights = stack(3, 1, TOKENS, TOKENS)
    ex = explorer(weights, layer="max")
    assert (ex.head, ex.map.title) == (0, "max of 3 layers")
    np.testing.assert_allclose(shown(ex), weights[:, 0].max(axis=0))
    ex.layer = "rollout"
    np.testing.assert_allclose(shown(ex), rollout(weights[:, 0]), atol=1e-6)
    assert ex.map.title == "rollout of layers 0–2"


def test_nothing_is_over_layers_where_there_is_one_or_none_is_named() -> None:
    single = explorer(stack(1, HEADS, TOKENS, TOKENS))
    unnamed = AttentionExplorer(stack(HEADS, TOKENS, TOKENS), T)
    for ex in (single, unnamed):
        assert [value for _, value in ex.layer_selector.options] == [0]
        with pytest.raises(ValueError, match="'mean' does not exist; there are: 0"):
            ex.layer = "mean"


def test_a_head_number_means_nothing_over_layers() -> None:
    ex = explorer(stack(LAYERS, HEADS, TOKENS, TOKENS), layer="mean")
    with pytest.raises(ValueError, match="head: 1 does not exist; there are: mean, max"):
        ex.head = 1
    assert ex.head == "mean"


def test_a_rollout_that_is_none_says_so_in_place_and_keeps_the_last_map() -> None:
    cap = captured(
        "T5ForConditionalGeneration", t5_config(),
        **padded_inputs(), decoder_input_ids=token_ids(2, 5, seed=8),
    )  # fmt: skip
    ex = AttentionExplorer(cap, layer="rollout", kind="decoder")
    assert shown(ex).shape == (5, 5)
    before = ex.map.weights
    assert "rollout" in [value for _, value in ex.layer_selector.options]
    ex.kind = "cross"
    assert ex.error.startswith("cross · rollout of layers 0–1, mean of 3 heads · item 0: rollout: ")
    assert ex.map.weights is before
    ex.layer = "mean"
    assert "rollout" not in [value for _, value in ex.layer_selector.options]
    assert shown(ex).shape == (5, 13)
    ex.kind = "encoder"
    np.testing.assert_allclose(
        shown(ex), np.mean([cap.weights(n, "mean", kind="encoder") for n in (0, 1)], 0), atol=1e-6
    )


def test_a_rollout_of_a_capture_is_the_captures_own_and_knows_the_mask() -> None:
    cap = captured("GPT2Model", gpt2_config(), input_ids=token_ids(2, 7))
    ex = AttentionExplorer(cap, layer="rollout", batch=1)
    np.testing.assert_allclose(shown(ex), cap.rollout(batch=1), atol=1e-6)
    above = np.triu(np.ones((7, 7), bool), 1)
    assert (ex.map.states[above] == State.CANNOT_LOOK).all()
    assert (ex.map.states[~above] == State.WEIGHT).all()


def test_a_generation_is_rolled_out_over_what_existed() -> None:
    model = build("GPT2LMHeadModel", gpt2_config())
    with torch.no_grad(), capture(model) as cap:
        model.generate(token_ids(1, 4), max_new_tokens=3, min_new_tokens=3, do_sample=False)
    ex = AttentionExplorer(cap, layer="rollout")
    np.testing.assert_allclose(shown(ex), cap.rollout(), atol=1e-6)


def test_layers_of_a_hybrid_are_named_one_by_one() -> None:
    ex = AttentionExplorer(
        lambda layer, head: stack(TOKENS, TOKENS, seed=layer + head),
        T, layers=[1, 3, 8], heads=2, layer="rollout",
    )  # fmt: skip
    assert ex.map.title == "rollout of layers 1, 3, 8, mean of 2 heads"


# -- value norms --------------------------------------------------------------------------------


def test_value_norms_are_a_measure_of_a_capture() -> None:
    cap = captured("LlamaModel", llama_config(), input_ids=token_ids(1, 9))
    ex = AttentionExplorer(cap, layer=1, head=5)
    assert [value for _, value in ex.measure_selector.options] == ["weights", "value norms"]
    assert ex.measure_selector.layout.display is None
    ex.measure_selector.value = "value norms"
    np.testing.assert_allclose(shown(ex), cap.value_norms(1, 5), atol=1e-6)
    assert ex.map.title == "‖αv‖ · Layer 1 · Head 5"
    assert ex.map.value_title == "‖αv‖"
    assert ex.map.checks == []
    assert abs(ex.map.row_sums - 1).max() > 0.1
    ex.layer, ex.head = "mean", "mean"
    every = [cap.value_norms(layer, None) for layer in (0, 1)]
    np.testing.assert_allclose(shown(ex), np.concatenate(every).mean(axis=0), atol=1e-6)
    assert ex.map.title == "‖αv‖ · mean of 2 layers × 6 heads"
    ex.layer = "rollout"
    assert (ex.measure_selector.layout.display, ex.measure_selector.disabled) == (None, True)
    assert ex.measure == "weights"
    assert ex.map.value_title == "weight"
    assert [value for _, value in ex.measure_selector.options] == ["weights", "value norms"]
    with pytest.raises(ValueError, match="'value norms' does not exist"):
        ex.measure_selector.value = "value norms"
    assert ex.measure == ex.measure_selector.value == "weights"
    assert ex.map.title == "rollout of layers 0–1, mean of 6 heads"
    ex.layer, ex.head = 0, 1
    assert not ex.measure_selector.disabled
    np.testing.assert_allclose(shown(ex), cap.weights(0, 1), atol=1e-6)


def test_a_menu_keeps_its_place_where_a_layer_has_no_choice() -> None:
    """Layer 1 of the decoder alone looks at an encoder."""
    self_, cross = stack(2, 2, 1, 3, 4, 4), stack(1, 2, 1, 3, 4, 6)
    out = type("Out", (), {"attentions": tuple(self_[0]), "cross_attentions": tuple(cross[0][:1])})
    ex = AttentionExplorer(out(), layer=0)
    assert [value for _, value in ex.kind_selector.options] == ["self", "cross"]
    assert (ex.kind_selector.layout.display, ex.kind_selector.disabled) == (None, False)
    ex.layer = 1
    assert [value for _, value in ex.kind_selector.options] == ["self"]
    assert (ex.kind_selector.layout.display, ex.kind_selector.disabled) == (None, True)
    assert ex.step_selector.layout.display == ex.batch_selector.layout.display == "none"


def test_there_is_no_measure_where_only_weights_are_known() -> None:
    q = torch.randn(1, 2, 5, 4)
    with capture() as cap:
        (torch.softmax(q @ q.mT, -1)[..., None] * q[:, :, None]).sum(-2)
    for ex in (AttentionExplorer(cap), explorer(stack(LAYERS, HEADS, TOKENS, TOKENS))):
        assert ex.measure_selector.layout.display == "none"
        with pytest.raises(ValueError, match="'value norms' does not exist; there are: weights"):
            ex.measure = "value norms"


def test_value_norms_of_heads_too_long_to_hold_are_refused_in_place() -> None:
    q = torch.randn(1, 1, 6000, 4)
    with capture() as cap, torch.no_grad():
        F.scaled_dot_product_attention(q, q, q)
    ex = AttentionExplorer(cap)
    ex.measure = "value norms"
    assert "value norms of a head this long are not held; read a part" in ex.error
    part = cap.value_norms(0, 0, queries=slice(7, 9))
    assert part.shape == (2, 6000)


def test_a_saved_page_of_norms_is_called_so() -> None:
    cap = captured("BertModel", bert_config(), input_ids=token_ids(1, 6))
    page = AttentionExplorer(cap, measure="value norms").to_html()
    assert json.dumps("‖αv‖ · Layer 1 · Head 2") in page
    rolled = AttentionExplorer(cap).to_html(layers=["rollout"])
    assert json.dumps("rollout of layers 0–1, mean of 3 heads") in rolled


def test_scores_of_any_sign_are_not_checked_where_they_are_said_to_be_none() -> None:
    scores = np.array([[[3.0, -1.0], [2.0, 0.5]]])
    assert AttentionExplorer(scores, ["a", "b"]).map.checks != []
    assert AttentionExplorer(scores, ["a", "b"], softmax=False).map.checks == []
