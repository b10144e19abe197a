"""From a model and its inputs to an explorer in one line."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import ipywidgets
import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from attnmap_widget import CaptureError, State, capture, explore

IDS = torch.tensor([[5, 17, 5, 29, 31, 8, 77]])


class WordTokenizer:
    """The part of a tokenizer that `explore` needs: words to ids and back."""

    words = ("[PAD]", "the", "cat", "sat", "on", "a", "mat", "dog")

    def __call__(self, text: str, return_tensors: str) -> dict[str, torch.Tensor]:
        assert return_tensors == "pt"
        return {"input_ids": torch.tensor([[self.words.index(word) for word in text.split()]])}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.words[index] for index in ids]


def llama(layers: int = 2) -> LlamaForCausalLM:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=100, hidden_size=48, num_hidden_layers=layers, num_attention_heads=6,
        num_key_value_heads=2, intermediate_size=64,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def bert() -> BertModel:
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=100, hidden_size=30, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=40,
    )  # fmt: skip
    return BertModel(config)


def test_a_mapping_shows_what_the_model_computed_and_where_it_cannot_look() -> None:
    model = llama().eval()
    explorer = explore(model, {"input_ids": IDS}, layer=1, head=4)
    eager = llama().eval()
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        expected = eager(IDS, output_attentions=True).attentions[1][0, 4]
    np.testing.assert_allclose(explorer.map.weights, expected, atol=1e-5)
    upper = np.triu(np.ones((7, 7), dtype=bool), 1)
    np.testing.assert_array_equal(explorer.map.states == State.CANNOT_LOOK, upper)
    assert explorer.map.title == "Layer 1 · Head 4"
    assert explorer.map.checks == []


def test_the_model_runs_in_eval_mode_and_gets_its_own_back() -> None:
    model = bert().train()
    model.encoder.layer[1].eval()
    before = {name: module.training for name, module in model.named_modules()}
    explorer = explore(model, IDS)
    assert {name: module.training for name, module in model.named_modules()} == before
    with torch.no_grad(), capture(model.eval()) as cap:
        model(IDS)
    np.testing.assert_allclose(explorer.map.weights, cap.weights(0, 0), atol=1e-6)


def test_tensors_tuples_and_functions_run_the_model_too() -> None:
    model = bert()
    by_tensor = explore(model, IDS)
    for inputs in ((IDS, torch.ones_like(IDS)), lambda: model(input_ids=IDS)):
        np.testing.assert_array_equal(explore(model, inputs).map.weights, by_tensor.map.weights)


def test_generate_is_one_map_of_all_steps_and_each_step_alone() -> None:
    model = llama().eval()
    tokens = list("abcdefghij")
    explorer = explore(
        model,
        lambda: model.generate(IDS, max_new_tokens=3, do_sample=False, pad_token_id=0),
        tokens=tokens,
    )
    assert explorer.map.tokens == tokens[:9]
    assert "'j' at 9" in explorer.map.status  # generated last, it never looked
    states = explorer.map.states
    assert states[0, 1] == State.CANNOT_LOOK
    assert states[0, 8] == State.NOT_YET
    np.testing.assert_allclose(explorer.map.row_sums, 1, atol=1e-5)
    explorer.step = 2
    assert explorer.map.queries == ["i"]
    assert explorer.map.title == "Layer 0 · Head 0 · step 2"


def test_an_encoder_decoder_has_its_own_rows_and_columns() -> None:
    torch.manual_seed(3)
    config = T5Config(
        vocab_size=100, d_model=24, d_kv=8, num_heads=3, num_layers=2, d_ff=32,
        decoder_start_token_id=0,
    )  # fmt: skip
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}
    explorer = explore(
        T5ForConditionalGeneration(config), inputs, tokens=list("abcdefg"), queries=list("wxyz")
    )
    assert [value for _, value in explorer.kind_selector.options] == ["encoder", "decoder", "cross"]
    assert (explorer.map.tokens, explorer.map.queries) == (list("abcdefg"), list("abcdefg"))
    explorer.kind = "cross"
    assert (explorer.map.tokens, explorer.map.queries) == (list("abcdefg"), list("wxyz"))
    assert explorer.map.title == "Layer 0 · cross · Head 0"
    explorer.kind = "decoder"
    assert (explorer.map.tokens, explorer.map.queries) == (list("wxyz"), list("wxyz"))
    explorer.layer = 1
    assert explorer.kind == "decoder"


def test_a_sentence_has_a_text_box_that_captures_again() -> None:
    model = llama().eval()
    runs: list[int] = []
    model.register_forward_hook(lambda *_: runs.append(1))
    explorer = explore(model, "the cat sat", tokenizer=WordTokenizer(), head=3, layer=1)
    assert explorer.map.tokens == ["the", "cat", "sat"]
    box = explorer.children[0]
    assert isinstance(box, ipywidgets.Text)
    box.value = "the dog sat on a mat"
    assert runs == [1, 1]  # one forward a sentence
    assert explorer.map.tokens == ["the", "dog", "sat", "on", "a", "mat"]
    assert explorer.map.title == "Layer 1 · Head 3"
    assert explorer.map.status == ""
    good = explorer.map.weights
    box.value = "the unicorn sat"
    assert "unicorn" in explorer.error or "not in" in explorer.error
    assert explorer.map.error == explorer.error
    assert explorer.map.weights is good
    box.value = "a cat"
    assert explorer.error == explorer.map.error == ""
    assert explorer.map.tokens == ["a", "cat"]


def test_a_batch_has_its_items_tokens() -> None:
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    explorer = explore(llama(), {"input_ids": ids}, tokenizer=WordTokenizer(), batch=1)
    assert explorer.map.tokens == ["on", "a", "mat"]
    explorer.batch = 0
    assert explorer.map.tokens == ["the", "cat", "sat"]


def test_what_cannot_be_run_or_read_is_said() -> None:
    with pytest.raises(TypeError, match="tokenizer"):
        explore(llama(), "the cat")
    with pytest.raises(CaptureError, match="no attention"):
        explore(torch.nn.Linear(3, 3), torch.randn(2, 3))


def test_beside_a_notebook_a_newer_sentence_stops_the_run_of_the_one_before() -> None:
    model = llama().train()
    before = {module: dict(module._forward_pre_hooks) for module in model.modules()}
    explorer = explore(model, "the cat sat", tokenizer=WordTokenizer())
    started, go = threading.Event(), threading.Event()
    ended: list[int] = []

    def wait_in_the_first_run(module: torch.nn.Module, args: object) -> None:
        if not started.is_set():
            started.set()
            assert go.wait(10)

    slow = model.model.layers[0].register_forward_pre_hook(wait_in_the_first_run)
    model.register_forward_hook(lambda *_: ended.append(1))

    async def notebook() -> None:
        box = explorer.children[0]
        box.value = "the dog sat on a mat"
        assert explorer.map.status == "running the model…"  # and the notebook goes on
        assert await asyncio.to_thread(started.wait, 10)
        box.value = "a cat"
        go.set()
        while explorer.map.status:
            await asyncio.sleep(0.005)

    asyncio.run(notebook())
    assert explorer.map.tokens == ["a", "cat"]
    assert explorer.error == ""
    assert ended == [1]  # the first run never reached its end
    assert all(module.training for module in model.modules())
    slow.remove()
    assert {module: dict(module._forward_pre_hooks) for module in model.modules()} == before


def test_an_explorer_with_a_text_box_lets_go_of_its_model() -> None:
    model = llama()
    gone = weakref.ref(model)
    explorer = explore(model, "the cat sat", tokenizer=WordTokenizer())
    explorer.close()
    del model, explorer
    gc.collect()
    assert gone() is None


def test_the_steps_of_a_generation_take_their_part_of_the_tokens() -> None:
    model = llama().eval()
    with torch.no_grad(), capture(model) as cap:
        model.generate(IDS, max_new_tokens=4, do_sample=False, pad_token_id=0)
    explorer = cap.explore(list("abcdefghijk"))
    for step, (keys, rows) in enumerate(
        [("abcdefg", "abcdefg"), ("abcdefgh", "h"), ("abcdefghi", "i")]
    ):
        explorer.step = step
        assert explorer.error == ""
        assert (explorer.map.tokens, explorer.map.queries) == (list(keys), list(rows))


def test_a_sentence_alone_is_not_enough_for_a_decoder() -> None:
    config = T5Config(vocab_size=50, d_model=16, d_kv=8, num_heads=2, num_layers=1, d_ff=16)
    with pytest.raises(TypeError, match="decoder_input_ids"):
        explore(T5ForConditionalGeneration(config), "the cat", tokenizer=WordTokenizer())


def test_a_text_of_no_tokens_is_refused_before_the_model_runs() -> None:
    class Deaf(WordTokenizer):
        def __call__(self, text: str, return_tensors: str) -> dict[str, torch.Tensor]:
            return super().__call__("", return_tensors)

    with pytest.raises(ValueError, match="makes no tokens of this text"):
        explore(llama(), "the cat", tokenizer=Deaf())


class Framing(WordTokenizer):
    """Adds a special token at either end, as BERT's does."""

    def __call__(self, text: str, return_tensors: str) -> dict[str, torch.Tensor]:
        return super().__call__(f"[PAD] {text} [PAD]", return_tensors)


