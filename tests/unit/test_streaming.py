"""Windows and overviews of long heads equal brute force, and what the model computed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from capture_support import (
    VOCABULARY,
    bert_config,
    build,
    gpt2_config,
    llama_config,
    padded_inputs,
    t5_config,
    token_ids,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnmap_widget import CaptureError, capture
from attnmap_widget.capturing import bands, overview, panels, scoring, streaming, workers
from attnmap_widget.capturing.operations import (
    Add,
    Cast,
    Causal,
    Clamp,
    Divide,
    Fill,
    Lengths,
    Modifiers,
    Multiply,
    Operation,
    Tanh,
    Window,
)
from attnmap_widget.capturing.plain import Plain
from attnmap_widget.capturing.records import Held, Rebuilt, Record
from attnmap_widget.capturing.replayed import Replayed, source_of
from attnmap_widget.capturing.streaming import HeadStream, HeadSurvey
from attnmap_widget.errors import Stopped

INF = float("inf")
MINIMUM = torch.finfo(torch.float32).min
TOLERANCE = 3e-5
"""Scores of ±100 are rounded to 8e-6, and by block shapes differently."""
MODEL_TOLERANCE = 1e-5


# ------------------------------------------------------------------ brute force


def every_row(record: Record, batch: int = 0, head: int = 0) -> Tensor:
    return record.rows(batch, head, slice(0, record.shape[2], 1)).float()


def agrees(record: Record, limit: int, batch: int = 0, head: int = 0) -> HeadSurvey:
    """A survey equals what the whole matrix says; returns it."""
    weights = every_row(record, batch, head).double()
    found = HeadStream(record, batch, head).survey(limit)
    same_pools(found, weights, ulp_of(record))
    void = weights.isnan().all(1)
    assert np.array_equal(found.no_valid_key, void.numpy())
    plain = weights.nan_to_num(0.0)
    loose = 100 * TOLERANCE if getattr(record, "out_dtype", None) in HALVES else TOLERANCE
    assert np.allclose(found.row_sums, plain.sum(1), atol=max(loose, 2e-2 * (loose > TOLERANCE)))
    assert np.allclose(found.column_mass, plain.sum(0), atol=20 * loose * len(plain) ** 0.5)
    entropy = -torch.special.xlogy(plain, plain).sum(1) / np.log(2)
    entropy[void] = np.nan
    assert np.allclose(
        found.row_entropy, entropy, atol=0.1 if loose > TOLERANCE else 2e-4, equal_nan=True
    )
    for row in range(len(weights)):
        if void[row]:
            assert np.isnan(found.row_max[row])
            assert found.row_argmax[row] == -1
        else:
            top = float(weights[row].max())
            close = pytest.approx(top, abs=TOLERANCE, rel=ulp_of(record))
            assert found.row_max[row] == close
            if top > 0:
                assert weights[row, found.row_argmax[row]] == close
    forbidden = ~(allowed_by(record, batch, head))
    for place, cells in bins(found, forbidden):
        assert found.forbidden[place] == bool(cells.all())
    counted = weights.masked_fill(forbidden & (weights == 0), np.nan)
    for place, cells in bins(found, counted):
        valid = cells[~cells.isnan()]
        expected = float(valid.mean()) if len(valid) else np.nan
        assert found.means[place] == pytest.approx(expected, abs=loose, nan_ok=True)
    return found


HALVES = (torch.float16, torch.bfloat16)


def allowed_by(record: Record, batch: int, head: int) -> Tensor:
    queries, keys = record.shape[2:]
    found = record.allowed(batch, head, slice(0, queries, 1), slice(0, keys, 1))
    return torch.ones(queries, keys, dtype=torch.bool) if found is None else found


def bins(found: HeadSurvey, matrix: Tensor) -> Iterator[tuple[tuple[int, int], Tensor]]:
    rows, columns = found.bin
    for r in range(found.values.shape[0]):
        for c in range(found.values.shape[1]):
            yield (r, c), matrix[r * rows : (r + 1) * rows, c * columns : (c + 1) * columns]


def ulp_of(record: Record) -> float:
    """Two formulas that differ by a rounding may round to neighbours in the model's type."""
    out = getattr(record, "out_dtype", None)
    return torch.finfo(out).eps if out in HALVES else 0.0


