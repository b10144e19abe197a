"""Which module may import which: so that each can be read, and used, without those above it."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import attnmap_widget

PACKAGE = Path(__file__).parents[2] / "attnmap_widget"
WIDGETS = {"anywidget", "ipywidgets", "traitlets"}


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_module(path): path for path in PACKAGE.rglob("*.py")}


def _imports(name: str) -> set[str]:
    """What a module imports when it is imported itself; not what a function asks for later."""
    found = set()
    for node in ast.parse(FILES[name].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = name if FILES[name].stem == "__init__" else name.rpartition(".")[0]
            parts = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parts, *filter(None, [node.module])] if node.level else [node.module])
            full = {f"{base}.{alias.name}" for alias in node.names}
            inside = full & FILES.keys()
            found |= inside | ({base} if inside != full else set())
    return found


IMPORTS = {name: _imports(name) for name in FILES}


def _reached(name: str) -> set[str]:
    """All that a module stands on."""
    found: set[str] = set()
    left = [name]
    while left:
        for one in IMPORTS.get(left.pop(), ()):
            if one not in found:
                found.add(one)
                left.append(one)
    return found


def test_no_module_stands_on_itself():
    order = [*TopologicalSorter(IMPORTS).static_order()]
    assert order.index("attnmap_widget.grid.weights") < order.index("attnmap_widget.map")


def test_numbers_know_neither_torch_nor_a_widget():
    for name in (
        "grid.weights", "grid.checked", "exploring.sources", "heads.summary", "heads.filling",
        "images.overlay", "differences",
    ):  # fmt: skip
        tops = {one.partition(".")[0] for one in _reached(f"attnmap_widget.{name}")}
        assert "numpy" in tops
        assert tops & ({"torch", "transformers", "pandas"} | WIDGETS) == set(), name


def test_what_captures_knows_torch_and_no_widget():
    capturing = [name for name in FILES if name.startswith("attnmap_widget.capturing")]
    tops = {one.partition(".")[0] for name in capturing for one in _reached(name)}
    assert "torch" in tops
    assert tops & WIDGETS == set()


def test_no_module_has_a_public_name():
    # Python puts a module that is imported into its package, in the place of what is there.
    modules = {name.rpartition(".")[2] for name in FILES if name.count(".") == 1}
    assert modules & {*attnmap_widget.__all__} == set()
