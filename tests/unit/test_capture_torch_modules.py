"""torch's own attention modules, fused or not, however their weights are asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from capture_support import all_weights, largest_difference, spread
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import flex_attention

from attnmap_widget import capture

# nn.TransformerEncoder says at construction that an odd head count or norm_first rules out nesting,
# and torch says that nesting is a prototype.
pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]

WIDTH, TOKENS, SHORT = 48, 11, 8


def encoder(heads: int, **options: Any) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(WIDTH, heads, 40, **options)
    model = nn.TransformerEncoder(layer, 2)
    spread(model, seed=heads)
    return model


def padding() -> Tensor:
    """Item 0 has 9 tokens, item 1 has 8: the batch of 11 columns is never full."""
    mask = torch.zeros(2, TOKENS, dtype=torch.bool)
    mask[0, 9:] = mask[1, SHORT:] = True
    return mask


def weights_by_hand(
    model: nn.TransformerEncoder, x: Tensor, **masks: Tensor | None
) -> list[Tensor]:
    """Layer by layer, each attention asked for its weights, torch's fused kernels switched off."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        found = []
        for layer in model.layers:
            states = layer.norm1(x) if layer.norm_first else x
            found.append(
                layer.self_attn(
                    states, states, states, average_attn_weights=False,
                    attn_mask=masks.get("mask"),
                    key_padding_mask=masks.get("src_key_padding_mask"),
                )[1]
            )  # fmt: skip
            x = layer(
                x,
                src_mask=masks.get("mask"),
                src_key_padding_mask=masks.get("src_key_padding_mask"),
            )
        return found
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("heads", [8, 3])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("masked", ["nothing", "padding", "causal", "padding and causal"])
def test_encoder_without_grad(batch_first: bool, heads: int, norm_first: bool, masked: str) -> None:
    model = encoder(heads, batch_first=batch_first, norm_first=norm_first)
    x = torch.randn(2, TOKENS, WIDTH)
    x = x if batch_first else x.transpose(0, 1)
    masks: dict[str, Tensor | None] = {}
    if "padding" in masked:
        masks["src_key_padding_mask"] = padding()
    if "causal" in masked:
        masks["mask"] = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    with torch.no_grad():
        plain = model(x, **masks)
        with capture(model) as cap:
            captured = model(x, **masks)
        expected = weights_by_hand(model, x, **masks)
    assert torch.equal(plain, captured)
    assert cap.layers == [0, 1]
    assert {call.source for call in cap.calls} == {"rebuilt"}
    for layer, weights in enumerate(expected):
        got = all_weights(cap, layer)
        assert got.shape == (2, heads, TOKENS, TOKENS)
        assert largest_difference(got[:, :, :SHORT], weights[:, :, :SHORT]) <= 1e-6


def test_the_fused_kernel_stays_in_use() -> None:
    """Padded rows show it: torch's nested tensors leave them zero, its Python path does not."""
    model, x = encoder(8, batch_first=True), torch.randn(2, TOKENS, WIDTH)
    with torch.no_grad(), torch.profiler.profile() as profile, capture(model) as cap:
        out = model(x, src_key_padding_mask=padding())
    calls = [event.name for event in profile.events()]
    assert calls.count("aten::_transformer_encoder_layer_fwd") == 2
    assert float(out[1, SHORT:].abs().max()) == 0
    # The rows that the kernel never saw have no weights rather than made-up ones.
    assert bool(cap.weights(0, 3, batch=1)[SHORT:].isnan().all())
    assert bool((cap.weights(0, 3, batch=1)[:SHORT, SHORT:] == 0).all())
    assert cap.allowed(0, 3, batch=1).sum() == SHORT * SHORT


@pytest.mark.parametrize("batch_first", [True, False])
def test_encoder_with_grad_and_in_train_mode(batch_first: bool) -> None:
    model = encoder(3, batch_first=batch_first)
    x = torch.randn(2, TOKENS, WIDTH)
    x = x if batch_first else x.transpose(0, 1)
    expected = weights_by_hand(model, x, src_key_padding_mask=padding())
    with capture(model) as cap:
        model(x, src_key_padding_mask=padding())
    for layer, weights in enumerate(expected):
        assert largest_difference(all_weights(cap, layer), weights) <= 1e-6
    model.train()
    torch.manual_seed(1)
    plain = model(x)
    torch.manual_seed(1)
    with capture(model) as cap:
        captured = model(x)
    assert torch.equal(plain, captured)
    sums = cap.weights(1, None).sum(-1)
    assert largest_difference(sums, torch.ones_like(sums)) <= 1e-6


MULTI_HEAD: dict[str, dict[str, Any]] = {
    "defaults": {},
    "batch first": {"batch_first": True},
    "bias_kv and zero_attn": {"add_bias_kv": True, "add_zero_attn": True},
    "other widths": {"kdim": 20, "vdim": 24},
    "no bias": {"bias": False},
}


@pytest.mark.parametrize("name", MULTI_HEAD)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_multi_head(name: str, need_weights: bool, grad: bool) -> None:
    model = nn.MultiheadAttention(WIDTH, 3, **MULTI_HEAD[name])
    q, k, v = torch.randn(5, 2, WIDTH), torch.randn(7, 2, model.kdim), torch.randn(7, 2, model.vdim)
    if model.batch_first:
        q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
    with torch.set_grad_enabled(grad):
        plain = model(q, k, v, need_weights=need_weights)
        with capture(model) as cap:
            captured = model(q, k, v, need_weights=need_weights)
        expected = model(q, k, v, average_attn_weights=False)[1]
    assert torch.equal(plain[0], captured[0])
    assert (plain[1] is None) == (captured[1] is None)
    assert cap.kinds(0) == ["cross"]
    assert cap.calls[0].shape == (2, 3, 5, 9 if "zero" in name else 7)
    assert largest_difference(all_weights(cap, 0), expected) <= 1e-6


