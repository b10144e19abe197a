"""Interactive attention maps for PyTorch models in notebooks.

Importing this package imports neither torch nor pandas; `capture` and `explore` do when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import CaptureError, ShapeError
from .map import AttentionMap
from .patches import Patches
from .reading import Lean
from .states import State

if TYPE_CHECKING:
    from .capturing import AttentionCall, Capture, capture
    from .comparison import compare
    from .corpus import summarize
    from .explorer import AttentionExplorer
    from .heads import HeadGrid
    from .image import ImageAttention
    from .running import explore
    from .summary import HeadSummary

__version__ = "0.1.0"

__all__ = [
    "AttentionCall",
    "AttentionExplorer",
    "AttentionMap",
    "Capture",
    "CaptureError",
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
    "AttentionExplorer": ".explorer",
    "ImageAttention": ".image",
    "HeadGrid": ".heads",
    "HeadSummary": ".summary",
    "compare": ".comparison",
    "explore": ".running",
    "summarize": ".corpus",
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
