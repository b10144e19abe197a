"""The first display at any length: few bytes, and every number and label exact."""

from __future__ import annotations

import base64
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_support import labels_of, places_of, states_of, values_of

from attnmap_widget import AttentionMap, State
from attnmap_widget.grid import labels
from attnmap_widget.grid.grids import LongGrid, Survey
from attnmap_widget.grid.packed_labels import pack
from attnmap_widget.grid.tiles import Tile, bin_of, nameable

BUDGET = 2_200_000
"""Bytes of everything that the first display sends, the front end included."""


class Nothing:
    """A head whose windows nobody reads here."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.shape = size


def long_grid(size: tuple[int, int]) -> LongGrid:
    """An overview as of a causal head, different in every bin."""
    rows, columns = bin_of(size)
    shape = (-(-size[0] // rows), -(-size[1] // columns))
    rng = np.random.default_rng(size[0])
    values = rng.random(shape, dtype=np.float32)
    states = np.zeros(shape, dtype=np.uint8)
    states[np.triu_indices(shape[0], 1, shape[1])] = State.CANNOT_LOOK
    down = np.minimum(
        np.arange(shape[0])[:, None] * rows + rng.integers(0, rows, shape), size[0] - 1
    )
    across = np.minimum(
        np.arange(shape[1]) * columns + rng.integers(0, columns, shape), size[1] - 1
    )
    overview = Tile(size, (0, size[0], 0, size[1]), (rows, columns), values, states,
                    down * size[1] + across)  # fmt: skip
    queries = np.ones(size[0])
    return LongGrid(Nothing(size), Survey(overview, queries, queries.astype(int), queries))


def text_like(count: int) -> list[str]:
    """Byte-level tokens, as often repeated as in a text (Zipf's law)."""
    draw = random.Random(7)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = [
        draw.choice(["Ġ", "Ġ", ""]) + "".join(draw.choices(letters, k=draw.randint(1, 8)))
        for _ in range(30_000)
    ]
    frequency = [1 / (rank + 3) for rank in range(len(words))]
    return draw.choices(words, frequency, k=count)


def travels(attention: AttentionMap) -> int:
    """Bytes of all synced traits."""
    buffers = 0

    def plain(part: object) -> str:
        nonlocal buffers
        assert isinstance(part, (bytes, memoryview))
        buffers += memoryview(part).nbytes
        return ""

    state = attention.get_state()
    state.pop("layout")
    text = json.dumps(state, default=plain, ensure_ascii=False, allow_nan=False)
    return buffers + len(text.encode())


@pytest.mark.parametrize("count", [512, 4_096, 32_768, 65_536, 120_000])
@pytest.mark.parametrize("kind", ["text", "positions", "all different"])
def test_the_first_display_fits_the_budget_at_any_length(count: int, kind: str) -> None:
    tokens = {
        "text": lambda: text_like(count),
        "positions": lambda: range(count),
        "all different": lambda: [f"Ġtoken{index}" for index in range(count)],
    }[kind]()
    weights = (
        np.random.default_rng(0).random((count, count), dtype=np.float32)
        if count <= 1024
        else long_grid((count, count))
    )
    attention = AttentionMap(tokens, weights)
    if (count, kind) == (120_000, "all different"):
        assert travels(attention) < 1.2 * BUDGET  # no text is like that
    else:
        assert travels(attention) < BUDGET


def test_a_position_is_exact_in_two_bytes_and_in_four() -> None:
    for size in ((40_000, 70_000), (120_000, 120_000), (500_000, 150_001)):
        tile = long_grid(size).survey.overview
        wire = tile.to_wire()
        wide = tile.bin[0] * tile.bin[1] > 1 << 16
        assert len(wire["at"]) == tile.values.size * (4 if wide else 2)
        query, key = places_of(wire)
        assert tile.at is not None
        np.testing.assert_array_equal(query * size[1] + key, tile.at)
        np.testing.assert_array_equal(states_of(wire), tile.states)
        np.testing.assert_array_equal(values_of(wire), tile.values)


def test_a_first_look_may_name_a_query_below_its_bin() -> None:
    size = (120_000, 120_000)
    tile = long_grid(size).survey.overview
    assert tile.at is not None
    below = Tile(tile.size, tile.window, tile.bin, tile.values, tile.states, tile.at.copy())
    assert below.at is not None
    below.at[7, 9] = (7 * 256 + 511) * size[1] + 9 * 256 + 3  # 16 bits would wrap around
    query, key = places_of(below.to_wire())
    assert (query[7, 9], key[7, 9]) == (7 * 256 + 511, 9 * 256 + 3)


def test_no_grid_is_so_large_that_a_position_would_wrap_around() -> None:
    assert nameable((65_537, 70_000))
    assert nameable((1 << 25, 1 << 25))
    assert not nameable(((1 << 25) + 1, (1 << 25) + 1))
    assert not nameable((1, 1 << 42))


@given(
    st.lists(
        st.one_of(
            st.text(max_size=9),
            st.sampled_from(["Ġthe", "the", "Ċ", "😀", "😀😁", "a😀", "", "\x00", "\ufeff"]),
            st.integers(0, 99),
            st.binary(max_size=4),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_packed_labels_are_the_labels(tokens: list[str | int | bytes]) -> None:
    shown, raw = labels.readable(tokens), [labels.raw_text(token) for token in tokens]
    wire = pack(shown, raw)
    assert wire is not None
    found, given_as = labels_of(wire)
    assert found == shown
    assert [label if token is None else token for label, token in
            zip(found, given_as or [None] * len(found), strict=True)] == raw  # fmt: skip


def test_both_sides_of_the_wire_mean_the_same() -> None:
    """js/test/packed.test.ts reads these very bytes."""
    wire = pack(
        ["·it", "·trid", "😀", "😀1", "ab", "😀"], ["Ġit", "Ġtrid", "😀", "😁1", "ab", "😀"]
    )
    assert wire is not None
    texts = "AAJhYgADwrdpdAEEdHJpZAAC8J+YgAAD8J+YgDEAAmFiAAPEoGl0AQR0cmlkAALwn5iAAAPwn5iBMQ=="
    assert base64.b64encode(wire["texts"]).decode() == texts
    assert base64.b64encode(wire["ids"]).decode() == "AQACAAMABAAAAAMA"
    assert (wire["count"], wire["pairs"]) == (6, True)


def test_short_lists_and_endless_labels_travel_as_they_are() -> None:
    short = {"labels": ["·a", "b"], "raw": ["Ġa", None], "positions": None}
    assert labels.to_wire(["Ġa", "b"]) == short
    tokens = ["x" * 60_000, *map(str, range(3_000))]
    assert labels.to_wire(tokens) == {"labels": tokens, "raw": None, "positions": None}


def test_more_texts_than_two_bytes_can_number() -> None:
    tokens = [f"t{index % 66_000}" for index in range(66_001)]
    wire = labels.to_wire(tokens)
    assert len(wire["ids"]) == 4 * 66_001
    assert labels_of(wire) == (tokens, None)
