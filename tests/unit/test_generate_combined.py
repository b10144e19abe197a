"""A generation together with what else a map can show: words, norms, all layers, all heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from capture_support import build, token_ids
from generate_support import DECODERS, PROMPT

from attnmap_widget import AttentionExplorer, HeadGrid, ShapeError, State, capture, explore
from attnmap_widget.heads.summary import measure

GREEDY = {"do_sample": False, "max_new_tokens": 4, "min_new_tokens": 4}
RAN = PROMPT + 3


class Pieces:
    """Odd ids go on with a word."""

    all_special_ids: Any = ()

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"##t{one}" if one % 2 else f"w{one}" for one in ids]


def left_padded() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, PROMPT, dtype=torch.long)
    mask[0, :3] = 0
    return {"input_ids": token_ids(2, PROMPT), "attention_mask": mask}


def generated(name: str = "llama", **options: Any) -> tuple[Any, AttentionExplorer]:
    model, inputs = build(*DECODERS[name]), left_padded()
    out = model.generate(**inputs, **GREEDY)
    explorer = explore(
        model, lambda: model.generate(**inputs, **GREEDY), tokenizer=Pieces(), **options
    )
    return out, explorer


def pairs(ids: list[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for at, one in enumerate(ids):
        if one % 2 and at:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


@pytest.mark.parametrize("item", [0, 1])
def test_words_carry_padding_positions_and_the_mark(item: int) -> None:
    out, explorer = generated(batch=item)
    assert explorer.words_switch.layout.display is None
    assert explorer.words_switch.value is False
    pieces = np.array(explorer.map.weights)
    assert explorer.map.generated == (PROMPT, PROMPT)

    explorer.words_switch.value = True
    groups = [[i for i in group if i < RAN] for group in pairs(out[item].tolist())]
    groups = [group for group in groups if group]
    assert len(groups) < RAN
    some = ~np.isnan(pieces).all(axis=1)  # a padded row has no weight at all
    rows = [[i for i in group if some[i]] for group in groups]
    wanted = np.array([[np.nansum(pieces[g][:, h]) / max(1, len(g)) for h in groups] for g in rows])
    weights = np.nan_to_num(explorer.map.weights)
    np.testing.assert_allclose(weights, wanted, atol=1e-6)
    assert explorer.map.positions.tolist() == [group[0] for group in groups]
    first = next(number for number, group in enumerate(groups) if max(group) >= PROMPT)
    assert explorer.map.generated == (first, first)
    padded = [number for number, group in enumerate(groups) if max(group) < 3 and item == 0]
    dimmed = (explorer.map.states == State.PADDING).all(axis=0).nonzero()[0].tolist()
    assert dimmed == padded
    explorer.words_switch.value = False
    np.testing.assert_array_equal(explorer.map.weights, pieces)
    assert explorer.map.generated == (PROMPT, PROMPT)


def test_words_of_a_step_end_with_its_keys_and_start_at_its_row() -> None:
    out, explorer = generated("mistral", words=True, batch=1, layer=1, step=2)
    ids = out[1].tolist()
    row = PROMPT + 1
    seen = explorer._source.read(explorer._choice)
    assert (seen.at.rows, seen.at.keys.stop) == (range(row, row + 1), PROMPT + 2)
    assert seen.at.keys.start > 0
    groups = [[i for i in g if i in seen.at.keys] for g in pairs(ids)]
    groups = [group for group in groups if group]
    positions = explorer.map.positions
    assert [list(side) for side in positions] == [[group[0] for group in groups], [row]]
    explorer.merged = False
    assert explorer.map.queries == Pieces().convert_ids_to_tokens([ids[row]])
    assert explorer.map.tokens == Pieces().convert_ids_to_tokens([ids[i] for i in seen.at.keys])


def test_special_tokens_of_ids_are_left_out_and_the_mark_follows() -> None:
    model, inputs = build(*DECODERS["llama"]), left_padded()
    ids = model.generate(**inputs, **GREEDY)[1, :RAN].tolist()
    tokenizer = Pieces()
    tokenizer.all_special_ids = [ids[1], ids[4]]
    kept = [at for at, one in enumerate(ids) if one not in tokenizer.all_special_ids]
    run = lambda: model.generate(**inputs, **GREEDY)  # noqa: E731
    explorer = explore(model, run, tokenizer=tokenizer, batch=1)
    whole = np.array(explorer.map.weights)
    explorer.special_switch.value = False
    np.testing.assert_array_equal(explorer.map.weights, whole[np.ix_(kept, kept)])
    assert explorer.map.positions.tolist() == kept
    assert kept[-1] >= PROMPT
    first = next(number for number, at in enumerate(kept) if at >= PROMPT)
    assert explorer.map.generated == (first, first)


def test_norms_of_beams_and_steps_are_of_the_beam_that_gave_the_row() -> None:
    model, ids = build(*DECODERS["llama"]), token_ids(1, PROMPT)
    with torch.no_grad(), capture(model) as cap:
        out = model.generate(
            ids, **GREEDY, num_beams=3, num_return_sequences=2, return_dict_in_generate=True,
            output_scores=True,
        )  # fmt: skip
    explorer = AttentionExplorer(cap, generated=out, measure="value norms", head=2, layer=1)
    with torch.no_grad(), capture(model) as whole:
        model(out.sequences[:, :-1])
    for sequence in (0, 1):
        explorer.batch = sequence
        wanted = whole.value_norms(1, 2, sequence).numpy()
        np.testing.assert_allclose(np.nan_to_num(explorer.map.weights), wanted, atol=1e-5)
        assert explorer.map.generated == (PROMPT, PROMPT)
        rolled = cap.rollout(sequence, beam_indices=out.beam_indices)
        np.testing.assert_allclose(rolled, whole.rollout(sequence), atol=1e-5)
        found, single = explorer.summary(), whole.summary(batch=sequence)
        np.testing.assert_allclose(found["entropy"], single["entropy"], atol=1e-4)
    assert not np.allclose(whole.value_norms(1, 2, 0), whole.value_norms(1, 2, 1))


@pytest.mark.parametrize("layer", ["mean", "max", "rollout"])
def test_all_layers_keep_tokens_mark_and_menu(layer: str) -> None:
    out, explorer = generated(layer=layer, batch=1)
    tokens = Pieces().convert_ids_to_tokens(out[1, :RAN].tolist())
    assert explorer.error == ""
    assert explorer.map.tokens == tokens
    assert explorer.map.generated == (PROMPT, PROMPT)
    assert explorer.step_selector.options[2][0] == f"1 · '{tokens[PROMPT]}' at {PROMPT}"


def test_layers_that_stand_elsewhere_make_no_mean() -> None:
    _, explorer = generated("gemma", batch=1)
    explorer.layer = "mean"
    assert explorer.error == ""  # all steps have one place
    explorer.step = 3
    assert "at different positions, as with a sliding window: choose one layer" in explorer.error


def test_the_grid_of_heads_and_the_summary_know_padding_tokens_and_positions() -> None:
    out, explorer = generated(batch=0)
    tokens = Pieces().convert_ids_to_tokens(out[0, :RAN].tolist())
    found = explorer.summary()
    cap = explorer._source.capture
    padding = np.array([True] * 3 + [False] * (RAN - 3))
    for row, (layer, head) in enumerate(zip(found.layers, found.heads, strict=True)):
        wanted = measure(
            cap.weights(layer, head), tokens, padding=padding,
            mask=cap.allowed(layer, head), query_offset=0,
        )  # fmt: skip
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name][row], value, atol=1e-6)
    grid = HeadGrid(explorer)
    for name, values in ((name, found[name]) for name in found.columns):
        np.testing.assert_allclose(grid.summary[name], values, atol=1e-6)
    explorer.merged = True  # the map's own padding is then of words
    again = explorer.summary()
    for name, values in ((name, found[name]) for name in found.columns):
        np.testing.assert_allclose(again[name], values, atol=1e-6)


def test_one_step_of_a_window_is_measured_at_its_positions() -> None:
    _, explorer = generated("mistral", batch=1, step=3)
    seen = explorer._source.read(explorer._choice)
    found = explorer.summary().row(0, 0)
    wanted = measure(
        seen.weights,
        explorer.map.tokens,
        query_offset=seen.at.rows.start,
        key_offset=seen.at.keys.start,
    )
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6)
    grid = HeadGrid(explorer)
    np.testing.assert_allclose(grid.summary["entropy"], explorer.summary()["entropy"])


def test_words_that_end_before_the_map_are_refused() -> None:
    weights = np.full((1, 4, 4), 0.25)
    with pytest.raises(ValueError, match="the groups end at token 2, the map at 3"):
        AttentionExplorer(weights, words=[[0, 1], [2]])
    with pytest.raises(ShapeError, match="but there are 3 tokens"):
        AttentionExplorer(weights, list("abc"))


def test_norms_of_words_are_said_to_be_added() -> None:
    model, ids = build(*DECODERS["llama"]), token_ids(1, 6)
    with torch.no_grad(), capture(model) as cap:
        model(ids)
    groups = [[0, 1], [2], [3, 4, 5]]
    explorer = cap.explore(list("abcdef"), words=groups, layer=1, head=2)
    assert explorer.map.title == "Layer 1 · Head 2 · words"
    explorer.measure = "value norms"
    assert explorer.map.title == "‖αv‖ · Layer 1 · Head 2 · words, norms added"
    norms = cap.value_norms(1, 2).numpy()
    first = norms[:2].mean(axis=0)
    wanted = [first[group].sum() for group in groups]
    np.testing.assert_allclose(explorer.map.weights[0], wanted, rtol=1e-5)
