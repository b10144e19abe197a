"""The README names what there is: every option of a map, every public name, every notebook."""

from __future__ import annotations

import re
from pathlib import Path

from readme_reference import BEGIN, END, reference

import attnmap_widget
from attnmap_widget.map import _PLAIN, INPUTS

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def _named() -> set[str]:
    """Every name in code, with the parts of a dotted one."""
    code = re.findall(r"```.*?```|`[^`\n]+`", README, flags=re.DOTALL)
    return set(re.findall(r"\w+", " ".join(code)))


def test_every_public_name_is_in_it():
    assert set(attnmap_widget.__all__) - _named() == set()


def test_the_table_of_options_has_each_option_of_a_map_and_no_other():
    table = README[README.index("## Options of a map") :]
    rows = re.findall(r"^\| (`.*?) \|", table[: table.index("\n#", 5)], flags=re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"\w+", row)}
    assert listed == {*INPUTS, *_PLAIN} - {"tokens", "weights"}


def test_the_reference_is_that_of_the_code():
    assert README.split(BEGIN)[1].split(END)[0].strip() == reference().strip()


def test_the_table_of_rooms_has_each_module_of_the_package() -> None:
    table = README.split("## How the pieces fit")[1].split("\n## ")[0]
    package, room, listed = REPOSITORY / "attnmap_widget", "", set()
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 5 or cells[1] in ("room", "---"):
            continue
        room = cells[1].strip("`") or room
        folder = package / room if room.endswith("/") else package
        names = re.findall(r"`(\w+)`", cells[2])
        listed |= {folder / f"{name}.py" for name in names} or set(folder.glob("*.py"))
    modules = set(package.rglob("*.py")) - set((package / "examples").rglob("*.py"))
    inner = {one for one in modules if one.parent.parent.name in ("files", "capturing")}
    unlisted = {one for one in modules - inner if one.name != "__init__.py"} - listed
    assert unlisted == set()
    assert all(one.is_file() for one in listed)


def test_every_notebook_is_listed():
    listed = README[README.index("### Notebooks") :]
    rows = re.findall(r"^\| `(\w+)` \|", listed[: listed.index("\n## ")], flags=re.MULTILINE)
    assert sorted(rows) == sorted(path.stem for path in REPOSITORY.glob("notebooks/*.ipynb"))


def test_links_and_pictures_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (REPOSITORY / target).is_file()
