"""`compare`: two maps on one colour range, and b − a; what is done to one is done to all three."""

from __future__ import annotations

import html
import os
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import traitlets as t
from numpy.typing import NDArray

from . import differences
from .differences import Difference
from .exploring.explorer import AttentionExplorer
from .files import numbers
from .grid import labels
from .grid.checked import Checked, check
from .grid.options import INPUTS
from .map import AttentionMap

_LINKED = ("hover", "selection", "viewport")
_FOLLOWED = [name for name in INPUTS if name not in _LINKED] + ["title"]
_LISTED = 5
"""Rows of the table."""
_IN_COLUMNS = {"flex_flow": "row wrap", "grid_gap": "0 20px"}
_COLUMN = {"flex": "1 1 28em", "flex_flow": "row wrap", "grid_gap": "0 12px"}


def compare(a: Any, b: Any, *, names: tuple[str, str] = ("a", "b")) -> Comparison:
    """Two maps side by side on one colour range, and their difference b − a.

    Parameters
    ----------
    a, b:
        Each an `AttentionMap`, an `AttentionExplorer` (its map and its menus), or a tuple
        `(tokens, weights)` or `(tokens, weights, queries)`. A map or explorer that changes later
        takes the comparison along; `explorer.map_of(layer, head)` is one that stays.
    names:
        What to call them instead of a and b: ("before", "after").

    Raises
    ------
    ShapeError
        different numbers of keys or queries; says both and where the tokens diverge.
    TypeError
        something that is no map.
    ValueError
        a head that is too long to hold.

    As many but other tokens are fine: in the difference such a key is called "big | small".
    """
    return Comparison(a, b, names=names)


class _Side:
    """Where one of the two maps comes from."""

    def __init__(self, name: str, given: Any) -> None:
        self.name = name
        self.source: AttentionMap | None = None
        self.menus: list[Any] = []
        if isinstance(given, AttentionExplorer):
            self.source = given.map
            self.menus = [child for child in given.children if child is not given.map]
        elif isinstance(given, AttentionMap):
            self.source = given
        elif isinstance(given, tuple) and len(given) in (2, 3):
            inputs = dict(zip(("tokens", "weights", "queries"), given, strict=False))
            self._fixed = check(None, {"queries": None, **inputs})
        else:
            got = f"a tuple of {len(given)}" if isinstance(given, tuple) else type(given).__name__
            raise TypeError(
                f"compare: {name} is {got}; expected an AttentionMap, an AttentionExplorer, or "
                "(tokens, weights) or (tokens, weights, queries)"
            )

    def read(self) -> Checked:
        """What it shows now."""
        checked = self._fixed if self.source is None else self.source._checked
        return differences.held(self.name, checked)

    @property
    def title(self) -> str:
        """As its map is called."""
        return "" if self.source is None else str(self.source.title)


