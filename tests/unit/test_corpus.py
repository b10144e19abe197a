"""Head summaries over many texts: mean, spread, count; the same from parts and a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from capture_support import bert_config, build, t5_config, token_ids
from corpus_support import load
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.utils.data import DataLoader

from attnmap_widget import CaptureError, capture, summarize
from attnmap_widget.heads.moments import Moments
from attnmap_widget.heads.summary import COLUMNS, HeadSummary

WORDS = ["[PAD]", "the", "cat", "sat", "on", "a", "mat", "."]
TEXTS = ["the cat sat on a mat .", "a cat .", "the mat the cat", "on", "a a a a a cat sat ."]


class Tokenizer:
    """The part of a tokenizer that `summarize` needs."""

    def __call__(
        self, texts: list[str], return_tensors: str, padding: bool
    ) -> dict[str, torch.Tensor]:
        assert return_tensors == "pt"
        ids = [[WORDS.index(word) for word in text.split()] for text in texts]
        longest = max(map(len, ids))
        assert padding == (len(texts) > 1)
        padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids])
        return {"input_ids": padded, "attention_mask": (padded != 0).long()}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [WORDS[index] for index in ids]


def bert() -> Any:
    torch.set_num_threads(1)
    return build("BertModel", bert_config())


def one_by_one(model: Any) -> list[HeadSummary]:
    found = []
    for text in TEXTS:
        inputs = Tokenizer()([text], return_tensors="pt", padding=False)
        with torch.no_grad(), capture(model) as cap:
            model(**inputs)
        found.append(cap.summary(text.split()))
    return found


def test_mean_spread_and_count_are_those_of_the_texts() -> None:
    model = bert().train()
    summary = summarize(model, iter(TEXTS), tokenizer=Tokenizer())
    assert model.training
    alone = one_by_one(model.eval())
    assert summary.texts == 5
    assert len(summary) == 6
    for name in COLUMNS:
        numbers = np.stack([text[name] for text in alone])
        there = ~np.isnan(numbers)
        assert_array_equal(summary.count[name], there.sum(0))
        for column in np.flatnonzero(there.any(0)):
            own = numbers[there[:, column], column]
            assert_allclose(summary[name][column], own.mean(), rtol=1e-12)
            if len(own) > 1:
                assert_allclose(summary.std[name][column], own.std(ddof=1), rtol=1e-9, atol=1e-14)
    assert_array_equal(summary.count["delimiters"], 3)
    assert_array_equal(summary.count["previous"], 4)  # "on" is alone
    assert_array_equal(summary.count["duplicate"], 2)
    assert_array_equal(summary.count["padding"], 0)
    assert np.isnan(summary["padding"]).all()


def test_padding_of_a_batch_is_left_out() -> None:
    model = bert()
    alone = summarize(model, TEXTS, tokenizer=Tokenizer())
    batches = [TEXTS[:2], TEXTS[2:]]  # lists of strings
    loader = DataLoader(TEXTS, batch_size=3, collate_fn=_encoded)
    for inputs in (batches, loader):
        together = summarize(model, inputs, tokenizer=Tokenizer())
        assert together.texts == 5
        for name in set(COLUMNS) - {"padding"}:
            assert_array_equal(together.count[name], alone.count[name])
            assert_allclose(together[name], alone[name], atol=1e-6)
            assert_allclose(together.std[name], alone.std[name], atol=1e-5)


def test_padding_of_embeddings_is_left_out_too() -> None:
    model = bert()
    inputs = _encoded(TEXTS[:2])
    embedded = {
        "inputs_embeds": model.embeddings.word_embeddings(inputs["input_ids"]),
        "attention_mask": inputs["attention_mask"],
    }
    by_ids, by_vectors = summarize(model, [inputs]), summarize(model, [embedded])
    assert_array_equal(by_vectors.count["padding"], 1)
    assert_allclose(by_vectors["entropy"], by_ids["entropy"], atol=1e-6)
    assert_array_equal(by_vectors.count["duplicate"], 0)


def _encoded(texts: list[str]) -> dict[str, torch.Tensor]:
    return Tokenizer()(texts, return_tensors="pt", padding=True)


class OneLayer(torch.nn.Module):
    """Attention over what has no ids."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.attention(given, given, given)[0]


def test_ids_are_tokens_enough_for_repeats() -> None:
    ids = token_ids(2, 9)
    ids[:, 6:] = ids[:, :3]
    summary = summarize(bert(), [ids])
    assert summary.texts == 2
    assert_array_equal(summary.count["induction"], 2)
    by_list = summarize(
        bert(), [[ids, torch.ones_like(ids)]]
    )  # as a DataLoader of tensors gives it
    assert_allclose(by_list["entropy"], summary["entropy"], atol=1e-6)
    assert_array_equal(by_list.count["induction"], 2)
    assert_allclose(by_list["induction"], summary["induction"], atol=1e-6)
    floats = summarize(OneLayer(), [torch.randn(2, 9, 12)])
    assert floats.texts == 2
    assert_array_equal(floats.count["previous"], 2)
    assert_array_equal(floats.count["induction"], 0)


