"""What a notebook keeps of a displayed map besides the live view."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from attnmap_widget import AttentionExplorer, AttentionMap

SIZES = [(12, 12), (64, 64), (65, 65), (512, 512), (900, 1100), (2000, 3000)]
VIEW = "application/vnd.jupyter.widget-view+json"


def bundle(shown: Any) -> dict[str, Any]:
    found = shown._repr_mimebundle_()
    return found[0] if isinstance(found, tuple) else found


def picture(shown: Any) -> str:
    html = bundle(shown)["text/html"]
    found = re.fullmatch(
        r'<img alt="[^"<>]*" style="color-scheme:light;[^"<>]*" '
        r'src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)">',
        html,
    )
    return b64decode(found[1]).decode("utf-8")


def softmax(queries: int, keys: int) -> Any:
    raw = np.exp(9 * np.random.default_rng(0).random((queries, keys)))
    return raw / raw.sum(axis=1, keepdims=True)


def test_a_map_brings_its_live_view_its_picture_and_a_word():
    shown = AttentionMap(["a", "b"], [[1, 0], [0.25, 0.75]], title='"><script>')
    found = bundle(shown)

    assert found[VIEW]["model_id"] == shown.model_id
    assert found["text/plain"] == repr(shown)
    assert "2 queries × 2 keys" in found["text/plain"]
    assert set(found) == {VIEW, "text/plain", "text/html"}
    assert picture(shown) == shown.to_svg()


def test_asking_changes_and_sends_nothing():
    shown = AttentionMap(["a", "b"], [[1, 0], [0.25, 0.75]], selection=(1, 1))
    sent: list[Any] = []
    shown.comm.send = lambda *args, **more: sent.append(args)
    shown.observe(sent.append)

    assert bundle(shown) == bundle(shown)
    assert sent == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_the_picture_is_small_whatever_the_map(size: tuple[int, int], causal: bool):
    shown = AttentionMap(
        [f"key{i}" for i in range(size[1])],
        softmax(*size),
        [f"query{i}" for i in range(size[0])],
        causal=causal,
        color_scale="log",
    )

    assert len(bundle(shown)["text/html"]) <= 202_000
    ET.fromstring(picture(shown))


def test_a_picture_of_a_large_map_says_what_was_pooled():
    shown = AttentionMap(list(range(600)), softmax(500, 600), list(range(500)))

    assert "500 queries × 600 keys, 2 × 3 per cell" in picture(shown)


def test_an_explorer_brings_the_picture_of_the_map_that_is_shown():
    explorer = AttentionExplorer(np.stack([np.eye(3), np.eye(3)[::-1]]), ["a", "b", "c"])
    explorer.head = 1

    found = bundle(explorer)

    assert found[VIEW]["model_id"] == explorer.model_id
    assert found["text/html"] == bundle(explorer.map)["text/html"]
    assert "Head 1" in picture(explorer)
