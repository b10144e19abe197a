"""Tiny models of the transformers library's architectures: what to change in their configs.

``python tests/unit/capture_architectures.py`` prints the table of the README.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from capture_support import spread

# Settings of a tiny model, under all the names that configs give them.
SMALL: dict[str, Any] = {
    **dict.fromkeys(["vocab_size"], 99),
    **dict.fromkeys(["hidden_size", "d_model", "n_embd", "dim", "d_embed"], 32),
    **dict.fromkeys(
        ["num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
         "decoder_layers", "num_decoder_layers"], 2,
    ),
    **dict.fromkeys(
        ["num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
         "decoder_attention_heads"], 4,
    ),
    **dict.fromkeys(
        ["intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "d_inner",
         "n_inner", "hidden_dim", "dff"], 40,
    ),
    **dict.fromkeys(["max_position_embeddings", "n_positions", "n_ctx"], 64),
    **dict.fromkeys(["head_dim", "d_kv", "d_head"], 8),
    **dict.fromkeys(
        ["num_key_value_heads", "num_local_experts", "num_experts", "n_routed_experts"], 2
    ),
    "embedding_size": 16, "moe_intermediate_size": 16, "num_experts_per_tok": 1,
    "image_size": 32, "patch_size": 8, "num_mel_bins": 16, "max_source_positions": 32,
    "max_target_positions": 32, "sliding_window": 5, "attention_chunk_size": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0,
}  # fmt: skip

TOWERS = {
    "text_config": {
        "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 40, "max_position_embeddings": 64, "eos_token_id": 2,
    },
    "vision_config": {
        "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 40, "image_size": 32, "patch_size": 8,
    },
}  # fmt: skip
SPEECH = {
    "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 5),
    "num_feat_extract_layers": 2, "num_conv_pos_embedding_groups": 4,
    "num_conv_pos_embeddings": 16,
}  # fmt: skip
LATENT = {
    "kv_lora_rank": 8, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "v_head_dim": 8, "num_key_value_heads": 4, "head_dim": 4, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1,
}  # fmt: skip
WINDOWS = {
    "embed_dim": 12, "depths": [2, 2], "num_heads": [3, 3], "window_size": 4, "patch_size": 4
}  # fmt: skip
MAMBA = {
    "use_mamba_kernels": False, "attn_layer_period": 2, "attn_layer_offset": 1,
    "num_hidden_layers": 4, "mamba_d_state": 4, "mamba_dt_rank": 4,
}  # fmt: skip
PROPHET = {
    "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4,
    "num_decoder_attention_heads": 4,
}  # fmt: skip
PERCEIVER = {
    "num_latents": 6, "d_latents": 24, "d_model": 16, "num_self_attends_per_block": 2,
    "num_blocks": 2, "num_self_attention_heads": 4, "num_cross_attention_heads": 2,
}  # fmt: skip


def _resnet() -> dict[str, Any]:
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    return {
        "use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False,
        "backbone_kwargs": None, "backbone_config": backbone,
    }  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """One line of the table."""

    model: str
    changes: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """Settings and inputs of the common ones that this architecture does not take."""
    note: str = ""

    @property
    def label(self) -> str:
        return f"{self.model.removesuffix('Model')}{f' ({self.note})' if self.note else ''}"

    def build(self, backend: str | None = None) -> Any:
        """A seeded model, on its default backend or another, with the same weights."""
        kind = getattr(transformers, self.model)
        default = kind.config_class()
        settings = {
            name: value
            for name, value in SMALL.items()
            if name not in self.without
            and isinstance(getattr(default, name, None), (int, float, str))
        }
        config = kind.config_class(**{**settings, **copy.deepcopy(self.changes)})
        torch.manual_seed(0)
        options = {} if backend is None else {"attn_implementation": backend}
        return spread(kind._from_config(config, **options))

    def arguments(self, model: Any) -> dict[str, Any]:
        """Two inputs; of two sentences the second is shorter and padded."""
        made = _common_inputs(model)
        made.update(
            {name: value() if callable(value) else value for name, value in self.inputs.items()}
        )
        return {name: value for name, value in made.items() if name not in self.without}


def _common_inputs(model: Any) -> dict[str, Any]:
    torch.manual_seed(1)
    name, config = model.main_input_name, model.config
    if name == "pixel_values":
        size = getattr(config, "image_size", 32)
        side = size if isinstance(size, int) else size[0]
        found = {name: torch.randn(2, getattr(config, "num_channels", 3), side, side)}
    elif name == "input_values":
        found = {name: torch.randn(2, 1600)}
    elif name == "input_features":
        found = {name: torch.randn(2, config.num_mel_bins, 64)}
    else:
        mask = torch.ones(2, 13, dtype=torch.long)
        mask[1, 9:] = 0
        found = {"input_ids": torch.randint(5, 95, (2, 13)), "attention_mask": mask}
    if getattr(config, "is_encoder_decoder", False):
        found["decoder_input_ids"] = torch.randint(5, 95, (2, 7))
    return found


def picture(size: int = 32) -> torch.Tensor:
    return torch.randn(2, 3, size, size)


A = Architecture
ARCHITECTURES = [
    *map(A, [
        "AlbertModel", "ArceeModel", "BartModel", "BeitModel", "BertModel", "BioGptModel",
        "BlenderbotModel", "BloomModel", "CLIPVisionModel", "CTRLModel", "CamembertModel",
        "CanineModel", "CohereModel", "Cohere2Model", "ConvBertModel", "DPTModel",
        "Data2VecVisionModel", "DebertaModel", "DebertaV2Model", "DeiTModel", "DiffLlamaModel",
        "Dinov2Model", "Dinov2WithRegistersModel", "DistilBertModel", "DogeModel",
        "ElectraModel", "EuroBertModel", "Exaone4Model", "FastSpeech2ConformerModel",
        "GPT2Model", "GPTBigCodeModel", "GPTNeoXJapaneseModel", "GPTNeoXModel", "Gemma2Model",
        "Gemma3TextModel", "GemmaModel", "Glm4Model", "GptOssModel", "GraniteModel",
        "HeliumModel", "IBertModel", "ImageGPTModel", "JetMoeModel", "Lfm2Model", "LlamaModel",
        "M2M100Model", "MBartModel", "MPNetModel", "MT5Model", "MarianModel", "MistralModel",
        "MixtralModel", "MobileBertModel", "MptModel", "NystromformerModel", "OPTModel",
        "Olmo2Model", "OlmoeModel", "OpenAIGPTModel", "PegasusModel", "PersimmonModel",
        "Phi3Model", "PhiModel", "Qwen2MoeModel", "Qwen3Model", "RemBertModel", "RoFormerModel",
        "RobertaModel", "SiglipVisionModel", "SmolLM3Model", "StableLmModel",
        "SwitchTransformersModel", "T5Model", "TrOCRForCausalLM", "UMT5Model", "ViTMAEModel",
        "ViTModel", "WhisperModel", "XGLMModel", "XLMModel", "XLMRobertaModel",
        "ApertusModel", "BertGenerationEncoder", "BitNetModel", "BlenderbotSmallModel",
        "BlipTextModel", "BlipVisionModel", "CLIPSegVisionModel", "ChineseCLIPVisionModel",
        "DINOv3ViTModel", "Data2VecTextModel", "Emu3TextModel", "Ernie4_5Model", "ErnieModel",
        "FlaubertModel", "GLPNModel", "GlmModel", "IJepaModel",
        "LayoutLMModel", "MarkupLMModel", "MegatronBertModel", "Ministral3Model",
        "MllamaTextModel", "ModernBertDecoderModel", "MoonshineModel", "MoshiModel",
        "Olmo3Model", "OlmoHybridModel", "OlmoModel", "PLBartModel",
        "PhimoeModel", "PvtModel", "Qwen3MoeModel", "SEWModel", "SeedOssModel", "SplinterModel",
        "TapasModel", "UniSpeechModel", "UniSpeechSatModel", "VaultGemmaModel",
        "VisualBertModel", "Wav2Vec2ConformerModel", "XCLIPTextModel",
    ]),
    A("ASTModel", {"max_length": 64, "frequency_stride": 8, "time_stride": 8},
      {"input_values": lambda: torch.randn(2, 64, 16)}),
    A("BambaModel", {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8,
                     "mamba_expand": 2, "mamba_n_groups": 1, "mamba_d_state": 8}),
    A("BigBirdModel", {"attention_type": "original_full"}, note="full"),
    A("CLIPModel", TOWERS, {"pixel_values": picture}),
    A("CodeGenModel", {"rotary_dim": 4}),
    A("DeepseekV2Model", {**LATENT, "num_experts_per_tok": 1, "topk_method": "greedy"}),
    A("DeepseekV3Model", LATENT, note="latent keys"),
    A("DetrModel", _resnet(), {"pixel_values": lambda: picture(64)}),
    A("EsmModel", {"vocab_size": 99, "pad_token_id": 0}),
    A("FalconModel", {"alibi": True}, without=("head_dim",), note="ALiBi"),
    A("FalconModel", {"new_decoder_architecture": True}, without=("head_dim",)),
    A("ConditionalDetrModel", _resnet(), {"pixel_values": lambda: picture(64)}),
    A("TableTransformerModel", _resnet(), {"pixel_values": lambda: picture(64)}),
    A("BigBirdPegasusModel", {"attention_type": "original_full"}, note="full"),
    A("DecisionTransformerModel", {"state_dim": 4, "act_dim": 2, "max_ep_len": 20}, {
        "states": lambda: torch.randn(2, 5, 4), "actions": lambda: torch.randn(2, 5, 2),
        "rewards": lambda: torch.randn(2, 5, 1), "returns_to_go": lambda: torch.randn(2, 5, 1),
        "timesteps": lambda: torch.arange(5).expand(2, 5),
    }, ("input_ids", "attention_mask")),
    A("GPT2Model", {"scale_attn_by_inverse_layer_idx": True}, note="scaled by layer"),
    A("HunYuanDenseV1Model", {"head_dim": 8}),
    A("VideoMAEModel", {"num_frames": 4}, {"pixel_values": lambda: torch.randn(2, 4, 3, 32, 32)}),
    A("VivitModel", {"num_frames": 4, "tubelet_size": [2, 8, 8]},
      {"pixel_values": lambda: torch.randn(2, 4, 3, 32, 32)}),
    A("FunnelModel", {"block_sizes": [1, 2]}, without=("num_hidden_layers",)),
    A("GPT2Model", {"reorder_and_upcast_attn": True}, note="reordered, upcast"),
    A("GPTJModel", {"rotary_dim": 4}),
    A("GPTNeoModel", {"attention_types": [[["global", "local"], 1]], "window_size": 5}),
    A("HubertModel", SPEECH),
    A("JambaModel", MAMBA),
    A("Llama4TextModel", {"intermediate_size_mlp": 40}, note="chunks"),
    A("ModernBertModel", {"local_attention": 6}),
    A("NemotronHModel"),
    A("NemotronModel", {"num_key_value_heads": 2, "head_dim": 8}),
    A("PerceiverModel", PERCEIVER, {"inputs": lambda: torch.randn(2, 13, 16)}, ("input_ids",)),
    A("ProphetNetModel", PROPHET, without=("num_hidden_layers",)),
    A("Qwen2Model", {"use_sliding_window": True, "max_window_layers": 1}, note="windows"),
    A("Qwen3NextModel", {
        "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    }),
    A("RecurrentGemmaModel", {"num_hidden_layers": 3, "attention_window_size": 8, "lru_width": 32}),
    A("SEWDModel"),
    A("SegformerModel", {"hidden_sizes": [16] * 4, "depths": [1] * 4,
                         "num_attention_heads": [1, 2, 2, 4]}),
    A("SqueezeBertModel", {"embedding_size": 32}),
    A("SwinModel", WINDOWS),
    A("Swinv2Model", WINDOWS),
    A("ViltModel", {}, {"pixel_values": picture}),
    A("WavLMModel", SPEECH),
    A("Wav2Vec2Model", SPEECH),
    A("XLNetModel", {}, without=("max_position_embeddings",)),
]  # fmt: skip


def table() -> str:
    """Markdown: what a capture finds in each architecture."""
    from attnmap_widget import capture

    lines = ["| architecture | layers × heads | kinds | weights |", "| --- | --- | --- | --- |"]
    for architecture in sorted(ARCHITECTURES, key=lambda entry: entry.label.lower()):
        model = architecture.build()
        with torch.no_grad(), capture(model) as cap:
            model(**architecture.arguments(model))
        kinds = list(dict.fromkeys(call.kind for call in cap.calls))
        heads = sorted({call.shape[1] for call in cap.calls})
        sources = sorted({call.source for call in cap.calls})
        lines.append(
            f"| {architecture.label} | {len(cap.layers)} × {', '.join(map(str, heads))} "
            f"| {', '.join(kinds)} | {', '.join(sources)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