@pytest.mark.parametrize("tokenizer", [WordTokenizer(), Framing()])
@pytest.mark.parametrize("nothing", ["", "  ", "\t"])
def test_no_text_is_no_sentence_and_the_last_map_stays(
    tokenizer: WordTokenizer, nothing: str
) -> None:
    model = llama()
    with pytest.raises(ValueError, match="type a sentence"):
        explore(model, nothing, tokenizer=tokenizer)
    explorer = explore(model, "the cat sat", tokenizer=tokenizer, layer=1)
    before, ran = explorer.map.weights, []
    model.register_forward_pre_hook(lambda *_: ran.append(1))
    box = explorer.children[0]
    box.value = nothing
    assert explorer.error == explorer.map.error == "type a sentence"
    assert explorer.map.weights is before
    assert ran == []
    assert explorer.map.status == ""
    box.value = "a cat"
    assert explorer.error == explorer.map.error == ""
    assert explorer.map.tokens[-2:] in (["a", "cat"], ["cat", "[PAD]"])
    assert ran == [1]


def test_the_name_of_a_model_is_no_model() -> None:
    with pytest.raises(TypeError, match=r"model is str, expected .*from_pretrained"):
        explore("gpt2", "the cat sat", tokenizer=WordTokenizer())  # type: ignore[arg-type]
