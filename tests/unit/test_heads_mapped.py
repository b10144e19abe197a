"""Heads in a file that is larger than memory need be: one head at a time, a part of a long one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from heads_support import levels, softmax_like

from attnmap_widget import AttentionExplorer, HeadGrid
from attnmap_widget.grid import arrays
from attnmap_widget.heads import filling, measuring
from attnmap_widget.heads.summary import HeadSummary
from attnmap_widget.heads.thumbnails import FIRST, STEPS

AXES = "layer head query key"


@contextmanager
def held_at_most(limit: float) -> Iterator[None]:
    """Of what numpy takes while this runs, bytes in the file not counted."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


def sparse(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """A .npy file of zeros, which take no disk, but for a few columns and a spike in each head."""
    written = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for layer in range(shape[0]):
        for head in range(shape[1]):
            written[layer, head, :, 0] = 0.25
            written[layer, head, -1, 7 + layer + 2 * head] = 0.75
    written.flush()
    return np.load(path, mmap_mode="r")


def in_file(path: Path, array: np.ndarray) -> np.ndarray:
    np.save(path, array)
    return np.load(path, mmap_mode="r")


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Small arrays are read as large ones: any_size(cells of a band, cells of a whole head)."""
    monkeypatch.setattr(arrays, "LARGE", 1)

    def sizes(band: int, whole: int) -> None:
        monkeypatch.setattr(measuring, "_BAND_CELLS", band)
        monkeypatch.setattr(filling, "_WHOLE", whole)

    return sizes


def assert_same(found: HeadSummary, wanted: HeadSummary) -> None:
    for name in wanted.columns:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, err_msg=name)


def test_of_a_large_file_a_sample_of_each_head_is_held(tmp_path: Path) -> None:
    """6 heads of 5000 × 4000 weights: 480 MB in the file, 80 MB each."""
    mapped = sparse(tmp_path / "weights.npy", (3, 2, 5000, 4000))
    with held_at_most(25e6):
        grid = HeadGrid(mapped, axes=AXES)
    assert repr(grid) == "HeadGrid(layers [0, 1, 2], 6 heads)"
    assert grid._note.startswith("5000 × 4000 weights each")
    assert "a sample of the queries is read" in grid._note
    for layer, head in grid._filling.heads:
        found = levels(grid, layer, head)
        # The last query is one of those that are read: 0.75 at a key of the first bin.
        assert (found[0, 0], found[-1, 0]) == (FIRST + STEPS // 3, FIRST + STEPS)
        assert (found[:, 1:] == FIRST).all()
        assert grid._filling.sheet.ranges[grid._filling.places[(layer, head)], 1] == 0.75
    assert grid._filling.sheet.numbers[0, list(measuring.COLUMNS).index("first")] == 0.25
    with pytest.raises(ValueError, match="the explorer reads all"):
        grid.summary  # noqa: B018


def test_an_explorer_measures_a_large_file_in_bands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 heads of 2100 × 2300 weights: 19 MB each as they are, 39 MB as float64."""
    monkeypatch.setattr(measuring, "_BAND_CELLS", 1 << 16)
    mapped = sparse(tmp_path / "weights.npy", (1, 2, 2100, 2300))
    explorer = AttentionExplorer(mapped, range(2300), range(2100), causal=True, query_offset=200)
    told: list[float] = []
    with held_at_most(12e6):
        found = explorer.summary(progress=told.append)
    assert found["first"] == pytest.approx([0.25, 0.25])
    assert found["largest"] == pytest.approx([0.25 + 0.5 / 2100] * 2)
    assert len(told) > 100
    assert told == sorted(told)
    assert told[-1] == 1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "query_offset": 2},
        {"mask": np.random.default_rng(4).random((11, 13)) < 0.6},
        {"padding": (np.arange(13) > 9, np.arange(11) < 2)},
        {"exclude_keys": (0,)},
    ],
    ids=["plain", "causal", "mask", "padding", "excluded"],
)
@pytest.mark.parametrize("missing", [False, True])
def test_a_file_is_read_as_the_same_numbers_in_memory(
    tmp_path: Path, any_size: Callable[[int, int], None], options: dict, missing: bool
) -> None:
    weights = softmax_like(2, 3, 11, 13)
    if missing:
        weights[:, 1, 4] = np.nan
        weights[1, 2, 5, 3] = np.nan
    tokens, queries = [f"k{key % 4}" for key in range(13)], [f"q{query}" for query in range(11)]
    given = {"axes": AXES, **options}
    inside = AttentionExplorer(weights, tokens, queries, **given)
    any_size(30, 10_000)
    outside = AttentionExplorer(in_file(tmp_path / "w.npy", weights), tokens, queries, **given)
    assert_same(outside.summary(), inside.summary())
    one, two = inside.heads(), outside.heads()
    assert_same(two.summary, one.summary)
    assert_same(two.summary, inside.summary())
    assert np.array_equal(two._filling.sheet.levels, one._filling.sheet.levels)
    assert np.array_equal(two._filling.sheet.ranges, one._filling.sheet.ranges)


def test_a_weight_that_is_none_is_named_with_its_place_in_the_whole_head(
    tmp_path: Path, any_size: Callable[[int, int], None]
) -> None:
    weights = softmax_like(1, 2, 11, 13)
    weights[0, 1, 9, 4] = np.inf
    any_size(30, 10_000)
    mapped = in_file(tmp_path / "w.npy", weights)
    explorer = AttentionExplorer(mapped, range(13), range(11))
    with pytest.raises(ValueError, match="query 9, key 4"):
        explorer.summary()
    grid = HeadGrid(mapped)
    assert [(heads, "query 9, key 4" in said) for said, heads in grid._errors] == [([1], True)]


def test_padding_that_fits_no_head_of_the_file_is_told_in_its_place(
    tmp_path: Path, any_size: Callable[[int, int], None]
) -> None:
    any_size(30, 10_000)
    both = in_file(tmp_path / "a.npy", softmax_like(2, 4, 5)), softmax_like(2, 4, 6)
    explorer = AttentionExplorer(both, padding=np.arange(5) > 3)
    grid = explorer.heads()
    assert [heads for _, heads in grid._errors] == [[2, 3]]
