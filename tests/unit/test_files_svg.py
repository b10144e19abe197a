"""Figures as SVG: what is in them, where, in which colour, whatever the tokens hold."""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64decode
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnmap_widget import AttentionMap
from attnmap_widget.files import layout, numbers, paint
from attnmap_widget.grid import schemes, tiles
from attnmap_widget.grid.grids import LongGrid, Survey

NS = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    '"><img src=x onerror=alert(1)>',
    "</script>",
    "]]>",
    "<!--",
    "&amp;",
    "a<b",
    "\x00",
    "\ud83d",
    "\ufffe",
    "\x1b[0m",
    "  ",
    "",
]


def softmax(queries: int, keys: int, seed: int = 0) -> Any:
    raw = np.exp(3 * np.random.default_rng(seed).random((queries, keys)))
    return (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)


def names(n: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{i}" for i in range(n)]


def drawn(drawing: AttentionMap, theme: str = "light") -> ET.Element:
    text = drawing.to_svg(theme)
    assert text == drawing.to_svg(theme)
    text.encode("utf-8")
    return ET.fromstring(text)


def texts(root: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{NS}text")]


def part(root: ET.Element, name: str) -> ET.Element:
    return next(element for element in root.iter() if element.get("data-part") == name)


def states(root: ET.Element) -> list[str]:
    return [e.get("data-state", "") for e in root.iter(f"{NS}path") if e.get("data-state")]


def color(scheme: str, weight: float, low: float, high: float, dark: bool = False) -> str:
    ramp = schemes.find(scheme).ramp
    index = int(np.floor(255 * np.clip((weight - low) / (high - low), 0, 1) + 0.5))
    return "#{:02x}{:02x}{:02x}".format(*ramp[255 - index if dark else index])


def cells(root: ET.Element) -> list[list[ET.Element]]:
    """The rectangles by row and column, from where they are."""
    rects = list(part(root, "cells"))
    columns = sorted({float(rect.get("x", "")) for rect in rects})
    rows = sorted({float(rect.get("y", "")) for rect in rects})
    by_place = {(float(r.get("y", "")), float(r.get("x", ""))): r for r in rects}
    return [[by_place[y, x] for x in columns] for y in rows]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (20, 30), (64, 64), (1, 40)])
def test_each_cell_is_a_rectangle_of_the_colour_of_its_weight(queries: int, keys: int, theme: str):
    weights = softmax(queries, keys)
    root = drawn(AttentionMap(names(keys), weights, names(queries, "q")), theme)

    grid = cells(root)

    top = float(weights.max())
    assert [[rect.get("fill") for rect in row] for row in grid] == [
        [color("Blues", float(weight), 0, top, theme == "dark") for weight in row]
        for row in weights
    ]
    corners = [grid[y][x] for y in (0, -1) for x in (0, -1)]
    assert len({(c.get("width"), c.get("height")) for c in corners}) == 1


@pytest.mark.parametrize("scale", ["linear", "log", "row", "symmetric"])
def test_every_scale_is_that_of_the_screen(scale: str):
    weights = softmax(4, 6)
    drawing = AttentionMap(names(6), weights, names(4, "q"), color_scale=scale)
    low, high = drawing.shown_range
    if scale == "log":
        expected = np.log(weights / low) / np.log(high / low)
    elif scale == "row":
        expected = weights / weights.max(axis=1, keepdims=True)
    else:
        expected = (weights - low) / (high - low)

    fills = [[rect.get("fill") for rect in row] for row in cells(drawn(drawing))]

    ramp = schemes.find(drawing.scheme).ramp
    places = np.floor(np.clip(expected.astype(np.float64), 0, 1) * 255 + 0.5).astype(int)
    assert fills == [["#{:02x}{:02x}{:02x}".format(*ramp[i]) for i in row] for row in places]


def test_a_diverging_map_is_neutral_at_zero_in_both_themes():
    drawing = AttentionMap(["a", "b", "c"], [[-0.2, 0.8, 0]], ["q"])

    for theme in ("light", "dark"):
        (row,) = cells(drawn(drawing, theme))
        assert [r.get("fill") for r in row] == [color("RdBu", w, -0.8, 0.8) for w in (-0.2, 0.8, 0)]


@pytest.mark.parametrize("scheme", ["Blues", "Viridis", "RdBu", "Greys"])
def test_values_are_readable_on_every_colour(scheme: str):
    for shade in schemes.find(scheme).ramp:
        background = paint.rgb(shade)
        assert paint.contrast(paint.ink_on(background), background) >= 4.5


