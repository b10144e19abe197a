"""What a pinned cell says, in the front end's words (js/src/readout.ts, words.ts)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..grid import labels
from ..grid.axes import VALUE
from ..grid.checked import Checked
from ..grid.grids import LongGrid
from ..grid.options import Cell
from ..grid.states import State, StateGrid, counted, leaks
from ..grid.tiles import Window
from ..grid.tokens import Token
from ..grid.weights import FloatGrid
from . import numbers
from .figure import Figure


def state_words(checked: Checked) -> dict[State, str]:
    """What each state is called, in the order of the legend."""
    axes = checked.axes
    return {
        State.EMPTY: f"empty (no {checked.options.value_title} given)",
        State.CANNOT_LOOK: "cannot look" if axes.attention else "masked",
        State.NO_VALID_KEY: axes.no_key,
        State.PADDING: "padding",
        State.NOT_YET: "not yet",
    }


def leak_words(checked: Checked) -> str:
    """What a weight is called that is where none may be."""
    where = "it cannot look" if checked.axes.attention else "masked"
    return f"{checked.options.value_title} where {where}"


@dataclass(frozen=True)
class Piece:
    """A part of a sentence: "token" is bold and isolated in direction, "strong", "muted", plain."""

    text: str
    kind: str = "plain"


def sentence(figure: Figure, cell: Cell) -> list[Piece]:
    """The pinned cell in words: it (9) looks at trophy (1) 0.41 · 1st of 10 in its row.

    Where the axes have names of their own: Token it (9) → Expert 3 (3) 0.41; where the value has
    one: it (9) looks at trophy (1): difference −0.41.
    """
    weight, notes = _reading(figure, cell)
    query, key = cell
    axes, checked = figure.checked.axes, figure.checked
    looks = axes.attention and weight is not None
    of_query, of_key = ("", "") if axes.attention else (axes.query_title, axes.key_title)
    pieces = _name(of_query, axes.query_at(query), figure.queries[query], checked.rows[query])
    pieces.append(Piece(" looks at " if looks else " → "))
    pieces += _name(of_key, axes.key_at(key), figure.keys[key], checked.tokens[key])
    value = checked.options.value_title
    if weight is not None and value != VALUE:
        pieces.append(Piece(f": {value}"))
    if weight is not None:
        pieces.append(Piece(f" {numbers.weight(weight)}", "strong"))
    return pieces + [Piece(f" · {note}", "muted") for note in notes]


def _name(title: str, position: int, label: str, token: Token) -> list[Piece]:
    named = [Piece(f"{title} ", "muted")] if title else []
    raw = labels.raw_text(token)
    given = [Piece(f" “{raw}”", "muted")] if raw != label else []
    return [*named, Piece(label, "token"), *given, Piece(f" ({position})", "muted")]


def _reading(figure: Figure, cell: Cell) -> tuple[float | None, list[str]]:
    """The weight, None where there is none to show, and what else there is to say."""
    query, key = cell
    named = state_words(figure.checked)
    row, states = _line(figure, (query, query + 1, 0, figure.checked.shape[1]))
    weight, state = float(row[key]), State(int(states[key]))
    leaking = leaks(row, states)
    there = counted(states) | leaking
    if leaking[key]:
        words = [leak_words(figure.checked)]
    elif state == State.PADDING:
        words = [_padding_side(figure, cell, states)]
    else:
        words = [named[state]] if state in named else []
    if not there[key]:
        shown = state == State.PADDING and not np.isnan(weight)
        return (weight if shown else None), words
    rank = int((row[there] > weight).sum()) + 1
    total = float(np.nansum(row, dtype=np.float64))
    return weight, [
        *words,
        f"{numbers.ordinal(rank)} of {int(there.sum())} in its row",
        f"row sums to {'0' if abs(total) < 1e-6 else numbers.weight(total)}",
    ]


def _line(figure: Figure, window: Window) -> tuple[FloatGrid, StateGrid]:
    """Weights and states of one row, or one column, of the whole grid."""
    grid = figure.checked.grid
    if isinstance(grid, LongGrid):
        values, states = grid.source.window(window)
    else:
        q0, q1, k0, k1 = window
        values, states = grid.values[q0:q1, k0:k1], grid.states[q0:q1, k0:k1]
    return values.ravel(), states.ravel()


def _padding_side(figure: Figure, cell: Cell, row: StateGrid) -> str:
    """Which side makes a cell padding: its key's column, its query's row, or both."""
    column = _line(figure, (0, figure.checked.shape[0], cell[1], cell[1] + 1))[1]
    query, key = not counted(row).any(), not counted(column).any()
    if query == key:
        return "padding"
    axes = figure.checked.axes
    if axes.attention:
        return "padding query" if query else "padding key"
    return f"padding {axes.query_title if query else axes.key_title}"
