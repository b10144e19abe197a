"""Arrays in files, read in windows: as if they had been read whole."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from wire_support import places_of, states_of, values_of

from attnmap_widget import AttentionExplorer, AttentionMap, ShapeError, State
from attnmap_widget.exploring import reading_on
from attnmap_widget.grid import arrays
from attnmap_widget.grid.grids import ArrayGrid, LongGrid
from attnmap_widget.grid.states import cell_states

QUERIES, KEYS = 700, 1100


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "LARGE", 1000)


def softmax(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=shape) * 3
    powers = np.exp(scores)
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


def in_file(path: Path, array: np.ndarray, mode: str = "r") -> np.ndarray:
    np.save(path / "weights.npy", array)
    return np.load(path / "weights.npy", mmap_mode=mode)


def test_a_map_of_a_file_reads_as_the_array_does(tmp_path: Path) -> None:
    whole = softmax((QUERIES, KEYS))
    held = AttentionMap(range(KEYS), whole, range(QUERIES))
    long = AttentionMap(range(KEYS), in_file(tmp_path, whole), range(QUERIES))
    assert isinstance(held._checked.grid, ArrayGrid)
    assert isinstance(long._checked.grid, LongGrid)
    np.testing.assert_array_equal(long.weights[5:9, 100:130], whole[5:9, 100:130])
    np.testing.assert_array_equal(np.asarray(long.weights), whole)
    np.testing.assert_allclose(long.row_sums, held.row_sums)
    assert long.leans() == held.leans()
    assert long.checks == held.checks == []
    assert long.find(3) == held.find(3)
    assert long.shown_range == pytest.approx(held.shown_range)
    # Up to a million cells the held one travels whole; a source shows its overview first.
    wire = long.get_state("weights")["weights"]
    assert wire["bin"] == [2, 3]
    np.testing.assert_array_equal(values_of(wire), whole[places_of(wire)])
    long.viewport = (50, 90, 1000, 1100)
    detail = long.get_state("_detail")["_detail"]
    np.testing.assert_array_equal(values_of(detail), whole[50:90, 1000:])


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int8, bool, ">f4"])
def test_numbers_of_any_type(tmp_path: Path, kind: object) -> None:
    whole = (np.random.default_rng(1).random((60, 90)) * 3).astype(kind)
    long = AttentionMap(range(90), in_file(tmp_path, whole), range(60))
    assert isinstance(long._checked.grid, LongGrid)
    np.testing.assert_array_equal(long.weights[7:9, 3:80], whole[7:9, 3:80].astype(np.float32))


def test_masks_and_padding_hold_in_every_window(tmp_path: Path) -> None:
    """Two rows have no valid key, one lacks some weights, some weight leaks."""
    rng = np.random.default_rng(2)
    whole = np.tril(softmax((60, 90)), 25)
    whole[[7, 40]] = np.nan
    whole[20, 3:8] = np.nan
    whole[50, 88] = 0.25
    mask = rng.random((60, 90)) < 0.9
    mask[40] = False
    padding = np.arange(90) >= 85
    options = {"mask": mask, "causal": True, "query_offset": 25, "padding": (padding, None)}
    nothing = np.zeros(whole.shape, dtype=bool)
    rows = np.arange(60) + 25
    expected = cell_states(
        whole, nothing, mask=mask, causal=True, query_positions=rows, padding=(padding, None)
    )
    options["padding"] = (padding, np.zeros(60, dtype=bool))
    held = AttentionMap(range(90), whole, range(60), **options)
    np.testing.assert_array_equal(held.states, expected)
    long = AttentionMap(range(90), in_file(tmp_path, whole), range(60), **options)
    assert isinstance(long._checked.grid, LongGrid)
    source = long._checked.grid.source
    for window in ((0, 60, 0, 90), (3, 45, 60, 90), (38, 52, 0, 9), (20, 21, 4, 6), (7, 8, 89, 90)):
        q0, q1, k0, k1 = window
        values, states = source.window(window)
        np.testing.assert_array_equal(values, whole[q0:q1, k0:k1])
        np.testing.assert_array_equal(states, expected[q0:q1, k0:k1])
    np.testing.assert_array_equal(states_of(long.get_state("weights")["weights"]), expected)
    assert long.checks == held.checks
    assert any("no valid key" in line for line in long.checks)
    assert any("mass" in line for line in long.checks)
    assert long.leans() == held.leans()
    long.causal = False
    long.mask = None
    again = cell_states(whole, nothing, padding=(padding, None))
    np.testing.assert_array_equal(source.window((0, 60, 0, 90))[1], expected)
    np.testing.assert_array_equal(states_of(long.get_state("weights")["weights"]), again)


def test_causal_goes_by_the_positions_of_a_file_too(tmp_path: Path) -> None:
    whole = softmax((60, 90))
    keys = np.random.default_rng(6).permutation(900)[:90]
    options = {"positions": (keys, np.arange(60) * 15), "causal": True}
    held = AttentionMap(range(90), whole, range(60), **options)
    long = AttentionMap(range(90), in_file(tmp_path, whole), range(60), **options)
    assert isinstance(long._checked.grid, LongGrid)
    states = long._checked.grid.source.window((5, 41, 30, 77))[1]
    np.testing.assert_array_equal(states, held.states[5:41, 30:77])
    assert long.checks == held.checks
    long.positions = None
    held.positions = None
    states = long._checked.grid.source.window((0, 60, 0, 90))[1]
    np.testing.assert_array_equal(states, held.states)


def test_what_looks_wrong_is_said_of_a_file_too(tmp_path: Path) -> None:
    for whole in (
        np.random.default_rng(0).normal(size=(60, 90)),
        softmax((90, 60)).T,
        softmax((60, 90)) * 1.2,
        softmax((60, 90)) * 0.5,
    ):
        held = AttentionMap(range(90), whole, range(60))
        long = AttentionMap(range(90), in_file(tmp_path, whole), range(60))
        assert long.checks == held.checks != []


def test_a_file_that_may_be_written_to_is_copied(tmp_path: Path) -> None:
    whole = softmax((60, 90))
    for mode in ("r+", "c"):
        mapped = in_file(tmp_path, whole, mode)
        attention = AttentionMap(range(90), mapped, range(60))
        mapped[3, 4] = 7
        assert attention.weights[3, 4] == whole[3, 4]
        assert isinstance(attention._checked.grid, ArrayGrid)
    read_only = whole.copy()
    read_only.flags.writeable = False  # others may still have it writeable
    attention = AttentionMap(range(90), read_only, range(60))
    assert isinstance(attention._checked.grid, ArrayGrid)


def test_infinite_weights_and_wrong_shapes_are_refused_as_ever(tmp_path: Path) -> None:
    whole = softmax((60, 90))
    whole[33, 44] = np.inf
    with pytest.raises(ValueError, match="infinite at query 33, key 44"):
        AttentionMap(range(90), in_file(tmp_path, whole), range(60))
    huge = np.zeros((60, 90))
    huge[1, 2] = 1e300  # no float32 holds it
    with pytest.raises(ValueError, match="infinite at query 1, key 2"):
        AttentionMap(range(90), in_file(tmp_path, huge), range(60))
    good = AttentionMap(range(90), in_file(tmp_path, softmax((60, 90))), range(60))
    before = good.weights
    with pytest.raises(ShapeError, match="looks transposed: got 90×60, expected 60×90"):
        good.weights = in_file(tmp_path, softmax((90, 60)))
    assert good.weights is before
    with pytest.raises(TypeError, match="complex"):
        AttentionMap(range(90), in_file(tmp_path, softmax((60, 90)) * 1j), range(60))


def test_a_bare_file_of_numbers_is_read_row_by_row(tmp_path: Path) -> None:
    whole = softmax((60, 90))
    whole.tofile(tmp_path / "weights.bin")
    flat = np.memmap(tmp_path / "weights.bin", dtype=np.float32, mode="r")
    attention = AttentionMap(range(90), flat, range(60))
    assert isinstance(attention._checked.grid, LongGrid)
    np.testing.assert_array_equal(attention.weights[10:12, 3:9], whole[10:12, 3:9])


# ------------------------------------------------------------------ explorers


@pytest.fixture
def stack(tmp_path: Path) -> np.ndarray:
    return in_file(tmp_path, softmax((2, 3, QUERIES, KEYS)))


def test_an_explorer_reads_the_chosen_head_only(stack: np.ndarray) -> None:
    ex = AttentionExplorer(stack, range(KEYS), range(QUERIES), axes="layer head query key")
    ex.layer, ex.head = 1, 2
    grid = ex.map._checked.grid
    assert isinstance(grid, LongGrid)
    assert isinstance(grid.source, arrays.ArraySource)
    assert np.shares_memory(grid.source.array, stack[1, 2])
    assert not np.shares_memory(grid.source.array, stack[1, 1])
    np.testing.assert_array_equal(ex.map.weights[3:5, 9:12], stack[1, 2, 3:5, 9:12])
    assert ex.map.title == "Layer 1 · Head 2"


@pytest.mark.parametrize("how", ["mean", "max"])
def test_mean_and_max_over_heads_in_a_file(
    stack: np.ndarray, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnmap_widget.exploring.sources._HELD_LIMIT", 1000)
    ex = AttentionExplorer(
        stack, range(KEYS), range(QUERIES), axes="layer head query key", head=how, causal=True
    )
    whole = getattr(np.asarray(stack[0], dtype=np.float64), how)(axis=0)
    np.testing.assert_allclose(np.asarray(ex.map.weights), whole, rtol=1e-6)
    np.testing.assert_allclose(ex.map.row_sums, whole.sum(axis=1), rtol=1e-5)
    assert ex.map.title == f"Layer 0 · {how} of 3 heads"
    _, states = ex.map._checked.grid.source.window((0, 9, 0, 12))
    above = np.arange(12)[None] > np.arange(9)[:, None]
    np.testing.assert_array_equal(states == State.CANNOT_LOOK, above)
    assert any("above the diagonal" in line for line in ex.map.checks)


def test_beside_a_notebook_a_file_gets_a_first_look_too(
    stack: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_on, "_AT_ONCE", 0)
    whole = np.asarray(stack[0, 1])

    async def notebook() -> None:
        ex = AttentionExplorer(
            stack, range(KEYS), range(QUERIES), axes="layer head query key", head=1, causal=True
        )
        assert f"reading {QUERIES} × {KEYS} weights" in ex.map.status
        known = np.flatnonzero(~np.isnan(ex.map.row_sums))
        assert known.tolist() == list(range((QUERIES - 1) % 128, QUERIES, 128))
        np.testing.assert_allclose(ex.map.row_sums[known], whole[known].sum(axis=1), rtol=1e-5)
        wire = ex.map.get_state("weights")["weights"]
        np.testing.assert_array_equal(values_of(wire), whole[places_of(wire)])
        assert set(np.unique(places_of(wire)[0])) == set(known)
        _, states = ex.map._checked.grid.source.window((3, 9, 0, 12))
        above = np.arange(12)[None] > np.arange(3, 9)[:, None]
        np.testing.assert_array_equal(states == State.CANNOT_LOOK, above)
        while "reading" in ex.map.status:
            await asyncio.sleep(0.01)
        np.testing.assert_allclose(ex.map.row_sums, whole.sum(axis=1), rtol=1e-5)
        ex.close()

    asyncio.run(notebook())


def test_an_infinite_weight_found_late_is_said_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_on, "_AT_ONCE", 0)
    whole = softmax((3, 300, 400))
    whole[1, 200, 5] = np.inf  # not among the rows of a first look

    async def notebook() -> None:
        ex = AttentionExplorer(in_file(tmp_path, whole), range(400), range(300), head=1)
        while not ex.error:
            await asyncio.sleep(0.01)
        assert (
            ex.error == "Head 1: weights: infinite at query 200, key 5; " + ex.error.split("; ")[1]
        )
        ex.head = 2
        assert ex.error == ""
        ex.close()

    asyncio.run(notebook())


# ------------------------------------------------------------------ memory


def test_a_large_file_is_never_held(tmp_path: Path) -> None:
    """20 000 × 9 000 half-precision numbers: 360 MB on disk, 720 MB as float32."""
    shape = (20_000, 9_000)
    path = tmp_path / "weights.bin"
    written = np.memmap(path, dtype=np.float16, mode="w+", shape=shape)  # zeros take no disk
    written[12_345, 6_789] = 0.75
    written[:, 0] = 0.25
    written.flush()
    del written
    mapped = np.memmap(path, dtype=np.float16, mode="r", shape=shape)
    tracemalloc.start()
    try:
        attention = AttentionMap(range(shape[1]), mapped, range(shape[0]))
        grown = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert grown < 120e6
    assert attention.leans()[12_345][1:] == (6_789, 0.75)
    assert attention.leans()[12_344][1:] == (0, 0.25)
    assert attention.row_sums[12_345] == 1
    wire = attention.get_state("weights")["weights"]
    assert wire["bin"] == [40, 18]
    at = np.argwhere(values_of(wire) == 0.75)
    assert at.tolist() == [[12_345 // 40, 6_789 // 18]]
    attention.pool = "mean"
    means = values_of(attention.get_state("weights")["weights"])
    assert means[0, 0] == pytest.approx(0.25 / 18)
