"""Words instead of pieces, and no special tokens, in an explorer."""

from __future__ import annotations

import asyncio
import json
import re

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from attnmap_widget import AttentionExplorer, ShapeError, State, capture, explore
from attnmap_widget.words import merge

PIECES = ["[CLS]", "un", "##believ", "##able", "cat", "[SEP]"]
GROUPS = [[0], [1, 2, 3], [4], [5]]
TEXT = "unbelievable cat"


def softmax(*shape: int) -> np.ndarray:
    scores = np.exp(np.random.default_rng(5).normal(size=shape))
    return scores / scores.sum(axis=-1, keepdims=True)


def wordpiece() -> PreTrainedTokenizerFast:
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES[1:5], "dog", "##s", "."]
    made = Tokenizer(models.WordPiece({t: n for n, t in enumerate(vocabulary)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{n}_token": f"[{n.upper()}]" for n in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def bert(positions: int = 64) -> BertModel:
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=16, hidden_size=30, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=40, max_position_embeddings=positions,
    )  # fmt: skip
    return BertModel(config)


def plain(explorer: AttentionExplorer) -> np.ndarray:
    return explorer._source.read(explorer._choice).weights


def test_a_sentence_has_a_box_for_words_and_one_for_special_tokens() -> None:
    explorer = explore(bert(), TEXT, tokenizer=wordpiece(), layer=1, head=2)
    assert explorer.map.tokens == PIECES
    assert explorer.map.title == "Layer 1 · Head 2"
    assert (explorer.words_switch.value, explorer.special_switch.value) == (False, True)
    assert [box.layout.display for box in (explorer.words_switch, explorer.special_switch)] == [
        None,
        None,
    ]
    pieces = np.array(explorer.map.weights)

    explorer.words_switch.value = True
    assert explorer.merged is True
    assert explorer.map.title == "Layer 1 · Head 2 · words"
    assert explorer.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]
    assert explorer.map.positions.tolist() == [0, 1, 4, 5]
    np.testing.assert_allclose(
        explorer.map.weights, merge(PIECES, pieces, GROUPS).weights, rtol=1e-6
    )
    np.testing.assert_allclose(explorer.map.row_sums, 1, rtol=1e-5)
    assert explorer.map.checks == []

    explorer.special_switch.value = False
    assert explorer.map.title == "Layer 1 · Head 2 · words · without special tokens"
    assert explorer.map.tokens == ["unbelievable", "cat"]
    assert explorer.map.positions.tolist() == [1, 4]
    inner = merge(PIECES, pieces, GROUPS).weights[1:3, 1:3]
    np.testing.assert_allclose(explorer.map.weights, inner, rtol=1e-5)
    assert "left out" in explorer.map.checks[0]

    explorer.merged = False
    assert explorer.words_switch.value is False
    assert explorer.map.tokens == PIECES[1:5]
    assert explorer.map.positions.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(explorer.map.weights, pieces[1:5, 1:5])

    explorer.hide_special = False
    assert explorer.map.tokens == PIECES
    assert explorer.map.positions is None
    np.testing.assert_array_equal(explorer.map.weights, pieces)


def test_words_at_once_and_in_every_head_and_file() -> None:
    explorer = explore(bert(), TEXT, tokenizer=wordpiece(), words=True)
    assert explorer.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]
    explorer.head = "mean"
    assert explorer.map.title == "Layer 0 · mean of 3 heads · words"
    np.testing.assert_allclose(explorer.map.row_sums, 1, rtol=1e-5)
    page = explorer.to_html(heads=[1])
    found = re.search(r'id="attnmap-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    titles = [{**data["shared"], **one["state"]}["title"] for one in data["maps"]]
    assert titles == ["Layer 0 · Head 1 · words", "Layer 1 · Head 1 · words"]
    assert data["labels"][0]["labels"] == ["[CLS]", "unbelievable", "cat", "[SEP]"]


def test_a_pinned_cell_stays_with_its_tokens() -> None:
    explorer = explore(bert(), TEXT, tokenizer=wordpiece())
    explorer.map.selection = (4, 2)
    explorer.merged = True
    assert explorer.map.selection == (2, 1)
    explorer.hide_special = True
    assert explorer.map.selection == (1, 0)
    explorer.merged = False
    assert explorer.map.selection == (3, 0)
    explorer.hide_special = False
    explorer.map.selection = (0, 4)
    explorer.hide_special = True
    assert explorer.map.selection is None


def test_a_new_sentence_brings_its_own_words() -> None:
    async def run() -> None:
        explorer = explore(bert(), TEXT, tokenizer=wordpiece(), words=True, hide_special=True)
        explorer.children[0].value = "dogs unbelievable."
        for _ in range(200):
            await asyncio.sleep(0.02)
            if len(explorer.map.tokens) == 3:
                break
        assert explorer.map.tokens == ["dogs", "unbelievable", "."]
        assert explorer.map.positions.tolist() == [1, 3, 6]
        assert explorer.error == ""

    asyncio.run(run())


def test_a_sentence_that_is_too_long_is_refused_with_both_numbers() -> None:
    model = bert(positions=8)
    with pytest.raises(ValueError, match="9 tokens, but the model takes 8 positions"):
        explore(model, "unbelievable unbelievable cat", tokenizer=wordpiece())

    async def run() -> None:
        explorer = explore(model, TEXT, tokenizer=wordpiece())
        explorer.children[0].value = "unbelievable unbelievable cat cat"
        for _ in range(200):
            await asyncio.sleep(0.02)
            if explorer.error:
                break
        assert explorer.error.startswith("10 tokens, but the model takes 8 positions")
        assert explorer.map.tokens == PIECES

    asyncio.run(run())


def test_a_batch_has_words_of_its_own_for_each_item() -> None:
    tokenizer = wordpiece()
    inputs = tokenizer([TEXT, "dogs cat"], return_tensors="pt", padding=True)
    explorer = explore(bert(), inputs, tokenizer=tokenizer, words=True)
    assert explorer.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]
    explorer.batch = 1
    assert explorer.map.tokens == ["[CLS]", "dogs", "cat", "[SEP]", "[PAD]"]
    explorer.hide_special = True
    assert explorer.map.tokens == ["dogs", "cat"]
    explorer.batch = 0
    assert explorer.map.tokens == ["unbelievable", "cat"]


