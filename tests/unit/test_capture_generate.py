"""Several forwards in one capture: the steps of generate become one map, or are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from capture_support import (
    SPECIAL,
    VOCABULARY,
    build,
    gpt2_config,
    largest_difference,
    llama_config,
    t5_config,
    token_ids,
)

from attnmap_widget import capture

PROMPT, NEW = 7, 3
GREEDY = {"do_sample": False, "max_new_tokens": NEW, "min_new_tokens": NEW}


def generated(model: Any, ids: torch.Tensor, **options: Any) -> tuple[Any, torch.Tensor]:
    with capture(model) as cap:
        out = model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY, **options)
    return cap, out


def whole_map(name: str, config: Any, ids: torch.Tensor) -> Any:
    with torch.no_grad():
        return build(name, config, "eager")(ids, output_attentions=True).attentions


def assert_stitched(cap: Any, layer: int, expected: torch.Tensor, item: int = 0) -> None:
    """Rows of the prompt miss the later keys; all equal those of one forward."""
    rows = PROMPT + NEW - 1
    got = cap.weights(layer, None, batch=item)
    assert got.shape == (expected.shape[1], rows, rows)
    assert largest_difference(got.nan_to_num(), expected[item, :, :rows, :rows]) <= 1e-5
    not_yet = torch.zeros(rows, rows, dtype=torch.bool)
    not_yet[:PROMPT, PROMPT:] = True
    not_yet[PROMPT:] = torch.ones(NEW - 1, rows).triu(PROMPT + 1).bool()
    assert torch.equal(got[0].isnan(), not_yet)


@pytest.mark.parametrize(
    ("name", "config"), [("GPT2LMHeadModel", gpt2_config()), ("LlamaForCausalLM", llama_config())]
)
def test_steps_become_one_map(name: str, config: Any) -> None:
    model, ids = build(name, config), token_ids(2, PROMPT)
    cap, out = generated(model, ids)
    assert out.shape == (2, PROMPT + NEW)
    assert cap.steps(0) == NEW
    assert [call.shape[2:] for call in cap.find(1)] == [(7, 7), (1, 8), (1, 9)]
    expected = whole_map(name, config, out)
    for layer in cap.layers:
        for item in range(2):
            assert_stitched(cap, layer, expected[layer], item)


def test_parts_of_the_stitched_map() -> None:
    model = build("LlamaForCausalLM", llama_config())
    cap, _ = generated(model, token_ids(1, PROMPT))
    whole = cap.weights(1, None)
    for queries, keys in (
        (slice(5, 9), slice(3, None)),
        (slice(-2, None), slice(None)),
        (slice(1, None, 3), slice(0, None, 2)),
        (slice(0, 2), slice(8, 9)),
    ):
        part = cap.weights(1, 2, queries=queries, keys=keys)
        assert largest_difference(part, whole[2, queries, keys]) <= 1e-6
    assert largest_difference(cap.weights(1, "mean"), whole.mean(0)) <= 1e-6
    assert largest_difference(cap.weights(1, 0, step=2), whole[0, 8:9]) <= 1e-6
    seen = cap.allowed(1, 3)
    assert torch.equal(seen[:PROMPT, :PROMPT], torch.ones(PROMPT, PROMPT).tril().bool())
    # "Not yet" is no matter of the mask: those cells are NaN in the weights.
    assert bool(seen[:, PROMPT:].all())
    with pytest.raises(ValueError, match="step 3"):
        cap.weights(1, 0, step=3)
    with pytest.raises(ValueError, match="batch item 1"):
        cap.weights(1, 0, batch=1)


def test_output_is_that_without_capture() -> None:
    model, ids = build("LlamaForCausalLM", llama_config()), token_ids(1, PROMPT)
    mask = torch.ones_like(ids)
    plain = model.generate(ids, attention_mask=mask, **GREEDY)
    cap, out = generated(model, ids)
    assert torch.equal(plain, out)
    assert cap.layers == [0, 1]


def test_static_cache_is_copied_and_its_empty_slots_hidden() -> None:
    """The cache is one buffer that later steps, and the next generate, overwrite."""
    config = llama_config()
    model, ids = build("LlamaForCausalLM", config), token_ids(1, PROMPT)
    cap, out = generated(model, ids, cache_implementation="static")
    expected = whole_map("LlamaForCausalLM", config, out)
    generated(model, token_ids(1, PROMPT, seed=9), cache_implementation="static")
    assert [call.shape[2:] for call in cap.find(0)] == [(7, 7), (1, 8), (1, 9)]
    assert_stitched(cap, 1, expected[1])


def test_sliding_layers_keep_true_positions() -> None:
    """A sliding layer holds only the last keys: its columns are their positions in the text."""
    config = transformers.MistralConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, intermediate_size=40, sliding_window=4, **SPECIAL,
    )  # fmt: skip
    model = build("MistralForCausalLM", config)
    cap, out = generated(model, token_ids(1, PROMPT))
    assert [call.shape[3] for call in cap.find(0)] == [7, 4, 4]
    expected = whole_map("MistralForCausalLM", config, out)[1][0, :, :9, :9]
    got = cap.weights(1, None)
    assert got.shape == (6, 9, 9)
    assert largest_difference(got.nan_to_num(), expected) <= 1e-5


def test_cross_attention_of_an_encoder_decoder() -> None:
    config = t5_config()
    model, ids = build("T5ForConditionalGeneration", config), token_ids(1, 7)
    cap, out = generated(model, ids)
    assert cap.steps(0, "encoder") == 1
    assert cap.steps(0, "cross") == NEW
    with torch.no_grad():
        forced = build("T5ForConditionalGeneration", config, "eager")(
            ids, decoder_input_ids=out[:, :-1], output_attentions=True
        )
    for layer in cap.layers:
        got = cap.weights(layer, None, kind="cross")
        assert got.shape == (3, NEW, 7)
        assert largest_difference(got, forced.cross_attentions[layer][0]) <= 1e-4
        own = cap.weights(layer, None, kind="decoder").nan_to_num()
        assert largest_difference(own, forced.decoder_attentions[layer][0]) <= 1e-4


def test_beams_are_refused_where_they_were_reordered() -> None:
    model = build("LlamaForCausalLM", llama_config())
    ids = token_ids(1, PROMPT)
    with capture(model) as cap:
        model.generate(
            ids, attention_mask=torch.ones_like(ids), num_beams=4, do_sample=False, max_new_tokens=6
        )
    assert cap.batch_size(0) == 4
    with pytest.raises(ValueError, match=r"reordered between steps.*step="):
        _ = [cap.weights(0, 0, batch=beam) for beam in range(4)]
    assert cap.weights(0, 0, batch=3, step=0).shape == (PROMPT, PROMPT)


def test_separate_runs_on_one_cache_make_no_common_map() -> None:
    """Three more tokens, and then three others: the lengths alone would fit."""
    model = build("LlamaForCausalLM", llama_config())
    with torch.no_grad():
        before = model(token_ids(1, 4), use_cache=True).past_key_values
        with capture(model) as cap:
            for draft in ([5, 6, 7], [8, 9, 10]):
                model(torch.tensor([draft]), cache=copy.deepcopy(before))
    assert [call.shape[2:] for call in cap.find(1)] == [(3, 7), (3, 7)]
    with pytest.raises(ValueError, match=r"separate runs.*drafts.*step= from 0, 1"):
        cap.weights(1, 0)
    assert cap.weights(1, 0, step=1).shape == (3, 7)


def test_separate_steps_of_weights_that_cannot_be_rebuilt() -> None:
    """The model's own weights are kept with the keys, which tell whether steps continue."""

    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return (q @ k.mT).roll(1, 0).roll(-1, 0).softmax(-1) @ k

    model, k = Attention(), torch.randn(1, 2, 6, 8)
    with capture(model) as cap:
        model(k[:, :, :5], k[:, :, :5])
        model(k[:, :, 5:], k)
    assert {call.source for call in cap.calls} == {"model"}
    assert cap.weights(0, 1).shape == (6, 6)
    with capture(model) as cap:
        model(k[:, :, :5], k[:, :, :5])
        model(k[:, :, 5:], k + 1)
    with pytest.raises(ValueError, match="separate runs"):
        cap.weights(0, 1)


