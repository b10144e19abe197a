"""Menus above a map: what they offer, what they choose, what happens when a source fails."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from types import SimpleNamespace

import ipywidgets
import numpy as np
import pytest
import torch

from attnmap_widget import AttentionExplorer, Patches, ShapeError

T = list("abcde")
OVER_LAYERS = ["mean", "max", "rollout"]


def softmax_like(*shape: int, seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).random(shape).astype(np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.fixture
def layers() -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(softmax_like(2, 3, 5, 5, seed=seed)) for seed in range(4))


def shows(explorer: AttentionExplorer, weights: object) -> bool:
    return bool(np.allclose(explorer.map.weights, np.asarray(weights), atol=1e-6, equal_nan=True))


def test_a_tuple_of_layers_has_menus_for_layer_head_and_item(layers) -> None:
    explorer = AttentionExplorer(layers, T)
    assert isinstance(explorer, ipywidgets.VBox)
    assert isinstance(explorer.layer_selector, ipywidgets.Dropdown)
    assert isinstance(explorer.head_selector, ipywidgets.Dropdown)
    assert [value for _, value in explorer.layer_selector.options] == [0, 1, 2, 3, *OVER_LAYERS]
    assert [value for _, value in explorer.head_selector.options] == [0, 1, 2, "mean", "max"]
    assert shows(explorer, layers[0][0, 0])
    assert explorer.map.title == "Layer 0 · Head 0 · item 0"
    explorer.layer = 3
    explorer.head = 2
    explorer.batch = 1
    assert shows(explorer, layers[3][1, 2])
    assert explorer.map.title == "Layer 3 · Head 2 · item 1"
    assert (explorer.layer_selector.value, explorer.head_selector.value) == (3, 2)


def test_the_menus_choose_like_the_traits(layers) -> None:
    explorer = AttentionExplorer(layers, T)
    explorer.layer_selector.value = 2
    explorer.head_selector.value = "max"
    assert (explorer.layer, explorer.head) == (2, "max")
    assert shows(explorer, layers[2][0].amax(0))
    assert "max of 3 heads" in explorer.map.title


def test_mean_says_over_how_many_and_leaves_out_heads_without_weights() -> None:
    explorer = AttentionExplorer(np.array([[[1, 0]], [[0, 1]]]), ["a", "b"], ["q"])
    explorer.head = "mean"
    assert explorer.map.weights.tolist() == [[0.5, 0.5]]
    assert explorer.map.title == "mean of 2 heads"
    stack = softmax_like(3, 2, 2)
    stack[1] = np.nan
    explorer = AttentionExplorer(stack, ["a", "b"], head="mean")
    assert shows(explorer, (stack[0] + stack[2]) / 2)
    assert explorer.map.title == "mean of 2 of 3 heads"


@pytest.mark.parametrize("source", [None, (), [], (None, None), ((), ()), (((), ()), ())])
def test_what_a_fused_backend_returns_is_refused_with_the_way_out(source: object) -> None:
    with pytest.raises(ShapeError, match=r"fused backend.*capture\(model\)"):
        AttentionExplorer(source, T)


@pytest.mark.parametrize(
    ("source", "tokens", "words"),
    [
        (np.zeros((1, 54, 28, 28)), 54, "54 found on axis 1, expected on the last two"),
        ((np.zeros((16, 3, 52, 52)),), 12, "52 keys, but there are 12 tokens"),
        (np.zeros((16, 12, 5, 5)), 5, 'axes="layer head query key"'),
        (np.zeros((12, 1, 5, 5)), 5, "axes="),
        (np.zeros((5, 5)), 5, "AttentionMap"),
        (np.zeros(5), 5, "expected"),
        ((np.zeros((5, 5)),), 5, "expected \\(batch, heads"),
        (((np.zeros((1, 2, 5, 5)),), (np.zeros((1, 2, 1, 6)),)), 6, "generate"),
        ((np.zeros((1, 2, 5, 5)), None), 5, "layer 1 is None"),
    ],
)
def test_what_could_be_two_things_or_does_not_fit_is_refused(
    source: object, tokens: int, words: str
) -> None:
    with pytest.raises(ShapeError, match=words):
        AttentionExplorer(source, list(range(tokens)))


def test_what_an_array_is_is_said_by_its_axes() -> None:
    assert len(AttentionExplorer(np.zeros((1, 7, 7)), range(7)).head_selector.options) == 1
    array = softmax_like(4, 3, 5, 5)
    by_layer = AttentionExplorer(array, T, axes="layer head query key", layer=3, head=1)
    assert shows(by_layer, array[3, 1])
    by_item = AttentionExplorer(array, T, axes="batch head query key", batch=3, head=1)
    assert shows(by_item, array[3, 1])
    assert "item 3" in by_item.map.title
    assert shows(AttentionExplorer(array[:1], T, head=2), array[0, 2])
    flat = np.arange(6 * 3 * 5, dtype=float).reshape(6, 3, 5) / 90
    queries = ["x", "y", "z"]
    for axes, index in (
        ("(head batch) query key", 2 * 2 + 1),
        ("(batch head) query key", 1 * 3 + 2),
    ):
        for given in (flat, torch.tensor(flat)):
            ex = AttentionExplorer(given, T, queries, axes=axes, heads=3, head=2, batch=1)
            np.testing.assert_array_equal(ex.map.weights, flat[index].astype(np.float32))
            assert list(ex.head_selector.options)[2][0] == "2"
    with pytest.raises(ShapeError, match="4 heads × batch items"):
        AttentionExplorer(flat, T, queries, axes="(head batch) query key", heads=4)
    with pytest.raises(ValueError, match="with heads=… accepted are"):
        AttentionExplorer(flat, T, queries, axes="batch head query key", heads=3)
    with pytest.raises(TypeError, match="arrays say so themselves"):
        AttentionExplorer(flat, T, queries, heads=3)
    with pytest.raises(ValueError, match="axes: got 'head layer'"):
        AttentionExplorer(array, T, axes="head layer")
    with pytest.raises(ShapeError, match="names 3"):
        AttentionExplorer(array, T, axes="head query key")


@pytest.mark.parametrize(
    ("name", "value"),
    [("head", 7), ("head", -1), ("head", True), ("head", "median"), ("layer", 4), ("layer", -1),
     ("batch", 2), ("kind", "cross"), ("step", 1)],
)  # fmt: skip
def test_a_choice_that_does_not_exist_lists_those_that_do(layers, name: str, value: object) -> None:
    explorer = AttentionExplorer(layers, T)
    with pytest.raises(ValueError, match=f"{name}: .* does not exist; there are: "):
        setattr(explorer, name, value)
    assert (explorer.layer, explorer.head, explorer.batch) == (0, 0, 0)
    with pytest.raises(ValueError, match=f"{name}: .* does not exist; there are: "):
        AttentionExplorer(layers, T, **{name: value})


def test_a_failing_extraction_shows_in_place_and_the_last_good_map_stays() -> None:
    def source(layer: int, head: int) -> np.ndarray:
        if layer == 3:
            raise RuntimeError("boom")
        return softmax_like(5, 5, seed=10 * layer + head)

    explorer = AttentionExplorer(source, T, layers=[0, 2, 3], heads=2)
    explorer.layer = 2
    good = explorer.map.weights
    explorer.layer = 3
    assert explorer.error == explorer.map.error == "Layer 3 · Head 0: boom"
    assert explorer.map.weights is good
    assert explorer.map.title == "Layer 2 · Head 0"
    assert explorer.layer_selector.value == 3
    explorer.layer = 0
    assert explorer.error == explorer.map.error == ""
    assert shows(explorer, source(0, 0))


def test_a_source_of_the_wrong_shape_is_an_error_in_place() -> None:
    sizes = {0: 5, 1: 4}
    explorer = AttentionExplorer(
        lambda layer, head: softmax_like(sizes[layer], sizes[layer]), T, layers=[0, 1], heads=1
    )
    explorer.layer = 1
    assert "1 fewer key" in explorer.error
    assert explorer.map.weights.shape == (5, 5)


def test_choices_survive_new_options_without_an_event() -> None:
    def source(layer: int, head: int) -> np.ndarray:
        return softmax_like(5, 5, seed=layer)

    explorer = AttentionExplorer(source, T, layers=[0, 1, 5], heads=4, layer=5, head=3)
    events: list[object] = []
    explorer.observe(
        lambda change: events.append((change["name"], change["new"])), ["layer", "head"]
    )
    explorer.layer_selector.observe(lambda change: events.append(change["new"]), "value")
    explorer.use(source, T, layers=[1, 5, 7], heads=4)
    assert (explorer.layer, explorer.layer_selector.value, events) == (5, 5, [])
    assert [value for _, value in explorer.layer_selector.options] == [1, 5, 7, *OVER_LAYERS]
    explorer.use(source, T, layers=[1, 5, 7], heads=2)  # clamps, with one event
    assert (explorer.head, events) == (1, [("head", 1)])
    assert explorer.head_selector.value == 1
    explorer.layer_selector.value = 7
    assert explorer.layer == 7


def test_use_changes_nothing_when_it_refuses() -> None:
    stack = softmax_like(3, 5, 5)
    explorer = AttentionExplorer(stack, T, head=2)
    with pytest.raises(ShapeError):
        explorer.use(np.zeros((2, 4, 4)), T)
    explorer.head = 1
    assert shows(explorer, stack[1])


def test_tokens_of_each_batch_item_and_positions_where_there_are_none() -> None:
    stack = softmax_like(2, 3, 2, 2)
    explorer = AttentionExplorer(
        stack, [["a", "b"], ["c", "d"]], axes="batch head query key", batch=1
    )
    assert explorer.map.tokens == ["c", "d"]
    assert AttentionExplorer(stack[0]).map.tokens == [0, 1]
    rectangular = AttentionExplorer(softmax_like(1, 2, 3), ["a", "b", "c"], ["x", "y"])
    assert (rectangular.map.tokens, rectangular.map.queries) == (["a", "b", "c"], ["x", "y"])


def test_map_options_reach_the_map(layers) -> None:
    explorer = AttentionExplorer(layers, T, scheme="viridis", title="Demo", causal=True)
    assert explorer.map.scheme == "Viridis"
    assert explorer.map.title == "Demo · Layer 0 · Head 0 · item 0"
    explorer.head = 1
    assert explorer.map.causal is True
    with pytest.raises(TypeError, match="shceme"):
        AttentionExplorer(layers, T, shceme="Reds")


def test_a_function_needs_its_layers_and_heads_and_arrays_do_not() -> None:
    with pytest.raises(TypeError, match=r"layers=\[…\], heads=n"):
        AttentionExplorer(lambda layer, head: np.eye(5), T)
    with pytest.raises(TypeError, match="belong to a function"):
        AttentionExplorer(np.zeros((1, 5, 5)), T, heads=1)


def test_of_many_quick_choices_few_are_extracted_and_the_last_is_drawn() -> None:
    read: list[int] = []

    def slow(layer: int, head: int) -> np.ndarray:
        time.sleep(0.05)
        read.append(head)
        return softmax_like(5, 5, seed=head)

    explorer = AttentionExplorer(slow, T, layers=[0], heads=31)
    read.clear()

    async def browser() -> None:
        for head in range(1, 31):  # as the kernel hands on what came during an extraction
            explorer.head_selector.set_state({"index": head})
            await asyncio.sleep(0)
        while explorer.head != 30:
            await asyncio.sleep(0.01)

    asyncio.run(browser())
    assert read[-1] == 30
    assert len(read) <= 7
    assert shows(explorer, softmax_like(5, 5, seed=30))


def test_one_choice_is_one_extraction_and_one_event() -> None:
    read: list[tuple[int, int]] = []

    def source(layer: int, head: int) -> np.ndarray:
        read.append((layer, head))
        return softmax_like(5, 5, seed=head)

    explorer = AttentionExplorer(source, T, layers=[0, 4], heads=3)
    events: list[tuple[str, object]] = []
    explorer.observe(lambda change: events.append((change["name"], change["new"])))
    explorer.head = 2
    explorer.layer = 4
    explorer.layer_selector.value = 0
    assert read == [(0, 0), (0, 2), (4, 2), (0, 2)]
    assert events == [("head", 2), ("layer", 4), ("layer", 0)]


def test_from_python_a_choice_acts_at_once_even_inside_a_running_loop(layers) -> None:
    explorer = AttentionExplorer(layers, T)

    async def cell() -> None:
        explorer.head_selector.set_state({"index": 2})  # still settling …
        explorer.head = 1  # … when Python decides
        assert shows(explorer, layers[0][0, 1])
        explorer.layer_selector.value = 3
        assert shows(explorer, layers[3][0, 1])
        await asyncio.sleep(0.1)
        assert explorer.head == 1

    asyncio.run(cell())


def test_closing_lets_go_of_everything(layers) -> None:
    explorer = AttentionExplorer(layers, T)
    explorer.close()
    assert explorer.comm is None
    assert explorer.map.comm is None


def test_nothing_stays_when_an_explorer_is_closed(layers) -> None:
    before = set(ipywidgets.widgets.widget._instances)
    explorer = AttentionExplorer(layers, T)
    gone = weakref.ref(explorer), weakref.ref(explorer.map.weights)
    explorer.close()
    assert set(ipywidgets.widgets.widget._instances) == before
    del explorer
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_a_choice_that_comes_after_closing_is_dropped() -> None:
    read: list[int] = []

    def source(layer: int, head: int) -> np.ndarray:
        read.append(head)
        return softmax_like(5, 5)

    async def browser() -> None:
        explorer = AttentionExplorer(source, T, layers=[0], heads=3)
        explorer.head_selector.set_state({"index": 2})
        explorer.close()
        await asyncio.sleep(0.1)

    asyncio.run(browser())
    assert read == [0]


def test_heads_of_other_shapes_are_not_broadcast() -> None:
    explorer = AttentionExplorer(
        lambda layer, head: np.full((3, 3) if head else (1, 3), 1 / 3), list("abc"), ["q"],
        layers=[0], heads=2,
    )  # fmt: skip
    explorer.head = "max"
    assert "head 1 is (3, 3), head 0 is (1, 3)" in explorer.error


def test_tokens_of_any_kind_and_too_few_lists(layers) -> None:
    assert AttentionExplorer(layers, (token for token in T)).map.tokens == T
    assert AttentionExplorer(layers, np.array(T)).map.tokens == T
    with pytest.raises(TypeError, match="tokens: got one str"):
        AttentionExplorer(layers, "abcde")
    explorer = AttentionExplorer(layers, [T])
    explorer.batch = 1
    assert "1 lists, none for batch item 1" in explorer.error
    assert explorer.map.title == "Layer 0 · Head 0 · item 0"


def test_an_interrupt_stops_the_extraction_and_says_so() -> None:
    def source(layer: int, head: int) -> np.ndarray:
        if layer:
            raise KeyboardInterrupt
        return softmax_like(5, 5)

    explorer = AttentionExplorer(source, T, layers=[0, 1], heads=1)
    with pytest.raises(KeyboardInterrupt):
        explorer.layer = 1
    assert explorer.error == "Layer 1 · Head 0: interrupted"
    assert explorer.map.title == "Layer 0 · Head 0"


def test_a_function_source_has_at_least_one_of_each() -> None:
    for layers, heads in (([], 1), ([0], 0)):
        with pytest.raises(ValueError, match="at least one of each"):
            AttentionExplorer(lambda layer, head: np.eye(5), T, layers=layers, heads=heads)


def test_one_token_list_for_a_batch_is_said_to_be_one(layers) -> None:
    assert "one list of tokens labels all 2 items" in AttentionExplorer(layers, T).map.status
    assert AttentionExplorer(layers, [T, list("vwxyz")]).map.status == ""
    assert AttentionExplorer(layers).map.status == ""


def test_what_is_no_source_gets_the_way_to_one(layers) -> None:
    with pytest.raises(TypeError, match=r"explore\(model, inputs\)"):
        AttentionExplorer(torch.nn.Linear(2, 2))
    with pytest.raises(ShapeError, match=r"without attention weights.*capture\(model\)"):
        AttentionExplorer(SimpleNamespace(attentions=()), T)
    explorer = AttentionExplorer(SimpleNamespace(attentions=layers), T, layer=2)
    assert shows(explorer, layers[2][0, 0])


@pytest.mark.parametrize(("name", "here"), [("cmap", "scheme"), ("vmax", "color_range")])
def test_names_of_other_libraries_are_known(layers, name: str, here: str) -> None:
    with pytest.raises(TypeError, match=f"unknown option '{name}'; here it is {here}"):
        AttentionExplorer(layers, T, **{name: 1})


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (2, 3, 0), (1, 0, 3, 3)])
def test_a_stack_with_nothing_in_it_is_refused(shape: tuple[int, ...]) -> None:
    for source in (np.zeros(shape), [np.zeros((1, *shape[-3:]))]):
        with pytest.raises(ShapeError, match=r"no head, query or key|nothing is in it"):
            AttentionExplorer(source)


def test_another_source_may_have_another_grid_of_patches() -> None:
    small, large = np.full((2, 7, 7), 1 / 7), np.full((2, 9, 9), 1 / 9)
    explorer = AttentionExplorer(small, patches=Patches(2, 3))
    explorer.use(large, patches=Patches(2, 4))
    assert explorer.map.tokens[-1] == "r1c3"
    with pytest.raises(ShapeError, match="1 CLS"):
        explorer.use(small, patches=Patches(5, 5))
    assert explorer.patches == Patches(2, 4)
    explorer.use(large)
    assert explorer.map.tokens[-1] == "r1c3"