def test_cross_maps_have_words_on_each_side() -> None:
    torch.manual_seed(4)
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=16,
            d_model=24,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=3,
            decoder_start_token_id=0,
        )
    )
    tokenizer = wordpiece()
    inputs = {
        "input_ids": tokenizer(TEXT, return_tensors="pt")["input_ids"],
        "decoder_input_ids": torch.tensor([[9, 10, 5, 6, 8]]),
    }
    explorer = explore(model, inputs, tokenizer=tokenizer, words=True, kind="cross")
    assert explorer.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]
    assert explorer.map.queries == ["dogs", "unbeliev", "cat"]
    assert [list(places) for places in explorer.map.positions] == [[0, 1, 4, 5], [0, 2, 4]]
    np.testing.assert_allclose(explorer.map.row_sums, 1, rtol=1e-5)
    explorer.kind = "decoder"
    assert explorer.map.tokens == explorer.map.queries == ["dogs", "unbeliev", "cat"]
    assert (explorer.map.states == State.CANNOT_LOOK).tolist() == np.triu(
        np.ones((3, 3), dtype=bool), 1
    ).tolist()
    explorer.kind = "encoder"
    assert explorer.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]


def test_causal_words_cannot_look_ahead_but_within_themselves() -> None:
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=6,
            intermediate_size=64,
        )
    )
    explorer = explore(model, TEXT, tokenizer=wordpiece(), words=True)
    states = explorer.map.states
    assert (states == State.CANNOT_LOOK).tolist() == np.triu(np.ones((4, 4), bool), 1).tolist()
    assert explorer.map.checks == []


