"""Pictures as people have them: what can be shown as it is, the rest refused with the fix.

Knows numpy only; tensors and pictures of other libraries are recognised by what they can do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError

Picture = NDArray[np.uint8]
"""(height, width, 3)."""

_LARGEST = 2048
"""Pixels of a side: more is not what a model saw, and would travel for long."""


def accept(given: Any, frames: int) -> list[Picture]:
    """The picture, or the `frames` pictures of a video, in order.

    Accepts numpy (height, width), (height, width, 1) and (height, width, 3), torch (3 or 1, height,
    width), PIL pictures; whole numbers 0 to 255 of type uint8, or floats 0 to 1. Of a video a list
    of these, or an array with one more axis in front. Raises ShapeError for other shapes,
    ValueError for other values, TypeError for what is no picture.
    """
    if frames == 1:
        alone = isinstance(given, (list, tuple)) and len(given) == 1
        return [_one(given[0] if alone else given)]
    several = isinstance(given, (list, tuple)) or len(getattr(given, "shape", ())) == 4
    many = len(given) if several else 1
    if many != frames:
        raise ShapeError(
            f"image: {frames} frames of patches need {frames} pictures, got {many}; of frames that "
            "the model merges give one each"
        )
    made = [_one(frame) for frame in given]
    if len({picture.shape for picture in made}) > 1:
        raise ShapeError(f"image: frames of different sizes, {[one.shape for one in made]}")
    return made


def check_sides(picture: Picture, rows: int, columns: int) -> None:
    """ShapeError if square patches in that grid do not make a picture of these proportions.

    A picture scaled up or down may be off by a pixel's rounding.
    """
    height, width = picture.shape[:2]
    if abs(height * columns - width * rows) <= max(rows, columns):
        return
    cropped = min(height / rows, width / columns)
    raise ShapeError(
        f"image: {height} × {width} pixels under {rows} × {columns} patches: not what the model "
        "saw. Crop or resize it as the model's processor does, "
        f"say to {round(cropped * rows)} × {round(cropped * columns)}"
    )


def _one(given: Any) -> Picture:
    if hasattr(given, "convert") and hasattr(given, "getbands"):  # PIL
        if given.mode[0] in "IF":  # PIL would cut these to 0 … 255
            raise TypeError(
                f"image: a PIL picture of mode {given.mode!r}, whose pixels may be beyond 255; "
                "give numpy floats 0 to 1"
            )
        given = np.asarray(given.convert("RGB"))
    channels_first = hasattr(given, "detach")  # torch
    if channels_first:
        given = given.detach().cpu()
        given = (given.float() if given.is_floating_point() else given).numpy()
    if not isinstance(given, np.ndarray):
        raise TypeError(
            f"image: got {type(given).__name__}, expected a numpy array (height, width, 3), a "
            "torch tensor (3, height, width) or a PIL picture"
        )
    values = np.moveaxis(_shaped(given, channels_first), 0, -1) if channels_first else given
    values = _shaped(values, False)
    if max(values.shape[:2]) > _LARGEST:
        raise ShapeError(
            f"image: {values.shape[0]} × {values.shape[1]} pixels; up to {_LARGEST} a side are "
            "shown: give the picture in the size that the model saw"
        )
    return np.ascontiguousarray(np.broadcast_to(_bytes(values), (*values.shape[:2], 3)))


def _shaped(array: NDArray[Any], channels_first: bool) -> NDArray[Any]:
    """With an axis of 1 or 3 channels; ShapeError, naming the likely cause, else."""
    if array.ndim == 2 and not channels_first:
        return array[..., None]
    axis, name = (0, "(3, height, width)") if channels_first else (-1, "(height, width, 3)")
    if array.ndim == 3 and array.shape[axis] in (1, 3) and array.size:
        return array
    hint = ""
    if array.ndim == 4:
        hint = "; a batch? Give one picture: image[0]"
    elif array.ndim == 3 and array.shape[-1 - axis] in (1, 3):
        turn = "permute(2, 0, 1)" if channels_first else "transpose(1, 2, 0)"
        hint = f"; image.{turn} turns it"
    elif array.ndim == 3 and array.shape[axis] == 4:
        hint = "; leave the alpha channel out: it is not what the model saw"
    raise ShapeError(f"image: got shape {array.shape}, expected {name}{hint}")


def _bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind != "f":
        raise TypeError(f"image: got {values.dtype}, expected uint8 0 to 255 or floats 0 to 1")
    if not np.isfinite(values).all():
        raise ValueError("image: some pixels are NaN or infinite")
    low, high = float(values.min()), float(values.max())
    if low < 0:
        raise ValueError(
            f"image: pixels from {low:.2f} to {high:.2f}; floats are 0 to 1. Normalised "
            "pixel_values? Undo it: pixels * std + mean, with the processor's image_std, image_mean"
        )
    if high > 1:
        raise ValueError(f"image: pixels up to {high:.2f}; floats are 0 to 1: divide by 255?")
    made: NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
    return made
