"""Maps over many heads: a sign of life, beside the notebook where they take long."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from capture_support import build, llama_config, token_ids

from attnmap_widget import AttentionExplorer, capture
from attnmap_widget.aggregates import rollout
from attnmap_widget.exploring import reading_over

LAYERS, HEADS, TOKENS = 4, 3, 5
T = list("abcde")


def stack(seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).random((LAYERS, HEADS, TOKENS, TOKENS)) ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


class Held:
    """A function source whose heads wait for `go`, and which counts what it was asked for."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.asked = weights, []
        self.threads: set[int] = set()

    def __call__(self, layer: int, head: int) -> np.ndarray:
        self.asked.append((layer, head))
        self.threads.add(threading.get_ident())
        return self.weights[layer, head]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is over several heads takes too long."""
    monkeypatch.setattr(reading_over, "_SIGN", -1)
    monkeypatch.setattr(reading_over, "AT_ONCE", 0)


def from_browser(ex: AttentionExplorer, name: str, value: Any) -> None:
    menu = getattr(ex, f"{name}_selector")
    menu.set_state({"index": [known for _, known in menu.options].index(value)})


async def until(happened: Any) -> None:
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.002)


def statuses(ex: AttentionExplorer) -> list[str]:
    seen: list[str] = []
    ex.map.observe(lambda change: seen.append(change["new"]), names="status")
    return seen


def once_said(ex: AttentionExplorer, then: Any) -> None:
    """Call `then` when the notebook goes on after it was first said what is being read."""

    def said(_: Any) -> None:
        ex.map.unobserve(said, names="status")
        asyncio.get_running_loop().call_soon(then)

    ex.map.observe(said, names="status")


def of_capture() -> AttentionExplorer:
    model = build("LlamaModel", llama_config())
    with capture(model) as cap:
        model(token_ids(1, 9))
    return AttentionExplorer(cap, layer=1, head=2)


def of_function() -> AttentionExplorer:
    return AttentionExplorer(Held(stack()), T, layers=range(LAYERS), heads=HEADS, layer=1, head=2)


def of_stack() -> AttentionExplorer:
    return AttentionExplorer(stack(), T, axes="layer head query key", layer=1, head=2)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("made", [of_capture, of_function, of_stack])
@pytest.mark.parametrize(
    ("name", "value"),
    [("layer", "rollout"), ("layer", "mean"), ("layer", "max"), ("head", "mean"), ("head", "max")],
)
def test_beside_the_notebook_the_same_numbers_come_while_the_last_map_stays(
    made: Any, name: str, value: str
) -> None:
    here = made()
    setattr(here, name, value)  # from Python: the next line has the map that was chosen
    assert not here._pending

    async def notebook() -> None:
        ex = made()
        before, title, seen = ex.map.weights, ex.map.title, statuses(ex)
        count = len(ex._source.layers) if name == "layer" else len(ex.head_selector.options) - 2
        meanwhile = []

        def look() -> None:
            assert ex._pending
            assert getattr(ex, name) == value
            assert ex.map.weights is before
            assert ex.map.title == title
            assert seen == [f"reading {count} {name}s …"]
            meanwhile.append(1)

        once_said(ex, look)
        from_browser(ex, name, value)
        await until(lambda: ex.map.title != title)
        assert meanwhile == [1]
        assert not ex._pending
        np.testing.assert_array_equal(ex.map.weights, here.map.weights)
        for trait in ("title", "status", "error", "tokens", "queries", "checks"):
            assert getattr(ex.map, trait) == getattr(here.map, trait)
        np.testing.assert_array_equal(ex.map.states, here.map.states)
        ex.close()

    asyncio.run(notebook())


@pytest.mark.usefixtures("slow")
def test_a_newer_choice_stops_it_and_nothing_of_it_comes_later() -> None:
    async def notebook() -> None:
        ex = of_function()
        read = ex._source.function
        titles: list[str] = []
        ex.map.observe(lambda change: titles.append(change["new"]), names="title")
        stopped = []

        def choose() -> None:
            stopped.append(ex._pass)
            ex.layer = 3

        once_said(ex, choose)
        from_browser(ex, "layer", "rollout")
        await until(lambda: titles)
        assert (ex.layer, ex.head) == (3, 2)
        np.testing.assert_allclose(ex.map.weights, stack()[3, 2].astype(np.float32))
        assert [one._stopped for one in stopped] == [True]
        await asyncio.sleep(0.05)
        assert titles == ["Layer 3 · Head 2"]
        assert ex.map.status == ""
        assert len(read.asked) < LAYERS * HEADS
        assert read.threads == {threading.get_ident()}  # somebody's function knows no other thread
        ex.close()

    asyncio.run(notebook())


@pytest.mark.usefixtures("slow")
def test_what_goes_wrong_beside_the_notebook_is_said_and_the_last_map_stays() -> None:
    weights = stack()
    weights[2, 1, 3, 4] = np.inf

    async def notebook() -> None:
        ex = AttentionExplorer(weights, T, axes="layer head query key", layer=1, head=2)
        before = ex.map.weights
        from_browser(ex, "layer", "mean")
        await until(lambda: ex.error)
        assert "inf" in ex.map.error
        assert ex.map.weights is before
        assert ex.map.status == ""
        from_browser(ex, "layer", 0)
        await until(lambda: not ex.error)
        assert ex.map.title == "Layer 0 · Head 2"
        ex.close()

    asyncio.run(notebook())


@pytest.mark.usefixtures("slow")
def test_the_boxes_go_by_what_was_read_and_wait_for_what_is_being_read() -> None:
    async def notebook() -> None:
        groups = [[0], [1, 2], [3], [4]]
        read = Held(stack())
        ex = AttentionExplorer(
            read, T, layers=range(LAYERS), heads=HEADS, words=groups, merged=False
        )
        ex.map.selection = (3, 4)
        read.asked.clear()

        def switch() -> None:
            ex.words_switch.value = True
            assert ex.map.tokens == T

        once_said(ex, switch)
        from_browser(ex, "layer", "mean")
        await until(lambda: ex.map.title.startswith("mean"))
        assert ex.map.tokens == ["a", "bc", "d", "e"]
        assert ex.map.selection == (2, 3)
        ex.words_switch.value = False
        assert ex.map.tokens == T
        assert ex.map.selection == (3, 4)
        np.testing.assert_allclose(ex.map.weights, stack().mean((0, 1)), atol=1e-6)
        assert len(read.asked) == LAYERS * HEADS + 1  # the one that told how long it takes
        ex.close()

    asyncio.run(notebook())


def test_quick_ones_are_drawn_at_once_and_a_script_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def notebook() -> None:
        ex = of_stack()
        seen = statuses(ex)
        from_browser(ex, "layer", "rollout")
        await until(lambda: ex.map.title.startswith("rollout"))
        assert not ex._pending
        assert seen == []  # no line that comes and goes
        ex.close()

    asyncio.run(notebook())
    monkeypatch.setattr(reading_over, "_SIGN", -1)
    monkeypatch.setattr(reading_over, "AT_ONCE", 0)
    ex = of_stack()
    seen = statuses(ex)
    from_browser(ex, "layer", "rollout")
    np.testing.assert_allclose(ex.map.weights, rollout(stack().mean(1)), atol=1e-6)
    assert seen == ["reading 4 layers …", ""]


def test_large_maps_are_announced_before_the_first_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_over, "_LARGE", LAYERS * HEADS * TOKENS * TOKENS - 1)
    ex = of_stack()
    seen = statuses(ex)
    ex.head = "max"
    assert seen == []
    ex.layer = "max"
    assert seen == ["reading 4 layers …", ""]
