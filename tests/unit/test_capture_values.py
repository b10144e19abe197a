"""How large values are, and rollout: equal to what the model's own v gives, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from capture_support import (
    all_weights,
    bert_config,
    build,
    gpt2_config,
    llama_config,
    padded_inputs,
    spread,
    t5_config,
    token_ids,
)
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import flex_attention

from attnmap_widget import CaptureError, ShapeError, capture

QUERIES, KEYS, HEADS, BATCH = 5, 7, 3, 2


def projected(model: Any, name: str, inputs: dict[str, Tensor]) -> Tensor:
    """What the module of that name gave in one forward."""
    found: list[Tensor] = []
    module = model.get_submodule(name)
    hook = module.register_forward_hook(lambda _, args, out: found.append(out.detach()))
    with torch.no_grad():
        model(**inputs)
    hook.remove()
    (out,) = found
    return out


def by_hand(weights: Tensor, values: Tensor, heads: int) -> Tensor:
    """‖αᵢⱼ·vⱼ‖, vector by vector; values (batch, keys, key heads · width)."""
    batch, keys, _ = values.shape
    split = values.view(batch, keys, heads, -1).transpose(1, 2)
    split = split.repeat_interleave(weights.shape[1] // heads, 1)
    scaled = weights[..., None] * split[:, :, None]
    return scaled.norm(dim=-1)


def all_norms(cap: Any, layer: int, **choice: Any) -> Tensor:
    count = cap.batch_size(layer, choice.get("kind"))
    norms = [cap.value_norms(layer, None, batch=item, **choice) for item in range(count)]
    return torch.stack(norms)


MODELS = {
    "bert": ("BertModel", bert_config(), "encoder.layer.{}.attention.self.value", 3, None),
    "gpt2": ("GPT2Model", gpt2_config(), "h.{}.attn.c_attn", 3, slice(72, None)),
    "llama, grouped": ("LlamaModel", llama_config(), "layers.{}.self_attn.v_proj", 2, None),
}


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_value_norms_are_those_of_the_models_own_values(name: str, backend: str) -> None:
    model_class, config, module, key_heads, part = MODELS[name]
    model, inputs = build(model_class, config, backend), padded_inputs()
    with torch.no_grad(), capture(model) as cap:
        model(**inputs)
    for layer in cap.layers:
        values = projected(model, module.format(layer), inputs)
        values = values if part is None else values[..., part]
        norms, weights = all_norms(cap, layer), all_weights(cap, layer)
        assert norms.dtype == torch.float32
        torch.testing.assert_close(norms, by_hand(weights, values, key_heads), equal_nan=True)
        assert not torch.allclose(norms, weights, atol=0.02)


def test_all_kinds_of_an_encoder_decoder_have_value_norms() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    inputs = {**padded_inputs(), "decoder_input_ids": token_ids(2, 5, seed=8)}
    with torch.no_grad(), capture(model) as cap:
        model(**inputs)
    modules = {
        "encoder": "encoder.block.1.layer.0.SelfAttention.v",
        "decoder": "decoder.block.1.layer.0.SelfAttention.v",
        "cross": "decoder.block.1.layer.1.EncDecAttention.v",
    }
    for kind, module in modules.items():
        values = projected(model, module, inputs)
        weights = all_weights(cap, 1, kind=kind)
        torch.testing.assert_close(all_norms(cap, 1, kind=kind), by_hand(weights, values, 3))


def q_k_v() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    lengths = (QUERIES, KEYS, KEYS)
    return tuple(torch.randn(BATCH, HEADS, n, 8, generator=generator) for n in lengths)  # type: ignore[return-value]


def flat(tensor: Tensor) -> Tensor:
    return tensor.flatten(0, 1)


PRODUCTS = {
    "matmul": lambda w, v: w @ v,
    "dropout": lambda w, v: F.dropout(w, 0.0) @ v,
    "bmm": lambda w, v: torch.bmm(flat(w), flat(v)),
    "turned": lambda w, v: v.mT @ w.mT,
    "einsum": lambda w, v: torch.einsum("bhqk,bhkd->bhqd", w, v),
    "einsum, heads inside": lambda w, v: torch.einsum(
        "bhqk,bkhd->bqhd", w, v.transpose(1, 2).contiguous()
    ),
    "einsum, values first": lambda w, v: torch.einsum("bhdk,bhqk->bhqd", v.mT, w),
    "einsum, ellipsis": lambda w, v: torch.einsum("...qk,...kd->...qd", w, v),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_hand_written_products_say_how_large_the_values_are(name: str) -> None:
    q, k, v = q_k_v()
    with capture() as cap:
        PRODUCTS[name](torch.softmax(q @ k.mT, -1), v)
    (call,) = cap.calls
    weights = (q @ k.mT).softmax(-1)
    expected = weights * v.norm(dim=-1)[:, :, None]
    batch, heads = call.shape[:2]
    found = torch.stack([call.value_norms(batch=item) for item in range(batch)])
    torch.testing.assert_close(found.reshape(expected.shape), expected)
    assert (batch * heads) == BATCH * HEADS


def test_values_that_all_heads_share_count_for_each_of_them() -> None:
    q, k, v = q_k_v()
    shared = v[:, :1]
    with capture() as cap:
        torch.softmax(q @ k.mT, -1) @ shared
        F.scaled_dot_product_attention(q, k[:, :1], shared, enable_gqa=True)
    expected = shared.norm(dim=-1)[1]
    for call in cap.calls:
        norms = call.value_norms(2, batch=1)
        torch.testing.assert_close(norms, call.weights(2, batch=1) * expected)


def test_a_value_of_another_size_changes_its_column_alone() -> None:
    q, k, v = q_k_v()
    v[1, 2, 4] = 0
    with capture() as cap:
        F.scaled_dot_product_attention(q, k, v)
    norms = cap.value_norms(0, 2, batch=1)
    assert (norms[:, 4] == 0).all()
    assert (norms[:, [0, 1, 2, 3, 5, 6]] > 0).all()
    assert (cap.weights(0, 2, batch=1)[:, 4] > 0).all()


def test_mixed_weights_have_norms_of_their_own() -> None:
    q, k, v = q_k_v()
    gate = torch.rand(BATCH, HEADS, QUERIES, KEYS)
    with capture() as cap:
        (torch.softmax(q @ k.mT, -1) * gate) @ v
    assert cap.kinds(0) == ["cross", "cross effective"]
    for kind in cap.kinds(0):
        sizes = v.norm(dim=-1)[0, :, None]
        found = cap.value_norms(0, None, kind=kind)
        torch.testing.assert_close(found, cap.weights(0, None, kind=kind) * sizes)


def test_torchs_fused_encoder_has_value_norms() -> None:
    layer = spread(nn.TransformerEncoderLayer(24, 3, 32, batch_first=True))
    states = torch.randn(2, 6, 24, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), capture(layer) as cap:
        layer(states)
    attention = layer.self_attn
    values = F.linear(states, attention.in_proj_weight, attention.in_proj_bias)[..., 48:]
    torch.testing.assert_close(all_norms(cap, 0), by_hand(all_weights(cap, 0), values, 3))


def test_mean_max_and_windows_are_of_the_norms() -> None:
    q, k, v = q_k_v()
    with capture() as cap:
        F.scaled_dot_product_attention(q, k, v)
    whole = cap.value_norms(0, None, batch=1)
    torch.testing.assert_close(cap.value_norms(0, "mean", 1), whole.mean(0))
    torch.testing.assert_close(cap.value_norms(0, "max", 1), whole.amax(0))
    part = cap.value_norms(0, 1, 1, queries=slice(1, 4), keys=slice(2, None, 3))
    torch.testing.assert_close(part, whole[1, 1:4, 2::3])


def test_generated_steps_make_one_map_of_norms_and_share_their_memory() -> None:
    model = build("LlamaForCausalLM", llama_config())
    prompt = token_ids(1, 6)
    with torch.no_grad(), capture(model) as cap:
        ids = model.generate(prompt, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    with torch.no_grad(), capture(model) as once:
        model(ids[:, :-1])
    assert cap.steps(1) == 5
    found, whole = cap.value_norms(1, 4), once.value_norms(1, 4)
    later = torch.ones(10, 10, dtype=torch.bool).triu(1)
    later[:6, :6] = False  # the prompt was one step: there a mask hides what comes later
    assert torch.equal(found.isnan(), later)
    torch.testing.assert_close(found.nan_to_num(), whole, atol=1e-5, rtol=1e-4)
    stores = {call.record.sizes.untyped_storage().data_ptr() for call in cap.find(1)}
    assert len(stores) == 1


def test_norms_weigh_next_to_nothing() -> None:
    model = build("LlamaModel", llama_config(hidden_size=384, num_key_value_heads=6))
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(1, 60))
    queries_and_keys = 2 * 2 * 60 * 384 * 4
    assert cap.nbytes <= 1.05 * queries_and_keys


def test_values_that_were_not_followed_are_refused_and_the_weights_stay() -> None:
    q, k, v = q_k_v()
    with capture() as cap:
        (torch.softmax(q @ k.mT, -1)[..., None] * v[:, :, None]).sum(-2)
    assert cap.weights(0, 1).shape == (QUERIES, KEYS)
    with pytest.raises(CaptureError, match=r"how large the values of layer 0 .* is not known"):
        cap.value_norms(0, 1)


# -- rollout ------------------------------------------------------------------------------------


def rollout_by_hand(layers: list[np.ndarray]) -> np.ndarray:
    """Position by position, as the paper says it: no matrix product."""
    count = len(layers[0])
    arrived = [[float(i == j) for j in range(count)] for i in range(count)]
    for weights in layers:
        passed = [
            [0.5 * weights[i][j] + 0.5 * (i == j) for j in range(count)] for i in range(count)
        ]
        shares = [[w / sum(row) for w in row] for row in passed]
        arrived = [
            [sum(shares[i][m] * arrived[m][j] for m in range(count)) for j in range(count)]
            for i in range(count)
        ]
    return np.array(arrived)


@pytest.mark.parametrize("upto", [None, 0, 1])
def test_rollout_multiplies_the_means_of_the_heads(upto: int | None) -> None:
    model = build("BertModel", bert_config())
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(2, 7))
    last = 1 if upto is None else upto
    means = [cap.weights(layer, None, batch=1).mean(0).numpy() for layer in range(last + 1)]
    found = cap.rollout(batch=1, upto=upto)
    assert (found.dtype, found.shape) == (torch.float32, (7, 7))
    np.testing.assert_allclose(found, rollout_by_hand(means), atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_rollout_of_a_generation_is_that_of_one_forward() -> None:
    model = build("GPT2LMHeadModel", gpt2_config())
    with torch.no_grad(), capture(model) as cap:
        ids = model.generate(token_ids(1, 5), max_new_tokens=4, min_new_tokens=4, do_sample=False)
    with torch.no_grad(), capture(model) as once:
        model(ids[:, :-1])
    torch.testing.assert_close(cap.rollout(), once.rollout(), atol=1e-5, rtol=1e-4)


def test_rollout_refuses_what_cannot_be_multiplied_up() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    with torch.no_grad(), capture(model) as cap:
        model(**padded_inputs(), decoder_input_ids=token_ids(2, 5, seed=8))
    assert cap.rollout(kind="encoder").shape == (13, 13)
    assert cap.rollout(kind="decoder").shape == (5, 5)
    with pytest.raises(ShapeError, match="layer 0 is cross attention"):
        cap.rollout(kind="cross")
    with pytest.raises(ValueError, match=r"\['encoder', 'decoder', 'cross'\]"):
        cap.rollout()
    with pytest.raises(ValueError, match="'self': layer 0 has"):
        cap.rollout(kind="self")
    with pytest.raises(ValueError, match="layers with attention are 0, 1"):
        cap.rollout(kind="encoder", upto=7)


class Layers(nn.Module):
    """Self-attention with `spans[i]` (batch items, queries, keys) in block i."""

    class Block(nn.Module):
        def forward(self, items: int, queries: int, keys: int, mask: Tensor | None) -> Tensor:
            q, k, _ = q_k_v()
            states = torch.cat([q, k], 2)[:items]
            looked_at = states[:, :, :keys]
            return F.scaled_dot_product_attention(
                states[:, :, :queries], looked_at, looked_at, mask
            )

    def __init__(self, *spans: tuple[int, int, int], mask: Tensor | None = None) -> None:
        super().__init__()
        self.spans, self.mask = spans, mask
        self.blocks = nn.ModuleList(self.Block() for _ in spans)

    def forward(self) -> None:
        for block, span in zip(self.blocks, self.spans, strict=True):
            block(*span, self.mask)


def ran(*spans: tuple[int, int, int], mask: Tensor | None = None) -> Any:
    model = Layers(*spans, mask=mask)
    with capture(model) as cap:
        model()
    assert cap.layers == list(range(len(spans)))
    return cap


def test_rollout_refuses_rectangles_pooled_layers_and_rows_without_a_key() -> None:
    with pytest.raises(ShapeError, match="map 0 of the layers is 5×7"):
        ran((2, 5, 7)).rollout()
    with pytest.raises(ShapeError, match=r"map 1 of the layers has 3 tokens, .* before have 6"):
        ran((2, 6, 6), (2, 3, 3)).rollout()
    with pytest.raises(ShapeError, match=r"different batch items \(\{0: 2, 1: 1\}\)"):
        ran((2, 6, 6), (1, 6, 6)).rollout()
    nowhere = torch.ones(5, 5, dtype=torch.bool)
    nowhere[3] = False
    with pytest.raises(ValueError, match=r"map 0 .* no weight \(NaN\) in row 3 \(1 in all\)"):
        ran((2, 5, 5), mask=nowhere).rollout()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_attention_has_value_norms() -> None:
    q, k, v = q_k_v()
    with capture() as cap:
        flex_attention.flex_attention(q, k, v)
    sizes = v.norm(dim=-1)[1, :, None]
    torch.testing.assert_close(cap.value_norms(0, None, batch=1), cap.weights(0, None, 1) * sizes)
