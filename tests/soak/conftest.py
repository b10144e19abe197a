"""JupyterLab, the browser and the kernel, as `tests/e2e` has them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from where import e2e

lab = e2e.lab
browser_type_launch_args = e2e.browser_type_launch_args
browser_context_args = e2e.browser_context_args