def same_pools(found: HeadSurvey, weights: Tensor, ulp: float = 0.0) -> None:
    queries, keys = weights.shape
    assert found.shape == (queries, keys)
    rows, columns = found.bin
    assert found.values.shape == (-(-queries // rows), -(-keys // columns))
    for (r, c), cells in bins(found, weights):
        value, at = found.values[r, c], int(found.at[r, c])
        query, key = divmod(at, keys)
        assert r * rows <= query < min(queries, (r + 1) * rows)
        assert c * columns <= key < min(keys, (c + 1) * columns)
        valid = cells[~cells.isnan()]
        if not len(valid):
            assert np.isnan(value)
            continue
        top = float(valid[valid.abs().argmax()])
        assert value == pytest.approx(top, abs=TOLERANCE, rel=ulp)
        # The position holds the largest weight, or one that differs by a rounding.
        assert float(weights[query, key]) == pytest.approx(top, abs=TOLERANCE, rel=ulp)


def windows_agree(record: Record, spot: tuple[int, int, int, int], head: int = 0) -> None:
    batch = record.shape[0] - 1
    weights = every_row(record, batch, head)
    stream = HeadStream(record, batch, head)
    q0, q1, k0, k1 = spot
    expected, ulp = weights[q0:q1, k0:k1], ulp_of(record)
    for _ in range(2):  # with unknown row sums, then with known ones
        found = stream.window(*spot)
        assert found.dtype == torch.float32
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, atol=TOLERANCE, rtol=ulp, equal_nan=True)
    stream.survey(7)
    assert torch.allclose(stream.window(*spot), expected, atol=TOLERANCE, rtol=ulp, equal_nan=True)


# ------------------------------------------------------------------ random records


def tensors(seed: int, *shapes: tuple[int, ...], scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) * scale for shape in shapes]


MASKS = [
    "none", "causal", "offset", "window", "padding", "left padding", "holes", "additive",
    "minimum", "minus ten thousand", "lengths", "nothing left", "one bias", "soft-cap", "clamp",
    "mask_mod", "score_mod", "divided", "negative scale", "prefix", "soft-cap, window",
    "soft-cap, negative", "soft-cap, padding", "soft-cap, bias", "soft-cap twice", "key bias",
    "steep key bias", "distance bias", "query bias", "bias with its mask", "half bias",
    "minus a bias", "two biases", "bias, holes", "bias between", "bias, lengths", "double bias",
    "divided bias",
]  # fmt: skip


