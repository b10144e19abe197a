"""A map, or an explorer's maps, as one HTML file: no network, no kernel, nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import assets
from ..exploring import choosing
from ..exploring.combined import offer
from ..grid.checked import check
from . import numbers, svg, xml
from .figure import Figure
from .page_data import PageData

if TYPE_CHECKING:
    from ..exploring.explorer import AttentionExplorer
    from ..exploring.sources import Choice

LIMIT = 50_000_000
"""Bytes of the largest page that is made."""
THEMES = ("light", "dark", "auto")

_LIGHT = "color-scheme:light;--page:#fff;--ink:#1f2328;--muted:#57606a"
_DARK = "color-scheme:dark;--page:#111518;--ink:#e6edf3;--muted:#9aa4af"
_STYLE = """\
body{margin:0;padding:1.2em;background:var(--page);color:var(--ink);
font:13px/1.4 system-ui,-apple-system,"Segoe UI","Helvetica Neue",Arial,sans-serif}
main{max-width:64em;margin:0 auto}
main:has(.attnmap-beside){max-width:110em}
h1{position:absolute;width:1px;height:1px;margin:0;overflow:hidden;clip-path:inset(50%)}
.menus{display:flex;flex-wrap:wrap;gap:.4em 1.4em;margin:0 0 .8em}
.menus select{font:inherit;min-width:4em;margin-left:.2em}
.note{margin:1.4em 0 0;color:var(--muted);font-size:.9em;overflow-wrap:anywhere}"""
# The page holds all it needs: whatever a token may contain, nothing is ever asked of a network.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def to_html(figure: Figure, theme: str = "light", *, quantize: bool = False) -> str:
    """One map as a page; as live as in a notebook.

    Parameters
    ----------
    theme:
        "light", "dark", or "auto", which follows the reader's system.
    quantize:
        Write weights as 8 bits each, a quarter of the size; the page says how exact that is.

    Raises
    ------
    ValueError
        an unknown theme, or a page above 50 MB.
    """
    check_theme(theme)
    data = PageData(quantize)
    data.add(figure)
    still = svg.to_svg(figure, "dark" if theme == "dark" else "light", vector_cells=0)
    return _page(data, 0, theme, title=figure.summary, what=figure.size, still=still)


def explorer_to_html(
    explorer: AttentionExplorer,
    layers: Sequence[int] | None = None,
    heads: Sequence[int | str] | None = None,
    theme: str = "light",
    *,
    quantize: bool = False,
) -> str:
    """The maps of these layers and heads behind two menus; see `AttentionExplorer.to_html`."""
    check_theme(theme)
    choices = list(_choices(explorer, layers, heads))
    data = PageData(quantize)
    first = 0
    for index, choice in enumerate(choices):
        figure = _figure(explorer, choice)
        if index == 0:
            _refuse_too_many(figure, len(choices), quantize)
        if choice == explorer._choice:
            first = index
        data.add(figure, (str(choice.layer), str(choice.head)))
        if data.size > LIMIT:
            raise ValueError(_too_large(data.size, f"the first {index + 1} maps"))
    layer_count = len({choice.layer for choice in choices})
    what = (
        f"{numbers.count(len(choices), 'map')} of {numbers.count(layer_count, 'layer')}, "
        f"{figure.size} each"
    )
    title = explorer._caption or "Attention by layer and head"
    return _page(data, first, theme, title=title, what=what)


def comparison_to_html(
    title: str, figures: Sequence[Figure], table: str, theme: str, *, quantize: bool = False
) -> str:
    """Maps side by side in which a pointer, a pin and a zoom are in all, above a table (HTML)."""
    check_theme(theme)
    data = PageData(quantize, linked=True)
    for figure in figures:
        data.add(figure)
    dark = "dark" if theme == "dark" else "light"
    stills = "".join(svg.to_svg(figure, dark, vector_cells=0) for figure in figures)
    what = f"{numbers.count(len(figures), 'map')}, {figures[0].size} each"
    return _page(data, 0, theme, title=title, what=what, still=stills, below=table)


def _choices(
    explorer: AttentionExplorer, layers: Sequence[int] | None, heads: Sequence[int | str] | None
) -> Iterator[Choice]:
    """The chosen layers and heads, of the kind, batch item and step that is shown."""
    source = explorer._source
    seen = set()
    for layer in _several("layers", source.layers if layers is None else layers):
        kind = choosing.choose(source, {"layer": layer}, explorer._choice).kind
        own = choosing.heads(layer, offer(source, layer, kind).heads)
        own = [head for head in own if not isinstance(head, str)] or own[:1]
        for head in _several("heads", own if heads is None else heads):
            wanted = {"layer": layer, "head": head}
            choice = choosing.choose(source, wanted, explorer._choice)
            if choice not in seen:
                seen.add(choice)
                yield choice


def _several(name: str, given: Iterable[Any]) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name}: got {given!r}, expected a list")
    found = list(given)
    if not found:
        raise ValueError(f"{name}: an empty list; a page needs at least one map")
    return found


def _figure(explorer: AttentionExplorer, choice: Choice) -> Figure:
    """The map of a choice as the explorer would draw it, without choosing it."""
    drawn = explorer._inputs(choice)
    captions = {name: drawn.pop(name) for name in ("title", "status")}
    checked = check(explorer.map._checked, drawn)
    return Figure(checked, show_values=explorer.map.show_values, **captions)


def _refuse_too_many(figure: Figure, count: int, quantize: bool) -> None:
    """Before the other maps are read: they may be many and large."""
    tile = figure.tile
    cells = tile.values.size * count
    size = cells * ((1 if quantize else 4) + (0 if tile.at is None else 2)) * 4 // 3
    if size <= LIMIT:
        return
    rows, columns = tile.values.shape
    smaller = "" if quantize else f", or quantize=True (about {numbers.size_of(size // 4)})"
    raise ValueError(_too_large(size, f"{count} maps of {rows} × {columns} weights") + smaller)


def _too_large(size: int, what: str) -> str:
    return (
        f"{what} make a page of about {numbers.size_of(size)}, the limit is "
        f"{numbers.size_of(LIMIT)}; choose fewer with layers=[…], heads=[…]"
    )


@cache
def _asset(name: str) -> str:
    """A built file as it stands inside its element; a test watches that it cannot end it early."""
    return assets.text(name).replace("</script", "<\\/script")


def check_theme(theme: str) -> None:
    """ValueError for a theme that a page has not."""
    if theme not in THEMES:
        raise ValueError(f"theme: got {theme!r}, accepted are {', '.join(map(repr, THEMES))}")


def _page(
    data: PageData,
    first: int,
    theme: str,
    *,
    title: str,
    what: str,
    still: str = "",
    below: str = "",
) -> str:
    size = asset_size("page.js", "widget.css") + len(still) + len(data.to_json(first, ""))
    note = f"{what} · {numbers.size_of(size)} in all · {_exactness(data)}"
    page = document(
        theme, title, data.to_json(first, note), script="page.js", styles="widget.css",
        still=still, below=below,
    )  # fmt: skip
    if len(page) > LIMIT:
        raise ValueError(_too_large(len(page), what))
    return page


def asset_size(*names: str) -> int:
    """Characters that these built files are in a page."""
    return sum(len(_asset(name).strip()) for name in names)


def document(
    theme: str, title: str, data: str, *, script: str, styles: str, still: str = "", below: str = ""
) -> str:
    """A whole page: the built script and styles of these names, and JSON for the script."""
    style = f":root{{{_DARK if theme == 'dark' else _LIGHT}}}"
    if theme == "auto":
        style += f"\n@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    name = xml.text(title)
    picture = f"\n<noscript>{still}</noscript>" if still else ""
    below = f"\n{below}" if below else ""
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
{style}
{_STYLE}
{_asset(styles).strip()}
</style>
</head>
<body>
<main>
<h1>{name}</h1>
<div id="attnmap"></div>{picture}{below}
</main>
<script id="attnmap-data" type="application/json">{data}</script>
<script type="module">
{_asset(script).strip()}
</script>
</body>
</html>
"""


def _exactness(data: PageData) -> str:
    if not data.quantize:
        return "32-bit weights, exact"
    return f"8-bit weights, each within ±{numbers.weight(data.error)}"