class Comparison(ipywidgets.VBox):  # type: ignore[misc]
    """Three maps side by side, `a`, `b` and `difference_map`, above a table of what differs most.

    Hovering, pinning or zooming one does it in all three, in the browser alone, so it works in
    saved pages too. See `compare`.
    """

    error = t.Unicode(help="Why the maps cannot be compared any more, or empty.")

    def __init__(self, a: Any, b: Any, *, names: tuple[str, str] = ("a", "b")) -> None:
        self._names = _two_names(names)
        self._sides = tuple(_Side(*each) for each in zip(self._names, (a, b), strict=True))
        self._seen: tuple[Any, ...] = ()
        read = tuple(side.read() for side in self._sides)
        drawn = self._drawn(*read)
        shown = [None if s.source is None else s.source.show_values for s in self._sides]
        self.a, self.b, self.difference_map = (
            AttentionMap(**inputs, show_values=show)
            for inputs, show in zip(drawn, (shown[0], shown[1], shown[0]), strict=True)
        )
        self._links = [
            ipywidgets.jslink((self.a, name), (other, name))
            for other in (self.b, self.difference_map)
            for name in _LINKED
        ]
        self.table = ipywidgets.HTML()
        self._note()
        self._make_room()
        self._row = ipywidgets.GridBox(self._maps).add_class("attnmap-beside")
        shown_menus = [side for side in self._sides if side.menus]
        self._headings = [_heading(side.name) for side in shown_menus]
        self._columns = [
            ipywidgets.HBox([heading, *side.menus], layout=_COLUMN)
            for heading, side in zip(self._headings, shown_menus, strict=True)
        ]
        self._menus = ipywidgets.HBox(self._columns, layout=_IN_COLUMNS)
        super().__init__([*([self._menus] if shown_menus else []), self._row, self.table])
        self.add_class("attnmap-explorer")  # where keys typed into menus stay in them
        self._seen = (*read, *(side.title for side in self._sides))
        for source in self._sources:
            source.observe(self._follow, names=_FOLLOWED)

    @property
    def _between(self) -> str:
        """What the difference is called."""
        return f"{self._names[1]} − {self._names[0]}"

    @property
    def _maps(self) -> tuple[AttentionMap, AttentionMap, AttentionMap]:
        return self.a, self.b, self.difference_map

    @property
    def _sources(self) -> list[AttentionMap]:
        """Each once, also where a map is compared with itself."""
        found = [side.source for side in self._sides if side.source is not None]
        return list(dict.fromkeys(found))

    # -- reading --------------------------------------------------------------------------------

    @property
    def difference(self) -> NDArray[np.float32]:
        """(queries, keys) float32, read-only: b − a; NaN where either has no weight."""
        values: NDArray[np.float32] = self.difference_map.weights
        return values

    def largest(self, count: int = _LISTED) -> list[Difference]:
        """The `count` cells that differ most: `Difference(query, key, a, b, difference)`.

        By |b − a|, largest first; of equals the first row by row. Cells that do not differ are
        left out.
        """
        if count < 0:
            raise ValueError(f"largest: got {count}, expected a number of cells")
        a, b, between = (shown._checked for shown in self._maps)
        return differences.largest(a, b, between, count)

    # -- drawing --------------------------------------------------------------------------------

    def _drawn(self, a: Checked, b: Checked) -> list[dict[str, Any]]:
        """The inputs of the three maps; raises where the two cannot be compared."""
        difference = differences.subtract(a, b)
        titles = [side.title for side in self._sides]
        captions = [_join(name, title) for name, title in zip(self._names, titles, strict=True)]
        one, other = titles
        differ = "" if one == other else f"{other or '?'} − {one or '?'}"
        captions.append(_join(self._between, differ))
        inputs = (*differences.on_one_range(a, b), difference)
        return [{**each, "title": title} for each, title in zip(inputs, captions, strict=True)]

    def _follow(self, _: Any) -> None:
        """One of the two has changed: draw all three anew, or say why not and keep what was."""
        try:
            read = tuple(side.read() for side in self._sides)
            seen = (*read, *(side.title for side in self._sides))
            if len(seen) == len(self._seen) and all(
                x is y or (isinstance(x, str) and x == y)
                for x, y in zip(seen, self._seen, strict=True)
            ):
                return
            self._seen = seen
            drawn = self._drawn(*read)
            for shown, inputs in zip(self._maps, drawn, strict=True):
                shown.update(**inputs, error="")
            self._make_room()
        except Exception as failure:  # noqa: BLE001 - whatever was chosen, it belongs in view
            self.error = self.difference_map.error = str(failure) or repr(failure)
            return
        self.error = ""
        self._note()

    def _make_room(self) -> None:
        """Lay all three out by the longest labels, so that equal cells stand side by side."""
        between = self.difference_map._checked
        for shown in (self.a, self.b):
            own = shown._checked
            alike = own.tokens == between.tokens and own.rows == between.rows
            shown._room = None if alike else between

    def _note(self) -> None:
        self.table.value = table(self)

    # -- files ----------------------------------------------------------------------------------

    def to_html(self, theme: str = "light", *, quantize: bool = False) -> str:
        """The three maps, linked, and the table as one HTML file without network or kernel.

        Options and errors are those of `AttentionMap.to_html`.
        """
        from .files.html import comparison_to_html

        one, other = (side.title for side in self._sides)
        title = _join(self._between, one) if one == other else self.difference_map.title
        figures = [shown._figure() for shown in self._maps]
        return comparison_to_html(title, figures, table(self), theme, quantize=quantize)

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write .html, with the options of `to_html`; returns the path.

        ValueError for another suffix: each of the three maps has a `save` of its own.
        """
        from .files import put

        target = Path(path)
        if target.suffix.lower() not in (".html", ".htm"):
            raise ValueError(
                f"path: {target.name!r} ends in {target.suffix or 'nothing'!r}; a comparison is "
                "saved as .html. Its maps can be saved one by one: comparison.difference_map.save"
            )
        put(target, self.to_html(**options))
        return target

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Beside the live view the pictures of the three maps, and a line of text."""
        live = super()._repr_mimebundle_(**kwargs)
        stills = [shown._repr_mimebundle_()[0]["text/html"] for shown in self._maps]
        said = f"Comparison({self.a!r}, {self.b!r})"
        return {**live, "text/plain": said, "text/html": "".join(stills) + table(self)}

    def close(self) -> None:
        """Remove the comparison from every page; what was compared stays."""
        if self.comm is not None:
            for source in self._sources:
                source.unobserve(self._follow, names=_FOLLOWED)
            for link in self._links:
                link.unlink()
            own = (*self._headings, *self._columns, self._menus)
            for widget in (*self._maps, *own, self._row, self.table):
                widget.layout.close()
                widget.close()
        super().close()