def test_cross_attention_of_beams_is_refused_with_their_own() -> None:
    model, ids = build("T5ForConditionalGeneration", t5_config()), token_ids(1, 7)
    with capture(model) as cap:
        model.generate(ids, num_beams=3, do_sample=False, max_new_tokens=6)

    def reordered(kind: str) -> list[str]:
        """What is said of each beam; nothing where it is given."""
        found = []
        for beam in range(3):
            try:
                cap.weights(0, 0, beam, kind)
            except ValueError as error:
                found.append(str(error).partition(": ")[2])
            else:
                found.append("")
        return found

    assert any("beam search" in said for said in reordered("decoder"))
    assert reordered("cross") == reordered("decoder")
    assert cap.weights(0, 0, 2, "cross", step=4).shape == (1, 7)


def test_cross_attention_of_separate_runs() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    for sources in ((3, 4), (3, 3)):  # another source; the same one, other targets
        with torch.no_grad(), capture(model) as cap:
            for seed, source in enumerate(sources):
                target = token_ids(1, 3, seed=seed)
                model(token_ids(1, 7, seed=source), decoder_input_ids=target)
        with pytest.raises(ValueError, match="separate"):
            cap.weights(0, 0, kind="cross")


def test_separate_forwards_make_no_common_map() -> None:
    model = build("LlamaForCausalLM", llama_config())
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(1, 5))
        model(token_ids(1, 8))
    assert cap.steps(0) == 2
    with pytest.raises(ValueError, match=r"2 times on separate inputs.*step= from 0, 1"):
        cap.weights(0, 0)
    assert cap.weights(0, 0, step=1).shape == (8, 8)
    with torch.no_grad(), capture(model) as cap:
        model(token_ids(1, 5))
        model(token_ids(2, 5))
    with pytest.raises(ValueError, match="batch size"):
        cap.weights(0, 0)


