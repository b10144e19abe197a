"""Beam search: the rows of a returned sequence are those of the beams that gave it, or refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from capture_support import build, largest_difference, t5_config, token_ids
from generate_support import DECODERS, PROMPT, Words, marian_config, one_forward, words

from attnmap_widget import AttentionExplorer, ShapeError, capture

SEARCH = {
    "num_beams": 3, "num_return_sequences": 2, "do_sample": False, "max_new_tokens": 6,
    "return_dict_in_generate": True,
}  # fmt: skip


def search(model: Any, **options: Any) -> tuple[Any, Any, torch.Tensor]:
    """Two prompts, the first of them padded on the left."""
    ids, mask = token_ids(2, PROMPT), torch.ones(2, PROMPT, dtype=torch.long)
    mask[0, :2] = 0
    with capture(model) as cap:
        out = model.generate(ids, attention_mask=mask, **{**SEARCH, **options})
    return cap, out, mask


def reorders(out: Any) -> bool:
    """Whether a returned sequence changes its place in the batch on the way."""
    return any(len(set(chain) - {-1}) > 1 for chain in out.beam_indices.tolist())


@pytest.mark.parametrize(
    ("name", "backend", "options"),
    [
        ("llama", "sdpa", {}),
        ("llama", "eager", {"cache_implementation": "static"}),
        ("mistral", "sdpa", {}),
        ("llama", "sdpa", {"do_sample": True, "num_return_sequences": 3}),
    ],
)
def test_each_returned_sequence_is_one_forward_of_it(
    name: str, backend: str, options: dict[str, Any]
) -> None:
    torch.manual_seed(2)
    cap, out, mask = search(build(*DECODERS[name], backend), **options)
    assert reorders(out)
    count = options.get("num_return_sequences", 2)
    for item, sequence in enumerate(out.sequences):
        given = mask[item // count][None]
        expected = one_forward(*DECODERS[name], sequence[None], given)
        rows = len(sequence) - 1
        looking = torch.cat([given[0].bool(), torch.ones(rows - PROMPT, dtype=torch.bool)])
        for layer in cap.layers:
            got = cap.weights(layer, None, batch=item, beam_indices=out.beam_indices)
            wanted = expected[layer][0, :, :rows, :rows]
            assert got.shape == wanted.shape
            assert largest_difference(got.nan_to_num()[:, looking], wanted[:, looking]) <= 1e-4
        assert cap.ids(0, item, beam_indices=out.beam_indices)[0] == sequence[:-1].tolist()
        row = cap.weights(1, 2, item, step=3, beam_indices=out.beam_indices.tolist())
        assert largest_difference(row, got[2, PROMPT + 2 :][:1, -row.shape[1] - 2 : -2]) <= 1e-6


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("T5ForConditionalGeneration", t5_config()),
        ("MarianMTModel", marian_config()),
    ],
)
def test_encoder_decoder_and_cross_maps_of_each_sequence(name: str, config: Any) -> None:
    cap, out, mask = search(build(name, config), max_new_tokens=7, repetition_penalty=3.0)
    assert reorders(out)
    ids, eager = token_ids(2, PROMPT), build(name, config, "eager")
    for item, sequence in enumerate(out.sequences):
        source = slice(item // 2, item // 2 + 1)
        with torch.no_grad():
            forced = eager(
                input_ids=ids[source], attention_mask=mask[source],
                decoder_input_ids=sequence[None], output_attentions=True,
            )  # fmt: skip
        ran = int((out.beam_indices[item] >= 0).sum())
        shapes = {"encoder": (PROMPT, PROMPT), "decoder": (ran, ran), "cross": (ran, PROMPT)}
        for kind, (rows, keys) in shapes.items():
            looking = mask[source][0].bool() if kind == "encoder" else slice(None)
            for layer, wanted in enumerate(getattr(forced, f"{kind}_attentions")):
                got = cap.weights(layer, None, item, kind, beam_indices=out.beam_indices)
                assert got.shape == (3, rows, keys)
                got, wanted = got.nan_to_num(), wanted[0, :, :rows, :keys]  # noqa: PLW2901
                assert largest_difference(got[:, looking], wanted[:, looking]) <= 1e-4


def test_an_explorer_follows_the_beams_of_what_was_returned() -> None:
    cap, out, _ = search(build(*DECODERS["llama"]))
    explorer = cap.explore(tokenizer=Words(), generated=out, layer=1, head=4, batch=0)
    assert [value for _, value in explorer.batch_selector.options] == [0, 1, 2, 3]
    for item, sequence in enumerate(out.sequences):
        explorer.batch = item
        wanted = cap.weights(1, 4, item, beam_indices=out.beam_indices)
        assert largest_difference(torch.tensor(explorer.map.weights), wanted) == 0
        assert explorer.map.tokens == words(sequence[:-1])
        last = words(sequence[-1:])[0]
        assert explorer.map.status.startswith(f"the last token, {last!r} at {len(sequence) - 1}")
        assert explorer.map.generated == (PROMPT, PROMPT)
    explorer.batch = 0
    assert explorer.map.padding.tolist() == [True] * 2 + [False] * 10


def test_beams_without_indices_are_refused_and_told_how() -> None:
    cap, out, _ = search(build(*DECODERS["llama"]))
    with pytest.raises(ValueError, match=r"beam_indices=out\.beam_indices.*step= from 0, 1"):
        _ = [cap.weights(0, 0, batch=beam) for beam in range(6)]
    with pytest.raises(ValueError, match="beam_indices has 0 to 3"):
        cap.weights(0, 0, batch=4, beam_indices=out.beam_indices)
    with pytest.raises(ValueError, match="names item 9 of 6 items"):
        cap.weights(0, 0, beam_indices=[[0, 9]])
    with pytest.raises(ValueError, match="not one a step"):
        cap.weights(0, 0, beam_indices=[[0] * 7])
    for wrong in ([], [[]], [[0, -1, 2]], [[-1, -1]], [["a"]], 5, [[0.5]]):
        with pytest.raises(ValueError, match="beam_indices: got"):
            cap.weights(0, 0, beam_indices=wrong)
    out.beam_indices = out.beam_indices.flip(0)
    with pytest.raises(ShapeError, match="of another run, or beam_indices"):
        cap.explore(tokenizer=Words(), generated=out)


def test_indices_of_another_run_do_not_fit_the_keys() -> None:
    cap, out, _ = search(build(*DECODERS["llama"]))
    chain = next(chain for chain in out.beam_indices.tolist() if len(set(chain)) > 1)
    moved = next(place for place in range(1, 6) if chain[place] != chain[place - 1])
    wrong = [*chain[:moved], *[chain[moved - 1]] * (6 - moved)]
    with pytest.raises(ValueError, match="do not continue those of step"):
        cap.weights(1, 0, beam_indices=wrong)


def test_a_sequence_that_ended_early_has_rows_up_to_there() -> None:
    model = build(*DECODERS["llama"])
    _, free, _ = search(model)
    eos = int(free.sequences[2, PROMPT + 2])  # what the second prompt goes on with
    cap, out, _ = search(model, eos_token_id=eos, length_penalty=-4.0)
    ends = [sum(item >= 0 for item in chain) for chain in out.beam_indices.tolist()]
    assert len(set(ends)) > 1
    for item, end in enumerate(ends):
        where = {"batch": item, "beam_indices": out.beam_indices}
        assert cap.positions(1, **where)[0] == range(PROMPT + end - 1)
        explorer = cap.explore(tokenizer=Words(), generated=out, batch=item)
        assert explorer.map.tokens == words(out.sequences[item, : PROMPT + end - 1])
        last = words(out.sequences[item, PROMPT + end - 1 :])[0]
        assert explorer.map.status.startswith(f"the last token, {last!r}")
    short = ends.index(min(ends))
    with pytest.raises(ValueError, match=f"step {min(ends)}"):
        cap.weights(0, 0, short, step=min(ends), beam_indices=out.beam_indices)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_the_same_from_what_was_returned_without_a_capture(name: str) -> None:
    model = build(*DECODERS[name], "eager")
    cap, out, _ = search(model, output_attentions=True)
    explorer = AttentionExplorer(out, tokenizer=Words(), layer=1, head=3)
    for item, sequence in enumerate(out.sequences):
        explorer.batch = item
        wanted = cap.weights(1, 3, item, beam_indices=out.beam_indices)
        assert largest_difference(torch.tensor(explorer.map.weights), wanted) <= 1e-6
        assert explorer.map.tokens == words(sequence[:-1])
        assert explorer.map.generated == (PROMPT, PROMPT)
    with pytest.raises(ShapeError, match=r"6 items: beams, or sequences.*whole output"):
        AttentionExplorer(out.attentions)
    where = {"beam_indices": out.beam_indices, "batch": 3}
    by_indices = AttentionExplorer(out.attentions, layer=1, head=3, **where)
    assert by_indices.map.tokens == list(range(12))
    assert largest_difference(torch.tensor(by_indices.map.weights), wanted) <= 1e-6


def test_cross_rows_come_from_the_beam_that_is_named() -> None:
    """Case 98: steps (2, 4, 1, 7) with beam_indices [[0, 1, 0]]."""
    steps = tuple(
        tuple(torch.rand(2, 4, 1, 7, generator=torch.Generator().manual_seed(10 * step + layer))
              for layer in range(2))
        for step in range(3)
    )  # fmt: skip
    with pytest.raises(ShapeError, match="2 items"):
        AttentionExplorer(steps, kind="cross")
    explorer = AttentionExplorer(steps, kind="cross", beam_indices=[[0, 1, 0]], layer=1, head=2)
    wanted = torch.stack([steps[step][1][beam, 2, 0] for step, beam in enumerate((0, 1, 0))])
    assert largest_difference(torch.tensor(explorer.map.weights), wanted) == 0
