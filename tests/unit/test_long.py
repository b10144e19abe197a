"""Heads too long to hold: a survey, exact windows, and reading on beside the notebook."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from wire_support import places_of, states_of, values_of

from attnmap_widget import AttentionExplorer, AttentionMap, Capture, ShapeError, State, capture

TOKENS = 1200


@pytest.fixture(scope="module")
def captured() -> Capture:
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            num_key_value_heads=1, intermediate_size=32, max_position_embeddings=TOKENS,
        )
    ).eval()  # fmt: skip
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, 0, 0.3)
    with torch.no_grad(), capture(model) as cap:
        model(torch.randint(5, 90, (1, TOKENS)))
    return cap


def truth(cap: Capture, layer: int, head: int) -> np.ndarray:
    return cap.weights(layer, head).numpy()


def test_a_long_head_reads_like_its_array(captured: Capture) -> None:
    attention = AttentionExplorer(captured, layer=1, head=2).map
    whole = truth(captured, 1, 2)
    assert attention.weights.shape == (TOKENS, TOKENS)
    np.testing.assert_allclose(attention.weights[700:703, 10:90], whole[700:703, 10:90], atol=1e-6)
    np.testing.assert_allclose(attention.weights[-1, :], whole[-1], atol=1e-6)
    assert attention.weights[5, 3] == pytest.approx(whole[5, 3], abs=1e-6)
    np.testing.assert_allclose(np.asarray(attention.weights), whole, atol=1e-6)
    np.testing.assert_allclose(attention.row_sums, whole.sum(axis=1), atol=1e-5)
    leans = attention.leans()
    assert [lean.key for lean in leans] == whole.argmax(axis=1).tolist()
    np.testing.assert_allclose([lean.weight for lean in leans], whole.max(axis=1), atol=1e-6)
    assert attention.shown_range == (0.0, pytest.approx(whole.max(), abs=1e-6))
    assert attention.checks == []
    assert "each cell the largest of 3 × 3" in attention.status


def test_what_travels_is_an_overview_and_then_the_window(captured: Capture) -> None:
    attention = AttentionExplorer(captured, layer=0, head=1).map
    whole = truth(captured, 0, 1)
    wire = attention.get_state("weights")["weights"]
    seen, states = values_of(wire), states_of(wire)
    assert seen.shape == (400, 400)
    np.testing.assert_allclose(seen, whole.reshape(400, 3, 400, 3).max(axis=(1, 3)), atol=1e-6)
    np.testing.assert_allclose(seen, whole[places_of(wire)], atol=1e-6)
    np.testing.assert_array_equal(states == State.CANNOT_LOOK, np.triu(np.ones((400, 400)), 1))
    attention.viewport = (600, 640, 590, 650)
    detail = attention.get_state("_detail")["_detail"]
    exact = np.frombuffer(detail["data"], dtype="<f4").reshape(detail["shape"])
    np.testing.assert_allclose(exact, whole[600:640, 590:650], atol=1e-6)
    hatched = np.frombuffer(detail["states"], dtype=np.uint8).reshape(detail["shape"])
    above = np.arange(590, 650)[None] > np.arange(600, 640)[:, None]
    np.testing.assert_array_equal(hatched == State.CANNOT_LOOK, above)


def test_sliding_windows_are_hatched_where_they_do_not_look() -> None:
    torch.manual_seed(2)
    model = MistralForCausalLM(
        MistralConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, intermediate_size=16, sliding_window=64,
        )
    ).eval()  # fmt: skip
    with torch.no_grad(), capture(model) as cap:
        model(torch.randint(5, 40, (1, TOKENS)))
    attention = AttentionExplorer(cap).map
    attention.viewport = (1000, 1100, 900, 1100)
    detail = attention.get_state("_detail")["_detail"]
    states = np.frombuffer(detail["states"], dtype=np.uint8).reshape(detail["shape"])
    distance = np.arange(1000, 1100)[:, None] - np.arange(900, 1100)[None]
    np.testing.assert_array_equal(states == State.CANNOT_LOOK, (distance < 0) | (distance >= 64))


def test_beside_a_notebook_a_first_look_comes_at_once(
    captured: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnmap_widget.exploring.reading_on._AT_ONCE", 0)
    whole = [truth(captured, 1, head) for head in range(3)]

    async def notebook() -> None:
        ex = AttentionExplorer(captured, layer=1, head=0)
        assert "reading 1200 × 1200 weights" in ex.map.status
        sampled = ~np.isnan(ex.map.row_sums)
        assert 0 < sampled.sum() < TOKENS / 8
        # A window is exact already.
        np.testing.assert_allclose(ex.map.weights[3:9, 0:9], whole[0][3:9, 0:9], atol=1e-6)
        ex.head = 2  # takes the place of the pass that is running
        while "reading" in ex.map.status:
            await asyncio.sleep(0.01)
        assert ex.map.title == "Layer 1 · Head 2"
        assert "each cell the largest of 3 × 3" in ex.map.status
        assert [lean.key for lean in ex.map.leans()] == whole[2].argmax(axis=1).tolist()
        ex.head = 1
        ex.map.viewport = (0, 30, 0, 30)
        while "reading" in ex.map.status:
            await asyncio.sleep(0.01)
        assert ex.map.status == ""  # what is in view is exact
        ex.head = 2  # was read before: there at once
        assert "reading" not in ex.map.status
        await asyncio.sleep(0.1)
        assert [lean.key for lean in ex.map.leans()] == whole[2].argmax(axis=1).tolist()
        ex.close()

    asyncio.run(notebook())


def test_what_a_grid_that_is_not_held_cannot_do_is_said(captured: Capture) -> None:
    ex = AttentionExplorer(captured)
    for name, value in (
        ("causal", True),
        ("mask", np.ones((TOKENS, TOKENS), dtype=bool)),
        ("query_offset", 1),
    ):
        with pytest.raises(ValueError, match=f"{name}: .*mask of its source"):
            setattr(ex.map, name, value)
    with pytest.raises(ValueError, match="not held"):
        str(ex.map)
    with pytest.raises(ShapeError):
        ex.map.tokens = list("abc")
    with pytest.raises(IndexError):
        ex.map.weights[TOKENS]
    with pytest.raises(ValueError, match="step 1"):
        ex.map.weights[::2]


def test_only_what_changed_travels_of_a_long_head(captured: Capture) -> None:
    attention = AttentionExplorer(captured).map
    sent: list[set[str]] = []
    attention.observe(lambda change: sent.append({change["name"]}), names=["weights", "_detail"])
    attention.hover = (3, 3)
    attention.scheme = "Reds"
    assert sent == []
    assert isinstance(attention, AttentionMap)


def test_excluded_keys_are_exact_in_a_pooled_map(captured: Capture) -> None:
    whole = truth(captured, 1, 0)
    attention = AttentionExplorer(captured, layer=1, head=0, exclude_keys=(0, 5)).map
    rest = np.delete(whole, (0, 5), axis=1).max()
    assert attention.shown_range == (0.0, pytest.approx(rest, abs=1e-6))
    with pytest.raises(ValueError, match="clip_percentile: the weights of a grid this long"):
        attention.clip_percentile = 50
    attention.color_scale = "log"
    assert attention._colors["clips"][0]  # smaller weights stand behind the pooled ones


def test_a_viewport_has_its_own_range_and_says_that_it_is_exact(captured: Capture) -> None:
    whole = truth(captured, 0, 0)
    attention = AttentionExplorer(captured).map
    attention.viewport = (600, 700, 300, 400)
    assert attention.shown_range == (0.0, pytest.approx(whole[600:700, 300:400].max(), abs=1e-6))
    assert attention.status == ""
    attention.viewport = None
    assert "1200 × 1200 weights, each cell the largest of 3 × 3" in attention.status