class ById(torch.nn.Module):
    """Attention over ids that are called otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 12)
        self.layer = OneLayer()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(words))


def test_ids_by_another_name_are_what_the_model_takes_first() -> None:
    ids = token_ids(2, 9)
    ids[0, 6:] = ids[0, :3]
    ids[1] = torch.arange(9)
    summary = summarize(ById(), [ids])
    assert_array_equal(summary.count["duplicate"], 1)
    assert_array_equal(summary.count["previous"], 2)


@pytest.mark.parametrize("name", ["Llava", "PaliGemma"])
def test_the_text_of_a_model_that_sees_has_ids_and_padding_and_its_pictures_have_none(
    name: str,
) -> None:
    model, inputs = seeing(name)
    for kind, texts, padded in (("language", 2, 1), ("vision", 0, 0)):
        found = summarize(model, [inputs], kind=kind)
        assert_array_equal(found.count["duplicate"], texts)
        assert_array_equal(found.count["padding"], padded)
    found = summarize(model, [inputs], kind="language", tokenizer=Letters(), delimiters=["k"])
    assert_array_equal(found.count["delimiters"], 1)
    with torch.no_grad(), capture(model) as cap:
        model(**inputs)
    own = [
        cap.summary(
            inputs["input_ids"][item].tolist(),
            kind="language",
            batch=item,
            padding=inputs["attention_mask"][item] == 0,
        )
        for item in (0, 1)
    ]
    every = summarize(model, [inputs], kind="language")
    for column in COLUMNS:
        numbers = np.stack([one[column] for one in own])
        there = np.where(np.isnan(numbers), 0, numbers).sum(0) / np.maximum(
            1, (~np.isnan(numbers)).sum(0)
        )
        assert_allclose(np.nan_to_num(every[column]), there, rtol=1e-6, atol=1e-12)


class Letters:
    """Names ids."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(ord("a") + index) for index in ids]


def seeing(name: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """A vision-language model and a batch of two texts; the second has padding, and a "k"."""
    text = {
        "vocab_size": 100, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 3, "intermediate_size": 32, "max_position_embeddings": 64,
    }  # fmt: skip
    sight = {
        "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 8, "patch_size": 4, "projection_dim": 8,
    }  # fmt: skip
    if name == "Llava":
        config = transformers.LlavaConfig(
            vision_config=transformers.CLIPVisionConfig(**sight),
            text_config=transformers.LlamaConfig(**text),
            image_token_id=99,
            image_seq_length=4,
        )
    else:
        config = transformers.PaliGemmaConfig(
            vision_config=transformers.SiglipVisionConfig(**sight).to_dict(),
            text_config=transformers.GemmaConfig(**text, head_dim=8).to_dict(),
            image_token_index=99,
            projection_dim=24,
        )
    ids = torch.tensor([[99] * 4 + [5, 6, 5, 7, 9], [99] * 4 + [5, 8, 10, 5, 0]])
    inputs = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    inputs["pixel_values"] = torch.randn(2, 3, 8, 8)
    if name == "PaliGemma":
        inputs["token_type_ids"] = torch.zeros_like(ids)
    return build(f"{name}ForConditionalGeneration", config), inputs


def test_of_several_kinds_one_is_chosen() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    inputs = {"input_ids": token_ids(2, 6), "decoder_input_ids": token_ids(2, 4, seed=8)}
    inputs["decoder_input_ids"][:, 3] = inputs["decoder_input_ids"][:, 0]
    inputs["attention_mask"] = torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])
    decoder = summarize(model, [inputs], kind="decoder")
    assert_array_equal(decoder.count["duplicate"], 2)
    cross = summarize(model, [inputs], kind="cross")
    assert_array_equal(cross.count["diagonal"], 0)
    assert_array_equal(cross.count["padding"], 1)
    with pytest.raises(ValueError, match="several kinds"):
        summarize(model, [inputs])


