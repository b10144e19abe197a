"""Tiny models that generate, and the one forward of the final text that their maps must equal."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from capture_support import SPECIAL, VOCABULARY, build, llama_config

PROMPT = 7


class Words:
    """The part of a tokenizer that maps need: id 12 is the token " w12"."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        assert all(type(index) is int for index in ids)
        return [f" w{index}" for index in ids]


def words(ids: Any) -> list[str]:
    return Words().convert_ids_to_tokens(torch.as_tensor(ids).tolist())


def mistral_config(**changes: Any) -> Any:
    """Every layer sees the last four tokens only."""
    return transformers.MistralConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, intermediate_size=40, sliding_window=4, **SPECIAL, **changes,
    )  # fmt: skip


def gemma_config() -> Any:
    """Layer 0 sees everything, layer 1 the last four tokens."""
    return transformers.Gemma3TextConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, head_dim=8, intermediate_size=40, sliding_window=4,
        layer_types=["full_attention", "sliding_attention"], **SPECIAL,
    )  # fmt: skip


DECODERS = {
    "llama": ("LlamaForCausalLM", llama_config()),
    "mistral": ("MistralForCausalLM", mistral_config()),
    "gemma": ("Gemma3ForCausalLM", gemma_config()),
}


def _seq2seq(**changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY, "d_model": 36, "encoder_layers": 2, "decoder_layers": 3,
        "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40, "decoder_start_token_id": 0, **SPECIAL, **changes,
    }  # fmt: skip


def bart_config() -> Any:
    return transformers.BartConfig(
        max_position_embeddings=64, forced_eos_token_id=None, **_seq2seq()
    )


def marian_config() -> Any:
    return transformers.MarianConfig(
        max_position_embeddings=64, forced_eos_token_id=None, **_seq2seq()
    )


def whisper_config() -> Any:
    return transformers.WhisperConfig(
        num_mel_bins=8, max_source_positions=20, max_target_positions=32, suppress_tokens=[],
        begin_suppress_tokens=[], **_seq2seq(),
    )  # fmt: skip


def one_forward(
    name: str, config: Any, sequence: torch.Tensor, given: torch.Tensor | None = None
) -> Any:
    """Attention of one eager forward of a whole text (1, tokens); `given`: its prompt's mask."""
    mask = torch.ones_like(sequence)
    if given is not None:
        mask[:, : given.shape[1]] = given
    with torch.no_grad():
        return build(name, config, "eager")(
            input_ids=sequence,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            output_attentions=True,
        ).attentions
