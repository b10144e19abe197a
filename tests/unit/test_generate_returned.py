"""What transformers returns, steps of layers, without a capture: placed alike, or refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from capture_support import build, largest_difference, t5_config, token_ids
from generate_support import DECODERS, PROMPT, Words, words

from attnmap_widget import AttentionExplorer, ShapeError, State, capture

GREEDY = {
    "do_sample": False, "max_new_tokens": 5, "min_new_tokens": 5, "output_attentions": True,
    "return_dict_in_generate": True,
}  # fmt: skip


def run(model: Any, batch: int = 1, **options: Any) -> tuple[Any, Any]:
    ids = options.pop("ids", token_ids(batch, PROMPT))
    with capture(model) as cap:
        out = model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY, **options)
    return cap, out


def shows(explorer: AttentionExplorer, wanted: torch.Tensor) -> bool:
    return largest_difference(torch.tensor(explorer.map.weights), wanted) <= 1e-6


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_steps_of_layers_are_put_together_as_a_capture_is(name: str, cache: str) -> None:
    """Static slots that are not filled are left out, sliding windows go to their positions."""
    cap, out = run(build(*DECODERS[name], "eager"), cache_implementation=cache)
    explorer = AttentionExplorer(out.attentions, words(out.sequences[0]), head=2)
    for layer in cap.layers:
        explorer.layer = layer
        assert explorer.error == ""
        assert shows(explorer, cap.weights(layer, 2))
        assert explorer.map.tokens == words(out.sequences[0, :-1])
        assert explorer.map.generated == (PROMPT, PROMPT)
        assert "' w" in explorer.map.status
        states = explorer.map.states
        assert (states[0, 1], states[0, PROMPT]) == (State.ZERO, State.NOT_YET)
        explorer.step = 2
        rows, keys = cap.positions(layer, step=2)
        assert shows(explorer, cap.weights(layer, 2, step=2))
        assert explorer.map.queries == words(out.sequences[0, rows.start : rows.stop])
        assert explorer.map.tokens == words(out.sequences[0, keys.start : keys.stop])
        explorer.step = None


def test_a_chunked_prompt_leaves_rows_of_its_last_chunk_only() -> None:
    cap, out = run(build(*DECODERS["llama"], "eager"), prefill_chunk_size=3)
    explorer = AttentionExplorer(out, tokenizer=Words(), layer=1, head=4)
    assert shows(explorer, cap.weights(1, 4, queries=slice(6, None)))
    assert explorer.map.queries == words(out.sequences[0, 6:-1])
    assert explorer.map.tokens == words(out.sequences[0, :-1])
    assert [side[0] for side in explorer.map.positions] == [0, 6]
    assert explorer.map.generated == (7, 1)  # row 1 is position 7


def test_windows_whose_beginning_is_not_known_are_refused() -> None:
    """A chunked prompt under a window: how much came before the first step, nobody says."""
    _, out = run(build(*DECODERS["mistral"], "eager"), prefill_chunk_size=3)
    assert {layer.shape[3] for step in out.attentions for layer in step} == {4}
    with pytest.raises(ShapeError, match=r"step 0 has 1 × 4 weights.*choose step="):
        AttentionExplorer(out)
    with pytest.raises(ShapeError, match="kind='cross'"):
        AttentionExplorer(out.attentions)
    one = AttentionExplorer(out, tokenizer=Words(), step=3)
    assert "not certain" in one.map.status
    assert one.map.tokens == [0, 1, 2, 3]


def test_drafts_under_a_window_are_refused() -> None:
    """The library cuts such steps into rows without saying where their windows begin."""
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 9, 5, 6, 7]])
    _, out = run(build(*DECODERS["mistral"], "eager"), ids=ids, prompt_lookup_num_tokens=2)
    assert any(step[0].shape[3] > 4 for step in out.attentions[1:])
    with pytest.raises(ShapeError, match=r"cannot be put together: step 1 .*capture\(model\)"):
        AttentionExplorer(out)
    cap, out = run(build(*DECODERS["llama"], "eager"), ids=ids, prompt_lookup_num_tokens=2)
    assert shows(AttentionExplorer(out, layer=1, head=1), cap.weights(1, 1))


def test_a_batch_is_a_batch_only_where_the_output_says_so() -> None:
    cap, out = run(build(*DECODERS["llama"], "eager"), batch=2)
    with pytest.raises(ShapeError, match=r"2 items.*whole output"):
        AttentionExplorer(out.attentions)
    explorer = AttentionExplorer(out, tokenizer=Words(), layer=1, head=5, batch=1)
    assert shows(explorer, cap.weights(1, 5, batch=1))
    assert explorer.map.tokens == words(out.sequences[1, :-1])


def test_every_kind_of_an_encoder_decoder() -> None:
    cap, out = run(build("T5ForConditionalGeneration", t5_config(), "eager"))
    source, target = list("abcdefg"), words(out.sequences[0])
    explorer = AttentionExplorer(out, source, target, layer=1, head=2)
    assert [value for _, value in explorer.kind_selector.options] == ["encoder", "decoder", "cross"]
    labels = {
        "encoder": (source, source), "decoder": (target[:-1], target[:-1]),
        "cross": (source, target[:-1]),
    }  # fmt: skip
    for kind, (keys, rows) in labels.items():
        explorer.kind = kind
        assert shows(explorer, cap.weights(1, 2, kind=kind))
        assert (explorer.map.tokens, explorer.map.queries) == (keys, rows)
    assert explorer.map.generated == (None, 1)
    by_ids = AttentionExplorer(out, source, tokenizer=Words(), kind="cross")
    assert (by_ids.map.tokens, by_ids.map.queries) == (source, target[:-1])


def test_cross_steps_alone() -> None:
    """Case 92: 3 steps × (1, heads, 1, 7). The same shapes could be a window over one text."""
    _, out = run(build("T5ForConditionalGeneration", t5_config(), "eager"))
    wanted = torch.cat([step[1][0, 2] for step in out.cross_attentions])
    with pytest.raises(ShapeError, match="cross attention"):
        AttentionExplorer(out.cross_attentions, list("abcdefg"))
    for named in ({"kind": "cross"}, {"queries": list("vwxyz")}, {"queries": list("vwxyz!")}):
        explorer = AttentionExplorer(
            out.cross_attentions, list("abcdefg"), layer=1, head=2, **named
        )
        assert explorer.map.weights.shape == (5, 7)
        assert shows(explorer, wanted)
    with pytest.raises(ShapeError, match=r"queries: got 4, but 5 positions ran in cross"):
        AttentionExplorer(out.cross_attentions, list("abcdefg"), list("wxyz"))


@pytest.mark.parametrize("count", [8, 10, 13])
def test_other_token_counts_are_refused_with_both_numbers(count: int) -> None:
    _, out = run(build(*DECODERS["llama"], "eager"))
    with pytest.raises(ShapeError, match=rf"got {count}, but 11 positions ran .*\(12 with"):
        AttentionExplorer(out.attentions, list(range(count)))


def test_what_a_fused_backend_returns() -> None:
    _, out = run(build(*DECODERS["llama"]))
    for source in (out, out.attentions):
        with pytest.raises(ShapeError, match=r"fused backend.*capture\(model\)"):
            AttentionExplorer(source)
    with pytest.raises(ShapeError, match="layer 1 of decoder is None"):
        AttentionExplorer(SimpleNamespace(decoder_attentions=(torch.rand(1, 2, 3, 3), None)))


def test_the_outputs_of_one_forward() -> None:
    model = build("T5ForConditionalGeneration", t5_config(), "eager")
    with torch.no_grad():
        out = model(token_ids(2, 7), decoder_input_ids=token_ids(2, 3), output_attentions=True)
    explorer = AttentionExplorer(out, list("abcdefg"), list("xyz"), kind="cross", batch=1, head=2)
    assert shows(explorer, out.cross_attentions[0][1, 2])
    assert (explorer.map.tokens, explorer.map.queries) == (list("abcdefg"), list("xyz"))
    with pytest.raises(ShapeError, match="got 3×7, expected 4×7"):
        AttentionExplorer(out, list("abcdefg"), list("wxyz"), kind="cross")


def test_unused_slots_of_a_static_cache() -> None:
    """Case 102: (7, 9) for 7 tokens. Left out where all of them are zero, and only there."""
    stack = np.zeros((1, 4, 7, 9))
    stack[..., :7] = np.tril(np.random.default_rng(3).random((4, 7, 7)))
    wider = np.concatenate([stack, np.zeros((1, 4, 7, 1))], axis=3)
    explorer = AttentionExplorer((stack, wider), list("abcdefg"), head=3)
    np.testing.assert_allclose(explorer.map.weights, stack[0, 3, :, :7], rtol=1e-6)
    assert explorer.map.status.startswith("2 unused slots of a static cache, all zero")
    explorer.layer = 1
    assert explorer.map.status.startswith("3 unused slots")
    stack[0, 1, 6, 8] = 1e-3  # in another head
    with pytest.raises(ShapeError, match="9 keys, but there are 7 tokens"):
        AttentionExplorer((stack,), list("abcdefg"), head=3)


def test_steps_that_do_not_fit_each_other() -> None:
    def step(*shape: int) -> np.ndarray:
        return np.random.default_rng(1).random(shape) + 0.1

    with pytest.raises(ShapeError, match="step 1 has 1 layers, step 0 has 2"):
        AttentionExplorer(((step(1, 2, 5, 5),) * 2, (step(1, 2, 1, 6),)))
    with pytest.raises(ShapeError, match=r"layer 0 of step 1 has shape \(2, 1, 6\)"):
        AttentionExplorer(((step(1, 2, 5, 5),), (step(2, 1, 6),)))
    with pytest.raises(ShapeError, match="differ in batch size or heads"):
        AttentionExplorer(((step(1, 2, 5, 5),), (step(1, 3, 1, 6),)))
    with pytest.raises(ShapeError, match="step 1 has 1 × 8 weights"):
        AttentionExplorer(((step(1, 2, 5, 5),), (step(1, 2, 1, 8),)))
