"""How weights become colours: the range, the scale and what the legend has to say about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .grids import Cells
from .schemes import Scheme
from .states import counted, counted_values, leaks
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
    cells: Cells,
    scheme: Scheme,
    *,
    scale: str = "linear",
    color_range: tuple[float, float] | None = None,
    clip_percentile: float | None = None,
    excluded: Sequence[str] = (),
) -> Colors:
    """The colours of the cells in view.

    The range comes from the cells that count: plain weights outside `cells.exclude`, which
    `excluded` names for the legend; never padding, cells that cannot be looked at, or
    NaN. `clip_percentile` (0 to 100) of the weights that are not zero ends the range there.
    ValueError if the scale cannot show these weights.
    """
    in_range = _in_range(cells)
    notes = [f"{key} is out of the scale" for key in excluded]
    if scale == "row":
        return _by_row(in_range, scheme, notes)
    low, high = float(in_range.min(initial=0.0)), float(in_range.max(initial=0.0))
    if in_range.size and in_range.min() == in_range.max():
        notes.append(f"every weight is {float(in_range.min()):.3g}")
    if color_range is not None:
        low, high = color_range
    elif clip_percentile is not None:
        low, high = _clipped(in_range, low, clip_percentile, cells.pooled)
        notes.append(f"the scale ends at the {clip_percentile:g}th percentile")
    if color_range is None and (scheme.diverging or scale == "symmetric"):
        high = max(-low, high) or 1.0
        low = -high
    if scheme.diverging and low == -high:
        notes.append("diverging scheme around 0")
    if scale == "log":
        if color_range is None:
            low, high = _log_range(in_range, high)
        if low <= 0 or (in_range.size and in_range.min() < 0):
            raise ValueError(
                "color_scale: 'log' needs weights ≥ 0 and a color_range above 0; for negative "
                "weights use 'linear' or 'symmetric' with a diverging scheme"
            )
        notes.append("logarithmic; exact zeros are drawn as zero")
    elif high <= low:
        high = low + 1.0
    leaked = leaks(cells.values, cells.states)
    if leaked.any():
        drawn = cells.values[counted(cells.states) | leaked]
    else:
        drawn = counted_values(cells.values, cells.states)
    if scale == "log":
        drawn = drawn[drawn > 0]
    below = bool(drawn.size and drawn.min() < low) or (scale == "log" and cells.pooled)
    above = bool(drawn.size and drawn.max() > high)
    kind = "log" if scale == "log" else "linear"
    return Colors(scheme, kind, (low, high), (below, above), tuple(notes))


def _in_range(cells: Cells) -> FloatGrid:
    """The weights that make the range, one after the other."""
    if not cells.exclude:
        found = counted_values(cells.values, cells.states)
    else:
        counts = counted(cells.states)
        counts[:, list(cells.exclude)] = False
        found = cells.values[counts]
    return np.append(found, cells.others) if len(cells.others) else found


def _by_row(in_range: FloatGrid, scheme: Scheme, notes: list[str]) -> Colors:
    """Each row by its own largest weight: the range is in shares of it."""
    if scheme.diverging:
        notes.append("each row's largest weight, either sign, is full colour")
        return Colors(scheme, "row", (-1.0, 1.0), (False, False), tuple(notes))
    if in_range.size and in_range.min() < 0:
        raise ValueError("color_scale: 'row' needs weights ≥ 0, or a diverging scheme")
    notes.append("each row's largest weight is full colour")
    return Colors(scheme, "row", (0.0, 1.0), (False, False), tuple(notes))


def _clipped(
    in_range: FloatGrid, low: float, percentile: float, pooled: bool
) -> tuple[float, float]:
    if pooled:
        raise ValueError(
            "clip_percentile: the weights of a grid this long are not held; give a color_range"
        )
    sizes = np.abs(in_range[in_range != 0])
    high = float(np.percentile(sizes, percentile)) if sizes.size else 1.0
    return (-high if low < 0 else 0.0), high


def _log_range(in_range: FloatGrid, high: float) -> tuple[float, float]:
    positive = in_range[in_range > 0]
    if not positive.size:
        return 0.1, 1.0
    low = max(float(positive.min()), high * _LOG_SPAN)
    return (low, high) if low < high else (low / 10, high)