def operations(kind: str, queries: int, keys: int, seed: int) -> tuple[Operation, ...]:
    generator = torch.Generator().manual_seed(seed + 1)
    offset = keys - queries
    scale = Multiply(0.37)
    cells = torch.rand(2, 1, queries, keys, generator=generator) < 0.6
    last = torch.arange(keys)[None, None, None] < torch.tensor([keys, max(1, keys // 2)])[
        :, None, None, None
    ]  # fmt: skip
    bias = torch.randn(1, 3, queries, keys, generator=generator)
    cap = (scale, Multiply(1 / 3), Tanh(), Multiply(3.0))
    slopes = torch.tensor([0.5, 0.25, 0.0625])[None, :, None, None]
    position = torch.arange(keys, dtype=torch.float32)[None, None, None]
    distance = position - torch.arange(queries)[None, None, :, None] - offset
    plain: dict[str, tuple[Operation, ...]] = {
        "none": (scale,),
        "causal": (scale, Causal()),
        "offset": (scale, Causal(offset)),
        "window": (scale, Causal(offset), Window(3, offset)),
        "padding": (scale, Fill(last, -INF, keep=True)),
        "left padding": (scale, Fill(last.flip(3), -INF, keep=True), Causal(offset)),
        "holes": (scale, Fill(cells, -INF)),
        "additive": (scale, Add((~last).float() * MINIMUM), Cast(torch.float32)),
        "minimum": (scale, Fill(cells, MINIMUM), Causal(offset)),
        "minus ten thousand": (scale, Add((~last).float() * -1e4)),
        "lengths": (scale, Lengths((queries, max(1, queries // 2)))),
        "nothing left": (scale, Fill(cells.any(3, keepdim=True) & cells[..., :1], -INF)),
        "one bias": (scale, Add(bias), Causal(offset)),
        "soft-cap": (*cap, Causal(offset)),
        "soft-cap, window": (*cap, Causal(offset), Window(3, offset)),
        "soft-cap, negative": (scale, Divide(-0.2), Tanh(), Multiply(-60.0), Divide(0.4)),
        "soft-cap, padding": (*cap, Fill(last.flip(3), -INF, keep=True)),
        "soft-cap, bias": (*cap, Add(bias), Causal(offset)),
        "soft-cap twice": (*cap, Tanh(), Causal(offset)),
        "key bias": (scale, Add(slopes * position), Causal(offset)),
        "steep key bias": (scale, Add(40 * slopes * position), Causal(offset)),
        "distance bias": (scale, Add(slopes * distance), Causal(offset), Window(30, offset)),
        "query bias": (scale, Causal(offset), Add(bias[..., :1])),
        "bias with its mask": (Add((bias + (distance > 0) * MINIMUM).clamp(min=MINIMUM)),),
        "half bias": (scale, Add(bias.to(torch.bfloat16)), Fill(last, -INF, keep=True)),
        "minus a bias": (scale, Add(bias, -0.7), Cast(torch.float32)),
        "two biases": (scale, Add(slopes * position), Add((~last).float() * -1e9), Add(bias)),
        "bias, holes": (scale, Add(bias.masked_fill(cells[:1], -INF))),
        "bias between": (scale, Add(bias.masked_fill(distance > 0, -12_000.0))),
        "bias, lengths": (scale, Add(bias), Lengths((queries, max(1, queries // 2)))),
        "divided bias": (Divide(2.7), Add(bias), Causal(offset)),
        "double bias": (scale, Cast(torch.float64), Add(bias)),
        "clamp": (scale, Clamp(-1.0, 1.0)),
        "mask_mod": (scale, Modifiers(mask_mod=lambda b, h, q, k: (q + k) % 3 != 0)),
        "score_mod": (scale, Modifiers(score_mod=lambda s, b, h, q, k: s + 0.1 * (k - q))),
        "divided": (Divide(torch.tensor(1.7)), Multiply(torch.tensor(-0.9)), Causal(offset)),
        "negative scale": (Multiply(-0.4), Causal(offset)),
        "prefix": (
            scale,
            Fill(torch.arange(keys)[None] > torch.arange(queries)[:, None] + 4, -INF),
        ),
    }
    chosen = plain[kind]
    if kind == "prefix":
        chosen = (scale, Fill(chosen[1].where[None, None], -INF))  # type: ignore[attr-defined]
    return chosen


@st.composite
def records(draw: st.DrawFn) -> Rebuilt:
    queries, keys = draw(st.integers(1, 70)), draw(st.integers(1, 90))
    seed = draw(st.integers(0, 999))
    group = draw(st.sampled_from([1, 3]))
    scale = draw(st.sampled_from([0.5, 2.0, 4.0]))
    q, k = tensors(seed, (2, 3, queries, 8), (2, 3 // group, keys, 8), scale=scale)
    dtype = draw(st.sampled_from([None, None, torch.float64, torch.bfloat16, torch.float16]))
    sinks = tensors(seed, (3,))[0] * 2 if draw(st.booleans()) else None
    steps = operations(draw(st.sampled_from(MASKS)), queries, keys, seed)
    options: dict[str, Any] = {}
    if dtype in HALVES:
        q, k = q.to(dtype), k.to(dtype)
        options = {"matmul_dtype": torch.float32}  # as fused kernels do
        if draw(st.booleans()):
            options["out_dtype"] = dtype
    elif dtype is not None:
        q, k = q.to(dtype), k.to(dtype)
    return Rebuilt(q, k, steps, (2, 3, queries, keys), sinks=sinks, **options)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that little heads take many blocks, panels and threads too."""
    monkeypatch.setattr(overview, "_BLOCK_KEYS", 1)
    monkeypatch.setattr(panels, "POOLED", 2)
    monkeypatch.setattr(overview, "POOLED", 2)
    monkeypatch.setattr(overview, "_MOST_ROWS", 5)
    monkeypatch.setattr(overview, "_FEWEST_ROWS", 5)
    monkeypatch.setattr(overview, "_THREAD_CELLS", 400)
    monkeypatch.setattr(overview, "_SEARCH_NUMBERS", 200)
    monkeypatch.setattr(workers, "TICK", 0.001)
    monkeypatch.setattr(streaming, "_SAMPLED", 16)
    monkeypatch.setattr(scoring, "_ROW_KEYS", 7)
    monkeypatch.setattr(bands, "_MASK_CELLS", 300)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


SEARCH = settings(max_examples=60)


@SEARCH
@given(records(), st.integers(0, 2), st.sampled_from([4, 9, 512]))
def test_surveys_equal_brute_force(record: Rebuilt, head: int, limit: int) -> None:
    agrees(record, limit, batch=1, head=head)


@SEARCH
@given(records(), st.integers(0, 2), st.data())
def test_windows_equal_brute_force(record: Rebuilt, head: int, data: st.DataObject) -> None:
    queries, keys = record.shape[2:]
    q0, k0 = data.draw(st.integers(0, queries - 1)), data.draw(st.integers(0, keys - 1))
    q1, k1 = data.draw(st.integers(q0, queries)), data.draw(st.integers(k0, keys))
    windows_agree(record, (q0, q1, k0, k1), head)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("shape", [(61, 61), (37, 83)])
def test_every_kind_of_mask(kind: str, shape: tuple[int, int]) -> None:
    queries, keys = shape
    q, k = tensors(5, (2, 3, queries, 8), (2, 1, keys, 8))
    record = Rebuilt(q, k, operations(kind, queries, keys, 5), (2, 3, queries, keys))
    agrees(record, 9, batch=1, head=2)
    windows_agree(record, (3, 30, 5, 29), 2)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", Plain), ("causal", Plain), ("offset", Plain), ("window", Plain),
        ("padding", Plain), ("left padding", Replayed), ("additive", Plain), ("lengths", Plain),
        ("divided", Plain), ("prefix", Plain), ("holes", Replayed), ("minimum", Replayed),
        ("one bias", Plain), ("soft-cap", Plain), ("minus ten thousand", Replayed),
        ("soft-cap, window", Plain), ("soft-cap, negative", Plain), ("soft-cap, padding", Plain),
        ("soft-cap, bias", Replayed), ("soft-cap twice", Replayed), ("key bias", Plain),
        ("steep key bias", Plain), ("distance bias", Plain), ("query bias", Plain),
        ("bias with its mask", Plain), ("half bias", Plain), ("minus a bias", Plain),
        ("two biases", Plain), ("bias, holes", Replayed), ("bias between", Replayed),
        ("bias, lengths", Plain), ("double bias", Replayed), ("divided bias", Replayed),
    ],
)  # fmt: skip
def test_what_takes_the_fast_way(kind: str, expected: type) -> None:
    q, k = tensors(5, (2, 3, 40, 8), (2, 3, 40, 8))
    record = Rebuilt(q, k, operations(kind, 40, 40, 5), (2, 3, 40, 40))
    if kind == "left padding":
        expected = Plain
    assert type(source_of(record, 1, 0)) is expected


def test_large_scores_need_a_reference() -> None:
    q, k = tensors(2, (1, 1, 50, 8), (1, 1, 50, 8), scale=30.0)
    agrees(Rebuilt(q, k, (Multiply(1.0), Causal()), (1, 1, 50, 50)), 10)


def test_a_bias_that_hides_all_of_a_query_by_a_number_is_replayed() -> None:
    q, k = tensors(2, (1, 1, 30, 8), (1, 1, 37, 8))
    bias = tensors(3, (1, 1, 30, 37))[0]
    bias[0, 0, [3, 17]] = MINIMUM
    record = Rebuilt(q, k, (Add(bias),), (1, 1, 30, 37))
    assert isinstance(source_of(record, 0, 0), Replayed)
    assert not agrees(record, 15).no_valid_key.any()


@pytest.mark.parametrize("kind", ["holes", "causal", "one bias", "clamp"])
def test_weights_too_small_for_a_number_count_in_the_mean(kind: str) -> None:
    q, k = tensors(2, (2, 3, 30, 8), (2, 1, 61, 8), scale=12.0)
    steps = operations(kind, 30, 61, 4)
    if kind == "clamp":
        steps = (Multiply(0.37), Clamp(-500.0, 500.0))
    agrees(Rebuilt(q, k, steps, (2, 3, 30, 61)), 512, batch=1, head=2)


def test_capped_scores_need_no_reference_however_large() -> None:
    q, k = tensors(2, (1, 1, 50, 8), (1, 1, 61, 8), scale=30.0)
    steps = (Divide(50.0), Tanh(), Multiply(50.0), Causal(11))
    record = Rebuilt(q, k, steps, (1, 1, 50, 61), sinks=torch.tensor([40.0]))
    agrees(record, 10)
    source = source_of(record, 0, 0)
    assert source.blocks(4, 8).panel(slice(0, 50, 1)).safe


@pytest.mark.parametrize("slope", [0.5, -0.5])
def test_a_steep_bias_is_rounded_as_the_model_rounds_it(slope: float) -> None:
    """ALiBi over thousands of keys: a score of 4000 has steps of 0.0002."""
    q, k = tensors(2, (1, 1, 40, 80), (1, 1, 9000, 80))
    bias = torch.arange(9000.0)[None, None, None] * slope
    steps = (Multiply(80**-0.5), Add(bias), Causal(8960))
    record = Rebuilt(q, k, steps, (1, 1, 40, 9000))
    assert isinstance(source_of(record, 0, 0), Plain)
    same_pools(HeadStream(record, 0, 0).survey(9), every_row(record).double())
    windows_agree(record, (3, 40, 8900, 9000))
    windows_agree(record, (3, 40, 0, 70))


def test_rows_without_a_valid_key() -> None:
    q, k = tensors(2, (1, 1, 30, 8), (1, 1, 30, 8))
    hidden = torch.zeros(1, 1, 30, 1, dtype=torch.bool)
    hidden[0, 0, [0, 1, 2, 3, 17]] = True
    record = Rebuilt(q, k, (Fill(hidden, -INF),), (1, 1, 30, 30))
    found = agrees(record, 15)
    assert found.no_valid_key.sum() == 5
    assert np.isnan(found.values[:2]).all()
    assert not np.isnan(found.values[2:]).any()
    assert torch.isnan(HeadStream(record, 0, 0).window(0, 4, 0, 30)).all()
    with_sink = Rebuilt(q, k, (Fill(hidden, -INF),), (1, 1, 30, 30), sinks=torch.tensor([0.5]))
    assert not agrees(with_sink, 15).no_valid_key.any()


def test_scores_that_are_no_numbers() -> None:
    q, k = tensors(2, (1, 1, 30, 8), (1, 1, 30, 8))
    q[0, 0, 4] = float("nan")
    for steps in ((), (Tanh(), Multiply(2.0)), (Add(torch.ones(1, 1, 1, 30)),)):
        agrees(Rebuilt(q, k, (*steps, Causal()), (1, 1, 30, 30)), 10)


def test_weights_that_the_model_formed() -> None:
    weights = torch.softmax(tensors(3, (2, 2, 43, 29))[0], -1)
    weights[1, 1, 7] = float("nan")
    weights[1, 1, 12] *= -1
    record = Held.copy(weights)
    found = HeadStream(record, 1, 1).survey(8)
    same_pools(found, weights[1, 1].double())
    assert found.no_valid_key.nonzero()[0].tolist() == [7]
    stream = HeadStream(record, 1, 1)
    assert torch.equal(
        stream.window(1, 20, 3, 9).nan_to_num(5), weights[1, 1, 1:20, 3:9].nan_to_num(5)
    )
    assert stream.allowed(0, 43, 0, 29) is None
    positive = HeadStream(record, 0, 0).survey(8)
    own = weights[0, 0].double()
    assert np.allclose(positive.row_entropy, -(own * own.log2()).sum(1), atol=1e-4)
    assert np.allclose(positive.column_mass, own.sum(0))


# ------------------------------------------------------------------ coarse, progress, cancel


@pytest.mark.parametrize("kind", ["offset", "one bias", "soft-cap", "holes"])
def test_a_first_picture_is_exact_for_the_queries_it_read(kind: str) -> None:
    q, k = tensors(5, (2, 3, 97, 8), (2, 3, 101, 8))
    record = Rebuilt(q, k, operations(kind, 97, 101, 5), (2, 3, 97, 101))
    weights = every_row(record, 1, 1)
    found = HeadStream(record, 1, 1).coarse(20)
    assert found.bin == (5, 6)
    assert found.sampled == 15
    read = ~np.isnan(found.row_sums)
    assert read.nonzero()[0].tolist() == list(range(6, 97, 15))
    whole = HeadStream(record, 1, 1).survey(20)
    assert found.values.shape == whole.values.shape
    assert found.bin == whole.bin
    assert np.allclose(found.row_max[read], whole.row_max[read], atol=TOLERANCE)
    assert np.array_equal(found.row_argmax[read], whole.row_argmax[read])
    query, key = np.divmod(found.at, 101)
    # Bin 1 holds query 6, bin 4 query 21, …; the others show the next one read.
    assert query[:, 0].tolist() == [6, 6, *np.repeat(range(21, 97, 15), 3)]
    assert (query == query[:, :1]).all()
    assert np.allclose(found.values, weights.numpy()[query, key], atol=TOLERANCE)
    assert np.array_equal(key // found.bin[1], np.arange(found.at.shape[1]) + 0 * key)


@SEARCH
@given(st.integers(1, 150), st.integers(1, 90), st.integers(1, 160))
def test_a_bin_of_a_first_picture_shows_its_own_query_where_one_was_read(
    queries: int, keys: int, limit: int
) -> None:
    q, k = tensors(5, (1, 1, queries, 8), (1, 1, keys, 8))
    found = HeadStream(Rebuilt(q, k, (Multiply(0.3),), (1, 1, queries, keys)), 0, 0).coarse(limit)
    height = found.bin[0]
    assert found.sampled % height == 0
    read = (~np.isnan(found.row_sums)).nonzero()[0]
    assert read[-1] == queries - 1
    for place, shown in enumerate((found.at // keys).tolist()):
        own = [row for row in read if row // height == place]
        assert len(own) <= 1
        following = min(row for row in read if row // height >= place)
        assert set(shown) == {own[0] if own else following}


def test_progress_rises_to_one() -> None:
    q, k = tensors(5, (1, 1, 200, 8), (1, 1, 200, 8))
    for steps in ((Multiply(0.3), Causal()), (Clamp(-1.0),)):
        seen: list[float] = []
        thread: set[int] = set()

        def note(fraction: float, seen: list[float] = seen, thread: set[int] = thread) -> None:
            seen.append(fraction)
            thread.add(threading.get_ident())

        HeadStream(Rebuilt(q, k, steps, (1, 1, 200, 200)), 0, 0).survey(50, progress=note)
        assert seen == sorted(seen)
        assert seen[-1] == 1.0
        assert all(0 <= fraction <= 1 for fraction in seen)
        assert thread == {threading.get_ident()}


@pytest.mark.parametrize("kind", ["rebuilt", "replayed", "held"])
def test_a_cancelled_pass_stops(kind: str) -> None:
    q, k = tensors(5, (1, 1, 200, 8), (1, 1, 200, 8))
    steps: tuple[Operation, ...] = (Causal(),) if kind == "rebuilt" else (Clamp(-1.0),)
    record: Record = Rebuilt(q, k, steps, (1, 1, 200, 200))
    if kind == "held":
        record = Held.copy(torch.rand(1, 1, 200, 200))
    stream = HeadStream(record, 0, 0)
    before = threading.active_count()
    with pytest.raises(Stopped):
        stream.survey(50, cancelled=lambda: True)
    assert threading.active_count() == before
    # Nothing half-finished is left behind.
    expected = every_row(record)[3:9]
    assert torch.allclose(stream.window(3, 9, 0, 200), expected, atol=TOLERANCE)


def test_threads_are_left_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(overview, "_THREAD_CELLS", 1)
    q, k = tensors(5, (1, 1, 100, 8), (1, 1, 100, 8))

    def of_new_thread() -> int:
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return seen[0]

    before = torch.get_num_threads(), of_new_thread()
    HeadStream(Rebuilt(q, k, (Causal(),), (1, 1, 100, 100)), 0, 0).survey(30)
    assert (torch.get_num_threads(), of_new_thread()) == before


def test_refuses_what_is_not_there() -> None:
    q, k = tensors(5, (1, 2, 10, 8), (1, 2, 12, 8))
    record = Rebuilt(q, k, (Causal(),), (1, 2, 10, 12))
    with pytest.raises(ValueError, match="head 2"):
        HeadStream(record, 0, 2)
    stream = HeadStream(record, 0, 1)
    with pytest.raises(ValueError, match="keys 3 to 13: the head has 0 to 12"):
        stream.window(0, 10, 3, 13)
    with pytest.raises(ValueError, match="limit"):
        stream.survey(0)
    assert stream.window(2, 2, 0, 12).shape == (0, 12)
    record.queries.add_(1)
    with pytest.raises(CaptureError, match="overwritten"):
        stream.window(0, 1, 0, 1)


# ------------------------------------------------------------------ real models


def mistral_config() -> Any:
    return transformers.MistralConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, intermediate_size=40, sliding_window=5, max_position_embeddings=64,
    )  # fmt: skip


def gemma2_config() -> Any:
    return transformers.Gemma2Config(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=40, head_dim=12, sliding_window=4,
        attn_logit_softcapping=2.0,
    )  # fmt: skip


def gpt_oss_config() -> Any:
    return transformers.GptOssConfig(
        vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=40, head_dim=12, sliding_window=4,
        num_local_experts=2, num_experts_per_tok=1,
    )  # fmt: skip


def bloom_config() -> Any:
    return transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=48, n_layer=2, n_head=4)


def mpt_config() -> Any:
    return transformers.MptConfig(
        vocab_size=VOCABULARY, d_model=48, n_layers=2, n_heads=4, max_seq_len=64
    )


MODELS = {
    "Llama, grouped keys": ("LlamaForCausalLM", llama_config, False),
    "Llama, padded": ("LlamaForCausalLM", llama_config, True),
    "Mistral, sliding": ("MistralForCausalLM", mistral_config, False),
    "BERT, padded": ("BertModel", bert_config, True),
    "GPT-2": ("GPT2LMHeadModel", gpt2_config, True),
    "Gemma 2, soft-cap": ("Gemma2ForCausalLM", gemma2_config, False),
    "gpt-oss, sinks": ("GptOssForCausalLM", gpt_oss_config, False),
    "T5, bias": ("T5ForConditionalGeneration", t5_config, True),
    "BLOOM, ALiBi": ("BloomForCausalLM", bloom_config, True),
    "MPT, ALiBi": ("MptForCausalLM", mpt_config, True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_windows_and_surveys_of_real_calls(name: str, dtype: torch.dtype) -> None:
    kind, config, padded = MODELS[name]
    model = build(kind, config()).to(dtype)
    inputs = padded_inputs(length=29, real=20)
    if not padded:
        del inputs["attention_mask"]
    if kind.startswith("T5"):
        inputs["decoder_input_ids"] = token_ids(2, 17, seed=8)
    with torch.no_grad(), capture(model) as cap:
        model(**inputs)
    assert len(cap.calls) >= 2
    for call in cap.calls:
        _, heads, queries, keys = call.shape
        for batch, head in ((0, 0), (1, heads - 1)):
            stream = HeadStream(call.record, batch, head)
            if dtype == torch.float32:
                assert isinstance(call.record, Rebuilt)
                assert isinstance(source_of(call.record, batch, head), Plain)
            expected = cap.weights(call.layer, head, batch, kind=call.kind)
            spot = (2, queries, 1, keys - 1)
            part = expected[2:queries, 1 : keys - 1]
            # Half types: the same sum may round up or down.
            room = MODEL_TOLERANCE if dtype == torch.float32 else 4e-3
            assert torch.allclose(stream.window(*spot), part, atol=room, rtol=0, equal_nan=True)
            found = stream.survey(10)
            pooled = found.values.copy()
            query, key = np.divmod(found.at, keys)
            assert np.allclose(pooled, expected.numpy()[query, key], atol=room, equal_nan=True)
            for place, cells in bins(found, expected):
                if not cells.isnan().all():
                    assert pooled[place] == pytest.approx(
                        float(cells.nan_to_num(0).max()), abs=room
                    )
            allowed = call.allowed(head, batch)
            window = stream.allowed(2, queries, 0, keys)
            if allowed is not None and window is not None:
                assert torch.equal(window, allowed[2:])
