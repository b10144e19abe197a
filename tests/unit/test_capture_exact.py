"""Captured weights are the model's own: equal to an eager run, on any backend."""

from __future__ import annotations

from typing import Any

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
    state_of,
    t5_config,
    token_ids,
)

from attnmap_widget import capture

DECODER_ONLY = [
    ("BertModel", bert_config()),
    ("GPT2LMHeadModel", gpt2_config()),
    ("GPT2LMHeadModel", gpt2_config(reorder_and_upcast_attn=True)),
    ("LlamaForCausalLM", llama_config()),
]


def outputs(model: Any, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        out = model(**inputs)
    return [value for value in out.to_tuple() if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize(("name", "config"), DECODER_ONLY)
@pytest.mark.parametrize("padded", [False, True])
def test_equals_eager(name: str, config: Any, padded: bool) -> None:
    model, eager = build(name, config), build(name, config, "eager")
    inputs = padded_inputs()
    if not padded:
        del inputs["attention_mask"]
    plain, before = outputs(model, inputs), state_of(model)
    with capture(model) as cap:
        captured = outputs(model, inputs)
    assert before == state_of(model)
    assert before["backend"] == "sdpa"
    assert all(torch.equal(a, b) for a, b in zip(plain, captured, strict=True))
    with torch.no_grad():
        expected = eager(**inputs, output_attentions=True).attentions
    assert cap.layers == [0, 1]
    assert [call.source for call in cap.calls] == ["rebuilt", "rebuilt"]
    for layer, weights in enumerate(expected):
        assert largest_difference(all_weights(cap, layer), weights) <= 1e-5


def test_t5_has_encoder_decoder_and_cross() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    eager = build("T5ForConditionalGeneration", t5_config(), "eager")
    inputs = {**padded_inputs(), "decoder_input_ids": token_ids(2, 5, seed=8)}
    plain = outputs(model, inputs)
    with capture(model) as cap:
        captured = outputs(model, inputs)
    assert all(torch.equal(a, b) for a, b in zip(plain, captured, strict=True))
    with torch.no_grad():
        expected = eager(**inputs, output_attentions=True)
    assert cap.kinds(1) == ["encoder", "decoder", "cross"]
    for kind, layers in (
        ("encoder", expected.encoder_attentions),
        ("decoder", expected.decoder_attentions),
        ("cross", expected.cross_attentions),
    ):
        for layer, weights in enumerate(layers):
            assert largest_difference(all_weights(cap, layer, kind=kind), weights) <= 1e-5
    with pytest.raises(ValueError, match=r"\['encoder', 'decoder', 'cross'\]"):
        cap.weights(0, 0)


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_every_backend_gives_the_same(backend: str) -> None:
    """The first of the reports: weights without asking for them, whatever the backend."""
    model = build("LlamaForCausalLM", llama_config(), backend)
    eager = build("LlamaForCausalLM", llama_config(), "eager")
    inputs = padded_inputs(16, 11)
    with torch.no_grad(), capture(model) as cap:
        model(**inputs)
    with torch.no_grad():
        expected = eager(**inputs, output_attentions=True).attentions
    assert model.config._attn_implementation == backend
    for layer, weights in enumerate(expected):
        assert largest_difference(all_weights(cap, layer)[0], weights[0]) <= 1e-5
        # Rows of left-out tokens may differ between backends; those of the sentence may not.
        assert largest_difference(all_weights(cap, layer)[1, :, :11], weights[1, :, :11]) <= 1e-5


def test_causal_model_never_looks_ahead() -> None:
    """One layer switched to eager leaks the future; a capture of one layer changes nothing."""
    model = build("LlamaForCausalLM", llama_config())
    ids = token_ids(1, 7)
    plain = outputs(model, {"input_ids": ids})
    with capture(model, layers=[0]) as cap:
        captured = outputs(model, {"input_ids": ids})
    assert cap.layers == [0]
    assert torch.equal(plain[0], captured[0])
    assert float(cap.weights(0, None).triu(1).abs().sum()) == 0
    assert bool(cap.allowed(0).equal(torch.ones(7, 7).tril().bool()))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_grad_modes(mode: Any) -> None:
    model, inputs = build("GPT2LMHeadModel", gpt2_config()), padded_inputs()
    with torch.no_grad(), capture(model) as expected:
        model(**inputs)
    with mode(), capture(model) as cap:
        model(**inputs)
    for layer in expected.layers:
        assert torch.equal(all_weights(cap, layer), all_weights(expected, layer))
        assert not cap.weights(layer, 0).requires_grad


def test_gradients_are_those_without_capture() -> None:
    model, ids = build("LlamaForCausalLM", llama_config()), token_ids()

    def gradients(watched: bool) -> list[torch.Tensor]:
        model.zero_grad()
        if watched:
            with capture(model) as cap:
                loss = model(ids, labels=ids).loss
                loss.backward()
            assert [call.layer for call in cap.calls] == [0, 1]
            assert not any(t.requires_grad for call in cap.calls for t in call.record.tensors())
        else:
            model(ids, labels=ids).loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    assert all(torch.equal(a, b) for a, b in zip(gradients(False), gradients(True), strict=True))


def test_gradient_checkpointing_is_recorded_once() -> None:
    model, ids = build("LlamaForCausalLM", llama_config()), token_ids()
    model.activation_checkpointing_enable()
    model.train()
    with capture(model) as cap:
        model(ids, labels=ids, use_cache=False).loss.backward()
    assert [call.layer for call in cap.calls] == [0, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype: torch.dtype) -> None:
    model = build("LlamaForCausalLM", llama_config()).to(dtype)
    eager = build("LlamaForCausalLM", llama_config(), "eager").to(dtype)
    ids = token_ids()
    with torch.no_grad(), capture(model) as cap:
        model(ids)
    with torch.no_grad():
        expected = eager(ids, output_attentions=True).attentions
    assert [call.source for call in cap.calls] == ["rebuilt", "rebuilt"]
    for layer, weights in enumerate(expected):
        got = all_weights(cap, layer)
        assert got.dtype == torch.float32
        assert largest_difference(got, weights) <= 1e-2
        # float32 inside: rows sum to one more exactly than the half type can say
        assert largest_difference(got.sum(-1), torch.ones(got.shape[:-1])) <= 1e-6


def test_autocast() -> None:
    model = build("LlamaForCausalLM", llama_config())
    eager = build("LlamaForCausalLM", llama_config(), "eager")
    ids = token_ids()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        plain = model(ids).logits
        with capture(model) as cap:
            captured = model(ids).logits
        expected = eager(ids, output_attentions=True).attentions
        for layer, weights in enumerate(expected):
            assert largest_difference(all_weights(cap, layer), weights) <= 1e-2
    assert torch.equal(plain, captured)
    assert [call.source for call in cap.calls] == ["rebuilt", "rebuilt"]
