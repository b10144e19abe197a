"""Whisper on a real sound: text looks at time, and moves on with the voice."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnmap_widget import AttentionExplorer, ShapeError, capture

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SENTENCE = " The cat sat on the mat, and the dog slept near the door."
MOMENTS = 1500
"""Columns: 30 seconds at 50 a second, whatever the sound's own length."""


@pytest.fixture(scope="module")
def heard() -> tuple[AttentionExplorer, list[str]]:
    sys.path.insert(0, str(NOTEBOOKS))
    try:
        from trained import whisper
    finally:
        sys.path.pop(0)
    model, tokenizer, features = whisper.whisper()
    samples = whisper.sound(NOTEBOOKS / "sounds/mat.wav")
    sound = features(samples, sampling_rate=whisper.RATE, return_tensors="pt").input_features
    said = tokenizer(SENTENCE, add_special_tokens=False, return_tensors="pt")
    written = said.input_ids
    start = torch.tensor([[whisper.START, whisper.NO_TIMESTAMPS]])
    with torch.no_grad(), capture(model) as cap:
        answer = model(input_features=sound, decoder_input_ids=torch.cat([start, written], dim=1))
    assert tokenizer.decode(answer.logits[0, 1:-1].argmax(-1)) == SENTENCE
    pieces = tokenizer.convert_ids_to_tokens(torch.cat([start, written], dim=1)[0])
    seconds = [f"{moment / 50:.2f} s" for moment in range(MOMENTS)]
    explorer = cap.explore(
        seconds, queries=pieces, kind="cross", layer=1, head=2, query_title="Text", key_title="Time"
    )
    return explorer, pieces


def test_each_word_looks_later_in_the_sound_than_the_one_before(
    heard: tuple[AttentionExplorer, list[str]],
) -> None:
    explorer, pieces = heard
    assert explorer.map.weights.shape == (len(pieces), MOMENTS)
    moments = [lean.key for lean in explorer.map.leans()[2:] if lean is not None]
    assert len(moments) == len(pieces) - 2
    assert (np.diff(moments) > 0).all()
    assert moments[-1] / 50 < 5.4  # the voice ends there
    assert explorer.map.checks == []


def test_the_three_kinds_have_the_tokens_of_their_own_sides(
    heard: tuple[AttentionExplorer, list[str]],
) -> None:
    explorer, pieces = heard
    try:
        explorer.kind = "encoder"
        assert explorer.map.weights[:2, :3].shape == (2, 3)
        assert (explorer.map.tokens[3], explorer.map.queries[3]) == ("0.06 s", "0.06 s")
        explorer.kind = "decoder"
        assert explorer.map.tokens == explorer.map.queries == pieces
        assert explorer.map.states[0, 1] == 3  # cannot look ahead
    finally:
        explorer.kind = "cross"


def test_a_second_too_many_is_refused_with_both_numbers(
    heard: tuple[AttentionExplorer, list[str]],
) -> None:
    explorer, pieces = heard
    with pytest.raises(ShapeError, match=r"1500.*1550|1550.*1500"):
        explorer._source.capture.explore(
            [str(moment) for moment in range(1550)], queries=pieces, kind="cross"
        )
