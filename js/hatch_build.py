"""Hatchling hook: bundles the front end into the package before the package is built.

It runs for wheels, sdists and editable installs, sometimes twice, so it has to be cheap and to give
the same result each time. An sdist carries the bundle: building from one needs no Node.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PRODUCTS = (
    *(f"{name}.{kind}" for name in ("heads", "image", "widget") for kind in ("css", "js")),
    "page.js",
    "page-heads.js",
    "schemes.json",
)


class FrontEndBuildHook(BuildHookInterface[Any]):
    """Fill `attnmap_widget/static/` with `npm ci`, where needed, and `npm run build`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the front end, or end the package's build with one sentence on what is missing."""
        root = Path(self.root)
        static = root / "attnmap_widget" / "static"
        if (root / "PKG-INFO").is_file() and all((static / name).is_file() for name in PRODUCTS):
            return  # an unpacked sdist

        npm = shutil.which("npm")
        if npm is None:
            self._abort(
                "Building attnmap-widget from a checkout needs npm (Node.js 20.19 or newer) on the "
                "PATH; install Node.js, or install a released wheel instead."
            )
        js = root / "js"
        installed = js / "node_modules" / ".package-lock.json"
        if _older(installed, js / "package-lock.json"):
            self._run(js, npm, "ci")
        self._run(js, npm, "run", "--silent", "build")

    def _run(self, folder: Path, *command: str) -> None:
        code = subprocess.run(command, cwd=folder, check=False).returncode
        if code != 0:
            name = " ".join(("npm", *command[1:]))
            self._abort(f"`{name}` failed in {folder} (exit code {code}); its output is above.")

    def _abort(self, message: str) -> NoReturn:
        self.app.abort(message)
        raise SystemExit(1)


def _older(product: Path, source: Path) -> bool:
    """Whether product is still to be made from source."""
    return not product.is_file() or product.stat().st_mtime < source.stat().st_mtime
