"""The browser and the hosts that `tests/e2e` uses, for the benches."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "attnmap_widget" / "static"


def _load() -> Any:
    """`tests/e2e/conftest.py` under a name of its own: this folder has a `conftest` too."""
    spec = importlib.util.spec_from_file_location("e2e_hosts", ROOT / "tests/e2e/conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


e2e = _load()
CHROMIUM_FLAGS: list[str] = e2e.CHROMIUM_FLAGS


def chromium() -> str | None:
    """As in `tests/e2e`: CHROMIUM, then the PATH, else None: the runner's own."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
