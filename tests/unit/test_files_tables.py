"""Tables and text, files by their suffix, DataFrames in, matplotlib."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from matplotlib import pyplot as plt
from test_files_raster import without

from attnmap_widget import AttentionMap
from attnmap_widget.files import SUFFIXES
from attnmap_widget.grid import schemes

mpl.use("Agg")


def read_csv(text: str) -> tuple[list[str], list[str], list[list[str]]]:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    return rows[0][1:], [row[0] for row in rows[1:]], [row[1:] for row in rows[1:]]


@given(
    npst.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 6)),
        elements=st.floats(width=32, allow_infinity=False),
    ),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=6, max_size=6),
)
def test_csv_reads_back_as_the_same_float32(weights: Any, tokens: list[str]):
    queries, keys = weights.shape
    shown = AttentionMap(tokens[:keys], weights, tokens[:queries])

    head, side, cells = read_csv(shown.to_csv())

    assert (head, side) == (tokens[:keys], tokens[:queries])
    back = np.array([[np.float32(c) if c else np.nan for c in row] for row in cells], np.float32)
    assert np.array_equal(back, weights, equal_nan=True)
    shown.close()


def test_csv_keeps_repeated_and_awkward_tokens_by_position():
    tokens = ["the", "a,b", 'say "x"', "the", "two\nlines", b"\xff", 17]
    shown = AttentionMap(tokens, np.eye(7))

    head, side, cells = read_csv(shown.to_csv())

    raw = ["the", "a,b", 'say "x"', "the", "two\nlines", "b'\\xff'", "17"]
    assert head == side == raw
    assert [row.index("1") for row in cells] == list(range(7))


def test_csv_leaves_missing_cells_empty():
    assert (
        AttentionMap(["a", "b"], [0.5, 0.25, 1e-7]).to_csv() == ",a,b\r\na,0.5,0.25\r\nb,1e-07,\r\n"
    )


def test_text_is_the_grid_under_its_caption():
    shown = AttentionMap(["a", "b"], [[1, 0], [0.25, 0.75]], title="Head 3")

    assert shown.to_text() == f"Head 3: 2 queries × 2 keys\n{shown}\n"


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".SVG"])
def test_the_suffix_decides(suffix: str, tmp_path: Path):
    shown = AttentionMap(["a", "b"], [[1, 0], [0.25, 0.75]])

    path = shown.save(tmp_path / f"map{suffix}")

    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".csv": b",a,b\r\n"}
    starts |= {".html": b"<!doctype html>", ".htm": b"<!doctype html>", ".txt": b"Attention map"}
    assert path.read_bytes().startswith(starts[suffix.lower()])


def test_an_unknown_suffix_writes_nothing_and_lists_the_others(tmp_path: Path):
    shown = AttentionMap(["a"], [[1]])

    for name in ("map.docx", "map"):
        with pytest.raises(ValueError, match=r"\.svg, \.png, \.pdf, \.html"):
            shown.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_format_are_passed_on(tmp_path: Path):
    shown = AttentionMap(["a"], [[1]])

    assert shown.save(str(tmp_path / "a.svg"), theme="dark").read_text() == shown.to_svg("dark")
    assert shown.save(tmp_path / "a.png", width=2, dpi=50).read_bytes()[16:20] == b"\0\0\0\x64"


def test_a_closed_map_says_so():
    shown = AttentionMap(["a"], [[1]])
    shown.close()

    with pytest.raises(RuntimeError, match="closed"):
        shown.to_svg()


def test_a_frame_is_a_map_and_its_gaps_are_empty_cells():
    frame = pd.DataFrame(
        [[0.5, None, 0.25], [0.1, 0.2, 0.7]], index=["q", 7], columns=["the", "cat", "the"]
    )

    shown = AttentionMap.from_frame(frame, title="From a frame")

    assert shown.tokens == ["the", "cat", "the"]
    assert shown.queries == ["q", 7]
    assert shown.states.tolist() == [[0, 2, 0], [0, 0, 0]]
    assert shown.title == "From a frame"
    square = pd.DataFrame(np.eye(2), index=["a", "b"], columns=["a", "b"])
    assert AttentionMap.from_frame(square, padding=[False, True]).states[1].tolist() == [5, 5]
    with pytest.raises(TypeError, match="DataFrame"):
        AttentionMap.from_frame([[1]])


def test_plot_draws_the_same_colours_and_labels_into_axes():
    weights = np.arange(15).reshape(3, 5) / 15
    shown = AttentionMap(["a", "b", "c", "$", "$x$"], weights, ["q", "r", "s"], title="$T$")
    shown.selection, shown.value_title = (1, 2), "$v$"
    figure, (ax, other) = plt.subplots(1, 2)

    assert shown.plot(ax) is ax

    rgba = ax.images[0].get_array()
    ramp = schemes.find("Blues").ramp
    for step, pixel in enumerate(np.asarray(rgba).reshape(-1, 4)):
        assert pixel[:3].tolist() == ramp[int(255 * step / 14 + 0.5)].tolist()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c", "$", "$x$"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["q", "r", "s"]
    assert not any(t.get_parse_math() for t in (*ax.get_xticklabels(), ax.title))
    assert {t.get_text() for t in ax.texts} >= {"0.07", "0.93"}
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("Key", "Query", "$T$")
    assert list(other.images) == []
    bar = next(each for each in figure.axes if each not in (ax, other))
    assert (bar.get_ylabel(), bar.yaxis.label.get_parse_math()) == ("$v$", False)
    figure.canvas.draw()
    plt.close(figure)


def test_plot_shows_states_and_takes_the_current_axes():
    figure = plt.figure()
    shown = AttentionMap(
        ["a", "b", "c"], [[1, 0.2, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], causal=True
    )

    ax = shown.plot()

    assert ax is plt.gca() or ax in figure.axes
    said = [text.get_text() for axes in figure.axes for text in _legend_texts(axes)]
    assert said == ["cannot look", "weight where it cannot look (1 cell)"]
    plt.close(figure)


def _legend_texts(axes: Any) -> Any:
    return axes.get_legend().get_texts() if axes.get_legend() else []


def test_plot_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    without(monkeypatch, "matplotlib")

    with pytest.raises(ImportError, match=re.escape('pip install "attnmap-widget[files]"')):
        AttentionMap(["a"], [[1]]).plot()
