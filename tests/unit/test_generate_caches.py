"""Whatever cache and decoding `generate` uses: the assembled map is that of one forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from capture_support import build, largest_difference, spread, token_ids
from generate_support import DECODERS, PROMPT, one_forward, words

from attnmap_widget import capture

GREEDY = {"do_sample": False, "max_new_tokens": 5, "min_new_tokens": 5}
REPEATING = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 9, 5, 6, 7]])


def run(model: Any, ids: torch.Tensor, **options: Any) -> tuple[Any, torch.Tensor]:
    mask = options.pop("attention_mask", torch.ones_like(ids))
    with capture(model) as cap:
        out = model.generate(ids, attention_mask=mask, **{**GREEDY, **options})
    return cap, out


def assert_is_one_forward(cap: Any, name: str, out: torch.Tensor, given: Any = None) -> None:
    """Every layer and item; rows of padding, which look at nothing, are left out."""
    decoder, config = DECODERS[name]
    for item, sequence in enumerate(out):
        mask = None if given is None else given[item : item + 1]
        expected = one_forward(decoder, config, sequence[None], mask)
        count = len(sequence) - 1
        rows = torch.ones(count, dtype=torch.bool)
        if mask is not None:
            rows[: mask.shape[1]] = mask[0].bool()
        for layer in cap.layers:
            got = cap.weights(layer, None, batch=item)
            assert got.shape == (6, count, count)
            wanted = expected[layer][0, :, :count, :count]
            assert largest_difference(got.nan_to_num()[:, rows], wanted[:, rows]) <= 1e-4
            assert cap.ids(layer, item)[0] == sequence[:-1].tolist()
            assert cap.positions(layer, item) == (range(count), range(count))


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS)
def test_caches(name: str, cache: str, backend: str) -> None:
    decoder, config = DECODERS[name]
    cap, out = run(
        build(decoder, config, backend), token_ids(1, PROMPT), cache_implementation=cache
    )
    assert_is_one_forward(cap, name, out)


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_left_padding_in_a_batch(cache: str, backend: str) -> None:
    """In eager, rows of padding look at all slots of a static cache, also those not filled yet."""
    ids, mask = token_ids(2, PROMPT), torch.ones(2, PROMPT, dtype=torch.long)
    mask[0, :3] = 0
    model = build("LlamaForCausalLM", DECODERS["llama"][1], backend)
    cap, out = run(model, ids, attention_mask=mask, cache_implementation=cache)
    assert_is_one_forward(cap, "llama", out, mask)
    padded = [True] * 3 + [False] * (out.shape[1] - 4)
    assert cap.padding(1, 0) == (padded, padded)
    assert cap.padding(1, 1) == (None, None)
    assert cap.padding(1, 0, step=2) == ([True] * 3 + [False] * 6, None)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_prompt_in_chunks(name: str, cache: str) -> None:
    cap, out = run(
        build(*DECODERS[name]), token_ids(1, PROMPT), prefill_chunk_size=3,
        cache_implementation=cache,
    )  # fmt: skip
    assert [call.shape[2] for call in cap.find(0)] == [3, 3, 1, 1, 1, 1, 1]
    assert_is_one_forward(cap, name, out)


@pytest.mark.parametrize("name", DECODERS)
def test_drafts_that_were_rejected_have_no_rows(name: str) -> None:
    cap, out = run(build(*DECODERS[name]), REPEATING, prompt_lookup_num_tokens=2)
    queries = [call.shape[2] for call in cap.find(0)]
    assert sum(queries) > out.shape[1] - 1  # some were
    assert_is_one_forward(cap, name, out)


@pytest.mark.parametrize("seed", [0, 5])
def test_an_assistant_drafts(seed: int) -> None:
    """One that agrees with the model, and one that does not."""
    assistant = spread(build(*DECODERS["llama"]), seed)
    cap, out = run(build(*DECODERS["llama"]), token_ids(1, PROMPT), assistant_model=assistant)
    assert max(call.shape[2] for call in cap.find(0)[1:]) > 1
    assert_is_one_forward(cap, "llama", out)


def test_sampling() -> None:
    torch.manual_seed(4)
    cap, out = run(build(*DECODERS["llama"]), token_ids(2, PROMPT), do_sample=True)
    assert_is_one_forward(cap, "llama", out)


def test_a_step_of_a_sliding_layer_has_the_positions_of_its_window() -> None:
    cap, out = run(build(*DECODERS["gemma"]), token_ids(1, PROMPT))
    assert cap.positions(0, step=2) == (range(8, 9), range(9))
    assert cap.positions(1, step=2) == (range(8, 9), range(5, 9))
    assert cap.step_rows(1) == [range(7), *(range(row, row + 1) for row in range(7, 11))]
    explorer = cap.explore(words(out[0]), layer=1, step=2)
    assert explorer.map.tokens == words(out[0, 5:9])
    assert explorer.map.queries == words(out[0, 8:9])
    assert [side.tolist() for side in explorer.map.positions] == [[5, 6, 7, 8], [8]]


def test_a_text_that_went_on_from_a_cache_has_rows_for_what_was_run() -> None:
    model, ids = build(*DECODERS["llama"]), token_ids(1, PROMPT)
    with torch.no_grad():
        cache = model(ids[:, :4], use_cache=True).past_key_values
    cap, out = run(model, ids, cache=cache)
    assert cap.positions(1) == (range(4, 11), range(11))
    expected = one_forward(*DECODERS["llama"], out)[1][0, :, 4:11, :11]
    assert largest_difference(cap.weights(1, None).nan_to_num(), expected) <= 1e-4
    explorer = cap.explore(words(out[0]), layer=1)
    assert explorer.map.queries == words(out[0, 4:11])
    assert [side.tolist() for side in explorer.map.positions][1] == list(range(4, 11))


def test_without_a_cache_each_step_is_whole_and_chosen() -> None:
    cap, out = run(build(*DECODERS["llama"]), token_ids(1, PROMPT), use_cache=False)
    with pytest.raises(ValueError, match=r"step=4.*the whole text"):
        cap.weights(1, 0)
    expected = one_forward(*DECODERS["llama"], out)[1][0, :, :11, :11]
    assert largest_difference(cap.weights(1, None, step=4), expected) <= 1e-4