def test_self_attention_of_the_fused_multi_head() -> None:
    model, x = nn.MultiheadAttention(WIDTH, 4, batch_first=True).eval(), torch.randn(2, 5, WIDTH)
    with torch.no_grad():
        plain = model(x, x, x)
        with torch.profiler.profile() as profile, capture(model) as cap:
            captured = model(x, x, x)
    assert "aten::_native_multi_head_attention" in [event.name for event in profile.events()]
    assert torch.equal(plain[0], captured[0])
    assert torch.equal(plain[1], captured[1])
    assert cap.kinds(0) == ["self"]
    assert largest_difference(all_weights(cap, 0).mean(1), plain[1]) <= 1e-6


def test_unbatched() -> None:
    model, q, k = nn.MultiheadAttention(WIDTH, 3), torch.randn(5, WIDTH), torch.randn(7, WIDTH)
    with capture(model) as cap:
        model(q, k, k)
    expected = model(q, k, k, average_attn_weights=False)[1]
    assert largest_difference(cap.weights(0, None), expected) <= 1e-6


@pytest.mark.parametrize("need_weights", [True, False])
def test_everything_padded_is_nan(need_weights: bool) -> None:
    model, x = nn.MultiheadAttention(WIDTH, 3, batch_first=True), torch.randn(2, 5, WIDTH)
    every = torch.tensor([[False] * 5, [True] * 5])
    with capture(model) as cap:
        model(x, x, x, key_padding_mask=every, need_weights=need_weights)
    assert not cap.weights(0, 1, batch=0).isnan().any()
    assert cap.weights(0, 1, batch=1).isnan().all()


def test_decoder_has_self_and_cross() -> None:
    layer = nn.TransformerDecoderLayer(WIDTH, 3, 40, batch_first=True)
    model = spread(nn.TransformerDecoder(layer, 2))
    x, memory = torch.randn(2, 5, WIDTH), torch.randn(2, 7, WIDTH)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        plain = model(x, memory, tgt_mask=mask, tgt_is_causal=True)
        with capture(model) as cap:
            captured = model(x, memory, tgt_mask=mask, tgt_is_causal=True)
        first = model.layers[0]
        expected = first.self_attn(x, x, x, attn_mask=mask, average_attn_weights=False)[1]
    assert torch.equal(plain, captured)
    assert cap.layers == [0, 1]
    assert cap.kinds(1) == ["self", "cross"]
    assert cap.weights(1, None, kind="cross").shape == (3, 5, 7)
    assert largest_difference(all_weights(cap, 0, kind="self"), expected) <= 1e-6


def test_transformer_has_three_kinds() -> None:
    model = spread(nn.Transformer(WIDTH, 3, 2, 2, 40, batch_first=True))
    with torch.no_grad(), capture(model) as cap:
        model(torch.randn(2, 7, WIDTH), torch.randn(2, 5, WIDTH))
    assert cap.kinds(0) == ["encoder", "decoder", "cross"]
    assert cap.heads(1, "cross") == 3


SDPA: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.2},
    "bool mask": {"attn_mask": torch.rand(2, 1, 5, 7) > 0.3},
    "float mask": {"attn_mask": torch.randn(6, 5, 7)},
    "row mask": {"attn_mask": torch.rand(5, 7) > 0.2},
}


@pytest.mark.parametrize("name", SDPA)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sdpa(name: str, dtype: torch.dtype) -> None:
    options = {
        key: value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
        for key, value in SDPA[name].items()
    }
    q, k, v = (torch.randn(2, 6, n, 16, dtype=dtype) for n in (5, 7, 7))
    with capture() as cap:
        out = F.scaled_dot_product_attention(q, k, v, **options)
    assert cap.calls[0].source == "rebuilt"
    got = all_weights(cap, 0).to(torch.float64)
    limit = 2e-2 if dtype == torch.bfloat16 else 1e-5
    assert largest_difference(got @ v.double(), out) <= limit
    assert largest_difference(F.scaled_dot_product_attention(q, k, v, **options), out) == 0


def test_sdpa_with_grouped_keys_and_two_axes() -> None:
    q, k, v = torch.randn(2, 6, 5, 16), torch.randn(2, 2, 7, 16), torch.randn(2, 2, 7, 16)
    with capture() as cap:
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        flat = F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0])
    got = all_weights(cap, 0)
    assert largest_difference(got @ v.repeat_interleave(3, 1), out) <= 1e-5
    assert cap.calls[1].shape == (1, 1, 5, 7)
    assert largest_difference(cap.weights(1, 0) @ v[0, 0], flat) <= 1e-5


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_attention_bound_before_the_capture() -> None:
    early = flex_attention.flex_attention
    mask = flex_attention.create_block_mask(
        lambda b, h, q, k: (q >= k) & (q - k < 5), None, None, 24, 24, device="cpu"
    )
    q, k = torch.randn(2, 3, 24, 16), torch.randn(2, 3, 24, 16)

    def run() -> Tensor:
        return early(q, k, k, score_mod=lambda s, b, h, i, j: s + 0.1 * (j - i), block_mask=mask)

    with torch.no_grad():
        plain = run()
        with capture() as cap:
            captured = run()
    rows, keys = torch.arange(24)[:, None], torch.arange(24)
    seen = (rows >= keys) & (rows - keys < 5)
    scores = (q @ k.mT / 4 + 0.1 * (keys - rows)).masked_fill(~seen, -torch.inf)
    assert torch.equal(plain, captured)
    assert largest_difference(all_weights(cap, 0), scores.softmax(-1)) <= 1e-6
    assert torch.equal(cap.allowed(0, 2), seen)
