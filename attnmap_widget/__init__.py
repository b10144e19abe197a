"""Interactive attention maps for PyTorch models in notebooks.

Importing this package imports neither torch nor pandas; `capture` and `explore` do when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import CaptureError, ShapeError
from .grid.reading import Lean
from .grid.states import State
from .images.patches import Patches
from .map import AttentionMap

if TYPE_CHECKING:
    from .capturing import AttentionCall, Capture, capture
    from .comparison import Comparison, compare
    from .exploring.explorer import AttentionExplorer
    from .exploring.running import explore
    from .heads.corpus import summarize
    from .heads.summary import HeadSummary
    from .heads.widget import HeadGrid
    from .images.image import ImageAttention

__version__ = "0.1.0"

__all__ = [
    "AttentionCall",
    "AttentionExplorer",
    "AttentionMap",
    "Capture",
    "CaptureError",
    "Comparison",
    "HeadGrid",
    "HeadSummary",
    "ImageAttention",
    "Lean",
    "Patches",
    "ShapeError",
    "State",
    "capture",
    "compare",
    "explore",
    "summarize",
]

_LAZY = {
    "AttentionCall": ".capturing",
    "Capture": ".capturing",
    "capture": ".capturing",
    "AttentionExplorer": ".exploring.explorer",
    "ImageAttention": ".images.image",
    "HeadGrid": ".heads.widget",
    "HeadSummary": ".heads.summary",
    "Comparison": ".comparison",
    "compare": ".comparison",
    "explore": ".exploring.running",
    "summarize": ".heads.corpus",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch or ipywidgets' controls on first use."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
