"""Windows of Swin transformers: which patches they hold, by the models' own code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from transformers.models.swin.modeling_swin import window_partition

from attnmap_widget import ImageAttention, Patches, ShapeError, State, capture, explore
from attnmap_widget.images.windows import Windows

CONFIG: dict[str, Any] = {
    "image_size": (40, 64),  # 10 × 16 patches: two rows of padding for windows of 4
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [2, 2],
    "window_size": 4,
}
MODELS = {
    "swin": lambda **more: tf.SwinModel(tf.SwinConfig(**{**CONFIG, **more})),
    "swinv2": lambda **more: tf.Swinv2Model(tf.Swinv2Config(**{**CONFIG, **more})),
}


def partitioned(height: int, width: int, size: int, shift: int) -> np.ndarray:
    """(windows, size², 2): row and column, by what the model does to its states; -1 is padding."""
    grid = torch.full((1, -(-height // size) * size, -(-width // size) * size, 2), -1)
    grid[0, :height, :width, 0] = torch.arange(height)[:, None]
    grid[0, :height, :width, 1] = torch.arange(width)[None, :]
    rolled = torch.roll(grid, shifts=(-shift, -shift), dims=(1, 2))
    return window_partition(rolled, size).reshape(-1, size * size, 2).numpy()


@pytest.mark.parametrize(
    ("height", "width", "size", "shift"),
    [(8, 12, 4, 0), (8, 12, 4, 2), (10, 16, 4, 2), (7, 9, 3, 1), (5, 8, 4, 2), (14, 14, 7, 3)],
)
def test_positions_are_those_of_the_models_partition(
    height: int, width: int, size: int, shift: int
) -> None:
    windows = Windows(height, width, size, shift)
    expected = partitioned(height, width, size, shift)
    assert windows.count == len(expected)
    for window, places in enumerate(expected):
        inside = windows.inside(window)
        np.testing.assert_array_equal(inside, places[:, 0] >= 0)
        np.testing.assert_array_equal(windows.positions(window)[inside], places[inside])
        labels = [f"r{row}c{column}" if row >= 0 else "pad" for row, column in places]
        assert windows.labels(window) == labels


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [(40, 64), (32, 48), (36, 36)])
def test_the_mask_is_the_one_that_the_layer_adds(name: str, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad(), capture(model) as cap:
        model(torch.randn(2, 3, *size), interpolate_pos_encoding=True)
    found = {call.layer: call.windows for call in cap.calls}
    assert sorted(found) == [0, 1, 2, 3]
    layers = [block for stage in model.encoder.layers for block in stage.blocks]
    shifted = 0
    for layer, windows in found.items():
        assert windows is not None
        assert cap.batch_size(layer) == 2 * windows.count
        down, across = windows.rows * windows.size, windows.columns * windows.size
        mask = layers[layer].get_attn_mask(down, across, dtype=torch.float32, device="cpu")
        shifted += mask is not None
        for window in range(windows.count):
            allowed = windows.allowed(window)
            free = np.ones((windows.size**2,) * 2, bool) if mask is None else mask[window] == 0
            ours = np.ones_like(np.asarray(free)) if allowed is None else allowed
            np.testing.assert_array_equal(ours, np.asarray(free))
    assert shifted >= 1


def test_a_window_is_made_of_the_patches_that_it_names() -> None:
    """One patch of the picture differs: exactly the windows that name it change."""
    torch.manual_seed(0)
    model = MODELS["swin"]().eval()
    pixels = torch.randn(1, 3, 40, 64)
    other = pixels.clone()
    other[:, :, 4:8, 0:4] += 3.0  # patch r1c0, at the left edge: the roll takes it to the right
    with torch.no_grad(), capture(model, layers=[0]) as one:
        model(pixels)
    with torch.no_grad(), capture(model, layers=[0]) as two:
        model(other)
    windows = one.calls[0].windows
    for window in range(windows.count):
        same = torch.equal(one.weights(0, 0, batch=window), two.weights(0, 0, batch=window))
        assert same == ("r1c0" not in windows.labels(window))
    # The shifted layer, on states that differ in that patch alone.
    layer = model.encoder.layers[0].blocks[1]
    states = torch.randn(1, 160, 8)
    changed = states.clone()
    changed[0, 1 * 16 + 0] = torch.randn(8)  # a sum would be gone in the layer norm
    seen = []
    for given in (states, changed):
        with torch.no_grad(), capture(layer) as cap:
            layer(given, (10, 16))
        seen.append(cap.calls[0])
    rolled = seen[0].windows
    assert (rolled.shift, rolled.count) == (2, 12)
    differ = [
        window
        for window in range(12)
        if not torch.equal(seen[0].weights(0, window), seen[1].weights(0, window))
    ]
    assert differ == [w for w in range(12) if "r1c0" in rolled.labels(w)]
    assert differ == [rolled.columns * 2 + 3]  # bottom right: rolled up and left past both edges


@pytest.mark.parametrize("name", MODELS)
def test_an_explorer_chooses_a_window_and_not_a_batch_item(name: str) -> None:
    torch.manual_seed(0)
    explorer = explore(MODELS[name](), torch.randn(1, 3, 40, 64))
    menu = explorer.batch_selector
    assert menu.description == "Window"
    assert menu._options_labels[:5] == ("(0, 0)", "(0, 1)", "(0, 2)", "(0, 3)", "(1, 0)")
    explorer.layer, explorer.batch = 1, 11
    assert explorer.map.title == "Layer 1 · Head 0 · Window (2, 3)"
    assert explorer.map.tokens == Windows(10, 16, 4, 2).labels(11)
    assert explorer.map.tokens[8:12] == ["r0c14", "r0c15", "r0c0", "r0c1"]
    assert "rolled by 2" in explorer.map.status
    states = explorer.map.states
    assert states[8, 10] == State.CANNOT_LOOK  # opposite edges
    assert states[8, 9] <= State.ZERO
    assert explorer.map.checks == []
    np.testing.assert_allclose(explorer.map.row_sums, 1, atol=1e-5)
    explorer.layer = 3
    assert explorer.batch == 3
    assert explorer.map.title.endswith("Window (1, 1)")
    explorer.head = "mean"
    assert explorer.map.states[0, 0] <= State.ZERO
    assert explorer.error == ""


def test_windows_of_several_images_say_which() -> None:
    explorer = explore(MODELS["swin"](), torch.randn(2, 3, 40, 64))
    assert explorer.batch_selector._options_labels[12:14] == (
        "(0, 0) of image 1",
        "(0, 1) of image 1",
    )
    explorer.batch = 13
    assert explorer.map.title == "Layer 0 · Head 0 · Window (0, 1) of image 1"
    assert explorer.map.tokens[:2] == ["r0c4", "r0c5"]


def test_patches_of_ones_own_are_refused_where_windows_name_them() -> None:
    with pytest.raises(ShapeError, match="inside windows of 4 × 4, which name their patches"):
        explore(MODELS["swin"](), torch.randn(1, 3, 40, 64), patches=Patches(10, 16, prefix=()))


def test_other_models_still_have_items() -> None:
    model = tf.ViTModel(
        tf.ViTConfig(image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=1,
                     num_attention_heads=2, intermediate_size=16)
    )  # fmt: skip
    explorer = explore(model, torch.randn(3, 3, 32, 32), patches=True)
    assert explorer.batch_selector.description == "Item"
    assert explorer.batch_selector._options_labels == ("0", "1", "2")
    assert explorer.window is None


def test_a_window_lies_where_it_is_on_the_picture() -> None:
    torch.manual_seed(0)
    explorer = explore(MODELS["swin"](), torch.randn(1, 3, 40, 64), layer=1, batch=11)
    picture = np.zeros((40, 64, 3), np.uint8)
    drawn = ImageAttention(explorer, picture)
    seen = drawn.on_picture[0]
    assert seen.shape == (10, 16)
    row = explorer.map.weights[drawn.query]
    labels = explorer.map.tokens
    for r in range(10):
        for c in range(16):
            name = f"r{r}c{c}"
            expected = row[labels.index(name)] if name in labels else np.nan
            np.testing.assert_equal(seen[r, c], expected)
    assert np.isfinite(seen).sum() == 8  # half of that window is padding
    assert sum(weight or 0 for _, _, weight in drawn._row.others) == pytest.approx(
        row.sum() - np.nansum(seen), abs=1e-6
    )
    explorer.layer = 2  # a grid of 5 × 8
    assert drawn.on_picture.shape == (1, 5, 8)
    assert drawn.error == ""
