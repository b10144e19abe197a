"""Open and close a recorder: what is changed in torch and transformers while any capture is open.

Captures may open and close in any order and in several threads, so nobody restores what he found:
the changes are made once, counted, and undone together. Each of them does nothing in a thread
without captures.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .function_mode import CaptureMode
from .recorder import Recorder
from .session import SESSION
from .transformers_calls import listen

_FAST_PATHS = ("torch.nn.modules.transformer", "torch.nn.modules.activation")


class _Patches:
    """The process-wide changes, counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._undo: list[Callable[[], object]] = []
        self._done: set[str] = set()

    def open(self) -> None:
        """Make the changes that are not made yet."""
        with self._lock:
            self._open += 1
            try:
                self._once("modules", _watch_modules)
                self._once("fast path", _keep_fast_paths)
                if "transformers.modeling_utils" in sys.modules:
                    self._once("interface", _listen_to_interface)
                # torch has set_stance from 2.6 on. Without dynamo nothing was compiled.
                if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
                    self._once("stance", _run_compiled_models_eagerly)
            except BaseException:
                self._close()
                raise

    def close(self) -> None:
        """Undo everything if this was the last open capture."""
        with self._lock:
            self._close()

    def _once(self, name: str, change: Callable[[], Callable[[], object]]) -> None:
        if name not in self._done:
            self._undo.append(change())
            self._done.add(name)

    def _close(self) -> None:
        self._open -= 1
        if self._open == 0:
            while self._undo:
                self._undo.pop()()
            self._done.clear()


PATCHES = _Patches()


def start(recorder: Recorder) -> None:
    """From here on this thread's attention calls are offered to the recorder."""
    PATCHES.open()
    if SESSION.mode is None:
        mode = CaptureMode()
        mode.__enter__()  # type: ignore[no-untyped-call]
        SESSION.mode = mode
    if recorder.model is not None:
        SESSION.mode.provenance.learn(recorder.model)
    SESSION.recorders.append(recorder)


def stop(recorder: Recorder) -> None:
    """Stop offering calls; the last recorder of a thread takes the mode along."""
    if recorder not in SESSION.recorders:
        raise RuntimeError("a capture must be closed in the thread that opened it")
    SESSION.recorders.remove(recorder)
    if not SESSION.recorders and SESSION.mode is not None:
        mode, SESSION.mode = SESSION.mode, None
        mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        mode.provenance.clear()
        SESSION.stack.clear()
    PATCHES.close()


def _watch_modules() -> Callable[[], object]:
    """Tell which modules run.

    Hooks would do it as well, but modules with hooks leave torch's fused paths, and compiled
    modules warn about global ones.
    """
    original = nn.Module.__dict__["__call__"]

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if not SESSION.recorders:
            return original(self, *args, **kwargs)
        with SESSION.module_runs(self, (args, kwargs)):
            return original(self, *args, **kwargs)

    return _replace(nn.Module, "__call__", original, __call__)


def _keep_fast_paths() -> Callable[[], object]:
    """Torch's encoder asks whether a function mode is on, and if so leaves its fused kernels.

    That changes what a padded model computes. So it is told no where the only mode is the
    capture's own; the mode sees the fused call all the same.
    """
    original = torch.overrides.has_torch_function

    def has_torch_function(relevant_args: Any) -> bool:
        caller = sys._getframe(1).f_globals.get("__name__")
        if caller not in _FAST_PATHS or not _only_capturing():
            return bool(original(relevant_args))
        with torch.overrides._pop_mode_temporarily():
            return bool(original(relevant_args))

    return _replace(torch.overrides, "has_torch_function", original, has_torch_function)


def _only_capturing() -> bool:
    return torch._C._len_torch_function_stack() == 1 and isinstance(
        torch._C._get_function_stack_at(0), CaptureMode
    )


def _listen_to_interface() -> Callable[[], object]:
    interface: Any = sys.modules["transformers.modeling_utils"].AttentionInterface
    original = interface.__dict__["get_interface"]

    def get_interface(self: Any, attn_implementation: Any, default: Any) -> Any:
        return listen(original(self, attn_implementation, default), attn_implementation)

    return _replace(interface, "get_interface", original, get_interface)


def _run_compiled_models_eagerly() -> Callable[[], object]:
    """Run compiled models uncompiled: compiled code calls no torch functions one by one."""
    stance = torch.compiler.set_stance("force_eager")
    return lambda: stance.__exit__(None, None, None)


def _replace(owner: Any, name: str, original: Any, replacement: Any) -> Callable[[], object]:
    setattr(owner, name, replacement)

    def undo() -> None:
        # Somebody else's patch on top of ours stays; ours, below it, has become a plain
        # pass-through.
        if getattr(owner, "__dict__", {}).get(name) is replacement:
            setattr(owner, name, original)

    return undo