def test_generated_steps_cut_the_words_where_they_end() -> None:
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16,
            hidden_size=48,
            num_hidden_layers=1,
            num_attention_heads=6,
            intermediate_size=64,
        )
    ).eval()
    with torch.no_grad(), capture(model) as cap:
        model.generate(
            torch.tensor([[9, 5, 6]]), max_new_tokens=3, min_new_tokens=3, do_sample=False
        )
    tokens = ["dog", "un", "##believ", "##able", "cat", "##s"]
    explorer = AttentionExplorer(cap, tokens, words=True)
    assert explorer.map.tokens == ["dog", "unbelievable", "cat"]
    np.testing.assert_allclose(explorer.map.row_sums, 1, rtol=1e-5)
    with pytest.raises(ShapeError, match="got 8, but 5 positions ran"):
        AttentionExplorer(cap, [*tokens, "x", "y"], words=True)
    explorer.step = 1
    assert (explorer.map.tokens, explorer.map.queries) == (["dog", "unbelievable"], ["##able"])
    np.testing.assert_allclose(explorer.map.row_sums, 1, rtol=1e-5)


def test_groups_or_marks_or_nothing() -> None:
    weights = softmax(3, 6, 6)
    given = AttentionExplorer(weights, PIECES, words=GROUPS, head=1)
    read = AttentionExplorer(weights, PIECES, words=True, head=1)
    assert given.map.tokens == read.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]
    np.testing.assert_array_equal(given.map.weights, read.map.weights)
    without = AttentionExplorer(weights, PIECES)
    assert without.words_switch.layout.display == "none"
    assert without.special_switch.layout.display == "none"
    with pytest.raises(ValueError, match="not known which pieces"):
        without.merged = True
    started = AttentionExplorer(weights, PIECES, words=GROUPS, merged=False)
    assert started.map.tokens == PIECES
    hidden = AttentionExplorer(weights, PIECES, special=(0, 5), hide_special=True)
    np.testing.assert_array_equal(hidden.map.weights, weights[0, 1:5, 1:5].astype(np.float32))
    assert hidden.map.title == "Head 0 · without special tokens"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"words": [[0], [1, 2]]}, ValueError, "words: index 3 is in no group"),
        ({"words": [[0], [1, 2, 3], [4], [5], [6]]}, ValueError, "words: index 6"),
        ({"special": (0, 6)}, ValueError, "special: index 6"),
        ({"special": range(6), "hide_special": True}, ValueError, "nothing to show"),
    ],
)
def test_what_does_not_fit_the_tokens_is_refused(options, error, said: str) -> None:
    with pytest.raises(error, match=said):
        AttentionExplorer(softmax(3, 6, 6), PIECES, **options)
    explorer = AttentionExplorer(softmax(3, 6, 6), PIECES, words=GROUPS)
    if "hide_special" not in options:
        with pytest.raises(error, match=said):
            explorer.use(softmax(3, 6, 6), PIECES, **options)
    assert explorer.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]


def test_without_tokens_groups_name_each_index_once() -> None:
    heads = softmax(2, 3, 3)
    assert AttentionExplorer(heads, words=[[0], [1, 2]]).map.weights.shape == (2, 2)
    for groups, said in (([[0], [2]], "index 1 is in no group"), ([[0, 1], [1, 2]], "more than")):
        with pytest.raises(ValueError, match=said):
            AttentionExplorer(heads, words=groups)


def test_words_without_marks_are_refused_with_the_fix() -> None:
    with pytest.raises(ValueError, match="none of them has a mark"):
        AttentionExplorer(softmax(2, 3, 3), ["a", "b", "c"], words=True)
    with pytest.raises(TypeError, match="no tokens to read words from"):
        AttentionExplorer(softmax(2, 3, 3), words=True)


def test_other_tokens_without_words_are_shown_as_they_are() -> None:
    explorer = AttentionExplorer(softmax(3, 6, 6), PIECES, words=GROUPS)
    explorer.use(softmax(2, 3, 3), ["a", "b", "c"])
    assert explorer.map.tokens == ["a", "b", "c"]
    assert explorer.map.positions is None
    assert explorer.words_switch.layout.display == "none"
    assert explorer.map.title == "Head 0"


