"""The map option `generated`: where the generated part begins, on each axis."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from attnmap_widget import AttentionMap, ShapeError

NS = "{http://www.w3.org/2000/svg}"
KEYS, QUERIES = [f"k{i}" for i in range(9)], [f"q{i}" for i in range(4)]


def weights(queries: int = 4, keys: int = 9) -> np.ndarray:
    raw = np.random.default_rng(5).random((queries, keys))
    return raw / raw.sum(axis=1, keepdims=True)


def test_one_index_marks_both_axes_of_one_text_and_a_pair_each_its_own() -> None:
    assert AttentionMap(KEYS, weights(9), generated=7).generated == (7, 7)
    assert AttentionMap(KEYS, weights(), QUERIES, generated=7).generated == (7, None)
    both = AttentionMap(KEYS, weights(), QUERIES, generated=(None, np.int64(0)))
    assert both.generated == (None, 0)
    assert AttentionMap(KEYS, weights(), QUERIES, generated=(None, None)).generated is None
    assert AttentionMap(KEYS, weights(), QUERIES, generated=9).generated == (9, None)
    assert both.get_state("generated") == {"generated": [None, 0]}


@pytest.mark.parametrize("wrong", [10, -1, True, 1.5, (1, 5), (10, 1), "a", [7, 1]])
def test_what_is_no_index_is_refused(wrong: object) -> None:
    drawn = AttentionMap(KEYS, weights(), QUERIES, generated=(2, 1))
    with pytest.raises((ValueError, TypeError), match="generated"):
        drawn.generated = wrong
    assert drawn.generated == (2, 1)


def test_a_smaller_grid_needs_a_new_one() -> None:
    drawn = AttentionMap(KEYS, weights(), QUERIES, generated=(8, 3))
    with pytest.raises(ShapeError, match=r"generated: \(8, 3\) was set before"):
        drawn.update(tokens=KEYS[:5], weights=weights(4, 5))
    drawn.update(tokens=KEYS[:5], weights=weights(4, 5), generated=(2, 3))
    assert drawn.generated == (2, 3)


def test_figures_have_the_rule_italic_labels_and_words() -> None:
    drawn = AttentionMap(KEYS, weights(), QUERIES, generated=(7, 1), query_offset=20)
    root = ET.fromstring(drawn.to_svg())
    rule = next(e for e in root.iter() if e.get("data-part") == "generated")
    cells = next(e for e in root.iter() if e.get("data-part") == "cells")
    left = sorted({float(rect.get("x", "")) for rect in cells})
    top = sorted({float(rect.get("y", "")) for rect in cells})
    assert rule.get("d", "").startswith(f"M{left[7] - 0.5:g} 0V")
    assert f"M0 {top[1] - 0.5:g}H" in rule.get("d", "")
    italic = [e.text for e in root.iter(f"{NS}text") if e.get("font-style") == "italic"]
    assert italic == ["q1", "q2", "q3", "k7", "k8"]
    words = "generated from key 7 and query 21 on (in italics)"
    assert words in root.get("aria-label", "")
    assert words in "".join(root.itertext()).replace("\n", " ")
    plain = AttentionMap(KEYS, weights(), QUERIES).to_svg()
    assert "italic" not in plain
    assert "generated" not in plain


def test_a_part_in_view_has_the_rule_only_where_it_is() -> None:
    drawn = AttentionMap(KEYS, weights(), QUERIES, generated=(7, 1), viewport=(1, 4, 5, 9))
    root = ET.fromstring(drawn.to_svg())
    rule = next(e for e in root.iter() if e.get("data-part") == "generated").get("d", "")
    cells = next(e for e in root.iter() if e.get("data-part") == "cells")
    left = sorted({float(rect.get("x", "")) for rect in cells})
    assert rule.startswith(f"M{left[2] - 0.5:g} 0V")
    assert "H" not in rule
    drawn.viewport = (1, 4, 0, 7)
    assert 'data-part="generated"' not in drawn.to_svg()


def test_a_saved_page_keeps_it() -> None:
    page = AttentionMap(KEYS, weights(), QUERIES, generated=(7, 1)).to_html()
    assert json.dumps([7, 1], separators=(",", ":")) in page