def test_padding_of_the_decoder_has_no_rows_of_cross_attention() -> None:
    model = build("T5ForConditionalGeneration", t5_config())
    source, target = token_ids(2, 6), token_ids(2, 4, seed=8)
    inputs = {"input_ids": source, "decoder_input_ids": target}
    inputs["decoder_attention_mask"] = torch.tensor([[1] * 4, [1, 1, 0, 0]])
    alone = [
        {"input_ids": source[:1], "decoder_input_ids": target[:1]},
        {"input_ids": source[1:], "decoder_input_ids": target[1:, :2]},
    ]
    together, apart = (summarize(model, given, kind="cross") for given in ([inputs], alone))
    for name in ("entropy", "largest", "first"):
        assert_allclose(together[name], apart[name], atol=1e-6, err_msg=name)
        assert_allclose(together.std[name], apart.std[name], atol=1e-6, err_msg=name)


def test_what_makes_no_table_is_refused() -> None:
    model = bert()
    with pytest.raises(TypeError, match="one str"):
        summarize(model, "the cat", tokenizer=Tokenizer())
    with pytest.raises(TypeError, match="tokenizer"):
        summarize(model, ["the cat"])
    with pytest.raises(ValueError, match="no texts"):
        summarize(model, [])
    with pytest.raises(ValueError, match="an empty batch"):
        summarize(model, [[]], tokenizer=Tokenizer())
    with pytest.raises(CaptureError, match="no attention"):
        summarize(torch.nn.Linear(3, 3), [torch.randn(2, 3)])
    with pytest.raises(TypeError, match="give a function"):
        summarize(model, ["the cat"], tokenizer=Tokenizer(), client=object())
    moments = Moments()
    moments.add(HeadSummary([0], [0], {"entropy": [1.0]}))
    with pytest.raises(ValueError, match="text 1: the model has other heads"):
        moments.add(HeadSummary([0, 0], [0, 1], {"entropy": [1.0, 2.0]}))


def test_sorted_and_as_a_frame_spread_and_count_go_along() -> None:
    moments = Moments()
    for entropy in ([1.0, 5.0, np.nan], [3.0, 7.0, 1.0]):
        moments.add(HeadSummary([0, 0, 2], [0, 1, 0], {"entropy": entropy}))
    table = moments.summary().sorted("entropy")
    assert_array_equal(table["entropy"], [6, 2, 1])
    assert_allclose(table.std["entropy"], [2**0.5, 2**0.5, np.nan])
    assert_array_equal(table.count["entropy"], [2, 2, 1])
    assert_array_equal(type(table).from_rows(table)["entropy"], [6, 2, 1])
    frame = table.to_pandas()
    assert list(frame.columns) == ["layer", "head", "entropy", "entropy_std", "entropy_count"]
    assert frame["entropy_count"].tolist() == [2, 2, 1]


NUMBERS = st.lists(
    st.lists(st.one_of(st.floats(-50, 50), st.just(np.nan)), min_size=2, max_size=2),
    min_size=1,
    max_size=12,
)


@given(NUMBERS, st.lists(st.integers(0, 12), max_size=3))
def test_parts_merge_as_if_one_had_seen_all(texts: list[list[float]], cuts: list[int]) -> None:
    def taken(part: list[list[float]]) -> Moments:
        found = Moments()
        for numbers in part:
            found.add(HeadSummary([1, 1], [0, 1], {"distance": numbers}))
        return found

    ends = [0, *sorted(cuts), len(texts)]
    merged = Moments()
    for start, end in pairwise(ends):
        merged.merge(taken(texts[start:end]))
    whole, parts = taken(texts).summary(), merged.summary()
    assert parts.texts == len(texts)
    assert_array_equal(parts.count["distance"], whole.count["distance"])
    assert_allclose(parts["distance"], whole["distance"], rtol=1e-12, atol=1e-12)
    assert_allclose(parts.std["distance"], whole.std["distance"], rtol=1e-6, atol=1e-6)
    numbers = np.array(texts)
    there = ~np.isnan(numbers)
    for head in (0, 1):
        own = numbers[there[:, head], head]
        if len(own):
            assert_allclose(whole["distance"][head], own.mean(), atol=1e-12)


@pytest.fixture
def client() -> Iterator[Any]:
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_a_cluster_gives_the_same_table(client: Any) -> None:
    random = torch.Generator().manual_seed(4)
    texts = [torch.randint(9, (1 + i % 2, 2 + i % 6), generator=random) for i in range(37)]
    alone = summarize(load, texts)
    spread = summarize(load, iter(texts), client=client)
    assert spread.texts == alone.texts == 37 + 18
    assert len(spread) == 8
    for name in COLUMNS:
        assert_array_equal(spread.count[name], alone.count[name])
        assert_allclose(spread[name], alone[name], rtol=1e-12, atol=1e-12)
        assert_allclose(spread.std[name], alone.std[name], rtol=1e-9, atol=1e-12)
    with pytest.raises(IndexError, match="index out of range"):
        summarize(load, [*texts, torch.tensor([[1, 70]])], client=client)