def test_options_by_number_follow_the_words() -> None:
    weights = softmax(2, 3, 5)
    mask = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 0]], dtype=bool)
    explorer = AttentionExplorer(
        weights,
        ["a", "##b", "c", "[PAD]", "##d"],
        ["x", "y", "##z"],
        words=True,
        mask=mask,
        padding=([0, 0, 0, 1, 0], [0, 0, 1]),
        exclude_keys=(2,),
        query_offset=7,
    )
    words = explorer.map
    assert words.tokens == ["ab", "c", "[PAD]d"]
    assert words.mask.tolist() == [[True, True, True], [True, True, True]]
    assert [list(side) for side in words.padding] == [[False] * 3, [False, False]]
    assert words.exclude_keys == (1,)
    assert [list(side) for side in words.positions] == [[0, 2, 3], [7, 8]]
    explorer.merged = False
    np.testing.assert_array_equal(words.mask, mask)
    assert (words.exclude_keys, words.query_offset, words.positions) == ((2,), 7, None)
    assert list(words.padding[1]) == [False, False, True]


def by_hand() -> tuple[AttentionExplorer, np.ndarray]:
    """Two layers of rows "x yz" that look at the words "ab c d"."""
    weights = softmax(2, 3, 4)
    explorer = AttentionExplorer(
        weights, ["a", "##b", "c", "d"], ["x", "y", "##z"], words=True, merged=False
    )
    return explorer, weights


def test_what_is_set_by_hand_on_pieces_follows_them_into_words_and_back() -> None:
    explorer, _ = by_hand()
    mask = np.array([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]], dtype=bool)
    explorer.map.update(exclude_keys=(1,), padding=([0, 0, 0, 1], [0, 0, 0]), mask=mask)
    for _ in range(2):
        explorer.merged = True
        explorer.head = 1
        drawn = explorer.map
        assert drawn.tokens == ["ab", "c", "d"]
        assert drawn.exclude_keys == (0,)
        assert [side.tolist() for side in drawn.padding] == [[False, False, True], [False] * 2]
        assert drawn.mask.tolist() == [[True, True, True], [False, True, True]]
        explorer.merged = False
        explorer.head = 0
        assert drawn.exclude_keys == (1,)
        assert drawn.padding[0].tolist() == [False, False, False, True]
        np.testing.assert_array_equal(drawn.mask, mask)
    drawn.exclude_keys = ()
    drawn.mask = None
    explorer.head = 1
    assert (drawn.exclude_keys, drawn.mask) == ((), None)
    explorer.merged = True
    assert (drawn.exclude_keys, drawn.mask) == ((), None)
    assert drawn.padding[0].tolist() == [False, False, True]


def test_what_is_set_by_hand_on_words_holds_for_their_pieces() -> None:
    explorer, _ = by_hand()
    explorer.merged = True
    drawn = explorer.map
    mask = np.array([[0, 1, 1], [1, 0, 1]], dtype=bool)
    drawn.update(
        exclude_keys=(0, 2), padding=([0, 0, 1], [0, 1]), mask=mask,
        positions=([4, 7, 9], [1, 2]), generated=(1, 1),
    )  # fmt: skip
    explorer.head = 1
    assert drawn.exclude_keys == (0, 2)
    assert [side.tolist() for side in drawn.padding] == [[False, False, True], [False, True]]
    np.testing.assert_array_equal(drawn.mask, mask)
    assert [side.tolist() for side in drawn.positions] == [[4, 7, 9], [1, 2]]
    assert drawn.generated == (1, 1)
    explorer.merged = False
    assert drawn.exclude_keys == (0, 1, 3)
    assert [side.tolist() for side in drawn.padding] == [[0, 0, 0, 1], [0, 1, 1]]
    assert drawn.mask.tolist() == [[0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 0, 1]]
    assert [side.tolist() for side in drawn.positions] == [[4, 4, 7, 9], [1, 2, 2]]
    assert drawn.generated == (2, 1)


