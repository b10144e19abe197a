"""The still picture of all heads: what a saved notebook keeps, and what `save` writes."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from heads_support import softmax_like
from test_files_raster import decode, size

from attnmap_widget import HeadGrid
from attnmap_widget.files import heads_methods
from attnmap_widget.files.heads_layout import by_layers, in_order
from attnmap_widget.grid import schemes

SVG = "{http://www.w3.org/2000/svg}"
AXES = "layer head query key"


def texts(drawing: str) -> list[str]:
    return [str(element.text) for element in ET.fromstring(drawing).iter(f"{SVG}text")]


def pixels(drawing: str) -> np.ndarray:
    """(height, width, 3) of the embedded picture."""
    found = re.search(r'href="data:image/png;base64,([^"]+)"', drawing)
    assert found is not None
    return decode(b64decode(found[1]))


def test_the_picture_follows_the_order_and_names_each_head() -> None:
    weights = np.zeros((2, 3, 4, 5), dtype=np.float32)
    for head, at in enumerate([3, 0, 5, 1, 4, 2]):
        weights[at // 3, at % 3, :, 0] = 0.1 + head / 10
        weights[at // 3, at % 3, :, 4] = 0.9 - head / 10
    grid = HeadGrid(weights, axes=AXES, title="Six")
    assert texts(grid.to_svg())[:6] == ["Six", "Layer 0", "Layer 1", "0", "1", "2"]

    grid.sort_by = "first"
    said = texts(grid.to_svg())

    assert said[0] == "Six"
    names = {at: f"L{at // 3} H{at % 3}" for at in range(6)}
    shares = {at: f"0.{1 + head}0" for head, at in enumerate([3, 0, 5, 1, 4, 2])}
    assert said[1:13] == [word for at in range(6) for word in (names[at], shares[at])]
    drawing = ET.fromstring(grid.to_svg())
    places = {
        element.text: (float(element.get("y", 0)), float(element.get("x", 0)))
        for element in drawing.iter(f"{SVG}text")
    }
    shown = sorted((name for name in names.values()), key=lambda name: places[name])
    assert shown == [names[at] for at in [2, 4, 1, 5, 0, 3]]
    assert said[-1] == "by first token, largest first"


def test_each_head_is_where_its_name_is() -> None:
    weights = np.zeros((2, 3, 4, 5), dtype=np.float32)
    weights[..., 0] = 0.25
    weights[1, 1, :, 3] = 1.0
    grid = HeadGrid(weights, axes=AXES, scheme="Blues", sort_by="largest")
    drawing = grid.to_svg()
    picture = pixels(drawing)
    darkest = np.argwhere((picture == schemes.find("Blues").ramp[255]).all(axis=-1))
    element = next(one for one in ET.fromstring(drawing).iter(f"{SVG}text") if one.text == "L1 H1")

    # The only head with a weight of 1 comes first, and its name stands below its middle.
    assert 0 < darkest[:, 1].min() < darkest[:, 1].max() < 60
    assert float(element.get("x", 0)) == pytest.approx(27, abs=8)


def test_bars_are_as_long_as_the_numbers_are_large() -> None:
    weights = np.zeros((1, 3, 4, 5), dtype=np.float32)
    for head, share in enumerate((0.0, 0.5, 1.0)):
        weights[0, head, :, 0], weights[0, head, :, 4] = share, 1 - share
    grid = HeadGrid(weights, axes=AXES)
    plain = pixels(grid.to_svg())
    grid.tint_by = "first"
    drawing = grid.to_svg()
    picture = pixels(drawing)

    assert picture.shape[0] == plain.shape[0] + 5
    bar = picture[39 + 1 : 39 + 5]  # under heads of 48 × 38 pixels
    tints = schemes.find("YlOrBr").ramp
    counts = [int((bar[1] == tints[at]).all(axis=-1).sum()) for at in (128, 255)]
    assert counts == [24, 48]
    assert "bar: first token, 0.00 to 1.00" in texts(drawing)
    grid.tint_by = "entropy"
    assert "bar: entropy (bits), 0.00 to 1.00" in texts(grid.to_svg())
    grid.tint_by = "padding"
    assert "bar: padding, none" in texts(grid.to_svg())


def test_what_is_written_under_the_picture_fits_in_it() -> None:
    grid = HeadGrid(softmax_like(2, 3, 4), title="A title that is longer than two small heads are")
    grid.sort_by, grid.tint_by = "previous", "effective_keys"
    box = re.match(r'<svg [^>]*width="(\d+)" height="(\d+)"', grid.to_svg())
    assert box is not None
    assert int(box[1]) > 300
    lowest = max(float(one.get("y", 0)) for one in ET.fromstring(grid.to_svg()).iter(f"{SVG}text"))
    assert int(box[2]) > lowest + 24


@pytest.mark.parametrize("cells", [(7, 3), (3, 7), (5, 5)])
@pytest.mark.parametrize("bar", [False, True])
def test_no_two_heads_overlap_and_all_are_inside(cells: tuple[int, int], bar: bool) -> None:
    table = by_layers([5, 2, 4], cells, bar=bar, room=700)
    flowing = in_order([3, 0, 2, 1, *range(4, 40)], cells, bar=bar, label=30, words=25)
    for placed in (table, flowing):
        taken = np.zeros(placed.size[::-1], dtype=int)
        width, height = placed.box
        for left, top in placed.places:
            taken[top : top + height + (5 if bar else 0), left : left + width] += 1
        assert taken.max() == 1
        assert taken.sum() == len(placed.places) * width * (height + (5 if bar else 0))


# ---- while heads are being read ------------------------------------------------------------------


class Slow:
    """Two layers of three heads; the last waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.shape = (1, 3, 4, 5)

    def layers(self) -> tuple[Slow, Slow]:
        return (self, self)

    def __getitem__(self, batch: int) -> _Heads:
        return _Heads(self)


