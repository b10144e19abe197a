"""Notebooks run from a clean kernel. As a script it keeps what they show: `make notebooks`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
LIVE = "application/vnd.jupyter.widget-view+json"


def run(path: Path) -> Any:
    """The notebook, executed; its outputs as they can be kept in a file.

    The picture and the text of each widget stay; the live view would need its kernel.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=240,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        outputs = cell.get("outputs", [])
        cell["outputs"] = [_kept(output) for output in outputs if not _is_progress(output)]
        if cell.cell_type != "code":
            del cell["outputs"]
    return notebook


def _is_progress(output: Any) -> bool:
    """Whether it is a bar that only moves live: as text it would stand at 0 % for ever."""
    return set(output.get("data", {})) == {LIVE, "text/plain"}


def _kept(output: Any) -> Any:
    output.get("data", {}).pop(LIVE, None)
    return output


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all, and write them with what they show."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(run(path), path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
