"""Encoder, decoder and cross maps of four families: own rows, own columns, all rectangular."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from capture_support import build, largest_difference, t5_config, token_ids
from generate_support import Words, bart_config, marian_config, whisper_config, words

from attnmap_widget import AttentionExplorer, ShapeError, explore

TEXT = {"input_ids": token_ids(2, 7), "attention_mask": torch.ones(2, 7, dtype=torch.long)}
TEXT["attention_mask"][1, 5:] = 0
SOUND = {"input_features": torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(1))}
TARGET = token_ids(2, 4, seed=8)
FAMILIES = [
    ("T5ForConditionalGeneration", t5_config(), TEXT),
    ("BartForConditionalGeneration", bart_config(), TEXT),
    ("MarianMTModel", marian_config(), TEXT),
    ("WhisperForConditionalGeneration", whisper_config(), SOUND),
]
GREEDY = {"do_sample": False, "max_new_tokens": 4, "min_new_tokens": 4}


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize(("name", "config", "inputs"), FAMILIES)
def test_one_forward(name: str, config: Any, inputs: dict[str, Any], backend: str) -> None:
    given = {**inputs, "decoder_input_ids": TARGET}
    explorer = explore(build(name, config, backend), given, tokenizer=Words(), batch=1, head=2)
    with torch.no_grad():
        expected = build(name, config, "eager")(**given, output_attentions=True)
    target = words(TARGET[1])
    source = words(TEXT["input_ids"][1]) if inputs is TEXT else list(range(20))
    labels = {"encoder": (source, source), "decoder": (target, target), "cross": (source, target)}
    padded = [False] * 5 + [True] * 2
    for kind, (keys, rows) in labels.items():
        weights = getattr(expected, f"{kind}_attentions")
        explorer.layer, explorer.kind = 0, kind
        for layer, wanted in enumerate(weights):
            explorer.layer = layer
            assert (explorer.error, explorer.kind) == ("", kind)
            assert largest_difference(torch.tensor(explorer.map.weights), wanted[1, 2]) <= 1e-4
            assert (explorer.map.tokens, explorer.map.queries) == (keys, rows)
            found = explorer.map.padding
            keys_padded = found[0] if isinstance(found, tuple) else found
            if inputs is TEXT and kind != "decoder":
                assert keys_padded.tolist() == padded
            else:
                assert found is None
        explorer.layer = 0


@pytest.mark.parametrize(("name", "config", "inputs"), FAMILIES)
def test_generate(name: str, config: Any, inputs: dict[str, Any]) -> None:
    model = build(name, config)
    out: list[torch.Tensor] = []

    def run() -> torch.Tensor:
        out.append(model.generate(**inputs, **GREEDY))
        return out[-1]

    explorer = explore(model, run, tokenizer=Words(), batch=1, head=1)
    ids = out[0][1]
    if inputs is SOUND:  # its generate returns no prompt
        ids = torch.cat([torch.zeros(1, dtype=ids.dtype), ids])
    ran = words(ids[:-1])
    with torch.no_grad():
        one = {key: value[1:] for key, value in inputs.items()}
        expected = build(name, config, "eager")(
            **one, decoder_input_ids=ids[None, :-1], output_attentions=True
        )
    source = words(TEXT["input_ids"][1]) if inputs is TEXT else list(range(20))
    for kind, keys in (("decoder", ran), ("cross", source)):
        explorer.kind = kind
        wanted = getattr(expected, f"{kind}_attentions")[0][0, 1]
        got = torch.tensor(explorer.map.weights).nan_to_num()
        assert largest_difference(got, wanted) <= 1e-4
        assert (explorer.map.tokens, explorer.map.queries) == (keys, ran)
        if inputs is TEXT:
            assert f"{words(ids[-1:])[0]!r} at 4, was generated" in explorer.map.status
            assert explorer.map.generated == ((1, 1) if kind == "decoder" else (None, 1))
        assert explorer.step_selector.options[3][0] == f"2 · '{ran[2]}' at 2"
    explorer.step = 2
    assert explorer.map.queries == ran[2:3]
    assert explorer.map.tokens == source
    assert explorer.map.positions[1].tolist() == [2]
    explorer.kind = "encoder"
    assert explorer.step is None
    assert (explorer.map.tokens, explorer.map.queries) == (source, source)
    assert explorer.map.generated is None


@pytest.mark.parametrize(
    ("kind", "tokens", "queries", "words_"),
    [
        ("cross", 6, 4, "got 4×7, expected 4×6"),
        ("cross", 7, 3, "got 4×7, expected 3×7"),
        ("cross", 4, 7, "looks transposed: got 4×7, expected 7×4"),
        ("decoder", 7, 3, "got 4×4, expected 3×3"),
        ("encoder", 6, 4, "got 7×7, expected 6×6"),
    ],
)
def test_wrong_token_counts_are_refused_with_both_numbers(
    kind: str, tokens: int, queries: int, words_: str
) -> None:
    name, config, inputs = FAMILIES[1]
    given = {**inputs, "decoder_input_ids": TARGET}
    with pytest.raises(ShapeError, match=words_):
        explore(
            build(name, config), given, tokens=list(range(tokens)), queries=list(range(queries)),
            kind=kind,
        )  # fmt: skip


@pytest.mark.parametrize("count", [3, 6])
def test_wrong_target_counts_of_a_generation(count: int) -> None:
    name, config, inputs = FAMILIES[1]
    model = build(name, config)
    with pytest.raises(ShapeError, match=rf"queries: got {count}, but 4 positions ran in cross"):
        explore(
            model, lambda: model.generate(**inputs, **GREEDY), tokens=list("abcdefg"),
            queries=list(range(count)), kind="cross",
        )  # fmt: skip


def test_whisper_by_its_output() -> None:
    name, config, inputs = FAMILIES[3]
    with torch.no_grad():
        out = build(name, config, "eager")(
            **inputs, decoder_input_ids=TARGET, output_attentions=True
        )
    explorer = AttentionExplorer(out, queries=words(TARGET[0]), kind="cross")
    assert explorer.map.weights.shape == (4, 20)
    assert (explorer.map.tokens, explorer.map.queries) == (list(range(20)), words(TARGET[0]))
