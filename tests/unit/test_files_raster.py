"""PNG and PDF: right size, right colours, the same bytes, and a word on what is missing."""

from __future__ import annotations

import builtins
import re
import struct
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest

from attnmap_widget import AttentionMap
from attnmap_widget.files import pdf
from attnmap_widget.grid import schemes

SCRIPT = """
import hashlib
from attnmap_widget import AttentionMap
m = AttentionMap(["a", "b", "שלום"], [[0.5, 0.25, 0.25]] * 3, causal=True, selection=(1, 0))
made = m.to_pdf() + m.to_png() + m.to_svg().encode() + m.to_html().encode()
print(hashlib.sha256(made).hexdigest())
"""


def grid(queries: int = 3, keys: int = 5) -> AttentionMap:
    weights = np.arange(queries * keys).reshape(queries, keys) / (queries * keys)
    return AttentionMap([f"k{i}" for i in range(keys)], weights, [f"q{i}" for i in range(queries)])


def size(png: bytes) -> tuple[int, int]:
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize(("width", "dpi"), [(3.25, 300), (6.5, 150), (1, 96)])
def test_a_png_has_the_size_that_was_asked_for(width: float, dpi: float):
    made = grid().to_png(width=width, dpi=dpi)

    assert size(made)[0] == round(width * dpi)
    per_metre = struct.unpack(">I", made[made.index(b"pHYs") + 4 :][:4])[0]
    assert per_metre == pytest.approx(dpi / 0.0254, abs=1)


def test_a_png_has_its_natural_size_by_default():
    svg = grid().to_svg()
    natural = int(re.search(r'width="(\d+)"', svg)[1])

    assert size(grid().to_png())[0] == 2 * natural
    assert size(grid().to_png(dpi=96))[0] == natural


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_png_shows_the_colours_of_the_weights(theme: str):
    pixels = {tuple(pixel) for pixel in decode(grid().to_png(theme, dpi=192)).reshape(-1, 3)}

    ramp = schemes.find("Blues").ramp
    for step in range(15):
        index = int(255 * step / 14 + 0.5)
        assert tuple(ramp[255 - index if theme == "dark" else index]) in pixels


def test_a_large_map_keeps_its_cells_sharp():
    weights = np.zeros((90, 90), dtype=np.float32)
    weights[::2, ::2] = weights[1::2, 1::2] = 1
    pixels = decode(AttentionMap([str(i) for i in range(90)], weights).to_png(dpi=192))

    ramp = schemes.find("Blues").ramp
    middle = pixels[300:700, 300:700].reshape(-1, 3)
    ends = (middle == ramp[0]).all(axis=1) | (middle == ramp[255]).all(axis=1)
    assert ends.mean() > 0.99


@pytest.mark.parametrize("width", [None, 3.25, 6.5])
def test_a_pdf_has_the_size_that_was_asked_for_and_real_text(width: float | None):
    made = grid().to_pdf(width=width)

    box = [float(x) for x in re.search(rb"/MediaBox \[([^\]]*)\]", made)[1].split()]
    natural = int(re.search(r'width="(\d+)"', grid().to_svg())[1])
    assert box[2] == pytest.approx((width or natural / 96) * 72, abs=0.1)
    assert b"/ToUnicode" in made


def test_files_are_the_same_bytes_in_every_process():
    runs = {
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stdout
        for _ in range(3)
    }

    assert len(runs) == 1


def test_the_order_of_a_pdf_is_settled_without_touching_streams():
    made = grid().to_pdf()

    assert {grid().to_pdf() for _ in range(6)} == {made}
    assert pdf.canonical(made) == made
    table = int(made.rsplit(b"startxref\n", 1)[1].split()[0])
    assert made[table:].startswith(b"xref\n0 ")
    entries = re.findall(rb"(\d{10}) 00000 n", made[table:])
    for number, place in enumerate(entries, start=1):
        assert made[int(place) :].startswith(b"%d 0 obj" % number)
    assert pdf.canonical(b"something else") == b"something else"


def test_characters_that_no_font_has_are_named():
    shown = AttentionMap(["a", "\U000f1234"], [[0.5, 0.5]], ["q"])

    with pytest.warns(UserWarning, match=r"no installed font has .* \(U\+F1234\)") as caught:
        shown.to_png()
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"U\+F1234"):
        shown.to_pdf()


def test_ordinary_tokens_need_no_warning():
    AttentionMap(["a", "é", "·the", "↵", "ß"], np.full((5, 5), 0.2)).to_png()


@pytest.mark.parametrize("options", [{"width": 0}, {"width": -1}, {"dpi": 0}, {"width": 1000}])
def test_sizes_that_are_none_are_refused(options: dict[str, float]):
    with pytest.raises(ValueError, match=r"width|dpi"):
        grid().to_png(**options)


@pytest.mark.parametrize("name", ["to_png", "to_pdf"])
def test_without_the_extra_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch):
    without(monkeypatch, "vl_convert")

    with pytest.raises(ImportError, match=re.escape('pip install "attnmap-widget[files]"')):
        getattr(grid(), name)()


def without(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)


def decode(png: bytes) -> Any:
    """(height, width, 3) of an 8-bit PNG, whatever filters its lines have."""
    width, height = size(png)
    channels = {2: 3, 6: 4}[png[25]]
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(height, -1)
    out = np.zeros((height, width, channels), dtype=np.int32)
    above = np.zeros((width, channels), dtype=np.int32)
    for row, line in enumerate(lines):
        raw = line[1:].reshape(width, channels).astype(np.int32)
        if line[0] in (0, 2):
            now = raw if line[0] == 0 else (raw + above) & 255
        elif line[0] == 1:
            now = np.cumsum(raw, axis=0) & 255
        else:
            now = _slow(raw, above, int(line[0]))
        out[row] = above = now
    return out[..., :3].astype(np.uint8)


def _slow(raw: Any, above: Any, kind: int) -> Any:
    now = raw.tolist()
    up = above.tolist()
    for x, pixel in enumerate(now):
        for c in range(len(pixel)):
            a = now[x - 1][c] if x else 0
            b, d = up[x][c], up[x - 1][c] if x else 0
            if kind == 3:
                guess = (a + b) // 2
            else:
                guess = min((abs(b - d), 0, a), (abs(a - d), 1, b), (abs(a + b - 2 * d), 2, d))[2]
            pixel[c] = (pixel[c] + guess) & 255
    return np.array(now, dtype=np.int32)