def test_values_are_written_up_to_twelve_columns_unless_told_otherwise():
    def values(columns: int, **options: Any) -> list[str]:
        root = drawn(AttentionMap(names(columns), softmax(2, columns), names(2, "q"), **options))
        return [text for text in texts(root) if re.fullmatch(r"−?\d\.\d\d", text)]

    assert len(values(12)) == 24
    assert values(13) == []
    assert len(values(14, show_values=True)) == 28
    assert values(3, show_values=False) == []
    assert values(2)[0] == f"{softmax(2, 2)[0, 0]:.2f}"


def test_values_that_do_not_fit_are_refused_in_the_legend():
    root = drawn(AttentionMap(names(60), softmax(60, 60), show_values=True))

    assert "cells are too small to write" in " ".join(texts(root))


@pytest.mark.parametrize(
    ("number", "read", "tick"),
    [
        (0, "0", "0"),
        (0.125, "0.13", ".13"),
        (0.5, "0.50", ".50"),
        (0.03125, "0.0313", ".031"),
        (-0.1, "−0.10", "−.10"),
        (1, "1.00", "1"),
        (1.5, "1.50", "1.5"),
        (0.000123, "1.23e-4", "1.2e-4"),
        (12345, "12345.00", "12300"),
        (1e30, "1.00e+30", "1e+30"),
        (float("nan"), "no weight", None),
    ],
)
def test_numbers_are_written_as_on_screen(number: float, read: str, tick: str | None):
    assert numbers.weight(number) == read
    if tick is not None:
        assert numbers.tick(number) == tick


def test_queries_go_down_and_keys_along_the_bottom():
    drawing = AttentionMap(["k0", "k1", "k2", "k3"], softmax(3, 4), ["q0", "q1", "q2"], title="T")
    root = drawn(drawing)

    said = texts(root)
    values = [f"{weight:.2f}" for weight in softmax(3, 4).ravel()]
    order = ["T3 queries × 4 keys", "Query", "q0", "q1", "q2", *values]
    order += ["k0", "k1", "k2", "k3", "Key"]
    assert said[: len(order)] == order
    place = {"".join(e.itertext()): e for e in root.iter(f"{NS}text")}
    assert [float(place[q].get("y", "")) for q in ("q0", "q1", "q2")] == sorted(
        float(place[q].get("y", "")) for q in ("q0", "q1", "q2")
    )
    keys = [float(place[k].get("x", "")) for k in ("k0", "k1", "k2", "k3")]
    assert keys == sorted(keys)
    assert float(place["k0"].get("y", "")) > float(place["q2"].get("y", ""))


@pytest.mark.parametrize("size", [(3, 5), (40, 50), (70, 80)])
def test_the_legend_names_the_states_and_the_cells_wear_them(size: tuple[int, int]):
    queries, keys = size
    weights: Any = softmax(queries, keys)
    weights[0] = np.nan
    weights[2, 1] = 0
    mask = np.ones(size, dtype=bool)
    mask[2, 1] = mask[2, 3] = False
    not_yet = np.zeros(size, dtype=bool)
    not_yet[1, 2] = True
    drawing = AttentionMap(
        names(keys),
        weights,
        names(queries, "q"),
        mask=mask,
        not_yet=not_yet,
        padding=[False] * (keys - 1) + [True],
    )
    root = drawn(drawing)

    legend = ["".join(e.itertext()) for e in part(root, "legend").iter(f"{NS}text")]
    for words in ("cannot look", "no valid key", "padding", "not yet"):
        assert words in legend
    assert "(1 cell)" in " ".join(legend)
    assert set(states(root)) == {"cannot_look", "no_valid_key", "padding", "not_yet", "leak"}
    ids = {e.get("id") for e in root.iter() if e.get("id")}
    used = re.findall(r"url\(#([^)]+)\)", drawing.to_svg())
    assert set(used) <= ids
    assert len(ids) == len([e for e in root.iter() if e.get("id")])


def test_empty_cells_are_drawn_empty():
    root = drawn(AttentionMap(["a", "b"], [0.3, 0.7, 0.1]))

    assert "empty" in states(root)
    assert len(list(part(root, "cells"))) == 3
    assert "empty (no weight given)" in texts(root)


