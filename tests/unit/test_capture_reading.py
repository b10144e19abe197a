"""Reading a capture: windows, heads put together, masks, memory, and clear refusals."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from capture_support import (
    all_weights,
    bert_config,
    build,
    gpt2_config,
    largest_difference,
    llama_config,
    padded_inputs,
    t5_config,
    token_ids,
)
from torch import nn

from attnmap_widget import CaptureError, capture
from attnmap_widget.capturing.records import Rebuilt


@pytest.fixture(scope="module")
def cap() -> Any:
    model = build("LlamaForCausalLM", llama_config())
    with torch.no_grad(), capture(model) as found:
        model(**padded_inputs())
    return found


def test_call_says_what_it_is(cap: Any) -> None:
    call = cap.calls[1]
    assert (call.layer, call.name, call.kind, call.step) == (
        1,
        "model.layers.1.self_attn",
        "self",
        0,
    )
    assert call.shape == (2, 6, 13, 13)
    assert call.source == "rebuilt"
    assert repr(call) == (
        "AttentionCall(layer=1, name='model.layers.1.self_attn', step=0, kind='self')"
    )


def test_windows_are_parts_of_the_whole(cap: Any) -> None:
    whole = cap.weights(0, None, batch=1)
    for queries, keys in (
        (slice(3, 8), slice(None)),
        (slice(-4, None), slice(2, 9)),
        (slice(None, None, 3), slice(1, None, 2)),
        (slice(5, 5), slice(None)),
        (slice(90, None), slice(None)),
    ):
        part = cap.weights(0, 4, batch=1, queries=queries, keys=keys)
        assert part.shape == whole[4, queries, keys].shape
        # One row alone is summed in another order than within a matrix.
        assert largest_difference(part, whole[4, queries, keys]) <= 1e-6 if part.numel() else True
        assert torch.equal(part, cap.calls[0].weights(4, 1, queries, keys))
    with pytest.raises(ValueError, match="positive"):
        cap.weights(0, 0, queries=slice(None, None, -1))
    with pytest.raises(ValueError, match="slice"):
        cap.weights(0, 0, keys=3)


def test_large_maps_are_rebuilt_in_blocks() -> None:
    """4 million cells are a block; 2300 × 2200 are more."""
    q, k = torch.randn(1, 2, 2300, 4), torch.randn(1, 2, 2200, 4)
    with capture() as cap:
        torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)
    got = cap.weights(0, 1)
    scores = (q[0, 1] @ k[0, 1].T / 2).masked_fill(
        torch.ones(2300, 2200).triu(1).bool(), -torch.inf
    )
    assert largest_difference(got, scores.softmax(-1)) <= 1e-6
    assert largest_difference(cap.weights(0, "max"), cap.weights(0, None).amax(0)) == 0


def test_heads_put_together(cap: Any) -> None:
    whole = cap.weights(1, None)
    assert largest_difference(cap.weights(1, "mean"), whole.mean(0)) <= 1e-7
    assert torch.equal(cap.weights(1, "max"), whole.amax(0))
    assert torch.equal(cap.weights(1, 5), whole[5])
    assert all(t.dtype == torch.float32 and t.device.type == "cpu" for t in (whole, whole[0]))


def test_what_a_layer_has(cap: Any) -> None:
    assert cap.layers == [0, 1]
    assert (cap.heads(0), cap.batch_size(0), cap.steps(0), cap.kinds(0)) == (6, 2, 1, ["self"])
    assert cap.find(1) == [cap.calls[1]]


@pytest.mark.parametrize(
    ("layer", "head", "choice", "message"),
    [
        (2, 0, {}, "layer 2: layers with attention are 0, 1"),
        (-1, 0, {}, "layer -1: layers with attention are 0, 1"),
        (True, 0, {}, "layer True"),
        (0, 6, {}, r"head 6: layer 0 \(model.layers.0.self_attn\) has 0 to 5"),
        (0, -1, {}, "head -1"),
        (0, True, {}, "head True"),
        (0, 1.0, {}, "head 1.0"),
        (0, "sum", {}, '"mean" or "max"'),
        (0, "Max", {}, '"mean" or "max"'),
        (0, np.float64(1), {}, "is not a number"),
        (0, np.bool_(True), {}, "is not a number"),
        (0, torch.tensor(True), {}, "is not a number"),
        (0, torch.tensor(1.0), {}, "is not a number"),
        (0, [1], {}, "is not a number"),
        (0, np.int64(6), {}, "head 6"),
        (0, 0, {"batch": torch.tensor([0, 1])}, "is not a number"),
        (0, 0, {"batch": 2}, "batch item 2: .* has 0 to 1"),
        (0, 0, {"batch": False}, "batch item False"),
        (0, 0, {"kind": "cross"}, r"kind 'cross': layer 0 has \['self'\]"),
        (0, 0, {"step": 1}, r"step 1: layer 0 has \[0\]"),
        (0, 0, {"step": False}, "step False"),
    ],
)
def test_refusals_list_what_there_is(
    cap: Any, layer: Any, head: Any, choice: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cap.weights(layer, head, **choice)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor, np.array])
def test_whole_numbers_of_any_library(cap: Any, kind: Any) -> None:
    """A head that is no Python int was once taken for "max"."""
    for head in range(6):
        expected = cap.weights(1, head, batch=1)
        got = cap.weights(kind(1), kind(head), batch=kind(1), step=kind(0))
        assert torch.equal(got, expected)
        assert torch.equal(cap.calls[1].weights(kind(head), kind(1)), expected)
    assert torch.equal(cap.allowed(0, kind(2)), cap.allowed(0, 2))
    model = build("LlamaForCausalLM", llama_config())
    with torch.no_grad(), capture(model, layers=[kind(1)]) as found:
        model(**padded_inputs())
    assert found.layers == [1]


def test_allowed_is_the_models_mask(cap: Any) -> None:
    seen = torch.ones(13, 13).tril().bool()
    assert torch.equal(cap.allowed(0, 3), seen)
    seen[:, 9:] = False
    assert torch.equal(cap.allowed(0, "mean", batch=1)[:9], seen[:9])
    assert torch.equal(cap.calls[0].allowed(2, 1)[:9], seen[:9])
    assert torch.equal(cap.calls[0].allowed(2, 0, slice(2, 5), slice(1, 7)), seen[2:5, 1:7])
    assert cap.calls[0].allowed(2, 0, slice(5, 6), slice(0, 3)) is None


def test_allowed_of_a_bidirectional_model() -> None:
    model, inputs = build("BertModel", bert_config()), padded_inputs()
    with torch.no_grad(), capture(model) as cap:
        model(**inputs)
    assert cap.allowed(0, 0, batch=0) is None
    assert torch.equal(
        cap.allowed(0, 0, batch=1), inputs["attention_mask"][1].bool().expand(13, 13)
    )


def test_position_bias_is_no_mask() -> None:
    model = build("T5EncoderModel", t5_config())
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
    assert cap.allowed(0, 0) is None


def test_layers_limits_what_is_held() -> None:
    """Twelve layers, one is wanted: the queries of the others die while the model still runs."""
    model = build("LlamaForCausalLM", llama_config(num_hidden_layers=12))
    alive: list[weakref.ref[torch.Tensor]] = []
    counts: list[int] = []

    def note(module: nn.Module, args: Any, output: torch.Tensor) -> None:
        counts.append(sum(reference() is not None for reference in alive))
        # The projection's storage is what the queries of the layer are views of.
        alive.append(weakref.ref(output.untyped_storage()))

    for layer in model.model.layers:
        layer.self_attn.k_proj.register_forward_hook(note)
    with torch.no_grad(), capture(model, layers=[11]) as cap:
        model(token_ids(1, 9), use_cache=False)
    assert max(counts) <= 1
    assert cap.layers == [11]
    assert len(cap.calls) == 1
    with torch.no_grad(), capture(model) as everything:
        model(token_ids(1, 9), use_cache=False)
    assert torch.equal(cap.weights(11, None), everything.weights(11, None))
    # Masks are shared by the layers, so one layer is a little more than a twelfth.
    assert everything.nbytes > 10 * cap.nbytes


def test_unknown_layers_are_named_at_the_first_read() -> None:
    model = build("LlamaForCausalLM", llama_config())
    with torch.no_grad(), capture(model, layers=[1, 7]) as some, capture(model, layers={9}) as none:
        model(token_ids())
    for cap, number in ((some, 7), (none, 9)):
        with pytest.raises(CaptureError, match=rf"\[{number}\].*\[0, 1\]"):
            _ = cap.layers
    with pytest.raises(ValueError, match="block numbers"):
        capture(model, layers=["3"])


def test_only_queries_and_keys_are_kept() -> None:
    """16 layers of 8 heads at 256 tokens: 34 MB of weights, of which no (N, N) tensor is formed."""
    config = llama_config(
        num_hidden_layers=16, num_attention_heads=8, hidden_size=64, max_position_embeddings=256
    )
    model = build("LlamaForCausalLM", config)
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(1, 256), use_cache=False)
    q_and_k = 16 * 256 * (64 + 2 * 8) * 4
    assert cap.nbytes <= 1.5 * q_and_k
    assert not any(t.shape[-2:] == (256, 256) for call in cap.calls for t in call.record.tensors())
    assert cap.weights(15, 0, queries=slice(-8, None)).shape == (8, 256)


def test_a_map_that_does_not_fit_is_refused_with_the_figure() -> None:
    """300 000 tokens: one head is 360 GB of weights, its queries and keys are 10 MB."""
    count = 300_000
    q = torch.zeros(1, 1, 1, 4).expand(1, 1, count, 4)
    with capture() as cap:
        torch.nn.functional.scaled_dot_product_attention(q[:, :, :1], q[:, :, :1], q[:, :, :1])
    call = cap.calls[0]
    call.record = Rebuilt(q, q, (), (1, 1, count, count))
    with pytest.raises(CaptureError, match=r"360\.0 GB.*queries=slice"):
        call.weights(0)
    assert call.weights(0, queries=slice(-1, None)).shape == (1, count)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda cap: pickle.loads(pickle.dumps(cap))])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_copy_of_a_capture_reads_the_same(copied: Any, mode: Any) -> None:
    model = build("LlamaForCausalLM", llama_config())
    with mode(), capture(model) as cap:
        model.generate(token_ids(1, 7), do_sample=False, max_new_tokens=3, min_new_tokens=3)
        with pytest.raises(TypeError, match="after its with block"):
            copied(cap)
    again = copied(cap)
    assert largest_difference(again.weights(1, None), cap.weights(1, None)) == 0
    assert again.calls[0].name == cap.calls[0].name
    assert again.nbytes == cap.nbytes


def test_closing_drops_the_records() -> None:
    model = build("GPT2LMHeadModel", gpt2_config())
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
    kept = weakref.ref(cap.calls[0].record.queries)
    weights = cap.weights(0, 0)
    cap.close()
    assert kept() is None
    assert cap.calls == []
    assert cap.nbytes == 0
    assert weights.shape == (13, 13)
    with pytest.raises(CaptureError, match="closed"):
        cap.weights(0, 0)


def test_a_capture_that_is_let_go_frees_its_tensors_at_once() -> None:
    """Without waiting for the collector of cycles: they may be gigabytes."""
    model = build("GPT2LMHeadModel", gpt2_config())
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), capture(model) as cap:
            model(token_ids())
            torch.softmax(torch.ones(5, 4) @ torch.ones(5, 4).mT, -1)
        kept = weakref.ref(cap.calls[0].record.queries)
        del cap
        assert kept() is None
    finally:
        gc.enable()


def test_the_model_is_not_kept_alive() -> None:
    model = build("GPT2LMHeadModel", gpt2_config())
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert all_weights(cap, 1).shape == (2, 3, 13, 13)


def test_a_capture_is_used_once() -> None:
    model = build("GPT2LMHeadModel", gpt2_config())
    cap = capture(model)
    with pytest.raises(CaptureError, match="with capture"):
        _ = cap.layers
    with cap:
        pass
    with pytest.raises(RuntimeError, match=re.escape("call capture() again")), cap:
        pass


def test_heads_without_a_weight_are_left_out_of_mean_and_max() -> None:
    q, k, v = (
        torch.randn(1, 3, 4, 8, generator=torch.Generator().manual_seed(i)) for i in range(3)
    )
    mask = torch.ones(1, 3, 4, 4, dtype=torch.bool)
    mask[0, 1, 2] = False  # head 1 has no valid key for query 2
    with capture() as cap:
        torch.softmax((q @ k.mT).masked_fill(~mask, -torch.inf), -1) @ v
    heads = cap.weights(0, None)
    assert heads[1, 2].isnan().all()
    assert torch.allclose(cap.weights(0, "mean"), heads.nanmean(0))
    assert torch.equal(cap.weights(0, "max"), heads.nan_to_num(0).amax(0))
