"""The looks of the cells that are no plain weight: those of js/src/patterns.ts, as SVG patterns."""

from __future__ import annotations

from ..grid.states import State
from . import xml
from .figure import Theme
from .paint import css

FLATS = {
    State.CANNOT_LOOK: (0xF2, 0x20),
    State.NO_VALID_KEY: (0xB4, 0x5C),
    State.PADDING: (0xCC, 0x46),
    State.NOT_YET: (0xE2, 0x32),
}
"""Greys, in a light and a dark theme, for cells that are too small for a pattern."""

# State -> side of the repeated square, the lines in it, strength of the ink, width of the lines.
_LOOKS = {
    State.CANNOT_LOOK: (7, "M-8 8L1 -1M-1 8L8 -1M6 8L15 -1", 0.17, 1.0),
    State.NO_VALID_KEY: (
        5,
        "M-6 6L1 -1M-1 6L6 -1M4 6L11 -1M11 6L4 -1M6 6L-1 -1M1 6L-6 -1",
        0.36,
        1.0,
    ),
    State.PADDING: (6, "M2.4 3H3.6", 0.7, 1.2),
    State.NOT_YET: (4, "M0 2H4", 0.4, 1.0),
}


def definitions(states: list[State], theme: Theme, name: str) -> str:
    """`<pattern>` elements for these states, with ids `name`-code."""
    return xml.lines(
        xml.tag(
            "pattern",
            xml.tag(
                "path",
                d=lines,
                stroke=css(theme.pattern),
                stroke_opacity=ink,
                stroke_width=width,
            ),
            id=f"{name}-{int(state)}",
            patternUnits="userSpaceOnUse",
            width=side,
            height=side,
        )
        for state, (side, lines, ink, width) in _LOOKS.items()
        if state in states
    )
