"""Nothing captured is said, with what might be meant; it is never an empty map."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from capture_support import SPECIAL, VOCABULARY, build, llama_config, token_ids
from torch import Tensor, nn

from attnmap_widget import CaptureError, capture


class CustomAttention(nn.Module):
    """Looks like attention, forms no softmax."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ x.transpose(-1, -2)) @ x


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.ModuleDict({"attn": CustomAttention(), "norm": nn.LayerNorm(8)}) for _ in range(2)]
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block["norm"](block["attn"](x))
        return x


READERS: list[Any] = [
    lambda cap: cap.layers,
    lambda cap: cap.kinds(0),
    lambda cap: cap.weights(0, 0),
    lambda cap: cap.heads(0),
    lambda cap: cap.find(0),
    lambda cap: cap.allowed(0),
]


@pytest.mark.parametrize("read", READERS)
def test_nothing_seen_names_what_looks_like_attention(read: Any) -> None:
    with capture(model := Blocks()) as cap:
        model(torch.randn(2, 5, 8))
    assert cap.calls == []
    with pytest.raises(CaptureError) as caught:
        read(cap)
    assert "no attention was captured" in str(caught.value)
    assert "blocks.0.attn (CustomAttention), blocks.1.attn (CustomAttention)" in str(caught.value)
    assert "norm" not in str(caught.value)


def test_nothing_ran() -> None:
    model = build("LlamaForCausalLM", llama_config())
    with capture(model) as cap:
        pass
    with pytest.raises(CaptureError, match=r"model\.layers\.0\.self_attn.*inside the with block"):
        _ = cap.layers
    with capture() as cap:
        pass
    with pytest.raises(CaptureError, match="no torch module ran"):
        _ = cap.layers


def test_no_attention_at_all() -> None:
    with capture(model := nn.Sequential(nn.Linear(4, 4), nn.ReLU())) as cap:
        model(torch.randn(2, 4))
    with pytest.raises(CaptureError, match="no module of this Sequential looks like attention"):
        _ = cap.layers


def test_mamba_has_no_weights() -> None:
    config = transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, state_size=4, **SPECIAL
    )
    model = build("MambaModel", config)
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(1, 5))
    with pytest.raises(CaptureError, match=r"without a softmax.*layers\.0\.mixer \(MambaMixer\)"):
        cap.weights(0, 0)


def test_windows_of_gathered_keys_are_refused_with_the_reason() -> None:
    config = transformers.LongformerConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=40, attention_window=[4, 4], max_position_embeddings=64,
    )  # fmt: skip
    model = build("LongformerModel", config)
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
    with pytest.raises(CaptureError, match=r"windows of gathered keys.*layer\.0\.attention\.self"):
        _ = cap.layers
    config = transformers.LEDConfig(
        vocab_size=VOCABULARY, d_model=24, encoder_layers=2, decoder_layers=2, attention_window=4,
        encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=40,
        decoder_ffn_dim=40, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64,
    )  # fmt: skip
    model = build("LEDModel", config)
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(), decoder_input_ids=token_ids(2, 5))
    assert cap.kinds(1) == ["decoder", "cross"]
    with pytest.raises(ValueError, match="LEDEncoderSelfAttention"):
        cap.weights(1, 0, kind="encoder")


@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
def test_torchscript_is_refused() -> None:
    scripted = torch.jit.trace(nn.Linear(4, 4), torch.zeros(1, 4))
    with pytest.raises(CaptureError, match="TorchScript"):
        capture(scripted)
    with capture(model := nn.Sequential(scripted)) as cap:
        model(torch.zeros(1, 4))
    with pytest.raises(CaptureError, match="TorchScript runs outside Python"):
        _ = cap.layers


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TypeError, match="not function"):
        capture(lambda x: x)
    with pytest.raises(TypeError, match=r"\.model is one"):
        capture(SimpleNamespace(model=nn.Linear(2, 2)))
    session = type("InferenceSession", (), {"__module__": "onnxruntime.capi"})()
    with pytest.raises(TypeError, match="ONNX runs outside torch"):
        capture(session)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_what_goes_wrong_while_recording_is_told_and_harms_nobody() -> None:
    """A model whose heads cannot be lined up still gets its output."""
    ragged = torch.nested.nested_tensor(
        [torch.randn(3, 5, 8), torch.randn(3, 4, 8)], layout=torch.strided
    )
    with capture() as cap:
        out = torch.nn.functional.scaled_dot_product_attention(ragged, ragged, ragged)
    assert out.is_nested
    assert cap.calls == []