class _Heads:
    def __init__(self, of: Slow) -> None:
        self._of = of

    def __getitem__(self, head: int) -> np.ndarray:
        if head == 2:
            assert self._of.go.wait(20)
        return softmax_like(4, 5, seed=head)


def kept(grid: HeadGrid) -> tuple[str, str]:
    """The picture that a notebook keeps, and what stands in for it."""
    html = grid._repr_mimebundle_()[0]["text/html"]
    found = re.fullmatch(r'<img alt="([^"]*)" style="[^"]*" src="[^,]*,([^"]*)">', html)
    assert found is not None
    return b64decode(found[2]).decode(), found[1]


def test_a_kept_picture_waits_for_heads_that_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnmap_widget.heads.widget._AT_ONCE", 0.0)
    monkeypatch.setattr(heads_methods, "_PATIENCE", 20.0)

    async def notebook() -> None:
        source = Slow()
        grid = HeadGrid(source.layers())
        threading.Timer(0.05, source.go.set).start()
        drawing, said = kept(grid)
        assert "read" not in drawing
        assert said == "HeadGrid(layers [0, 1], 6 heads)"
        assert grid._progress is not None  # what it tells the page comes when the cell is done
        while grid._progress is not None:
            await asyncio.sleep(0.005)

    asyncio.run(notebook())


def test_a_kept_picture_waits_no_longer_and_says_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attnmap_widget.heads.widget._AT_ONCE", 0.0)
    monkeypatch.setattr(heads_methods, "_PATIENCE", 0.2)

    async def notebook() -> None:
        source = Slow()
        grid = HeadGrid(source.layers())
        drawing, said = kept(grid)
        assert "2 of 6 heads read" in texts(drawing)
        assert said == "HeadGrid(layers [0, 1], 6 heads, 2 read)"
        grid.cancel()
        source.go.set()
        started = time.monotonic()
        monkeypatch.setattr(heads_methods, "_PATIENCE", 20.0)
        assert "of 6 heads read" in kept(grid)[0]
        assert time.monotonic() - started < 10  # nobody reads on, so there is nothing to wait for

    asyncio.run(notebook())


def test_a_function_is_asked_by_the_notebook_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnmap_widget.heads.widget._AT_ONCE", 0.0)
    monkeypatch.setattr(heads_methods, "_PATIENCE", 20.0)
    threads = set()

    def read(layer: int, head: int) -> np.ndarray:
        threads.add(threading.current_thread())
        return softmax_like(4, 5, seed=head) - (0.1 if head else 0)

    async def notebook() -> None:
        grid = HeadGrid(read, layers=[1, 3], heads=2)
        drawing, said = kept(grid)
        assert said == "HeadGrid(layers [1, 3], 4 heads)"
        assert any(line.startswith("one colour range for all heads: −") for line in texts(drawing))
        assert threads == {threading.main_thread()}

    asyncio.run(notebook())