def test_two_pictures_on_one_page_do_not_share_ids_unless_they_are_alike():
    def ids(theme: str, **options: Any) -> set[str]:
        drawing = AttentionMap(["a", "b"], [[0.5, 0.5], [1, 0]], causal=True, **options)
        return {e.get("id", "") for e in drawn(drawing, theme).iter() if e.get("id")}

    assert ids("light").isdisjoint(ids("dark"))
    assert ids("light").isdisjoint(ids("light", scheme="Viridis"))


@pytest.mark.parametrize("size", [(65, 64), (300, 200), (900, 700)])
def test_a_large_map_is_one_picture_with_a_pixel_a_cell(size: tuple[int, int]):
    weights = softmax(*size)
    drawing = AttentionMap(
        names(size[1]), weights, names(size[0], "q"), padding=[1, *[0] * (size[1] - 1)]
    )
    root = drawn(drawing)

    image = part(root, "cells")
    assert image.tag == f"{NS}image"
    assert image.get("style") == "image-rendering:pixelated"
    assert float(image.get("width", "")) >= size[1]
    assert float(image.get("height", "")) >= size[0]
    pixels = decode(b64decode(image.get("href", "").partition(",")[2]))
    assert pixels.shape[:2] == size
    top = float(weights[:, 1:].max())
    for query, key in ((0, 1), (5, 9), (size[0] - 1, size[1] - 1)):
        expected = color("Blues", float(weights[query, key]), 0, top)
        assert "#{:02x}{:02x}{:02x}".format(*pixels[query, key, :3]) == expected


def test_a_lone_spike_survives_in_a_map_of_any_size():
    weights = np.zeros((2000, 3000), dtype=np.float32)
    weights[1234, 17] = 1
    drawing = AttentionMap(list(range(3000)), weights, list(range(2000)))
    root = drawn(drawing)

    pixels = decode(b64decode(part(root, "cells").get("href", "").partition(",")[2]))
    full = np.argwhere((pixels[..., :3] == schemes.find("Blues").ramp[255]).all(axis=-1))
    assert full.tolist() == [[1234 // 4, 17 // 6]]
    assert "2000 queries × 3000 keys, 4 × 6 per cell" in texts(root)


def test_more_cells_than_there_is_room_for_keep_the_largest():
    values = np.zeros((3, 40_000), dtype=np.float32)
    values[1, 31_415] = 1
    root = drawn(AttentionMap(list(range(40_000)), values, ["a", "b", "c"]))

    pixels = decode(b64decode(part(root, "cells").get("href", "").partition(",")[2]))
    full = (pixels[..., :3] == schemes.find("Blues").ramp[255]).all(axis=-1)
    assert full.sum(axis=1).tolist() == [0, 1, 0]
    assert "share a place" in " ".join(texts(root))


def test_the_viewport_is_what_is_drawn():
    drawing = AttentionMap(names(30), softmax(20, 30), names(20, "q"), viewport=(5, 9, 10, 17))
    drawing.selection = (6, 12)
    root = drawn(drawing)

    assert len(cells(root)) == 4
    assert len(cells(root)[0]) == 7
    assert "20 queries × 30 keys, in view 5–8 × 10–16" in texts(root)
    assert {"q5", "q8", "k10", "k16"} <= set(texts(root))
    assert not {"q4", "q9", "k9", "k17"} & set(texts(root))
    assert part(root, "pin") is not None

    drawing.selection = (0, 0)
    assert all(e.get("data-part") != "pin" for e in drawn(drawing).iter())


def test_the_pinned_cell_is_outlined_and_read_out():
    weights = softmax(4, 5)
    drawing = AttentionMap(names(5), weights, names(4, "q"), selection=(2, 3))
    root = drawn(drawing)

    rank = int((weights[2] > weights[2, 3]).sum()) + 1
    said = " ".join(texts(root))
    assert f"q2 (2) looks at k3 (3) {numbers.weight(float(weights[2, 3]))}" in said
    assert f"{numbers.ordinal(rank)} of 5 in its row" in said
    assert "row sums to 1.00" in said
    bold = {"".join(e.itertext()) for e in root.iter(f"{NS}text") if e.get("font-weight")}
    assert bold == {"q2", "k3"}
    pin, cell = part(root, "pin"), cells(root)[2][3]
    for place, length in (("x", "width"), ("y", "height")):
        middles = [float(r.get(place, "")) + float(r.get(length, "")) / 2 for r in (pin, cell)]
        assert middles[0] == pytest.approx(middles[1])


def test_a_title_is_never_cut_and_text_stays_inside():
    title = "A title with many words that has to be broken into several lines to be read " * 2
    drawing = AttentionMap(
        ["internationalisation_" * 9, "b"], [[0.2, 0.8]], ["q" * 300], title=title
    )
    root = drawn(drawing)

    assert title.split() == " ".join(texts(root)).replace("1 query", " 1 query").split()[:32]
    assert float(root.get("width", "")) < 800
    assert any("…" in text for text in texts(root))


@given(
    st.lists(
        st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=12)),
        min_size=1,
        max_size=6,
    ),
    st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=30)),
)
def test_any_token_and_title_is_well_formed(tokens: list[str], title: str):
    drawing = AttentionMap(tokens, softmax(2, len(tokens)), tokens[:1] * 2, title=title)
    drawing.selection = (0, 0)
    root = drawn(drawing)

    known = {"svg", "title", "rect", "defs", "linearGradient", "stop", "g", "text", "tspan", "path"}
    assert {element.tag.removeprefix(NS) for element in root.iter()} <= known
    drawing.close()


