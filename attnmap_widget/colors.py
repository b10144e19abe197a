"""How weights become colours: the range, the scale and what the legend has to say about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .schemes import Scheme
from .states import State, StateGrid, counted, leaks
from .weights import FloatGrid

SCALES = ("linear", "log", "row", "symmetric")
_LOG_SPAN = 1e-8
"""A logarithmic scale reaches at most this far below its top; smaller weights are clipped."""


@dataclass(frozen=True)
class Colors:
    """The colours of one map, all decided: the front end and the files only look them up."""

    scheme: Scheme
    scale: str
    range: tuple[float, float]
    """The weights at the two ends of the ramp; in a row scale, fractions of a row's largest."""
    clips: tuple[bool, bool]
    """Whether weights lie below, above the range."""
    notes: tuple[str, ...]
    """Sentences for the legend."""

    def to_wire(self) -> dict[str, Any]:
        """As the front end's `WireColors`."""
        return {
            "ramp": self.scheme.ramp.tobytes(),
            "diverging": self.scheme.diverging,
            "scale": self.scale,
            "range": list(self.range),
            "clips": list(self.clips),
            "notes": list(self.notes),
        }


def resolve(
    values: FloatGrid,
    states: StateGrid,
    scheme: Scheme,
    *,
    scale: str = "linear",
    color_range: tuple[float, float] | None = None,
    clip_percentile: float | None = None,
    exclude_columns: tuple[int, ...] = (),
    exclude_keys: tuple[int, ...] = (),
) -> Colors:
    """The colours of a (queries, keys) grid.

    The range comes from the cells that count: plain weights, outside `exclude_columns` (where
    `exclude_keys` are in `values`); never padding, cells that cannot be looked at, or NaN.
    `clip_percentile` (0 to 100) ends the range there.
    ValueError if the scale cannot show these weights.
    """
    counts = counted(states)
    counts[:, list(exclude_columns)] = False
    in_range = values[counts]
    notes = [f"key {key} is out of the scale" for key in exclude_keys]
    low = float(in_range.min(initial=0.0)) if in_range.size else 0.0
    high = float(in_range.max(initial=0.0)) if in_range.size else 0.0
    shown = (states == State.WEIGHT) | (states == State.ZERO) | leaks(values, states)
    if scale == "row":
        if scheme.diverging:
            notes.append("each row's largest weight, either sign, is full colour")
            return Colors(scheme, scale, (-1.0, 1.0), (False, False), tuple(notes))
        if low < 0:
            raise ValueError("color_scale: 'row' needs weights ≥ 0, or a diverging scheme")
        notes.append("each row's largest weight is full colour")
        return Colors(scheme, scale, (0.0, 1.0), (False, False), tuple(notes))
    if in_range.size and in_range.min() == in_range.max():
        notes.append(f"every weight is {float(in_range.min()):.3g}")
    if clip_percentile is not None and color_range is None and in_range.size:
        high = float(np.percentile(in_range, clip_percentile))
        if low < 0:
            low = -(high := float(np.percentile(np.abs(in_range), clip_percentile)))
        notes.append(f"the scale ends at the {clip_percentile:g}th percentile")
    if color_range is not None:
        low, high = color_range
    elif scheme.diverging or scale == "symmetric":
        high = max(-low, high) or 1.0
        low = -high
        if scheme.diverging:
            notes.append("diverging scheme around 0")
    elif scale == "log":
        low, high = _log_range(in_range, high)
    elif high <= low:
        high = low + 1.0
    if scale == "log":
        if low <= 0 or (in_range.size and in_range.min() < 0):
            raise ValueError(
                "color_scale: 'log' needs weights ≥ 0 and a color_range above 0; for negative "
                "weights use 'linear' or 'symmetric' with a diverging scheme"
            )
        notes.append("logarithmic; exact zeros are drawn as zero")
    drawn = values[shown & (values > 0)] if scale == "log" else values[shown]
    clips = (bool((drawn < low).any()), bool((drawn > high).any()))
    kind = "log" if scale == "log" else "linear"
    return Colors(scheme, kind, (low, high), clips, tuple(notes))


def _log_range(in_range: FloatGrid, high: float) -> tuple[float, float]:
    positive = in_range[in_range > 0]
    if not positive.size:
        return 0.1, 1.0
    low = max(float(positive.min()), high * _LOG_SPAN)
    return (low, high) if low < high else (low / 10, high)
