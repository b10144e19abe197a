"""The README's reference, from signatures and docstrings. Run it to write it anew."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import traitlets

import attnmap_widget
from attnmap_widget import aggregates, words

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- reference -->", "<!-- /reference -->"
_CLASSES = ("AttentionMap", "AttentionExplorer", "HeadGrid", "ImageAttention", "Comparison",
            "Capture", "AttentionCall", "HeadSummary", "Patches")  # fmt: skip
_MODULES = {
    "words": [words.word_groups, words.merge, words.drop],
    "aggregates": [aggregates.mean_of, aggregates.max_of, aggregates.rollout],
}


def reference() -> str:
    """All of it, as Markdown."""
    names = sorted(attnmap_widget.__all__, key=str.lower)
    functions = [name for name in names if inspect.isfunction(getattr(attnmap_widget, name))]
    parts = [
        _table("functions", [_line(name, getattr(attnmap_widget, name)) for name in functions])
    ]
    for module, found in _MODULES.items():
        rows = [_line(function.__name__, function) for function in found]
        parts.append(_table(f"`attnmap_widget.{module}`", rows))
    for name in _CLASSES:
        cls = getattr(attnmap_widget, name)
        rows = [_member(cls, member) for member in _members(cls)]
        parts.append(_table(f"`{name}`: {_first(cls)}", [row for row in rows if row]))
    return "\n\n".join(parts)


def _table(title: str, rows: list[str]) -> str:
    return "\n".join([f"| {title} | |", "| --- | --- |", *rows])


def _members(cls: type) -> list[str]:
    """What the class, or a mixin of ours, adds to what it is made from."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("attnmap_widget")]
    others = {name for base in cls.__mro__ if base not in ours for name in vars(base)}
    return sorted({name for base in ours for name in _public(vars(base))} - others, key=str.lower)


def _public(names: Any) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def _member(cls: type, name: str) -> str:
    """Its row; empty for a field, which the docstring of the class explains."""
    found = inspect.getattr_static(cls, name)
    if isinstance(found, traitlets.TraitType):
        return f"| `{name}` | {_plain(found.help)} |"
    if isinstance(found, (classmethod, staticmethod)):
        found = found.__func__
    if inspect.isfunction(found):
        return _line(name, found)
    return f"| `{name}` | {_first(found)} |" if isinstance(found, property) else ""


def _line(name: str, function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    shown = [_parameter(one) for one in parameters if one.name not in ("self", "cls")]
    return f"| `{name}({', '.join(shown)})` | {_first(function)} |"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    default = "" if one.default is one.empty else f"={_default(one.default)}"
    return f"{stars}{one.name}{default}"


def _default(value: Any) -> str:
    return ":" if value == slice(None) else repr(value)


def _first(documented: Any) -> str:
    return _plain((inspect.getdoc(documented) or "").split("\n\n")[0])


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("``", "`").strip()


def main() -> None:
    """Write it between the markers."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(f"{before}{BEGIN}\n{reference()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