def table(comparison: Comparison) -> str:
    """What differs most, as an HTML table; tokens are inert in it."""
    found = comparison.largest(_LISTED)
    first, second = (html.escape(name) for name in comparison._names)
    between = f"{second} − {first}"
    if not found:
        return f'<p class="attnmap-differences">{between}: no weight differs</p>'
    shown = comparison.difference_map._checked
    name = (
        partial(_named, labels.readable(shown.rows)),
        partial(_named, labels.readable(shown.tokens)),
    )
    rows = [
        f'<th scope="row" style="{_CELL}">{name[0](one.query)}</th>'
        f'<td style="{_CELL}">{name[1](one.key)}</td>'
        + "".join(
            f'<td style="{_NUMBER}">{text}</td>'
            for text in (
                numbers.weight(one.a), numbers.weight(one.b),
                ("+" if one.difference > 0 else "") + numbers.weight(one.difference),
            )
        )
        for one in found
    ]  # fmt: skip
    head = "".join(
        f'<th scope="col" style="{_CELL if index < 2 else _NUMBER}">{text}</th>'
        for index, text in enumerate(("query", "key", first, second, between))
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<table class="attnmap-differences" style="{_TABLE}"><caption style="text-align:left">'
        f"Largest differences, {between}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


# Styles of its own: an HTML widget is outside of the maps' stylesheet.
_TABLE = (
    "border-collapse:collapse;margin:1.2em 0 0;line-height:1.5;font-size:inherit;color:inherit;"
    "background:none"
)
_CELL = (
    "padding:.1em .8em .1em 0;text-align:left;font-weight:inherit;background:none;"
    "overflow-wrap:anywhere"
)
_NUMBER = f"{_CELL};text-align:right;font-variant-numeric:tabular-nums;overflow-wrap:normal"


def _named(tokens: list[str], index: int) -> str:
    return f"<bdi>{html.escape(tokens[index])}</bdi> ({index})"


def _heading(name: str) -> ipywidgets.Label:
    return ipywidgets.Label(name, style={"font_weight": "600"})


def _join(name: str, title: str) -> str:
    return f"{name}: {title}" if title else name


def _two_names(names: Any) -> tuple[str, str]:
    try:
        first, second = names
    except (TypeError, ValueError):
        first = second = None
    if not (isinstance(first, str) and isinstance(second, str) and not isinstance(names, str)):
        raise TypeError(f'names: got {names!r}, expected two texts, such as ("before", "after")')
    return first, second
