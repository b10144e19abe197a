"""A row of attention over its picture: what is drawn and refused, how map and picture agree."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import pytest
import torch
import traitlets
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ipywidgets import Layout
from ipywidgets.embed import embed_data
from PIL import Image

from attnmap_widget import AttentionExplorer, AttentionMap, ImageAttention, Patches, ShapeError
from attnmap_widget.files.pixels import png
from attnmap_widget.grid import schemes
from attnmap_widget.grid.grids import LongGrid, Survey
from attnmap_widget.grid.tiles import Tile

PATCHES = Patches(2, 3, registers=1)  # CLS, reg1, then 2 × 3
NAMES = PATCHES.labels


def weights(queries: int = 8, keys: int = 8, seed: int = 3) -> np.ndarray:
    raw = np.random.default_rng(seed).random((queries, keys)) ** 3
    return (raw / raw.sum(1, keepdims=True)).astype(np.float32)


def photo(height: int = 20, width: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.fixture
def attention() -> AttentionMap:
    return AttentionMap(NAMES, weights(), title="Layer 0")


def wire(widget: ImageAttention, name: str) -> Any:
    return widget.get_state([name])[name]


def sent(widget: ImageAttention) -> np.ndarray:
    return np.frombuffer(wire(widget, "_row")["weights"], "<f4")


# ---- what is drawn -------------------------------------------------------------------------------


def test_the_row_is_that_of_the_hovered_else_the_pinned_else_the_first_token(
    attention: AttentionMap,
) -> None:
    picture = ImageAttention(attention, photo(), PATCHES)
    values = attention.weights
    assert (picture.query, wire(picture, "_row")["name"]) == (0, "CLS")
    np.testing.assert_array_equal(sent(picture), values[0, 2:])
    attention.selection = (5, 1)
    np.testing.assert_array_equal(sent(picture), values[5, 2:])
    attention.hover = (7, 3)
    assert (picture.query, wire(picture, "_row")["key"]) == (7, 3)
    np.testing.assert_array_equal(sent(picture), values[7, 2:])
    np.testing.assert_array_equal(picture.on_picture, values[7, 2:].reshape(1, 2, 3))
    attention.hover = None
    assert wire(picture, "_row")["name"] == "r1c0"
    attention.selection = None
    assert picture.query == 0


def test_nothing_of_the_row_is_hidden(attention: AttentionMap) -> None:
    row = wire(ImageAttention(attention, photo(), PATCHES), "_row")
    values = attention.weights[0]
    assert [one[:2] for one in row["others"]] == [["CLS", 0], ["reg1", 1]]
    assert [one[2] for one in row["others"]] == pytest.approx(values[:2].tolist())
    assert row["on"] == pytest.approx(float(values[2:].sum()))
    assert row["total"] == pytest.approx(1)
    assert row["left_out"] == [0, 0.0]


def test_a_word_lights_up_patches_and_long_texts_are_summed() -> None:
    """LLaVA 1080: query 640 of a prompt, image at keys 35 to 610."""
    patches = Patches(24, 24, start=35)
    values = weights(660, 660)
    attention = AttentionMap(patches.label([f"w{i}" for i in range(660)]), values)
    picture = ImageAttention(attention, photo(48, 48), patches)
    assert picture.query == 659  # the last word, for the first ones may not look at the picture
    picture.query = 640
    assert attention.selection == (640, int(values[640].argmax()))
    np.testing.assert_array_equal(picture.on_picture[0], values[640, 35:611].reshape(24, 24))
    row = wire(picture, "_row")
    assert row["name"] == "w640"
    text = np.delete(values[640], slice(35, 611))
    assert [one[2] for one in row["others"]] == pytest.approx(
        [values[640, key] for _, key, _ in row["others"]]
    )
    assert sorted(one[2] for one in row["others"]) == pytest.approx(np.sort(text)[-8:].tolist())
    assert row["left_out"][0] == 84 - 8
    total = sum(one[2] for one in row["others"]) + row["left_out"][1] + row["on"]
    assert total == pytest.approx(row["total"]) == pytest.approx(1, abs=1e-5)


def test_blocks_have_the_colours_of_the_map_and_sharp_edges(attention: AttentionMap) -> None:
    image = photo()
    picture = ImageAttention(attention, image, PATCHES, opacity=1.0)
    drawn = np.array(Image.open(io.BytesIO(picture.to_png())))
    ramp = schemes.find("Blues").ramp
    top = attention.shown_range[1]
    for row in range(2):
        for column in range(3):
            weight = attention.weights[0, PATCHES.key(row, column)]
            block = drawn[10 * row : 10 * row + 10, 10 * column : 10 * column + 10]
            color = ramp[int(np.floor(weight / top * 255 + 0.5))]
            assert (block == color).all()
    picture.opacity = 0.0
    np.testing.assert_array_equal(np.array(Image.open(io.BytesIO(picture.to_png()))), image)
    picture.opacity = 0.6
    mixed = np.array(Image.open(io.BytesIO(picture.to_png()))).astype(float)
    grey = (image @ [0.2126, 0.7152, 0.0722])[..., None]
    np.testing.assert_allclose(mixed, 0.4 * grey + 0.6 * drawn, atol=1)


def test_smoothing_is_opt_in_and_keeps_the_middles(attention: AttentionMap) -> None:
    plain = ImageAttention(attention, np.zeros((22, 33, 3), np.uint8), PATCHES, opacity=1.0)
    smooth = ImageAttention(
        attention, np.zeros((22, 33, 3), np.uint8), PATCHES, opacity=1.0, smooth=True
    )
    assert not plain.smooth
    blocks, soft = (
        np.array(Image.open(io.BytesIO(one.to_png()))).astype(int) for one in (plain, smooth)
    )
    for row in (5, 16):
        for column in (5, 16, 27):
            assert (blocks[row, column] == soft[row, column]).all()
    between = soft[5, 6:16, 0]
    low, high = sorted((blocks[5, 5, 0], blocks[5, 16, 0]))
    assert ((between >= low) & (between <= high)).all()
    assert len(set(between.tolist())) > 3


def test_a_patch_without_a_weight_does_not_tint_its_neighbour() -> None:
    patches = Patches(1, 2, prefix=())
    attention = AttentionMap(patches, [[1, 0], [0.25, 0.75]], causal=True)
    black = np.zeros((10, 20, 3), np.uint8)
    picture = ImageAttention(attention, black, patches, opacity=1.0, smooth=True)
    drawn = np.array(Image.open(io.BytesIO(picture.to_png())))
    share = np.clip(1 - (np.arange(20) + 0.5 - 5) / 10, 0, 1)
    full = np.array(schemes.find("Blues").ramp[-1], float)
    np.testing.assert_allclose(drawn[3], share[:, None] * full, atol=0.51)


def test_colours_follow_the_map_and_a_scale_by_rows_has_the_whole_row() -> None:
    values = weights()
    values[0] = [0.6, 0, 0.1, 0, 0.05, 0.2, 0, 0.05]
    attention = AttentionMap(NAMES, values, color_scale="row", scheme="Viridis")
    picture = ImageAttention(attention, photo(), PATCHES)
    assert wire(picture, "_row")["top"] == pytest.approx(0.6)  # CLS's, not on the picture
    assert wire(picture, "_colors") == attention.get_state(["_colors"])["_colors"]
    attention.scheme = "Greens"
    assert wire(picture, "_colors") == attention.get_state(["_colors"])["_colors"]


def test_states_keep_their_names() -> None:
    mask = np.ones((8, 8), bool)
    mask[0, 4] = False
    values = weights()
    values[0, 4] = 0
    values[0, 5] = np.nan
    attention = AttentionMap(NAMES, values, mask=mask)
    picture = ImageAttention(attention, photo(), PATCHES)
    assert list(wire(picture, "_row")["states"]) == [0, 0, 3, 2, 0, 0]
    drawn = np.array(Image.open(io.BytesIO(picture.to_png())))
    bare = ImageAttention(attention, photo(), PATCHES).to_png()
    assert drawn.shape == np.array(Image.open(io.BytesIO(bare))).shape
    grey = (photo() @ [0.2126, 0.7152, 0.0722])[..., None]
    np.testing.assert_allclose(drawn[:10, 20:30], np.repeat(grey[:10, 20:30], 3, 2), atol=1)


def test_frames_of_a_video_come_as_a_strip() -> None:
    patches = Patches(2, 3, frames=3, prefix=())
    attention = AttentionMap(patches, weights(18, 18))
    frames = [photo(20, 30, seed) for seed in range(3)]
    picture = ImageAttention(attention, frames, patches)
    assert len(picture._frames) == 3
    assert wire(picture, "_placing")["frames"] == 3
    assert np.array(Image.open(io.BytesIO(picture.to_png()))).shape == (20, 90, 3)
    assert ImageAttention(attention, np.stack(frames), patches)._frames == picture._frames
    with pytest.raises(ShapeError, match="3 frames of patches need 3 pictures, got 2"):
        ImageAttention(attention, frames[:2], patches)
    with pytest.raises(ShapeError, match="got 1"):
        ImageAttention(attention, frames[0], patches)
    with pytest.raises(ShapeError, match="different sizes"):
        ImageAttention(attention, [*frames[:2], photo(40, 60)], patches)


# ---- pictures ------------------------------------------------------------------------------------


def pixels(widget: ImageAttention) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(widget._frames[0]["data"])))


def test_the_same_picture_from_any_library(attention: AttentionMap) -> None:
    image = photo()
    as_tensor = torch.tensor(image).permute(2, 0, 1)
    for form in (
        image,
        [image],
        image.astype(np.float64) / 255,
        Image.fromarray(image),
        Image.fromarray(image).convert("RGBA"),
        as_tensor,
        (as_tensor.float() / 255).requires_grad_(),
    ):
        np.testing.assert_array_equal(
            pixels(ImageAttention(attention, form, PATCHES)), image, err_msg=str(type(form))
        )
    grey = image[..., :1]
    for form in (grey, grey[..., 0], torch.tensor(grey).permute(2, 0, 1)):
        np.testing.assert_array_equal(
            pixels(ImageAttention(attention, form, PATCHES)), np.repeat(grey, 3, 2)
        )


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (photo().astype(np.float32) / 100 - 1, ValueError, "Normalised pixel_values"),
        (photo().astype(np.float32), ValueError, "divide by 255"),
        (np.full((20, 30, 3), np.nan), ValueError, "NaN"),
        (photo().astype(np.int64), TypeError, "got int64"),
        (photo().transpose(2, 0, 1), ShapeError, r"image.transpose\(1, 2, 0\) turns it"),
        (torch.tensor(photo()), ShapeError, r"image.permute\(2, 0, 1\) turns it"),
        (torch.zeros(1, 3, 20, 30), ShapeError, r"image\[0\]"),
        (np.zeros((1, 20, 30, 3), np.uint8), ShapeError, r"image\[0\]"),
        (np.zeros((20, 30, 4), np.uint8), ShapeError, "leave the alpha channel out"),
        (np.zeros((0, 30, 3), np.uint8), ShapeError, r"\(0, 30, 3\)"),
        (photo(20, 20), ShapeError, "20 × 20 pixels under 2 × 3 patches: not what the model saw"),
        (photo(30, 20), ShapeError, "resize it as the model's processor does, say to 13 × 20"),
        (np.zeros((2000, 3000, 3), np.uint8), ShapeError, "up to 2048 a side"),
        ("cat.jpg", TypeError, "got str"),
        (None, TypeError, "got NoneType"),
    ],
)
def test_a_picture_that_is_not_what_the_model_saw_is_refused(
    attention: AttentionMap, given: Any, error: type, words: str
) -> None:
    with pytest.raises(error, match=words):
        ImageAttention(attention, given, PATCHES)


def test_a_picture_scaled_with_rounding_still_fits(attention: AttentionMap) -> None:
    ImageAttention(attention, photo(67, 100), PATCHES)
    ImageAttention(attention, photo(133, 200), PATCHES)


def test_maps_and_patches_that_do_not_fit_are_refused(attention: AttentionMap) -> None:
    with pytest.raises(ShapeError, match="8 keys: 1 CLS \\+ 2 × 3 = 7"):
        ImageAttention(attention, photo(), (2, 3))
    with pytest.raises(TypeError, match="patches: say where they are"):
        ImageAttention(attention, photo())
    with pytest.raises(TypeError, match="expected an AttentionMap or an explorer"):
        ImageAttention(weights(), photo(), PATCHES)
    with pytest.raises(TypeError, match="unknown option 'alpha'"):
        ImageAttention(attention, photo(), PATCHES, alpha=0.5)
    with pytest.raises(traitlets.TraitError, match="expected 0 to 1"):
        ImageAttention(attention, photo(), PATCHES, opacity=60)


def test_a_pillow_picture_of_more_than_256_greys_is_refused(attention: AttentionMap) -> None:
    deep = (np.arange(600).reshape(20, 30) * 100).astype(np.uint16)
    for form in (Image.fromarray(deep), Image.fromarray(deep.astype(np.float32))):
        with pytest.raises(TypeError, match=f"mode {form.mode!r}, whose pixels may be beyond 255"):
            ImageAttention(attention, form, PATCHES)


def test_the_picture_is_of_one_item_of_the_batch() -> None:
    stack = np.stack([weights(24, 8, seed).reshape(3, 8, 8) for seed in (1, 2)])
    explorer = AttentionExplorer((stack,), patches=PATCHES, batch=1)
    picture = ImageAttention(explorer, photo())
    kept = sent(picture)
    np.testing.assert_array_equal(kept, stack[1, 0, 0, 2:])
    explorer.batch = 0
    assert "this is the picture of item 1, the explorer shows item 0" in picture.error
    np.testing.assert_array_equal(sent(picture), kept)
    explorer.map.hover = (3, 4)
    np.testing.assert_array_equal(sent(picture), kept)
    with pytest.raises(ShapeError, match="picture of item 1"):
        _ = picture.on_picture
    picture.set_state({"hover": 2})
    assert explorer.map.hover == (3, 4)
    picture.set_state({"hover": None})  # the pointer has left
    assert explorer.map.hover is None
    explorer.map.hover = (3, 4)
    explorer.batch = 1
    assert picture.error == ""
    np.testing.assert_array_equal(sent(picture), stack[1, 0, 3, 2:])


def test_an_item_that_could_not_be_read_changes_nothing() -> None:
    def read(layer: int, head: int) -> np.ndarray:
        if head == 1:
            raise OSError("gone")
        return weights()

    explorer = AttentionExplorer(read, layers=[0], heads=2, patches=PATCHES)
    picture = ImageAttention(explorer, photo())
    explorer.head = 1
    assert "gone" in explorer.error
    explorer.map.hover = (3, 5)
    assert (picture.error, picture.query) == ("", 3)
    np.testing.assert_array_equal(sent(picture), weights()[3, 2:])


def test_the_patches_are_those_that_the_explorer_has_now() -> None:
    explorer = AttentionExplorer(weights()[None], patches=PATCHES)
    picture = ImageAttention(explorer, photo())
    explorer.patches = Patches(2, 3)
    explorer.use(weights(7, 7)[None])
    assert picture.error == ""
    np.testing.assert_array_equal(picture.on_picture.ravel(), weights(7, 7)[0, 1:])
    explorer.patches = Patches(2, 3, frames=2)
    explorer.use(weights(13, 13)[None])
    assert "2 frames of patches" in picture.error


def test_what_cannot_be_looked_at_has_no_weight_beside_the_picture_either() -> None:
    values = np.tril(weights())
    values[0, 1] = 0.25  # CLS looks at the register, where it cannot
    attention = AttentionMap(NAMES, values, causal=True)
    picture = ImageAttention(attention, np.zeros((20, 30), np.uint8), PATCHES, opacity=1.0)
    assert [one[2] for one in wire(picture, "_row")["others"]] == pytest.approx(
        [values[0, 0], 0.25]
    )
    values[0, 1], values[0, 7] = 0, 0.25
    attention.weights = values
    assert [one[2] for one in wire(picture, "_row")["others"]] == [
        pytest.approx(values[0, 0]),
        None,
    ]
    drawn = np.array(Image.open(io.BytesIO(picture.to_png())))
    assert (drawn[:10] == [0, 0, 0]).all()  # nothing over it
    assert (drawn[10:, 20:] != [0, 0, 0]).any()  # a leak is drawn, as in the map


# ---- two ways ------------------------------------------------------------------------------------


def test_hovering_a_patch_hovers_its_cell(attention: AttentionMap) -> None:
    picture = ImageAttention(attention, photo(), PATCHES)
    attention.selection = (3, 0)
    picture.set_state({"hover": 6})
    assert attention.hover == (3, 6)
    assert wire(picture, "_row")["key"] == 6
    picture.set_state({"hover": None})
    assert attention.hover is None
    assert attention.selection == (3, 0)


def test_a_click_makes_a_patch_the_query_and_escape_lets_go(attention: AttentionMap) -> None:
    picture = ImageAttention(attention, photo(), PATCHES)
    events: list[Any] = []
    attention.observe(lambda change: events.append(change["new"]), names="selection")
    picture.set_state({"hover": 4})
    picture.set_state({"_picked": [4]})
    assert picture.query == 4
    assert attention.selection == (4, int(attention.weights[4].argmax()))
    picture.set_state({"_picked": [4]})  # the same again is no other event
    assert len(events) == 1
    picture.set_state({"_picked": []})
    assert (attention.selection, attention.hover, picture.query) == (None, None, 0)


def test_where_queries_are_words_no_patch_is_a_query() -> None:
    patches = Patches(2, 3, prefix=())
    attention = AttentionMap(patches, weights(4, 6), ["a", "red", "cat", "."])
    picture = ImageAttention(attention, photo(), patches)
    assert not wire(picture, "_placing")["square"]
    picture.set_state({"_picked": [3]})
    assert attention.selection is None
    attention.hover = (2, 1)
    assert wire(picture, "_row")["name"] == "cat"
    with pytest.raises(ValueError, match="query: 4 does not exist"):
        picture.query = 4


def test_a_late_message_about_another_map_changes_nothing(attention: AttentionMap) -> None:
    picture = ImageAttention(attention, photo(), PATCHES)
    picture.set_state({"hover": 8})
    picture.set_state({"_picked": [12]})
    assert (attention.hover, attention.selection) == (None, None)
    with pytest.raises(traitlets.TraitError, match="key 8 does not exist"):
        picture.hover = 8


def test_choosing_another_head_redraws_and_a_misfit_leaves_the_last_good_picture() -> None:
    layers = (weights(2 * 8, 8).reshape(1, 2, 8, 8), weights(2 * 5, 5).reshape(1, 2, 5, 5))
    explorer = AttentionExplorer(layers[:1], patches=PATCHES)
    picture = ImageAttention(explorer, photo())
    explorer.head = 1
    np.testing.assert_array_equal(picture.on_picture.ravel(), layers[0][0, 1, 0, 2:])
    np.testing.assert_array_equal(sent(picture), layers[0][0, 1, 0, 2:])
    assert wire(picture, "_map_title") == "Layer 0 · Head 1"
    assert wire(picture, "_value_title") == "weight"
    picture._map.value_title = "‖αv‖"
    assert wire(picture, "_value_title") == "‖αv‖"
    bare = AttentionExplorer(layers)
    over = ImageAttention(bare, photo(), PATCHES)
    kept = sent(over)
    bare.layer = 1
    assert "5 keys: 1 CLS + 1 register + 2 × 3 = 8" in over.error
    np.testing.assert_array_equal(sent(over), kept)
    over.set_state({"hover": 2})
    over.set_state({"_picked": [2]})  # the picture shows another map than there is
    assert (bare.map.hover, bare.map.selection) == (None, None)
    bare.layer = 0
    assert over.error == ""


def test_only_a_row_travels(attention: AttentionMap) -> None:
    patches = Patches(14, 14)
    large = AttentionMap(patches, weights(197, 197))
    picture = ImageAttention(large, photo(140, 140), patches)
    messages: list[dict[str, Any]] = []
    picture.comm.send = lambda *args, **kwargs: messages.append(  # type: ignore[method-assign]
        {
            "data": kwargs.get("data", args[0] if args else {}),
            "buffers": kwargs.get("buffers") or [],
        }
    )
    large.hover = (50, 60)
    states = [m["data"]["state"] for m in messages if m["data"].get("method") == "update"]
    assert set().union(*states) == {"_row"}
    assert sum(len(memoryview(b).cast("B")) for m in messages for b in m["buffers"]) == 4 * 196
    json.dumps(states)  # no bytes are left in it, and below no NaN
    json.loads(json.dumps(states), parse_constant=pytest.fail)
    messages.clear()
    large.hover = (50, 60)
    assert messages == []


class Far:
    """A long grid that counts what is read."""

    shape = (2000, 8)

    def __init__(self) -> None:
        self.read: list[int] = []

    def window(self, window: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
        q0, q1, k0, k1 = window
        self.read.append(q0)
        cells = np.arange(q0 * 8, q1 * 8, dtype=np.float32).reshape(-1, 8)[:, k0:k1] / 16000
        return cells, np.zeros(cells.shape, np.uint8)


def long_map() -> tuple[Far, AttentionMap]:
    far = Far()
    at = np.arange(0, 16000, 32, dtype=np.int64).reshape(500, 1) * np.ones((1, 8), np.int64)
    tile = Tile((2000, 8), (0, 2000, 0, 8), (4, 1), np.zeros((500, 8), np.float32),
                np.zeros((500, 8), np.uint8), at)  # fmt: skip
    survey = Survey(tile, np.ones(2000), np.zeros(2000, np.int64), np.ones(2000, np.float32))
    return far, AttentionMap(NAMES, LongGrid(far, survey), list(range(2000)))


def test_rows_of_a_long_head_are_read_one_by_one() -> None:
    far, attention = long_map()
    picture = ImageAttention(attention, photo(), PATCHES)
    attention.selection = (1234, 2)
    np.testing.assert_array_equal(sent(picture), far.window((1234, 1235, 2, 8))[0][0])


def test_of_many_hovers_over_a_long_head_the_last_row_is_read() -> None:
    far, attention = long_map()
    picture = ImageAttention(attention, photo(), PATCHES)

    async def sweep() -> None:
        attention.hover = None
        far.read.clear()
        for query in range(100, 160):
            attention.hover = (query, 3)
        while wire(picture, "_row")["query"] != 159:
            await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(sweep(), 20))
    drawn = [query for query in far.read if query != 159]
    # the map itself lists each row's largest keys; the picture reads no row but the last
    assert len(drawn) == 59
    np.testing.assert_array_equal(sent(picture), far.window((159, 160, 2, 8))[0][0])


@given(
    arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 13), st.just(4))),
)
def test_a_photo_is_packed_without_loss(taken: np.ndarray) -> None:
    taken[..., 3] = 255
    packed = Image.open(io.BytesIO(png(taken, photo=True)))
    np.testing.assert_array_equal(np.array(packed), taken[..., :3])


def test_a_photo_takes_less_than_its_pixels() -> None:
    path = Path(__file__).parents[2] / "notebooks/images/chelsea.jpg"
    photograph = np.array(Image.open(path).convert("RGBA"))
    assert len(png(photograph, photo=True)) < 0.7 * len(png(photograph))


# ---- files, life ---------------------------------------------------------------------------------


def test_a_saved_notebook_keeps_the_picture(attention: AttentionMap) -> None:
    picture = ImageAttention(attention, photo(), PATCHES, title='<b>"x"')
    bundle, _ = picture._repr_mimebundle_()
    assert bundle["text/plain"] == 'ImageAttention(<b>"x": attention of CLS (0))'
    assert bundle["text/html"].startswith('<img alt="&lt;b&gt;&quot;x&quot;: attention of CLS (0)')
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert picture.to_png() == picture.to_png()


def test_an_embedded_page_gets_all_of_it(attention: AttentionMap) -> None:
    picture = ImageAttention(attention, photo(), PATCHES)
    state = embed_data([picture], drop_defaults=True)["manager_state"]["state"]
    mine = state[picture.model_id]
    sent_as_bytes = {entry["path"][0] for entry in mine["buffers"]}
    declared = set(ImageAttention.class_traits(sync=True)) - set(
        anywidget.AnyWidget.class_traits(sync=True)
    )
    assert declared <= {*mine["state"], *sent_as_bytes}


def test_closing_the_picture_leaves_the_map(attention: AttentionMap) -> None:
    picture = ImageAttention(attention, photo(), PATCHES)
    other = ImageAttention(attention, photo(), PATCHES)
    picture.close()
    attention.selection = (2, 2)
    assert attention.selection == (2, 2)
    assert (picture._row.query, other._row.query) == (0, 2)
    attention.close()
    other.set_state({"hover": 3})  # a last message on its way
    other.close()


def test_what_is_closed_says_so(attention: AttentionMap) -> None:
    layout = Layout(width="300px")
    picture = ImageAttention(attention, photo(), PATCHES, layout=layout)
    attention.close()
    assert picture.to_png().startswith(b"\x89PNG")
    assert "text/html" in picture._repr_mimebundle_()[0]
    picture.close()
    assert layout.comm is not None  # somebody's own
    assert repr(picture) == "ImageAttention(closed)"


@pytest.mark.parametrize("query", ["1", 1.5, None])
def test_a_query_is_a_whole_number(attention: AttentionMap, query: Any) -> None:
    with pytest.raises(TypeError, match="integer"):
        ImageAttention(attention, photo(), PATCHES).query = query


def test_the_front_end_knows_every_synced_trait() -> None:
    source = (Path(__file__).parents[2] / "js/src/imagemodel.ts").read_text(encoding="utf-8")
    body = re.search(r"export interface ImageState \{(.*?)\n\}", source, re.DOTALL)
    assert body is not None
    declared = set(re.findall(r"^\t(\w+):", body.group(1), re.MULTILINE))
    inherited = set(anywidget.AnyWidget.class_traits(sync=True))
    assert declared == set(ImageAttention.class_traits(sync=True)) - inherited


def test_state_is_json_with_hostile_names_and_gaps() -> None:
    values = weights()
    values[0, 1:4] = np.nan
    names = ["</script>", "\ud83d", *NAMES[2:]]
    picture = ImageAttention(AttentionMap(names, values), photo(), PATCHES)
    state = json.dumps(picture.get_state(["_row", "_placing"]), default=lambda _: 0)
    state.encode("utf-8")
    json.loads(state, parse_constant=pytest.fail)
    assert picture.get_state(["_row"])["_row"]["others"][1][2] is None