def test_labels_are_exactly_the_readable_tokens():
    tokens = ["<s>", "<|endoftext|>", "&amp;", "a<b", "שלום", "Ċ", "a  b"]
    drawing = AttentionMap(tokens, softmax(2, 7), tokens[:2])
    root = drawn(drawing)

    labels = [text for text in texts(root) if text not in ("Query", "Key")]
    for label in ("<s>", "<|endoftext|>", "&amp;", "a<b", "שלום", "↵", "a  b"):
        assert label in labels
    hebrew = next(e for e in root.iter(f"{NS}text") if e.text == "שלום")
    assert hebrew.get("unicode-bidi") == "plaintext"


def test_an_unknown_theme_is_refused():
    with pytest.raises(ValueError, match="'light', 'dark'"):
        AttentionMap(["a"], [[1]]).to_svg("sepia")


class Diagonal:
    """A grid that is not held: all weight on the diagonal."""

    shape = (1500, 1500)

    def window(self, window: tuple[int, int, int, int]) -> tuple[Any, Any]:
        q0, q1, k0, k1 = window
        values = np.equal.outer(np.arange(q0, q1), np.arange(k0, k1)).astype(np.float32)
        return values, np.where(values > 0, 0, 1).astype(np.uint8)


@pytest.mark.parametrize("read", [0.25, 1.0])
def test_a_grid_that_is_not_held_is_drawn_from_its_survey(read: float):
    source, whole = Diagonal(), (0, 1500, 0, 1500)
    overview = tiles.pooled(source.window, source.shape, whole)
    ones, keys = np.ones(1500), np.arange(1500)
    survey = Survey(overview, ones, keys, ones.astype(np.float32), read)
    drawing = AttentionMap(names(1500), LongGrid(source, survey), selection=(1234, 1234))
    root = drawn(drawing)

    said = " ".join(texts(root))
    assert "1500 queries × 1500 keys, 3 × 3 per cell" in said
    assert "k1234 (1234) looks at k1234 (1234) 1.00 · 1st of 1500 in its row" in said
    note = "a first look: 25% of the queries were read"
    assert (note in said.replace("\n", " ")) == (read < 1)


def test_small_cells_never_shrink_below_one_unit():
    for shape in ((1, 1), (1, 500), (700, 3), (900, 900)):
        drawing = AttentionMap(names(shape[1]), np.ones(shape) / shape[1], names(shape[0], "q"))
        figure = drawing._figure()
        plot = layout.lay_out(figure.tile, (figure.queries, figure.keys)).plot
        assert min(plot.step) >= 1


def decode(png: bytes) -> Any:
    """(height, width, 4) pixels of a PNG whose lines are not filtered."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    channels = {2: 3, 6: 4}[kind]
    lines = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    pixels = lines[:, 1:].reshape(height, width, channels)
    return pixels if channels == 4 else np.dstack([pixels, np.full((height, width), 255)])


def test_a_few_rows_of_many_columns_each_have_their_label_as_on_screen():
    words = [f"word{row}" for row in range(17)]
    weights = np.random.default_rng(0).dirichlet(np.ones(400), 17)
    svg = AttentionMap([str(key) for key in range(400)], weights, words).to_svg()
    assert all(f">{word}<" in svg for word in words)
