"""What a saved page holds: every trait, each array once, inert, and never too much."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from attnmap_widget import AttentionExplorer, AttentionMap
from attnmap_widget.assets import STATIC
from attnmap_widget.files.page_data import quantized

MODEL = Path(__file__).parents[2] / "js" / "src" / "model.ts"


class Scripts(HTMLParser):
    """The scripts of a page as a browser splits it, and every other tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, Any], str]] = []
        self.tags: list[str] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append((dict(attributes), ""))
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._open:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data


def data_of(page: str) -> dict[str, Any]:
    found = [text for attributes, text in Scripts(page).scripts if attributes.get("id")]
    (text,) = found
    parsed = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert isinstance(parsed, dict)
    return parsed


def states(page: str) -> list[dict[str, Any]]:
    """The traits of each map, put together as js/src/page.ts does it."""
    data = data_of(page)
    shared = data["shared"]
    found = []
    for entry in data["maps"]:
        own = entry["state"]
        nested = {n: {**shared.get(n, {}), **own.get(n, {})} for n in ("weights", "_colors")}
        found.append({**shared, **own, **nested})
    return found


def stack(layers: int = 3, heads: int = 4, queries: int = 5, keys: int = 6) -> Any:
    raw = np.random.default_rng(1).random((layers, heads, queries, keys)) + 0.01
    return (raw / raw.sum(axis=-1, keepdims=True)).astype(np.float32)


def explorer(source: Any = None, **options: Any) -> AttentionExplorer:
    source = stack() if source is None else source
    keys = [f"k{i}" for i in range(6)]
    return AttentionExplorer(
        source, keys, [f"q{i}" for i in range(5)], axes="layer head query key", **options
    )


def test_a_page_holds_every_trait_that_the_front_end_reads():
    body = re.search(r"export interface State \{(.*?)\n\}", MODEL.read_text(), re.DOTALL)[1]
    traits = set(re.findall(r"^\t(\w+)\??:", body, re.MULTILINE))

    (state,) = states(AttentionMap(["a", "b"], np.eye(2)).to_html())

    assert set(state) | {"hover"} == traits


def test_weights_are_the_same_bytes():
    weights = stack()[0, 0]
    page = AttentionMap([f"k{i}" for i in range(6)], weights, list(range(5))).to_html()

    (state,), buffers = states(page), data_of(page)["buffers"]
    tile = state["weights"]
    assert (tile["size"], tile["shape"], tile["quantized"]) == ([5, 6], [5, 6], None)
    assert b64decode(buffers[tile["data"]]) == weights.astype("<f4").tobytes()
    assert page == AttentionMap([f"k{i}" for i in range(6)], weights, list(range(5))).to_html()


@given(
    npst.arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 7)),
        elements=st.one_of(
            st.floats(-1e3, 1e3, width=32, allow_subnormal=False), st.just(np.nan), st.just(0)
        ),
    )
)
def test_quantised_weights_keep_gaps_and_zeros_and_are_near_the_others(weights: Any):
    data, scale = quantized(weights)

    codes = np.frombuffer(data, np.uint8).reshape(weights.shape).astype(np.float64)
    back = np.where(codes == 0, np.nan, (codes - scale["zero"]) * scale["step"])
    assert (np.isnan(back) == np.isnan(weights)).all()
    assert (back[weights == 0] == 0).all()
    there = ~np.isnan(weights)
    assert (np.abs(back - weights)[there] <= scale["step"] * 0.5001).all()


def test_a_quantised_page_is_smaller_and_says_how_exact_it_is():
    source = stack(2, 3, 40, 50)
    keys, rows = [f"k{i}" for i in range(50)], [f"q{i}" for i in range(40)]
    full = AttentionExplorer(source, keys, rows, axes="layer head query key")

    exact, rounded = full.to_html(), full.to_html(quantize=True)

    assert len(exact) - len(rounded) > 0.7 * 2 * 3 * 40 * 50 * 4 * 4 / 3
    assert data_of(exact)["note"].endswith("32-bit weights, exact")
    stated = float(re.search(r"within ±([\d.e-]+)", data_of(rounded)["note"])[1])
    assert stated == pytest.approx(source.max() / 253 / 2, rel=0.01)


def test_the_size_is_stated():
    page = explorer().to_html()

    stated = int(re.search(r"(\d+) kB in all", data_of(page)["note"])[1])
    assert stated == pytest.approx(len(page) / 1000, rel=0.05)


