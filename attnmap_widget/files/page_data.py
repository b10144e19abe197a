"""What a saved page holds, as the JSON that js/src/page.ts reads: each array and list once."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..grid import axes, labels
from ..grid.axes import IntArray
from ..grid.checked import Checked
from ..grid.tiles import Tile
from ..grid.tokens import Token
from ..grid.weights import FloatGrid
from .figure import Figure

_LEVELS = 254
"""Codes of an 8-bit weight, besides the one for no weight, less one kept for rounding at zero."""


@dataclass
class PageData:
    """The maps of one page, added one by one."""

    quantize: bool = False
    linked: bool = False
    """Whether all maps are shown, as one: a pointer, a pin and a zoom are in all of them."""
    maps: list[dict[str, Any]] = field(default_factory=list)
    error: float = 0.0
    """By how much a weight may be off."""
    _buffers: dict[bytes, int] = field(default_factory=dict)
    _labels: dict[tuple[tuple[Token, ...], bytes | None], int] = field(default_factory=dict)

    def add(self, figure: Figure, choice: tuple[str, str] | None = None) -> None:
        """Add a map; `choice` is what the menus for layer and head say."""
        named = None if choice is None else {"layer": choice[0], "head": choice[1]}
        self.maps.append({"choice": named, "state": self._state(figure)})

    @property
    def size(self) -> int:
        """Characters of all arrays."""
        return sum(-(-len(buffer) // 3) * 4 for buffer in self._buffers)

    def to_json(self, first: int, note: str) -> str:
        """As text that is inert inside a script element, whatever the tokens hold."""
        written = [self._labels_of(*named) for named in self._labels]
        shared, own = _factor([entry["state"] for entry in self.maps])
        maps = [{**entry, "state": state} for entry, state in zip(self.maps, own, strict=True)]
        data = {
            "buffers": [base64.b64encode(buffer).decode("ascii") for buffer in self._buffers],
            "labels": written,
            "shared": shared,
            "maps": maps,
            "first": first,
            "linked": self.linked,
            "note": note,
        }
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        return text.replace("<", "\\u003c")  # neither "</script>" nor "<!--" is left

    def _state(self, figure: Figure) -> dict[str, Any]:
        """As `StoredState` of the front end: every synced trait."""
        checked = figure.checked
        options = checked.options
        whole = checked.grid.tile(None, options.pool)
        detail = options.viewport is not None and whole.at is not None
        colors = checked.colors.to_wire()
        named = checked.axes
        return {
            **self._axes_of(checked),
            "_room": None if figure.room is None else self._axes_of(figure.room),
            "query_title": named.query_title,
            "key_title": named.key_title,
            "value_title": options.value_title,
            "generated": options.generated,
            "weights": self._tile(whole),
            "scheme": checked.colors.scheme.name,
            "show_values": figure.show_values,
            "title": figure.title,
            "class_name": "",
            "viewport": options.viewport,
            "_detail": self._tile(figure.tile) if detail else None,
            "_top": None,  # a kernel's answer
            "selection": options.selection,
            "error": "",
            "status": figure.status,
            "_colors": {**colors, "ramp": self._number(self._buffers, colors["ramp"])},
            "_checks": list(checked.checks),
        }

    def _axes_of(self, checked: Checked) -> dict[str, int | None]:
        queries = None if checked.one_axis else self._named(checked.rows, checked.axes.queries)
        return {"tokens": self._named(checked.tokens, checked.axes.keys), "queries": queries}

    def _named(self, tokens: tuple[Token, ...], positions: IntArray | None) -> int:
        return self._number(self._labels, (tokens, axes.to_wire(positions)))

    def _labels_of(self, tokens: tuple[Token, ...], positions: bytes | None) -> dict[str, Any]:
        wire = labels.to_wire(tokens, positions)
        return {
            name: self._number(self._buffers, part) if isinstance(part, bytes) else part
            for name, part in wire.items()
        }

    def _tile(self, tile: Tile) -> dict[str, Any]:
        wire = tile.to_wire()
        wire["quantized"] = None
        if self.quantize:
            wire["data"], wire["quantized"] = quantized(tile.values)
            self.error = max(self.error, wire["quantized"]["step"] / 2)
        for name in ("data", "states", "at"):
            if wire[name] is not None:
                wire[name] = self._number(self._buffers, wire[name])
        return wire

    @staticmethod
    def _number(known: dict[Any, int], item: Any) -> int:
        return known.setdefault(item, len(known))


def _factor(states: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What all have in common, also inside the tile and the colours, and the rest of each."""
    shared: dict[str, Any] = {}
    own: list[dict[str, Any]] = [{} for _ in states]
    for name, first in states[0].items():
        if all(state[name] == first for state in states):
            shared[name] = first
        elif name in ("weights", "_colors"):
            shared[name], parts = _factor([state[name] for state in states])
            for state, part in zip(own, parts, strict=True):
                state[name] = part
        else:
            for state, whole in zip(own, states, strict=True):
                state[name] = whole[name]
    return shared, own


def quantized(values: FloatGrid) -> tuple[bytes, dict[str, float]]:
    """Weights as one byte each, and how to read them: (code − zero) · step; code 0 is no weight.

    Zero stays exactly zero; any other weight is off by at most half a step.
    """
    there = values[~np.isnan(values)].astype(np.float64)
    low, high = float(there.min(initial=0.0)), float(there.max(initial=0.0))
    step = (high - low) / (_LEVELS - 1) or 1.0
    zero = 1 + round(-low / step)
    codes = np.zeros(values.shape, dtype=np.uint8)
    codes[~np.isnan(values)] = np.clip(np.rint(there / step) + zero, 1, 255)
    return codes.tobytes(), {"zero": zero, "step": step}