def test_of_a_capture_what_is_set_by_hand_goes_before_what_the_model_was_told() -> None:
    tokenizer = wordpiece()
    inputs = tokenizer([TEXT, "dog cat"], return_tensors="pt", padding=True)
    explorer = explore(bert(), dict(inputs), tokenizer=tokenizer, batch=1)
    drawn = explorer.map
    own = drawn.padding
    assert own is not None
    drawn.padding = [0] * len(drawn.tokens)
    explorer.head = 1
    assert drawn.padding.tolist() == [False] * 6
    explorer.hide_special = True  # of hidden tokens nothing is said
    drawn.exclude_keys = (1,)
    explorer.layer = 1
    assert drawn.exclude_keys == (1,)
    explorer.hide_special = False
    assert drawn.exclude_keys == (2,)
    explorer.use(explorer._source.capture)  # another source: the model says it again
    assert np.any(drawn.padding)


def test_what_is_set_by_hand_and_does_not_fit_is_refused() -> None:
    weights = [softmax(1, 2, 4, 4), softmax(1, 2, 3, 3)]
    explorer = AttentionExplorer(weights, words=[[0], [1, 2]], merged=False)
    explorer = AttentionExplorer(weights, words=[[0], [1], [2], [3]])
    explorer.map.mask = np.tril(np.ones((4, 4), dtype=bool))
    before = explorer.map.weights
    explorer.layer = 1
    assert "mask" in explorer.error
    assert explorer.map.weights is before
    explorer.layer = 0
    assert explorer.error == ""
    assert not explorer.map.mask[0, 1]


def test_a_head_that_is_not_held_says_why_it_has_no_words(monkeypatch) -> None:
    monkeypatch.setattr("attnmap_widget.exploring.sources.WHOLE_LIMIT", 30)
    explorer = explore(bert(), TEXT, tokenizer=wordpiece(), words=True)
    assert explorer.map.tokens == PIECES
    assert explorer.words_switch.disabled is True
    assert explorer.words_switch.description == "Words (not for a head this long)"
    assert explorer.map.title == "Layer 0 · Head 0"
    monkeypatch.setattr("attnmap_widget.exploring.sources.WHOLE_LIMIT", 1000)
    explorer.head = 1
    assert explorer.words_switch.disabled is False
    assert explorer.words_switch.description == "Words"
    assert explorer.map.tokens == ["[CLS]", "unbelievable", "cat", "[SEP]"]


def test_closing_takes_the_boxes_along() -> None:
    explorer = explore(bert(), TEXT, tokenizer=wordpiece())
    boxes = [explorer.words_switch, explorer.special_switch]
    explorer.close()
    assert [box.comm for box in boxes] == [None, None]


def test_no_title_is_none() -> None:
    explorer = AttentionExplorer(softmax(2, 3, 3), list("abc"), title=None)
    assert explorer.map.title == "Head 0"


def test_words_with_everything_that_goes_by_number_at_once() -> None:
    """Groups, positions, padding, keys out of the scale and a causal mask, each by the others."""
    weights = np.random.default_rng(5).dirichlet(np.ones(7), (2, 7)).astype(np.float32)
    groups = [[0], [1, 2], [3], [4, 5], [6]]
    explorer = AttentionExplorer(
        weights,
        list("abcdefg"),
        words=groups,
        head=1,
        padding=np.arange(7) == 0,
        exclude_keys=(3,),
        positions=np.arange(7) + 10,
        causal=True,
    )
    keys = np.stack([weights[1][:, group].sum(axis=1) for group in groups], axis=1)
    wanted = np.stack([keys[group].mean(axis=0) for group in groups])
    np.testing.assert_allclose(explorer.map.weights, wanted, rtol=1e-6)
    assert list(explorer.map.positions) == [10, 11, 13, 14, 16]
    assert explorer.map.exclude_keys == (2,)
    looks = np.tril(np.ones((5, 5), dtype=bool))
    padded = np.zeros((5, 5), dtype=bool)
    padded[0] = padded[:, 0] = True
    state = explorer.map.states
    np.testing.assert_array_equal(state == State.PADDING, padded)
    np.testing.assert_array_equal(state == State.CANNOT_LOOK, ~looks & ~padded)
    explorer.merged = False
    np.testing.assert_array_equal(explorer.map.weights, weights[1])
    assert explorer.map.exclude_keys == (3,)
    assert list(explorer.map.positions) == list(range(10, 17))
