"""Layers are true block numbers, whatever else a model is built of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from capture_support import (
    SPECIAL,
    VOCABULARY,
    all_weights,
    build,
    largest_difference,
    spread,
    token_ids,
)
from torch import Tensor, nn
from torch.nn import functional as F

from attnmap_widget import capture


class Attention(nn.Module):
    num_heads = 3

    def __init__(self) -> None:
        super().__init__()
        self.qk = nn.Linear(24, 48)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k = self.qk(x).view(batch, tokens, 2, 3, 8).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, k).transpose(1, 2).flatten(2)


class Mixer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1) / 5


class Block(nn.Module):
    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mixer(x)


def run(model: nn.Module, **options: Any) -> Any:
    with torch.no_grad(), capture(model, **options) as cap:
        model(torch.randn(2, 5, 24))
    return cap


def test_hybrid_of_mamba_and_attention() -> None:
    config = transformers.JambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=40, use_mamba_kernels=False, num_experts=2,
        attn_layer_period=2, attn_layer_offset=1, mamba_d_state=4, mamba_dt_rank=4, **SPECIAL,
    )  # fmt: skip
    model, eager = build("JambaModel", config), build("JambaModel", config, "eager")
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(2, 7))
    with torch.no_grad():
        reported = eager(token_ids(2, 7), output_attentions=True).attentions
    assert cap.layers == [1, 3]
    assert len(reported) == 2
    assert largest_difference(all_weights(cap, 3), reported[1]) <= 1e-5
    with pytest.raises(ValueError, match="layers with attention are 1, 3"):
        cap.weights(0, 0)
    with torch.no_grad(), capture(model, layers=[3]) as third:
        model(token_ids(2, 7))
    assert torch.equal(third.weights(3, None), cap.weights(3, None))


def test_blocks_without_attention_keep_their_numbers() -> None:
    blocks = [Block(m()) for m in (Mixer, Attention, Mixer, Mixer, Attention)]
    cap = run(nn.Sequential(nn.ModuleDict({"blocks": nn.Sequential(*blocks)})["blocks"]))
    assert cap.layers == [1, 4]


def test_one_module_called_once_per_layer() -> None:
    config = transformers.AlbertConfig(
        vocab_size=VOCABULARY, hidden_size=36, num_hidden_layers=5, num_attention_heads=3,
        intermediate_size=40, embedding_size=12,
    )  # fmt: skip
    model, eager = build("AlbertModel", config), build("AlbertModel", config, "eager")
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
    with torch.no_grad():
        reported = eager(token_ids(), output_attentions=True).attentions
    assert cap.layers == [0, 1, 2, 3, 4]
    for layer, weights in enumerate(reported):
        assert largest_difference(all_weights(cap, layer), weights) <= 1e-5


def test_stages_are_numbered_through() -> None:
    """Two stages of two blocks are layers 0 to 3, as in swin; their batch is windows."""
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=12, depths=[2, 2], num_heads=[3, 3], window_size=4
    )
    model, eager = build("SwinModel", config), build("SwinModel", config, "eager")
    pixels = torch.randn(1, 3, 32, 32)
    with torch.no_grad(), capture(model) as cap:
        model(pixels)
    with torch.no_grad():
        reported = eager(pixels, output_attentions=True)
    assert cap.layers == [0, 1, 2, 3]
    assert cap.calls[2].name == "encoder.layers.1.blocks.0.attention"
    assert cap.batch_size(0) == 4
    assert [call.shape[0] for call in cap.calls] == [4, 4, 1, 1]
    # The library reports one tensor per stage, that of its last block.
    for layer, weights in zip((1, 3), reported.attentions, strict=True):
        assert largest_difference(all_weights(cap, layer), weights) <= 1e-5


def test_attention_between_stages_is_numbered_in_order() -> None:
    """LeViT: a stage is blocks, and an attention of its own that leads to the next stage."""

    class Stage(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(Block(Attention()), Block(Attention()))
            self.down_attn = Attention()

        def forward(self, x: Tensor) -> Tensor:
            return self.down_attn(self.blocks(x))

    blocks = nn.ModuleDict({"stages": nn.Sequential(Stage(), Stage())})
    for stage in blocks["stages"]:
        for block in stage.blocks:
            block.attn, block.mixer = block.mixer, nn.Identity()
            block.forward = lambda x, block=block: x + block.attn(x)
    with torch.no_grad(), capture(blocks) as cap:
        blocks["stages"](torch.randn(2, 5, 24))
    assert [call.layer for call in cap.calls] == [0, 1, 2, 3, 4, 5]
    assert {call.kind for call in cap.calls} == {"self"}


def test_towers_are_kinds() -> None:
    config = transformers.CLIPConfig(
        text_config={
            "vocab_size": VOCABULARY, "hidden_size": 36, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 40, **SPECIAL,
        },
        vision_config={
            "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2,
            "intermediate_size": 40, "image_size": 24, "patch_size": 8,
        },
    )  # fmt: skip
    model = build("CLIPModel", config)
    with torch.no_grad(), capture(model) as cap:
        model(input_ids=token_ids(1, 7), pixel_values=torch.randn(1, 3, 24, 24))
    assert cap.layers == [0, 1, 2]
    assert sorted(cap.kinds(0)) == ["text", "vision"]
    assert cap.kinds(2) == ["vision"]
    assert cap.weights(1, 0, kind="text").shape == (7, 7)
    assert cap.weights(2, 1).shape == (10, 10)
    # A tower's name does not depend on whether the other one ran.
    with torch.no_grad(), capture(model) as alone:
        model.get_text_features(input_ids=token_ids(1, 7))
    assert alone.kinds(0) == ["text"]


def test_two_attentions_in_one_block() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn_window, self.attn_grid = Attention(), Attention()

        def forward(self, x: Tensor) -> Tensor:
            return self.attn_grid(self.attn_window(x))

    cap = run(nn.Sequential(Two(), Two()))
    assert cap.layers == [0, 1]
    assert cap.kinds(1) == ["attn_window", "attn_grid"]


def test_two_calls_in_one_module() -> None:
    class Twice(Attention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(super().forward(x))

    cap = run(nn.Sequential(Twice(), Twice()))
    assert cap.layers == [0, 1]
    assert cap.kinds(0) == ["self", "self 2"]


class Stack(nn.Module):
    """Blocks that run in the given order."""

    def __init__(self, count: int, order: list[int]) -> None:
        super().__init__()
        self.layers, self.order = nn.ModuleList([Block(Attention()) for _ in range(count)]), order

    def forward(self, x: Tensor) -> Tensor:
        for place in self.order:
            x = self.layers[place](x)
        return x


class Siamese(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.encoder = Stack(count, list(range(count)))

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self.encoder(a), self.encoder(b)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("named", [True, False])
def test_one_encoder_for_two_inputs(count: int, named: bool) -> None:
    """The second input is the next step of the same layers, not more layers."""
    model, a, b = Siamese(count), torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    with torch.no_grad(), capture(model if named else None) as cap:
        for _ in range(2):
            model(a, b)
    assert cap.layers == list(range(count))
    found = [(call.layer, call.step) for call in cap.calls]
    assert found == [(layer, step) for step in range(4) for layer in range(count)]
    assert cap.weights(count - 1, 0, step=3).shape == (7, 7)
    with pytest.raises(ValueError, match=r"separate inputs.*step= from 0, 1, 2, 3"):
        cap.weights(0, 0)


def test_blocks_keep_their_numbers_in_any_order() -> None:
    model = Stack(4, [2, 0, 0, 1])
    cap = run(model)
    assert [(call.layer, call.kind) for call in cap.calls] == [
        (2, "self"), (0, "self"), (0, "self 2"), (1, "self")
    ]  # fmt: skip
    assert cap.calls[0].name == "layers.2.mixer"
    assert run(model, layers=[2]).layers == [2]
    assert len(run(model, layers=[0]).calls) == 2


def test_a_decoder_called_in_a_loop_makes_steps() -> None:
    class Loop(Siamese):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = self.encoder(x)
            return x

    cap = run(Loop(2))
    assert [(call.layer, call.step) for call in cap.calls] == [
        (layer, step) for step in range(3) for layer in range(2)
    ]


def test_cross_attention_by_name_and_by_shape() -> None:
    class Pool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.probe = nn.Parameter(torch.randn(1, 1, 24))
            self.attention = nn.MultiheadAttention(24, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(self.probe.expand(len(x), -1, -1), x, x)[0]

    cap = run(Pool())
    assert cap.kinds(0) == ["cross"]
    assert cap.weights(0, 2).shape == (1, 5)


def test_pooled_keys_are_still_ones_own() -> None:
    """Segformer, PVT: fewer keys than queries, yet of one and the same sequence."""

    class Pooled(nn.Module):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            keys = x[:, ::2]
            return (x @ keys.transpose(-2, -1)).softmax(-1) @ keys

    class Two(nn.Module):
        def forward(self, x: Tensor, context: Tensor) -> Tensor:
            return (x @ context.transpose(-2, -1)).softmax(-1) @ context

    assert run(nn.Sequential(Pooled())).kinds(0) == ["self"]
    with capture(model := Two()) as cap:
        model(torch.randn(2, 5, 24), torch.randn(2, 3, 24))
    assert cap.kinds(0) == ["cross"]


def test_numbers_survive_wrapping_and_compiling() -> None:
    model = spread(nn.Sequential(Block(Mixer()), Block(Attention())))
    compiled = torch.compile(model, backend="eager")
    assert run(compiled).calls[0].name == "1.mixer"
    assert run(nn.DataParallel(model)).layers == [1]


def test_names_below_an_unnamed_model() -> None:
    model = nn.ModuleDict({"blocks": nn.Sequential(Block(Attention()), Block(Attention()))})
    with torch.no_grad(), capture() as cap:
        model["blocks"](torch.randn(1, 5, 24))
        model["blocks"](torch.randn(1, 6, 24))
    assert cap.layers == [0, 1]
    assert [call.step for call in cap.calls] == [0, 0, 1, 1]
    assert cap.calls[0].name == "0.mixer"