def test_the_scripts_and_styles_cannot_end_their_elements_early():
    page = AttentionMap(["a"], [[1]]).to_html()

    for name in ("page.js", "widget.css"):
        text = (STATIC / name).read_text(encoding="utf-8")
        assert not re.search(r"</?(script|style)|<!--", text, re.IGNORECASE)
        assert text.strip() in page
    own = (STATIC / "page.js").stat().st_size - (STATIC / "widget.js").stat().st_size
    assert own <= 4_000
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    assert "default-src 'none'" in page


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.text(max_size=30))
def test_any_token_is_inert(tokens: list[str], title: str):
    hostile = [*tokens, "</script><img src=x>", "<!--<script>", "\u2028", "]]>"]
    shown = AttentionMap(hostile, np.eye(len(hostile)), title=title + "</title></script>")
    page = shown.to_html()

    page.encode("utf-8")
    assert len(Scripts(page).scripts) == 2
    assert "img" not in Scripts(page).tags
    assert data_of(page)["labels"][0]["labels"][-1] == "]]>"
    shown.close()


def test_an_explorer_embeds_all_its_maps_and_shows_the_chosen_one():
    shown = explorer(layer=2, head=1, title="Mine")
    page = shown.to_html()

    data, held = data_of(page), states(page)
    assert len(held) == 12
    assert data["maps"][data["first"]]["choice"] == {"layer": "2", "head": "1"}
    for entry, state in zip(data["maps"], held, strict=True):
        layer, head = (int(entry["choice"][name]) for name in ("layer", "head"))
        assert state["title"] == f"Mine · Layer {layer} · Head {head}"
        assert (
            b64decode(data["buffers"][state["weights"]["data"]]) == stack()[layer, head].tobytes()
        )
    assert len(data["labels"]) == 2
    assert (shown.layer, shown.head) == (2, 1)
    assert "<title>Mine</title>" in page


def test_layers_and_heads_are_chosen():
    data = data_of(explorer().to_html(layers=[1], heads=[3, "mean", 3]))

    choices = [entry["choice"] for entry in data["maps"]]
    assert choices == [{"layer": "1", "head": "3"}, {"layer": "1", "head": "mean"}]
    assert data["note"].startswith("2 maps of 1 layer, ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [9]}, "layer: 9 does not exist; there are: 0, 1, 2"),
        ({"heads": [4]}, "head: 4 does not exist"),
        ({"heads": []}, "heads: an empty list"),
        ({"theme": "sepia"}, "'light', 'dark', 'auto'"),
    ],
)
def test_what_does_not_exist_is_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        explorer().to_html(**options)


def test_a_page_that_would_be_too_large_is_refused_before_the_maps_are_read():
    read = []

    def source(layer: int, head: int) -> Any:
        read.append((layer, head))
        return np.full((700, 1000), 1e-3, np.float32)

    keys, rows = list(range(1000)), list(range(700))
    many = AttentionExplorer(source, keys, rows, layers=list(range(12)), heads=12)
    read.clear()

    with pytest.raises(ValueError, match=r"144 maps of 700 × 1000 .* 538 MB, the limit is 50 MB"):
        many.to_html()
    with pytest.raises(ValueError, match=r"quantize=True \(about 134 MB\)"):
        many.to_html()
    assert len(read) == 2
    assert len(many.to_html(layers=[3], heads=[1, 2])) < 9_000_000


def test_the_budget_for_all_heads_of_a_small_model():
    all_heads = np.random.default_rng(0).random((12, 12, 32, 32)).astype(np.float32)
    tokens = [f"token{i}" for i in range(32)]

    page = AttentionExplorer(all_heads, tokens, axes="layer head query key").to_html()

    assert len(page.encode()) <= 900_000


def test_an_explorer_saves_its_page_or_the_map_that_is_shown(tmp_path: Path):
    shown = explorer(layer=1, head=2)

    page = shown.save(tmp_path / "all.html", heads=[2])
    assert len(data_of(page.read_text(encoding="utf-8"))["maps"]) == 3
    assert shown.save(tmp_path / "one.svg").read_text(encoding="utf-8") == shown.map.to_svg()
    with pytest.raises(ValueError, match=r"\.svg"):
        shown.save(tmp_path / "all.docx")


def test_a_large_map_brings_its_viewport_in_detail():
    grid = np.zeros((1500, 1200), dtype=np.float32)
    page = AttentionMap(
        list(range(1200)), grid, list(range(1500)), viewport=(3, 9, 5, 25)
    ).to_html()

    (state,) = states(page)
    assert (state["weights"]["bin"], state["weights"]["shape"]) == ([3, 3], [500, 400])
    assert state["viewport"] == state["_detail"]["window"] == [3, 9, 5, 25]
    assert state["_detail"]["shape"] == [6, 20]
