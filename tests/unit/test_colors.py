"""The colour range, the scale, and what the legend says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnmap_widget import AttentionMap
from attnmap_widget.grid import schemes


def close(seen: tuple[float, float], wanted: tuple[float, float]) -> bool:
    return bool(np.allclose(seen, wanted, atol=1e-6))


def test_the_range_is_from_zero_to_the_largest_weight() -> None:
    attention = AttentionMap(list("abc"), [[0.1, 0.2, 0.7], [0.4, 0.4, 0.2]], list("xy"))
    assert close(attention.shown_range, (0, 0.7))
    assert attention._colors["clips"] == [False, False]


def test_hidden_padded_and_nan_cells_do_not_count() -> None:
    mask = [[True, False], [True, True]]
    attention = AttentionMap(list("ab"), [[1, 10000], [0.5, 0.5]], mask=mask)
    assert close(attention.shown_range, (0, 1))
    assert attention._colors["clips"] == [False, True]  # the leak is drawn, beyond the range
    padded = AttentionMap(list("ab"), [[9, 9], [9, 0.5]], padding=[1, 0])
    assert close(padded.shown_range, (0, 0.5))
    hopeless = AttentionMap(list("ab"), [[np.nan, np.nan], [0.4, 0.6]])
    assert close(hopeless.shown_range, (0, 0.6))


def test_excluded_keys_leave_the_range_and_the_legend_says_so() -> None:
    attention = AttentionMap(list("abc"), [[0.97, 0.01, 0.02]], ["q"], exclude_keys=(0,))
    assert close(attention.shown_range, (0, 0.02))
    assert attention._colors["clips"] == [False, True]
    assert "key 0 is out of the scale" in attention._colors["notes"]
    assert attention.weights[0, 0] == np.float32(0.97)


def test_negative_weights_switch_to_a_diverging_scheme_and_back() -> None:
    attention = AttentionMap(list("ab"), [[-0.1, 0.8]], ["q"])
    assert schemes.find(attention.scheme).diverging
    assert close(attention.shown_range, (-0.8, 0.8))
    attention.weights = [[0.2, 0.8]]
    assert attention.scheme == "Blues"
    assert close(attention.shown_range, (0, 0.8))
    chosen = AttentionMap(list("ab"), [[-0.1, 0.8]], ["q"], scheme="viridis")
    assert chosen.scheme == "Viridis"
    assert close(chosen.shown_range, (-0.1, 0.8))


def test_a_given_range_clips_and_says_where() -> None:
    attention = AttentionMap(list("ab"), [[0.1, 0.9]], ["q"], color_range=(0.2, 0.5))
    assert attention.shown_range == (0.2, 0.5)
    assert attention._colors["clips"] == [True, True]


def test_clip_percentile_is_stated() -> None:
    weights = np.append(np.full(99, 0.01), 1.0)[None]
    attention = AttentionMap(range(100), weights, ["q"], clip_percentile=95)
    assert close(attention.shown_range, (0, 0.01))
    assert any("95th percentile" in note for note in attention._colors["notes"])


def test_the_scales() -> None:
    grid = [[0.5, 0.001, 0.0], [0.25, 0.25, 0.5]]
    attention = AttentionMap(list("abc"), grid, list("xy"))
    attention.color_scale = "log"
    assert close(attention.shown_range, (0.001, 0.5))
    assert attention._colors["scale"] == "log"
    attention.color_scale = "row"
    assert attention._colors["scale"] == "row"
    attention.color_scale = "symmetric"
    assert close(attention.shown_range, (-0.5, 0.5))
    np.testing.assert_array_equal(attention.weights, np.array(grid, dtype=np.float32))


def test_a_scale_that_cannot_show_these_weights_is_refused() -> None:
    attention = AttentionMap(list("ab"), [[-0.1, 0.8]], ["q"])
    with pytest.raises(ValueError, match=r"log. needs weights ≥ 0"):
        attention.color_scale = "log"
    assert attention.color_scale == "linear"
    with pytest.raises(ValueError, match="accepted are linear, log, row, symmetric"):
        attention.color_scale = "sqrt"


@pytest.mark.parametrize("value", [0.0, 0.2, 1.0, -0.5])
@pytest.mark.parametrize("scale", ["linear", "symmetric", "row"])
def test_a_constant_map_has_a_range_and_an_explanation(value: float, scale: str) -> None:
    attention = AttentionMap(list("ab"), np.full((2, 2), value), color_scale=scale)
    low, high = attention.shown_range
    assert np.isfinite([low, high]).all()
    assert low < high
    if scale != "row":
        assert any(f"every weight is {value:g}" in note for note in attention._colors["notes"])


def test_a_map_without_any_weight_has_a_range() -> None:
    for scale in ("linear", "log", "row", "symmetric"):
        low, high = AttentionMap(list("ab"), [], color_scale=scale).shown_range
        assert low < high


@pytest.mark.parametrize("bad", [(1, 0), (0.5, 0.5), (0, np.inf), (np.nan, 1), 3, "ab", (0, 1, 2)])
def test_a_range_that_is_none_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="color_range"):
        AttentionMap(list("ab"), np.eye(2), color_range=bad)


def test_schemes_are_found_in_any_case_and_unknown_ones_get_the_close_names() -> None:
    assert AttentionMap(["a"], [1], scheme="bLuEs").scheme == "Blues"
    with pytest.raises(ValueError, match=r"close: .*Blues"):
        AttentionMap(["a"], [1], scheme="Bluess")
    with pytest.raises(ValueError, match="known: Blues"):
        AttentionMap(["a"], [1], scheme="qqqqqqq")


def test_every_scheme_is_a_table_of_256_colours() -> None:
    for name in schemes._tables():
        scheme = schemes.find(name)
        assert scheme.ramp.shape == (256, 3)
        assert len(np.unique(scheme.ramp, axis=0)) > 60
        if scheme.diverging:  # the middle is the lightest
            assert scheme.ramp.sum(axis=1).argmax() in range(90, 166)
    # d3's own values
    assert schemes.find("Blues").ramp[0].tolist() == [247, 251, 255]
    assert schemes.find("Blues").ramp[255].tolist() == [8, 48, 107]
    assert schemes.find("Viridis").ramp[0].tolist() == [68, 1, 84]


def test_the_range_is_that_of_the_part_in_view() -> None:
    grid = np.diag([0.9, 0.5, 0.1, 0.05]) + 0.01
    attention = AttentionMap(list("abcd"), grid)
    attention.viewport = (2, 4, 2, 4)
    assert close(attention.shown_range, (0, 0.11))
    attention.viewport = None
    assert close(attention.shown_range, (0, 0.91))


@pytest.mark.parametrize("keys", [(0,), [0], np.array([0]), torch.tensor([0]), {0: "the"}])
def test_excluded_keys_come_in_any_list(keys: object) -> None:
    assert AttentionMap(list("ab"), [[0.9, 0.1]], ["q"], exclude_keys=keys).exclude_keys == (0,)
    with pytest.raises(TypeError, match="exclude_keys: got 0, expected a list"):
        AttentionMap(list("ab"), [[0.9, 0.1]], ["q"], exclude_keys=0)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_percentile_is_that_of_weights_above_zero(scale: str) -> None:
    grid = np.zeros((3, 3))
    grid[0, 0], grid[1, 1] = 0.5, 0.25
    attention = AttentionMap(list("abc"), grid, color_scale=scale, clip_percentile=50)
    low, high = attention.shown_range
    assert low < high
    assert high == pytest.approx(0.375)


def test_an_additive_mask_is_refused() -> None:
    with pytest.raises(TypeError, match=r"additive one \(0 and -inf\)\? Give mask == 0"):
        AttentionMap(list("ab"), np.eye(2), mask=np.zeros((2, 2)))
    with pytest.raises(TypeError, match="additive"):
        AttentionMap(list("ab"), np.eye(2), mask=torch.zeros(2, 2))


# Machado, Oliveira & Fernandes (2009), severity 1, on linear RGB.
COLOUR_BLIND = {
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def seen_by(ramp: np.ndarray, matrix: list[list[float]]) -> np.ndarray:
    """CIE L*, u*, v* of (n, 3) colours as somebody with that vision sees them."""
    channel = ramp / 255
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(matrix).T, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = (linear @ np.array(to_xyz).T).T
    lightness = np.where(y > 0.008856, 116 * np.cbrt(y) - 16, 903.3 * y)
    total = x + 15 * y + 3 * z + 1e-9
    u, v = 4 * x / total - 0.1978, 9 * y / total - 0.4683
    return np.stack([lightness, 13 * lightness * u, 13 * lightness * v], axis=1)


@pytest.mark.parametrize("matrix", COLOUR_BLIND.values(), ids=COLOUR_BLIND.keys())
def test_the_default_schemes_are_read_with_any_colour_vision(matrix: list[list[float]]) -> None:
    for name in ("Blues", "Viridis", "Cividis"):  # one way through the lightness, far
        lightness = seen_by(schemes.find(name).ramp, matrix)[:, 0]
        steps = np.diff(lightness[::16])
        assert (steps < 0).all() or (steps > 0).all()
        assert abs(lightness[-1] - lightness[0]) > 55
    for step in (64, 96, 120):  # below and above zero never look alike
        low, high = seen_by(schemes.find("RdBu").ramp[[127 - step, 128 + step]], matrix)
        assert np.linalg.norm(low - high) > 12