def test_a_cache_from_before_the_capture() -> None:
    config = llama_config()
    model, ids = build("LlamaForCausalLM", config), token_ids(1, 9)
    with torch.no_grad():
        cache = model(ids[:, :6], use_cache=True).past_key_values
        with capture(model) as cap:
            model(ids[:, 6:], cache=cache)
    assert cap.kinds(0) == ["self"]
    expected = whole_map("LlamaForCausalLM", config, ids)
    assert cap.weights(1, None).shape == (6, 3, 9)
    assert largest_difference(cap.weights(1, None), expected[1][0, :, 6:]) <= 1e-5


@pytest.mark.parametrize("cache", [None, "static"])
def test_steps_share_their_keys(cache: str | None) -> None:
    """A step's keys begin with those of the step before: memory grows with the text."""
    model, ids = build("LlamaForCausalLM", llama_config()), token_ids(1, PROMPT)
    sizes = []
    for new in (3, 23):
        with capture(model) as cap:
            model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new,
                min_new_tokens=new, cache_implementation=cache,
            )  # fmt: skip
        keys = {c.record.keys.untyped_storage().data_ptr() for c in cap.find(0)}
        assert len(keys) == 1
        assert cap.weights(1, 0).shape == (PROMPT + new - 1, PROMPT + new - 1)
        sizes.append(cap.nbytes)
    kept_per_token = 2 * (48 + 2 * 8) * 4  # queries and keys of two layers
    assert sizes[1] - sizes[0] <= 1.5 * 20 * kept_per_token
