"""Models as people run them: sharded, quantised, hooked, compiled, half padded."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from capture_sharded import blocks, shard_and_capture
from capture_support import (
    all_weights,
    build,
    gpt2_config,
    largest_difference,
    llama_config,
    token_ids,
)
from torch import Tensor, nn

from attnmap_widget import capture


def test_left_padding() -> None:
    """Rows of left padding are whatever the backend makes of them; the text's rows are the same."""
    ids = token_ids(2, 9)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    model, eager = (build("LlamaForCausalLM", llama_config(), b) for b in (None, "eager"))
    with torch.no_grad(), capture(model) as cap:
        model(ids, attention_mask=mask)
    with torch.no_grad():
        expected = eager(ids, attention_mask=mask, output_attentions=True).attentions
    for layer, weights in enumerate(expected):
        got = all_weights(cap, layer)
        assert largest_difference(got[0], weights[0]) <= 1e-5
        assert largest_difference(got[1, :, 3:], weights[1, :, 3:]) <= 1e-5
        assert float(got[1, :, 3:, :3].abs().max()) == 0
    assert not bool(cap.allowed(0, 0, batch=1)[3:, :3].any())


def test_forward_replaced_on_the_instance() -> None:
    """How libraries that move weights between devices hook in: another forward."""
    model = build("GPT2LMHeadModel", gpt2_config())
    with torch.no_grad(), capture(model) as expected:
        model(token_ids())
    for module in model.modules():

        def moved(module: nn.Module, *args: Any, original: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        module.forward = functools.update_wrapper(
            functools.partial(moved, module, original=module.forward), module.forward
        )
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
    assert [call.name for call in cap.calls] == ["transformer.h.0.attn", "transformer.h.1.attn"]
    assert torch.equal(all_weights(cap, 1), all_weights(expected, 1))


def test_functional_call() -> None:
    model = build("LlamaForCausalLM", llama_config())
    doubled = {name: value * 2 for name, value in model.named_parameters()}
    with torch.no_grad(), capture(model) as plain, capture(model) as cap:
        torch.func.functional_call(model, doubled, (token_ids(),))
    assert torch.equal(all_weights(cap, 0), all_weights(plain, 0))
    with torch.no_grad(), capture(model) as other:
        model(token_ids())
    assert largest_difference(all_weights(cap, 0), all_weights(other, 0)) > 0.01


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, .* are deprecated:UserWarning")
def test_quantised_linear_layers() -> None:
    model, eager = (
        torch.ao.quantization.quantize_dynamic(
            build("LlamaForCausalLM", llama_config(), backend), {nn.Linear}, dtype=torch.qint8
        )
        for backend in (None, "eager")
    )
    with torch.no_grad():
        plain = model(token_ids()).logits
        with capture(model) as cap:
            captured = model(token_ids()).logits
        expected = eager(token_ids(), output_attentions=True).attentions
    assert torch.equal(plain, captured)
    for layer, weights in enumerate(expected):
        assert largest_difference(all_weights(cap, layer), weights) <= 1e-5


def test_vmap_over_a_model_harms_nobody() -> None:
    """Inside a transform there are no tensors to keep: the result is right, nothing is recorded."""

    def attend(q: Tensor) -> Tensor:
        return (q @ q.mT).softmax(-1) @ q

    q = torch.randn(4, 5, 8)
    with capture() as cap:
        out = torch.vmap(attend)(q)
    assert largest_difference(out, attend(q)) <= 1e-6
    assert cap.calls == []


def test_exported_module() -> None:
    """An exported graph calls torch's operators, not its functions; names of modules are gone."""
    model, x = blocks(), torch.randn(2, 5, 24)
    exported = torch.export.export(model, (x,)).module()
    with torch.no_grad(), capture(model) as expected:
        model(x)
    with torch.no_grad(), capture(exported) as cap:
        exported(x)
    assert cap.layers == [0, 1]
    for layer in cap.layers:
        assert largest_difference(all_weights(cap, layer), all_weights(expected, layer)) <= 1e-6


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.distributed")
def test_heads_sharded_over_two_processes(tmp_path: Path) -> None:
    with torch.no_grad(), capture(model := blocks()) as whole:
        model(torch.linspace(-1, 1, 2 * 5 * 24).view(2, 5, 24))
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    mp.start_processes(
        shard_and_capture, (str(tmp_path / "meeting"), results), nprocs=2, start_method="spawn"
    )
    for _ in range(2):
        _, own, layers = results.get()
        assert own == 3
        for layer, (weights, norms) in enumerate(layers):
            expected = whole.weights(layer, None, 1)
            assert expected.shape == (6, 5, 5)
            assert largest_difference(torch.tensor(weights), expected) <= 1e-5
            expected = whole.value_norms(layer, None, 1)
            assert largest_difference(torch.tensor(norms), expected) <= 1e-5
