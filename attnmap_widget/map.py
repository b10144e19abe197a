"""`AttentionMap`: the widget that shows one grid of attention weights."""

from __future__ import annotations

from typing import Any

import anywidget
import numpy as np
import traitlets as t
from numpy.typing import NDArray

from . import assets
from .files.methods import FileMethods
from .grid import axes, labels, reading, tiles
from .grid.checked import Checked, check
from .grid.options import INPUTS, Cell, accept_options, refuse_unknown
from .grid.reading import Lean
from .grid.states import StateGrid
from .grid.tokens import Token

_PLAIN = ("show_values", "title", "class_name", "error", "status")
_HOST = ("layout", "tooltip", "tabbable")
_PLACES = ("hover", "selection", "viewport")
_TOP = 8
"""Keys that are listed for a query of a large map."""


class _Line(t.Unicode[str, "str | bytes | None"]):
    """Text; None is none."""

    def validate(self, obj: Any, value: Any) -> Any:
        return super().validate(obj, "" if value is None else value)


class _Input(t.Any):
    """A trait that is checked together with the others: assigning it is `update` of one."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        value = super().get(obj, cls)
        return list(value) if isinstance(value, list) else value

    def set(self, obj: Any, value: Any) -> None:
        # At the end of hold_trait_notifications traitlets sets again what it read back.
        if obj._cross_validation_lock and _same(obj._trait_values.get(self.name), value):
            return
        obj.update(**{str(self.name): value})


def _cell_to_wire(cell: Cell | None, _: Any) -> list[int] | None:
    # A list, as the browser sends it: ipywidgets compares the two to tell an echo from a change.
    return None if cell is None else list(cell)


class AttentionMap(FileMethods, anywidget.AnyWidget):
    """An attention map: rows are queries (who looks), columns are keys (who is looked at).

    Parameters
    ----------
    tokens:
        The keys, along the bottom: one string, id or bytes per position. A label may repeat; the
        index is what identifies a position.
    weights:
        (queries, keys) real numbers, row by row: a flat or nested list, a numpy array, a torch
        tensor of any dtype, device and grad, or anything with `__array__`. A flat list that is
        too short leaves the rest empty, never zero; None and NaN are cells without a weight.
        They are copied, since an edit in place would never reach the screen; but a large array in
        a file opened for reading only (`numpy.load(path, mmap_mode="r")`) is read in windows.
    queries:
        The rows, first on top; the same as `tokens` if left out.
    positions:
        Where the keys stand in the sequence, an integer each (rows too where `queries` was left
        out); or a pair (keys, queries), each a list or None for the index. Read-outs and files say
        it, and `causal` goes by it; what identifies a row or column stays the index.
    **options:
        Any of the traits below, by name.

    Raises
    ------
    ShapeError
        weights, mask or tokens that do not fit, with the shapes, the likely cause and the fix.
    TypeError
        an unknown option, or things that are not numbers or tokens.
    ValueError
        infinite weights, an unknown scheme, a range that is none.

    A refused assignment changes nothing: the last good map stays.
    """

    _esm = assets.for_widget("widget.js")
    _css = assets.for_widget("widget.css")

    tokens = _Input(help="The keys: a list, raw as given.").tag(
        sync=True, to_json=lambda _, self: _keys_to_wire(self._checked)
    )
    queries = _Input(help="The rows: a list; the same as `tokens` if left out or None.").tag(
        sync=True, to_json=lambda _, self: _queries_to_wire(self._checked)
    )
    weights = _Input(
        help="(queries, keys) float32, read-only, NaN where there is none; of a long head "
        "something that reads like it: weights[q0:q1, k0:k1]."
    ).tag(sync=True, to_json=lambda _, self: self._checked.tile.to_wire())
    scheme = _Input(
        help="Colour scheme, by its d3-scale-chromatic name in any case. None: Blues, or RdBu "
        "while there are negative weights."
    ).tag(sync=True)
    show_values = t.Bool(
        None, allow_none=True, help="Write each weight in its cell; None: up to 12 columns."
    ).tag(sync=True)
    title = _Line(help="Caption.").tag(sync=True)
    class_name = t.Unicode(help="Extra CSS classes on the widget's root.").tag(sync=True)
    selection = _Input(help="Pinned cell (query, key), or None.").tag(
        sync=True, echo_update=False, to_json=_cell_to_wire
    )
    hover = _Input(help="Cell (query, key) under the pointer, or None.").tag(
        sync=True, echo_update=False, to_json=_cell_to_wire
    )
    viewport = _Input(help="(q0, q1, k0, k1), the part in view, ends not included.").tag(
        sync=True, echo_update=False, to_json=lambda _, self: _viewport_to_wire(self._checked)
    )
    error = _Line(help="One line, shown as an error with the map.").tag(sync=True)
    status = _Line(help="One quiet line.").tag(sync=True)

    color_range = _Input(help="(low, high); None: from 0 to the largest weight that counts.")
    color_scale = _Input(help='"linear", "log", "row" (each row by its largest), "symmetric".')
    clip_percentile = _Input(help="End the colour range at this percentile of the weights.")
    mask = _Input(help="bool (queries, keys), True = this query may look at this key.")
    causal = _Input(help="True: cells above the diagonal cannot be looked at.")
    padding = _Input(
        help="bool (keys,), True = padding, rows too where `queries` was left out; or a pair "
        "(keys, queries)."
    )
    exclude_keys = _Input(help="Key indices left out of the colour range.")
    query_offset = _Input(help="Position of row 0 in the sequence.")
    positions = _Input(help="Where the keys stand in the sequence; or a pair (keys, queries).")
    query_title = _Input(help='What the rows are: "Query".').tag(sync=True)
    key_title = _Input(help='What the columns are: "Key".').tag(sync=True)
    value_title = _Input(help='What the numbers are: "weight".').tag(sync=True)
    softmax = _Input(
        help="False: weights of any sign and sum, as differences and norms are; not checked as "
        "a softmax is."
    )
    pool = _Input(
        help='Of a map too large to send cell by cell, each cell is the "max" or the "mean" of '
        "several weights."
    )
    generated = _Input(
        help="Index from which on the tokens were generated; a pair (key, query) where the rows "
        "are other tokens, None for an axis without."
    ).tag(sync=True, to_json=lambda pair, _: None if pair is None else list(pair))
    not_yet = _Input(help="bool (queries, keys), True = the key did not exist at that step.")

    _detail = t.Any(None).tag(
        sync=True, to_json=lambda detail, _: None if detail is None else detail.to_wire()
    )
    _top = t.Any(None).tag(sync=True)
    _room = t.Any(None).tag(
        sync=True, to_json=lambda room, _: None if room is None else _named(room)
    )
    """Another map of this shape (Checked): laid out by its labels, maps side by side line up."""
    _colors = t.Dict().tag(sync=True)
    _checks = t.List(t.Unicode()).tag(sync=True)

    _checked: Checked
    _own_status = ""
    """The status this map wrote itself, so that it can take it back."""

    def __init__(
        self,
        tokens: Any,
        weights: Any,
        queries: Any = None,
        positions: Any = None,
        **options: Any,
    ) -> None:
        refuse_unknown(options, {*INPUTS, *_PLAIN, *_HOST})
        given = {name: options.pop(name) for name in INPUTS if name in options}
        grid = {"tokens": tokens, "weights": weights, "queries": queries, "positions": positions}
        self._checked = check(None, {**grid, **given})
        self._trait_values.update(_traits(self._checked))
        self._own_layout = "layout" not in options
        self.status = options.pop("status", "")
        self._derive()
        super().__init__(**options)

    def update(self, **changes: Any) -> None:
        """Change several traits at once: `update(tokens=…, weights=…, queries=…)`.

        All are checked before any is changed. Raises like the constructor, and then the map is as
        it was. The browser gets one message.
        """
        refuse_unknown(changes, {*INPUTS, *_PLAIN})
        given = {name: changes.pop(name) for name in INPUTS if name in changes}
        changes = {
            name: getattr(type(self), name)._validate(self, value)
            for name, value in changes.items()
        }
        before, checked = self._checked, check(self._checked, given)
        new, old = _traits(checked), dict(self._trait_values)
        with self.hold_sync():
            self._checked = checked
            self._trait_values.update(new)
            for name, value in changes.items():
                self.set_trait(name, value)
            self._derive()
            self._tell(old, new)
        if checked.tile is not before.tile and _same(old.get("weights"), new["weights"]):
            self.send_state("weights")  # other states of the same weights, or pooled otherwise
        if checked.axes is not before.axes:  # positions travel with the labels
            self.send_state([name for name in ("tokens", "queries") if _same(old[name], new[name])])

    def _tell(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Notify when all is in place, so that no observer sees half a change.

        One that raises keeps neither the others nor the browser from hearing of it.
        """
        raised: Exception | None = None
        for name, value in new.items():
            if not _same(old.get(name), value):
                try:
                    self._notify_trait(name, old.get(name), value)
                except Exception as failure:  # noqa: BLE001 - raised below, once all are told
                    raised = raised or failure
        if raised is not None:
            raise raised

    def _derive(self) -> None:
        """Bring the traits that follow from `_checked` up to date."""
        self._detail = self._checked.detail
        self._top = self._largest_keys()
        self._colors = self._checked.colors.to_wire()
        self._checks = list(self._checked.checks)
        text = _pooled(self._checked.detail or self._checked.tile)
        if self.status in ("", self._own_status):
            self.status = text
        self._own_status = text

    def _largest_keys(self) -> dict[str, Any] | None:
        """The row under the pointer, or pinned, where the browser has no whole rows."""
        cell = self._checked.options.hover or self._checked.options.selection
        if cell is None or self._checked.tile.at is None:
            return None
        keys, weights = self._checked.grid.largest_keys(cell[0], _TOP)
        return {"query": cell[0], "keys": keys.tolist(), "weights": weights.tolist()}

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take a message from the browser, which may speak of a grid that is gone by now."""
        fitting = {
            name: value
            for name, value in sync_data.items()
            if name not in _PLACES or self._fits(name, value)
        }
        super().set_state(fitting)

    def _get_embed_state(self, drop_defaults: bool = False) -> Any:
        """Whole for `ipywidgets.embed`, which leaves defaults out; the front end is one here."""
        return super()._get_embed_state(drop_defaults=False)

    def _fits(self, name: str, value: Any) -> bool:
        try:
            accept_options({name: value}, self._checked.shape, one_list=True)
        except (TypeError, ValueError):
            return False
        return True

    # -- reading --------------------------------------------------------------------------------

    @property
    def states(self) -> StateGrid:
        """(queries, keys) uint8, read-only: what each cell is, by the codes of `State`.

        ValueError for a long head, which is not held.
        """
        return self._checked.states

    @property
    def shown_range(self) -> tuple[float, float]:
        """The weights at the two ends of the colour ramp; fractions of a row in a row scale."""
        return self._checked.colors.range

    @property
    def row_sums(self) -> NDArray[np.float64]:
        """(queries,) float64: the weights that are there, added up row by row."""
        return self._checked.grid.row_sums()

    def leans(self) -> list[Lean | None]:
        """One `Lean(query, key, weight)` per row: its largest weight; None for an empty row."""
        return self._checked.grid.leans()

    @property
    def checks(self) -> list[str]:
        """Sentences on what looks wrong; empty when nothing does."""
        return list(self._checked.checks)

    def find(self, token: Token) -> Cell | None:
        """Pin the largest weight of the next row whose token is `token`, raw or as shown.

        Starts after the pinned row and goes round. Returns the pinned cell, or None if no row has
        that token or a weight.
        """
        rows = self._checked.rows
        shown = labels.readable(rows)
        start = 0 if self.selection is None else self.selection[0] + 1
        leans = self.leans()
        for row in (*range(start, len(rows)), *range(start)):
            lean = leans[row]
            if lean is not None and token in (rows[row], shown[row]):
                self.selection = (row, lean.key)
                return row, lean.key
        return None

    def __str__(self) -> str:
        """The labelled grid with two decimals, a query a line; ValueError for a long head.

        "·" is a key that the query cannot look at, a blank is a cell without a weight.
        """
        queries, keys = (
            labels.readable(tokens) for tokens in (self._checked.rows, self._checked.tokens)
        )
        return reading.text_grid(queries, keys, self._checked.values, self._checked.states)

    def __repr__(self) -> str:
        if "_checked" not in self.__dict__:
            return "AttentionMap(closed)"
        queries, keys = self._checked.shape
        caption = f"{self.title!r}, " if self.title else ""
        return f"AttentionMap({caption}{self._checked.axes.size(queries, keys)}, {self.scheme})"

    def __getattr__(self, name: str) -> Any:
        if name == "_checked":  # its last reference went with `close`
            raise RuntimeError("this map is closed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def close(self) -> None:
        """Remove the map from every page and let go of its arrays."""
        if self.comm is not None and self._own_layout:
            self.layout.close()
        super().close()
        for name in ("tokens", "queries", "weights", "mask", "padding", "positions", "not_yet"):
            self._trait_values.pop(name, None)
        self._trait_values.pop("_room", None)
        self.__dict__.pop("_checked", None)


def _traits(checked: Checked) -> dict[str, Any]:
    """The value of each `_Input` trait."""
    options = dict(vars(checked.options))
    keys_queries = checked.options.padding
    if keys_queries is not None and (checked.queries is None or keys_queries[1] is None):
        options["padding"] = keys_queries[0]
    places = checked.options.positions
    if places is not None and (
        places[1] is places[0] or (checked.queries is not None and places[1] is None)
    ):
        options["positions"] = places[0]
    queries, keys = checked.shape
    return {
        **options,
        "viewport": checked.options.viewport or (0, queries, 0, keys),
        "scheme": checked.colors.scheme.name,
        "tokens": list(checked.tokens),
        "queries": list(checked.rows),
        "weights": checked.grid.weights,
    }


def _pooled(tile: tiles.Tile) -> str:
    rows, columns = tile.bin
    if rows * columns == 1:
        return ""
    q0, q1, k0, k1 = tile.window
    what = "largest" if tile.pool == "max" else "mean"
    return f"{q1 - q0} × {k1 - k0} weights, each cell the {what} of {rows} × {columns}"


def _keys_to_wire(checked: Checked) -> dict[str, Any]:
    return labels.to_wire(checked.tokens, axes.to_wire(checked.axes.keys))


def _queries_to_wire(checked: Checked) -> dict[str, Any] | None:
    if checked.one_axis:
        return None
    return labels.to_wire(checked.rows, axes.to_wire(checked.axes.queries))


def _named(checked: Checked) -> dict[str, Any]:
    return {"tokens": _keys_to_wire(checked), "queries": _queries_to_wire(checked)}


def _viewport_to_wire(checked: Checked) -> list[int] | None:
    window = checked.options.viewport
    return None if window is None else list(window)


def _same(old: Any, new: Any) -> bool:
    """Whether nothing changed; arrays are read-only, so the same one is the same values."""
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        return old is new
    if isinstance(new, tuple) and any(isinstance(item, np.ndarray) for item in new):
        return old is new
    return type(old) is type(new) and bool(old == new)
