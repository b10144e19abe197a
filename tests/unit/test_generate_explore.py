"""A generation explored: whose tokens, padding, the menu of steps, the generated part."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from capture_support import build, t5_config, token_ids
from generate_support import DECODERS, PROMPT, Words, words

from attnmap_widget import AttentionExplorer, ShapeError, State, capture, explore

GREEDY = {"do_sample": False, "max_new_tokens": 4, "min_new_tokens": 4}


def batch() -> dict[str, torch.Tensor]:
    """Two prompts, the first padded on the left."""
    mask = torch.ones(2, PROMPT, dtype=torch.long)
    mask[0, :3] = 0
    return {"input_ids": token_ids(2, PROMPT), "attention_mask": mask}


def llama() -> Any:
    return build(*DECODERS["llama"])


def padding_of(explorer: AttentionExplorer) -> Any:
    found = explorer.map.padding
    if isinstance(found, tuple):
        return tuple(side.tolist() for side in found)
    return None if found is None else found.tolist()


def test_one_line_from_generate_to_labelled_steps() -> None:
    model, inputs = llama(), batch()
    out = model.generate(**inputs, **GREEDY)
    explorer = explore(model, lambda: model.generate(**inputs, **GREEDY), tokenizer=Words())
    assert explorer.map.tokens == words(out[0, :-1])
    last = words(out[0, -1:])[0]
    assert explorer.map.status == (
        f"the last token, {last!r} at 10, was generated and never looked: no row"
    )
    assert explorer.map.generated == (PROMPT, PROMPT)
    explorer.batch = 1
    assert explorer.map.tokens == words(out[1, :-1])
    assert explorer.map.checks == []


def test_padding_is_dimmed_in_rows_and_columns() -> None:
    model, inputs = llama(), batch()
    explorer = explore(model, lambda: model.generate(**inputs, **GREEDY))
    assert padding_of(explorer) == [True] * 3 + [False] * 7
    states = explorer.map.states
    assert (states[:3] == State.PADDING).all()
    assert (states[:, :3] == State.PADDING).all()
    assert (states[3:, 3:] != State.PADDING).all()
    assert explorer.map.checks == []
    explorer.step = 3
    assert padding_of(explorer) == ([True] * 3 + [False] * 7, [False])
    explorer.batch = 1
    assert padding_of(explorer) is None
    plain = explore(model, inputs)
    assert padding_of(plain) == [True] * 3 + [False] * 4
    own = explore(model, inputs, padding=[False] * 6 + [True])
    assert padding_of(own) == [False] * 6 + [True]


def test_a_square_mask_of_queries_by_keys_is_no_padding() -> None:
    """Three items, three tokens: it looks like a mask with a row for each item."""

    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            allowed = attention_mask.bool()[None, None]
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, allowed)

    mask = torch.ones(3, 3, dtype=torch.long).tril()
    model, x = Attention(), torch.randn(3, 2, 3, 8)
    explorer = explore(model, {"x": x, "attention_mask": mask})
    assert padding_of(explorer) is None
    assert explorer.map.states[0, 1] == State.CANNOT_LOOK


def test_a_mask_without_a_learned_prefix_says_nothing_of_the_keys() -> None:
    """Four keys before the text: the mask of the text alone would name the wrong ones."""

    class Prefixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = llama()
            self.prefix = torch.nn.Parameter(torch.randn(1, 4, 48))

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            embedded = self.inner.get_input_embeddings()(input_ids)
            prefix = self.prefix.expand(len(embedded), -1, -1)
            ones = attention_mask.new_ones(len(embedded), 4)
            return self.inner(
                inputs_embeds=torch.cat([prefix, embedded], 1),
                attention_mask=torch.cat([ones, attention_mask], 1),
            )

    explorer = explore(Prefixed(), batch(), tokenizer=Words())
    assert explorer.map.weights.shape == (11, 11)
    assert padding_of(explorer) is None
    assert explorer.map.tokens == list(range(11))


def test_a_vision_tower_has_no_tokens_even_with_as_many_patches() -> None:
    size = {"hidden_size": 24, "intermediate_size": 30, "num_hidden_layers": 2}
    text = {**size, "num_attention_heads": 3, "vocab_size": 90, "eos_token_id": 2}
    vision = {**size, "num_attention_heads": 2, "image_size": 4, "patch_size": 2}
    model = build("CLIPModel", transformers.CLIPConfig(text_config=text, vision_config=vision))
    ids = token_ids(1, 5)
    inputs = {"input_ids": ids, "pixel_values": torch.randn(1, 3, 4, 4)}
    explorer = explore(model, inputs, tokenizer=Words(), kind="text")
    assert explorer.map.tokens == words(ids[0])
    explorer.kind = "vision"
    assert explorer.map.weights.shape == (5, 5)
    assert explorer.map.tokens == [0, 1, 2, 3, 4]


def test_the_menu_of_steps_names_token_and_position() -> None:
    model, inputs = llama(), batch()
    explorer = explore(model, lambda: model.generate(**inputs, **GREEDY), tokenizer=Words())
    tokens = explorer.map.tokens
    assert explorer.step_selector.options == (
        ("all", "all"),
        (f"0 · '{tokens[0]}' … '{tokens[6]}' at 0–6", 0),
        (f"1 · '{tokens[7]}' at 7", 1),
        (f"2 · '{tokens[8]}' at 8", 2),
        (f"3 · '{tokens[9]}' at 9", 3),
    )
    explorer.step_selector.value = 2
    assert explorer.step == 2
    assert explorer.map.queries == tokens[8:9]
    assert explorer.map.tokens == tokens[:9]
    assert [side.tolist() for side in explorer.map.positions] == [list(range(9)), [8]]
    assert explorer.map.generated == (PROMPT, 0)
    explorer.map.selection = (0, 7)
    assert f"({8})" in explorer.map.to_svg()
    explorer.batch = 1
    other = explorer.map.queries[0]
    assert dict(explorer.step_selector.options)[f"2 · '{other}' at 8"] == 2
    bare = explore(model, lambda: model.generate(**inputs, **GREEDY))
    assert [label for label, _ in bare.step_selector.options] == [
        "all", "0 · at 0–6", "1 · at 7", "2 · at 8", "3 · at 9",
    ]  # fmt: skip


def test_a_marked_space_of_a_token_reads_as_one_in_the_menu() -> None:
    model, inputs = llama(), {"input_ids": token_ids(1, 3)}
    explorer = explore(
        model, lambda: model.generate(**inputs, **GREEDY), tokens=["The", "Ġcat", "Ġsat", *"abcd"]
    )
    assert explorer.step_selector.options[1][0] == "0 · 'The' … ' sat' at 0–2"


def test_a_capture_knows_the_ids_that_were_run() -> None:
    model, inputs = llama(), batch()
    with capture(model) as cap:
        out = model.generate(**inputs, **GREEDY)
    by_capture = cap.explore(tokenizer=Words(), batch=1)
    assert by_capture.map.tokens == words(out[1, :-1])
    assert by_capture.map.status == ""  # nobody said what came last, nor where it began
    assert by_capture.map.generated is None
    for told in (out, out.tolist(), out.numpy()):
        explorer = cap.explore(tokenizer=Words(), generated=told, batch=1)
        assert "at 10, was generated" in explorer.map.status
        assert explorer.map.generated == (PROMPT, PROMPT)
    assert cap.explore(generated=5).map.generated == (5, 5)
    with pytest.raises(ShapeError, match="is of another run"):
        cap.explore(tokenizer=Words(), generated=out + 1)
    with pytest.raises(ShapeError, match="got 8 tokens, but 10 positions ran"):
        cap.explore(tokenizer=Words(), generated=out[:, :8])
    with pytest.raises(TypeError, match="generated: got str"):
        cap.explore(generated="abc")


def test_what_a_function_returns_is_used_only_if_it_is_what_ran() -> None:
    model, inputs = llama(), batch()

    def only_new() -> torch.Tensor:
        return model.generate(**inputs, **GREEDY)[:, PROMPT:]

    explorer = explore(model, only_new, tokenizer=Words())
    assert len(explorer.map.tokens) == 10
    assert (explorer.map.generated, explorer.map.status) == (None, "")


def test_a_prompt_in_chunks_has_no_mark_unless_told() -> None:
    """From plain ids nobody knows how many of the forwards were prompt."""
    model, inputs = llama(), {"input_ids": token_ids(1, PROMPT)}
    explorer = explore(
        model, lambda: model.generate(**inputs, **GREEDY, prefill_chunk_size=3), tokenizer=Words()
    )
    assert explorer.map.generated is None
    explorer = explore(
        model,
        lambda: model.generate(
            **inputs, **GREEDY, prefill_chunk_size=3, return_dict_in_generate=True,
            output_scores=True,
        ),
    )  # fmt: skip
    assert explorer.map.generated == (PROMPT, PROMPT)


def test_another_layer_keeps_the_marks_and_a_forward_has_none() -> None:
    model, inputs = build(*DECODERS["gemma"]), {"input_ids": token_ids(1, PROMPT)}
    explorer = explore(model, lambda: model.generate(**inputs, **GREEDY), tokenizer=Words())
    explorer.step = 3
    assert explorer.map.weights.shape == (1, 10)
    explorer.layer = 1
    assert explorer.map.weights.shape == (1, 4)
    assert explorer.map.generated == (1, 0)  # keys 6 to 9
    assert explorer.error == ""
    with capture(model) as cap, torch.no_grad():
        model(**inputs)
    explorer.use(cap)
    assert (explorer.map.generated, explorer.map.positions, explorer.map.padding) == (None,) * 3
    assert explorer.map.tokens == words(inputs["input_ids"][0])


def test_a_position_given_marks_both_axes_of_one_forward() -> None:
    model, ids = llama(), token_ids(1, 9)
    with capture(model) as cap, torch.no_grad():
        model(ids)
    for made in (
        cap.explore(generated=PROMPT, layer=1),
        explore(model, {"input_ids": ids}, generated=PROMPT, layer=1),
        AttentionExplorer(cap.weights(1, None), generated=PROMPT),
    ):
        assert made.map.generated == (PROMPT, PROMPT)
        made.head = 2
        assert made.map.generated == (PROMPT, PROMPT)
        assert made.error == ""
    assert cap.explore(generated=9).map.generated is None  # nothing was generated that ran
    assert cap.explore().map.generated is None
    explorer = cap.explore(generated=PROMPT, words=[[n] for n in range(5)] + [[5, 6], [7, 8]])
    assert explorer.map.generated == (6, 6)
    explorer.use(cap)
    assert explorer.map.generated is None


def test_of_two_texts_the_position_is_the_decoders() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    inputs = {"input_ids": token_ids(1, 9), "decoder_input_ids": token_ids(1, 5, seed=8)}
    with capture(model) as cap, torch.no_grad():
        model(**inputs)
    explorer = cap.explore(generated=2, kind="decoder")
    assert explorer.map.generated == (2, 2)
    explorer.kind = "cross"
    assert explorer.map.generated == (None, 2)
    explorer.kind = "encoder"
    assert explorer.map.generated is None
    rows = np.full((3, 4, 6), 1 / 6)
    assert AttentionExplorer(rows, list("abcdef"), list("wxyz"), generated=3).map.generated == (
        None,
        3,
    )
    assert AttentionExplorer(rows, generated=3).map.generated == (3, None)


def test_a_step_that_is_no_square_offers_no_rollout() -> None:
    model, inputs = llama(), {"input_ids": token_ids(1, PROMPT)}
    explorer = explore(model, lambda: model.generate(**inputs, **GREEDY), tokenizer=Words())

    def offered() -> bool:
        return "rollout" in [value for _, value in explorer.layer_selector.options]

    assert offered()
    explorer.step = 0  # the prompt, which is one
    assert offered()
    explorer.step = 2
    assert not offered()
    before = explorer.map.weights
    explorer.layer = "rollout"
    assert "rollout: step 2 is 1×9" in explorer.error
    assert explorer.error.endswith("choose step all")
    assert explorer.map.weights is before
    assert offered()  # as it is what is chosen
    explorer.step = None
    assert explorer.error == ""
    assert explorer.map.weights.shape == (10, 10)


def test_a_plain_stack_after_a_generation_keeps_nothing_of_it() -> None:
    model, inputs = llama(), batch()
    explorer = explore(model, lambda: model.generate(**inputs, **GREEDY), step=2)
    explorer.use(np.full((2, 3, 4), 0.25), list("abcd"), list("xyz"))
    drawn = explorer.map
    assert (drawn.generated, drawn.positions, drawn.padding, drawn.mask) == (None,) * 4
    assert (drawn.states == State.WEIGHT).all()


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_step_with_rejected_drafts_shows_what_stands(name: str) -> None:
    """What was drafted and rejected are other tokens than those that came to stand there."""
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 9, 5, 6, 7]])
    options = {**GREEDY, "max_new_tokens": 5, "prompt_lookup_num_tokens": 2}
    model = build(*DECODERS[name])
    with capture(model) as cap:
        out = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    explorer = cap.explore(tokenizer=Words(), generated=out, layer=1, head=2)
    whole, rows = explorer.map.weights, []
    for step, call in enumerate(cap.find(1)):
        explorer.step = step
        assert explorer.error == ""
        first = 0 if explorer.map.positions is None else int(explorer.map.positions[0][0])
        at = cap.step_rows(1)[step]
        assert explorer.map.queries == words(out[0, at.start : at.stop])
        assert len(at) <= call.shape[2]
        part = whole[at.start : at.stop, first : first + explorer.map.weights.shape[1]]
        np.testing.assert_allclose(explorer.map.weights, part, atol=1e-6)
        rows += list(at)
    assert rows == list(range(len(out[0]) - 1))
    assert sum(call.shape[2] for call in cap.find(1)) > len(rows)


def test_a_step_without_certain_place_says_so() -> None:
    model = llama()
    with torch.no_grad():
        before = model(token_ids(1, 4), use_cache=True).past_key_values
        with capture(model) as cap:
            for draft in ([5, 6, 7], [8, 9, 10]):
                model(torch.tensor([draft]), cache=copy.deepcopy(before))
    explorer = cap.explore(tokenizer=Words(), step=1)
    assert "not certain" in explorer.map.status
    assert (explorer.map.tokens, explorer.map.queries) == (list(range(7)), list(range(3)))
    explorer.step = None
    assert "separate runs" in explorer.error
    assert [label for label, _ in explorer.step_selector.options] == ["all", "0", "1"]


def test_a_step_that_is_a_whole_text_has_its_tokens() -> None:
    """Without a cache every step runs all of it again."""
    model, inputs = llama(), {"input_ids": token_ids(1, PROMPT)}
    with capture(model) as cap:
        out = model.generate(**inputs, **GREEDY, use_cache=False)
    explorer = cap.explore(tokenizer=Words(), step=3)
    assert explorer.map.tokens == words(out[0, :10])
    assert explorer.map.status == ""
    explorer.step = 1
    assert explorer.map.tokens == words(out[0, :8])