def test_heads_that_could_not_be_read_are_counted() -> None:
    def read(layer: int, head: int) -> np.ndarray:
        if head == 1:
            raise ValueError("gone")
        return softmax_like(3, 4)

    drawing = HeadGrid(read, layers=[0, 1, 2], heads=2).to_svg()
    assert "3 heads could not be read" in texts(drawing)
    assert not any("heads read" in line for line in texts(drawing))


# ---- files ---------------------------------------------------------------------------------------


def test_a_grid_is_saved_by_its_suffix(tmp_path: Path) -> None:
    grid = HeadGrid(softmax_like(2, 3, 4), sort_by="largest", tint_by="entropy")
    assert grid.save(tmp_path / "a.svg").read_text(encoding="utf-8") == grid.to_svg()
    assert grid.save(tmp_path / "d.SVG", theme="dark").read_text("utf-8") == grid.to_svg("dark")
    png = grid.save(str(tmp_path / "b.png"), dpi=96).read_bytes()
    natural = re.match(r'<svg [^>]*width="(\d+)" height="(\d+)"', grid.to_svg())
    assert natural is not None
    assert size(png) == (int(natural[1]), int(natural[2]))
    page = grid.save(tmp_path / "p.html", theme="auto")
    assert page.read_text(encoding="utf-8") == grid.to_html("auto")
    for refused in ("c.csv", "c"):
        with pytest.raises(ValueError, match=r"path: .*\.html, .*\.svg, \.png"):
            grid.save(tmp_path / refused)
    with pytest.raises(ValueError, match="dpi"):
        grid.to_png(dpi=0)
    with pytest.raises(ValueError, match="width"):
        grid.to_png(width=-1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "b.png", "d.SVG", "p.html"]
    grid.close()
    with pytest.raises(RuntimeError, match="closed"):
        grid.save(tmp_path / "e.svg")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_png_fills_its_size_with_sharp_heads(theme: str) -> None:
    weights = np.zeros((1, 2, 3, 4), dtype=np.float32)
    weights[..., 1] = 1.0
    made = decode(HeadGrid(weights, axes=AXES, scheme="Blues").to_png(theme, dpi=192))
    ramp = schemes.find("Blues").ramp
    top, zero = (ramp[255], ramp[0]) if theme == "light" else (ramp[0], ramp[255])
    found = np.argwhere((made == top).all(axis=-1))
    empty = np.argwhere((made == zero).all(axis=-1))
    assert len(found) * 3 == pytest.approx(len(empty), rel=0.05)
    assert len(found) == pytest.approx(2 * 4 * 48 * 36 / 4, rel=0.05)
    page = (255, 255, 255) if theme == "light" else (17, 21, 24)
    assert tuple(made[-1, -1]) == page


def test_a_page_holds_what_the_front_end_reads_and_nothing_else() -> None:
    title = "</script><img src=x><!-- \ud800"
    grid = HeadGrid(softmax_like(2, 3, 4), title=title, sort_by="largest", selection=(0, 1))
    page = grid.to_html("dark")
    assert page == grid.to_html("dark")
    found = re.search(r'<script id="attnmap-data" type="application/json">(.*?)</script>', page)
    assert found is not None
    state = json.loads(found[1])
    declared = (Path(__file__).parents[2] / "js/src/heads-model.ts").read_text(encoding="utf-8")
    body = re.search(r"export interface HeadsState \{(.*?)\n\}", declared, re.DOTALL)
    assert body is not None
    assert set(state) == set(re.findall(r"^\t(\w+):", body[1], re.MULTILINE))
    assert (state["title"], state["sort_by"], state["selection"]) == (title, "largest", [0, 1])
    sheet = grid._filling.sheet.to_wire()
    assert b64decode(state["_sheet"]["data"]["base64"]) == sheet["data"]
    assert len(b64decode(state["_tint"]["base64"])) == 768
    assert "default-src 'none'" in page
    assert page.count("</script") == 2
    assert "2 heads · " in page
    stated = re.search(r"(\d+) kB in all", page)
    assert stated is not None
    assert int(stated[1]) == pytest.approx(len(page) / 1000, rel=0.1)
    with pytest.raises(ValueError, match="theme"):
        grid.to_html("blue")


def test_a_page_has_all_heads_whatever_was_there_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attnmap_widget.heads.widget._AT_ONCE", 0.0)

    async def notebook() -> None:
        source = Slow()
        grid = HeadGrid(source.layers())
        threading.Timer(0.05, source.go.set).start()
        page = grid.to_html()
        assert "of 6 heads read" not in page
        assert '"_progress": null' in page

    asyncio.run(notebook())
