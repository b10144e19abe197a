"""What is shipped: the wheel and the sdist as a user's installer gets them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import attnmap_widget

REPOSITORY = Path(__file__).parents[2]
STATIC = {
    f"attnmap_widget/static/{name}"
    for name in (
        *(f"{name}.{kind}" for name in ("heads", "image", "widget") for kind in ("css", "js")),
        "page.js",
        "page-heads.js",
        "schemes.json",
    )
}


def run(
    *command: str | Path, cwd: Path, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command away from this checkout, with another PATH where one is given."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        env["PATH"] = path
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        text=True,
        capture_output=True,
        check=False,
        timeout=300,
    )


def build(source: Path, target: Path, kind: str, path: str | None = None) -> Path:
    """The one wheel or sdist that building `source` leaves in `target`."""
    command = (sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", target)
    result = run(*command, source, cwd=source, path=path)
    assert result.returncode == 0, result.stdout + result.stderr
    (product,) = target.iterdir()
    return product


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with nothing built, but with the Node modules installed."""
    modules = REPOSITORY / "js" / "node_modules"
    assert modules.is_dir(), "run `make setup` first"
    copy = tmp_path_factory.mktemp("checkout") / "attnmap_widget"
    left_out = (".*", "__pycache__", "node_modules", "static", "dist")
    shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(*left_out))
    shutil.copy(REPOSITORY / ".gitignore", copy)
    # With a lock that looks newer than the modules the build would install them anew, and `npm ci`
    # first empties the folder that is there, through the link.
    os.utime(copy / "js" / "package-lock.json", (0, 0))
    (copy / "js" / "node_modules").symlink_to(modules)
    return copy


@pytest.fixture(scope="session")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="session")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="session")
def bundle(wheel: Path) -> dict[str, str]:
    """The text of each built front-end file, by its name."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            Path(name).name: archive.read(name).decode()
            for name in archive.namelist()
            if name.startswith("attnmap_widget/static/")
        }


def files(archive: Path) -> set[str]:
    """The names of the files in an archive, from its own root."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return set(wheel.namelist())
    with tarfile.open(archive) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path, checkout: Path):
    package = {
        path.relative_to(checkout).as_posix()
        for path in (checkout / "attnmap_widget").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    shipped = {name for name in files(wheel) if ".dist-info/" not in name}

    assert shipped == package
    assert shipped >= STATIC | {"attnmap_widget/py.typed"}


def test_the_metadata_has_the_readme_and_a_torch_that_a_browser_need_not_have(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())

    assert metadata["Name"] == "attnmap-widget"
    assert metadata.get_payload().strip() == (REPOSITORY / "README.md").read_text("utf-8").strip()
    required = metadata.get_all("Requires-Dist")
    assert [line for line in required if line.startswith("torch")] == [
        "torch>=2.4; sys_platform != 'emscripten'"
    ]
    always = [line for line in required if "extra ==" not in line]
    assert {re.match(r"[\w-]+", line)[0] for line in always} == {
        *("anywidget", "ipywidgets", "numpy", "torch", "traitlets")
    }


def test_the_bundle_is_small(bundle: dict[str, str]):
    assert 0 < len(bundle["widget.js"].encode()) <= 60_000
    assert 0 < len(bundle["image.js"].encode()) <= 20_000


def test_the_front_end_stands_alone(bundle: dict[str, str]):
    default = r"\bexport\s*\{[^}]*\bas default\b|\bexport default\b"
    assert re.search(default, bundle["widget.js"])
    for name, code in bundle.items():
        if name.endswith(".js"):
            assert re.findall(r"""\b(?:import|from)\b\s*\(?\s*["'`][^"'`]*["'`]""", code) == []
            assert "require(" not in code
    remote = r"@import\b|url\(\s*[\"']?(?:https?:)?//"
    assert re.findall(remote, bundle["widget.css"]) == []


def test_the_colour_tables_are_whole(bundle: dict[str, str]):
    tables = json.loads(bundle["schemes.json"])

    kinds = [table["kind"] for table in tables.values()]
    assert (kinds.count("sequential"), kinds.count("diverging")) == (27, 9)
    assert all(re.fullmatch(r"[0-9a-f]{1536}", table["ramp"]) for table in tables.values())
    # the ends of two well-known ones, as their author published them
    assert tables["Blues"]["ramp"][:6] == "f7fbff"
    assert tables["Viridis"]["ramp"][-6:] == "fde725"


def test_the_sdist_builds_the_same_wheel_without_node(sdist: Path, wheel: Path, tmp_path: Path):
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.10.12, 3.11.4
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, **safely)
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    nothing = tmp_path / "nothing"
    nothing.mkdir()

    again = build(source, tmp_path / "again", "wheel", path=str(nothing))

    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {i.filename: i.CRC for i in first.infolist()} == {
            i.filename: i.CRC for i in second.infolist()
        }


def test_the_sdist_holds_the_front_end_and_its_source(sdist: Path):
    names = files(sdist)

    assert names >= STATIC | {"js/hatch_build.py", "js/package-lock.json", "js/src/widget.ts"}
    assert names >= {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"}
    assert [name for name in names if "node_modules" in name or name.startswith("tests")] == []


def test_a_build_without_node_says_what_is_missing(checkout: Path, tmp_path: Path):
    command = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path)

    result = run(*command, checkout, cwd=checkout, path=str(tmp_path))

    said = result.stdout + result.stderr
    assert result.returncode != 0
    assert "needs npm (Node.js 20.19 or newer) on the PATH" in said
    assert "Traceback" not in said


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has the wheel.

    The dependencies are this environment's, through a path file in the new one, so that nothing is
    downloaded. Path files of a folder that is itself on the path by a path file are not read:
    the editable install here stays out of sight, and the package can only come from the wheel.
    """
    environment = tmp_path_factory.mktemp("installed")
    made = run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    assert made.returncode == 0, made.stderr
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index")
    put = run(*pip, wheel, cwd=environment)
    assert put.returncode == 0, put.stdout + put.stderr
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return python


def test_the_installed_wheel_makes_a_map(installed: Path, tmp_path: Path):
    result = run(
        *(installed, "-c"),
        "import attnmap_widget as a, pathlib\n"
        "m = a.AttentionMap(['the', 'cat'], [[0.25, 0.75], [1, 0]])\n"
        "print(pathlib.Path(a.__file__).parent, len(str(m._esm)) > 1000, m.row_sums.tolist())",
        cwd=tmp_path,
    )

    assert result.returncode == 0, result.stderr
    package = next(installed.parents[1].glob("lib/python*/site-packages/attnmap_widget"))
    assert result.stdout.strip() == f"{package} True [1.0, 1.0]"


@pytest.mark.parametrize("heavy", ["torch", "pandas", "transformers"])
def test_importing_the_package_leaves_heavy_libraries_out(heavy: str, tmp_path: Path):
    code = f"import attnmap_widget, sys; print({heavy!r} in sys.modules)"

    result = run(sys.executable, "-c", code, cwd=tmp_path)

    assert result.stdout.strip() == "False", result.stderr


def test_no_module_takes_the_place_of_a_public_name():
    """Importing `attnmap_widget.x` sets `x` on the package and hides a function of that name."""
    modules = {path.stem for path in (REPOSITORY / "attnmap_widget").iterdir()}
    assert modules & set(attnmap_widget.__all__) == set()
