"""Which keys are patches: labels, places and sums, by hand and of real vision models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from hypothesis import given
from hypothesis import strategies as st

from attnmap_widget import AttentionExplorer, AttentionMap, Patches, ShapeError, explore

SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}


def rows(queries: int, keys: int) -> np.ndarray:
    """Rows that sum to 1, another number in every cell."""
    raw = np.random.default_rng(7).random((queries, keys)) ** 4
    return (raw / raw.sum(1, keepdims=True)).astype(np.float32)


# ---- labels and sums -----------------------------------------------------------------------------


def test_a_cls_token_before_fourteen_by_fourteen() -> None:
    """bertviz 73."""
    patches = Patches(14, 14)

    attention = AttentionMap(patches.labels, rows(197, 197))

    assert len(patches) == patches.count == 197
    assert attention.tokens[:3] == ["CLS", "r0c0", "r0c1"]
    assert attention.tokens[15] == "r1c0"
    assert attention.tokens[-1] == "r13c13"
    assert AttentionMap(patches, rows(197, 197)).tokens == attention.tokens


def test_registers_stand_between_and_a_misfit_does_the_sum() -> None:
    """dinov2 90."""
    patches = Patches(29, 29, registers=4)

    assert patches.labels[:7] == ["CLS", "reg1", "reg2", "reg3", "reg4", "r0c0", "r0c1"]
    patches.check(846)
    with pytest.raises(ShapeError) as refusal:
        patches.check(845)
    assert "845 keys: 1 CLS + 4 registers + 29 × 29 = 846" in str(refusal.value)


def test_no_prefix_other_names_and_tokens_after() -> None:
    assert Patches(2, 3, prefix=()).labels == ["r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"]
    around = Patches(1, 2, prefix=("CLS", "query1", "query2"), suffix=("DIST",))
    assert around.labels == ["CLS", "query1", "query2", "r0c0", "r0c1", "DIST"]
    assert around.sum == "1 CLS + 2 query + 1 × 2 + 1 DIST = 6"
    with pytest.raises(ShapeError, match=r"without any token before or after them: prefix=\(\)"):
        Patches(14, 14).check(196)


def test_frames_of_a_video_after_merging() -> None:
    """Qwen3-VL 1097."""
    patches = Patches.merged(torch.tensor([[4, 24, 46]]), merge=2)

    assert (patches.frames, patches.rows, patches.columns) == (4, 12, 23)
    assert patches.count == 1104
    assert patches.labels[0] == "f0 r0c0"
    assert patches.labels[2 * 12 * 23 + 3 * 23 + 4] == "f2 r3c4"
    with pytest.raises(ShapeError, match="4 × 12 × 23 = 1104"):
        patches.check(1100)
    with pytest.raises(ShapeError, match="24 × 45 patches do not merge 2 by 2"):
        Patches.merged((4, 24, 45))
    with pytest.raises(ShapeError, match="of one picture"):
        Patches.merged(torch.tensor([[1, 4, 6], [1, 8, 4]]))


def test_a_picture_inside_a_text() -> None:
    """LLaVA 1080: query 640 of a prompt, image at keys 35 to 610."""
    patches = Patches(24, 24, start=35)
    words = [f"w{i}" for i in range(660)]

    labels = patches.label(words)

    assert labels[34:37] == ["w34", "r0c0", "r0c1"]
    assert labels[610:612] == ["r23c23", "w611"]
    assert len(labels) == 660
    weights = rows(1, 660)[0]
    seen = patches.on_picture(weights)
    assert seen.shape == (1, 24, 24)
    assert seen[0, 3, 5] == weights[35 + 3 * 24 + 5]
    assert patches.label(keys=612)[610:] == ["r23c23", 611]
    with pytest.raises(ShapeError, match=r"600 keys: patches from key 35: 35 \+ 24 × 24 = 611"):
        patches.label(words[:600])
    with pytest.raises(ValueError, match=r"patches.label\(tokens\)"):
        AttentionMap(patches.labels, rows(611, 611))
    with pytest.raises(ValueError, match="leave prefix, suffix and registers out"):
        Patches(24, 24, start=35, registers=4)


def test_a_count_alone_is_refused_with_the_grids_that_it_could_be() -> None:
    """vit-pytorch 219."""
    with pytest.raises(ShapeError) as refusal:
        Patches.of(25)
    assert "25 keys = 1 CLS + 24 patches, which could be 4 × 6, 3 × 8 or 2 × 12" in str(
        refusal.value
    )
    # a square is no better known: 14 × 14 might be 7 × 28
    with pytest.raises(ShapeError, match="14 × 14, 7 × 28, 4 × 49 or 2 × 98"):
        Patches.of(197)
    with pytest.raises(ShapeError, match="4 × 6"):
        Patches.of(25, image=(32, 48))
    with pytest.raises(ShapeError, match=r"1 × 13"):
        Patches.of(13, prefix=())
    with pytest.raises(ShapeError, match="2 frames of 12 patches, which could be 3 × 4 or 2 × 6"):
        Patches.of(25, frames=2)
    with pytest.raises(ShapeError, match="0 are left"):
        Patches.of(5, registers=4)


def test_a_picture_and_a_patch_size_imply_the_grid() -> None:
    assert Patches.of(25, image=(32, 48), patch=8) == Patches(4, 6)
    assert Patches.of(29, (32, 48), 8, registers=4) == Patches(4, 6, registers=4)
    assert Patches.of(12, (32, 48), (8, 16), prefix=()) == Patches(4, 3, prefix=())
    with pytest.raises(ShapeError, match="26 keys: 1 CLS \\+ 4 × 6 = 25"):
        Patches.of(26, image=(32, 48), patch=8)
    with pytest.raises(ShapeError, match=r"30 × 48 pixels .* crop to 24 × 48"):
        Patches.of(25, image=(30, 48), patch=8)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((0, 3), ValueError),
        ((2.0, 3), TypeError),
        ((True, 3), ValueError),
        ((2, -3), ValueError),
    ],
)
def test_counts_are_whole_numbers_above_zero(given: tuple[Any, Any], error: type) -> None:
    with pytest.raises(error, match=r"rows|columns"):
        Patches(*given)


def test_names_are_a_list_not_one_word() -> None:
    with pytest.raises(TypeError, match="prefix"):
        Patches(2, 3, prefix="CLS")  # type: ignore[arg-type]


grids = st.builds(
    Patches,
    st.integers(1, 9),
    st.integers(1, 11),
    prefix=st.lists(st.sampled_from(["CLS", "task"]), max_size=3).map(tuple),
    suffix=st.lists(st.just("END"), max_size=2).map(tuple),
    registers=st.integers(0, 5),
    frames=st.integers(1, 4),
) | st.builds(
    Patches,
    st.integers(1, 9),
    st.integers(1, 11),
    frames=st.integers(1, 4),
    start=st.integers(0, 40),
)


@given(grids, st.data())
def test_a_key_and_its_place_are_each_others_inverse(patches: Patches, data: st.DataObject) -> None:
    keys = patches.count + (data.draw(st.integers(0, 9)) if patches.start is not None else 0)
    labels = patches.label(keys=keys)
    row = np.arange(keys, dtype=np.float32)
    seen = patches.on_picture(row)
    assert len(labels) == keys
    assert patches.patches == sum(patches.place(key) is not None for key in range(keys))
    for key in range(keys):
        place = patches.place(key)
        if place is not None:
            assert patches.key(place.row, place.column, place.frame) == key
            assert seen[place] == key
            lead = f"f{place.frame} " if patches.frames > 1 else ""
            assert labels[key] == f"{lead}r{place.row}c{place.column}"


@given(grids)
def test_what_a_patches_says_of_itself_makes_it_again(patches: Patches) -> None:
    assert eval(repr(patches)) == patches
    assert patches.place(-1) is None
    assert patches.place(patches.first + patches.patches) is None
    with pytest.raises(ValueError, match="column"):
        patches.key(0, patches.columns)
    with pytest.raises(ValueError, match="row"):
        patches.key(patches.rows, 0)


# ---- real models ---------------------------------------------------------------------------------

VIT = {**SMALL, "image_size": (32, 48), "patch_size": 8}
DINO = {**SMALL, "image_size": 32, "patch_size": 8}
MODELS = {
    "vit": (lambda: tf.ViTModel(tf.ViTConfig(**VIT)), (32, 48), ["CLS", "r0c0"]),
    "deit": (
        lambda: tf.DeiTModel(tf.DeiTConfig(**VIT)),
        (32, 48),
        ["CLS", "distillation", "r0c0"],
    ),
    "dinov2": (lambda: tf.Dinov2Model(tf.Dinov2Config(**DINO)), (24, 40), ["CLS", "r0c0"]),
    "dinov2 with registers": (
        lambda: tf.Dinov2WithRegistersModel(
            tf.Dinov2WithRegistersConfig(**DINO, num_register_tokens=3)
        ),
        (24, 40),
        ["CLS", "reg1", "reg2", "reg3", "r0c0"],
    ),
    "dinov3": (
        lambda: tf.DINOv3ViTModel(tf.DINOv3ViTConfig(**DINO, num_register_tokens=2)),
        (24, 40),
        ["CLS", "reg1", "reg2", "r0c0"],
    ),
    "clip": (
        lambda: tf.CLIPVisionModel(tf.CLIPVisionConfig(**DINO)),
        (32, 32),
        ["CLS", "r0c0"],
    ),
    "siglip": (
        lambda: tf.SiglipVisionModel(tf.SiglipVisionConfig(**DINO)),
        (32, 32),
        ["r0c0", "r0c1"],
    ),
    "ijepa": (lambda: tf.IJepaModel(tf.IJepaConfig(**VIT)), (32, 48), ["r0c0", "r0c1"]),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_says_where_its_patches_are(name: str) -> None:
    torch.manual_seed(0)
    make, (height, width), first = MODELS[name]

    explorer = explore(make(), {"pixel_values": torch.randn(2, 3, height, width)}, patches=True)

    patches = explorer.patches
    assert (patches.rows, patches.columns) == (height // 8, width // 8)
    assert explorer.map.tokens[: len(first)] == first
    assert explorer.map.tokens[-1] == f"r{height // 8 - 1}c{width // 8 - 1}"
    assert len(explorer.map.tokens) == patches.count == explorer.map.weights.shape[0]


def test_a_row_of_a_model_turns_with_its_picture() -> None:
    """Rows and columns are not swapped: one patch is made bright, and every query looks there."""
    torch.manual_seed(0)
    model = tf.ViTModel(tf.ViTConfig(**VIT)).eval()
    model.embeddings.position_embeddings.data.zero_()
    pixels = torch.zeros(1, 3, 32, 48)
    pixels[:, :, 8:16, 32:40] = 5.0  # row 1, column 4
    explorer = explore(model, pixels, patches=True)
    row = explorer.patches.on_picture(explorer.map.weights[0])[0]
    others = np.delete(row.ravel(), 1 * 6 + 4)
    np.testing.assert_allclose(others, others[0], rtol=1e-4)
    assert abs(row[1, 4] - others[0]) > 100 * np.ptp(others)


def test_pixels_that_make_no_whole_grid_are_refused() -> None:
    model = tf.Dinov2Model(tf.Dinov2Config(**DINO))
    with pytest.raises(ShapeError, match=r"26 × 40 pixels .* crop to 24 × 40"):
        explore(model, torch.randn(1, 3, 26, 40), patches=True)
    with pytest.raises(ShapeError, match=r"pixel_values: got shape \(3, 24, 40\)"):
        Patches.from_model(model, torch.randn(3, 24, 40))


def test_a_model_that_is_not_known_is_not_guessed() -> None:
    beit = tf.BeitModel(tf.BeitConfig(**DINO))
    with pytest.raises(ValueError, match="how beit cuts a picture is not known here"):
        Patches.from_model(beit, torch.randn(1, 3, 32, 32))
    with pytest.raises(TypeError, match="patches=True needs pixel_values"):
        explore(beit, lambda: beit(torch.randn(1, 3, 32, 32)), patches=True)


def test_an_explorer_needs_no_token_strings() -> None:
    stack = rows(2 * 25, 25).reshape(2, 25, 25)

    explorer = AttentionExplorer(stack, patches=(4, 6))

    assert explorer.map.tokens == Patches(4, 6).labels
    assert explorer.map.queries == Patches(4, 6).labels
    with pytest.raises(ShapeError, match="25 keys: 1 CLS \\+ 3 × 6 = 19"):
        AttentionExplorer(stack, patches=(3, 6))
    with pytest.raises(TypeError, match="patches: got 24"):
        AttentionExplorer(stack, patches=24)


def test_words_that_look_at_patches_and_a_text_with_a_picture() -> None:
    cross = AttentionExplorer(
        rows(2 * 3, 24).reshape(2, 3, 24),
        None,
        ["a", "red", "cat"],
        patches=Patches(4, 6, prefix=()),
    )
    assert cross.map.queries == ["a", "red", "cat"]
    assert cross.map.tokens[-1] == "r3c5"
    words = ["see", *["<image>"] * 6, "a", "cat"]
    one = AttentionExplorer(rows(9, 9)[None], words, patches=Patches(2, 3, start=1))
    assert one.map.tokens == ["see", "r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2", "a", "cat"]
    latent = AttentionExplorer(rows(5, 24)[None], patches=Patches(4, 6, prefix=()))
    assert latent.map.queries == [0, 1, 2, 3, 4]


def test_the_towers_of_clip_have_words_and_patches() -> None:
    torch.manual_seed(0)
    text = {**SMALL, "vocab_size": 40, "max_position_embeddings": 12, "eos_token_id": 2}
    model = tf.CLIPModel(
        tf.CLIPConfig(text_config=text, vision_config=DINO, projection_dim=8)
    ).eval()
    ids = torch.tensor([[5, 9, 7, 2]])
    inputs = {"input_ids": ids, "pixel_values": torch.randn(1, 3, 32, 32)}

    explorer = explore(model, inputs, tokens=["a", "red", "cat", "end"], patches=True)

    explorer.kind = "vision"
    assert explorer.map.tokens == Patches(4, 4).labels
    explorer.kind = "text"
    assert explorer.map.tokens == ["a", "red", "cat", "end"]
    assert explorer.error == ""


def test_a_layer_with_another_grid_is_refused_in_place() -> None:
    explorer = AttentionExplorer((rows(25, 25)[None, None], rows(7, 7)[None, None]), patches=(4, 6))
    explorer.layer = 1
    assert "7 keys: 1 CLS + 4 × 6 = 25" in explorer.error
    assert explorer.map.tokens == Patches(4, 6).labels
    explorer.layer = 0
    assert explorer.error == ""
