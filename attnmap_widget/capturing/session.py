"""What one thread knows while it captures: recorders, running modules, and silence.

Function modes of torch belong to a thread, so everything here does too: two threads that capture
the same model at once never see each other's calls.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
import torch.overrides
from torch import nn

if TYPE_CHECKING:
    from .function_mode import CaptureMode
    from .recorder import Recorder

# The frames that call a forward: Module._call_impl, and the closure in it for modules with hooks.
_CALL_CODE: frozenset[CodeType] = frozenset(
    {nn.Module._call_impl.__code__}
    | {part for part in nn.Module._call_impl.__code__.co_consts if isinstance(part, CodeType)}
)
_FRAMES_TO_SEARCH = 40
# Keyword arguments that go with a sequence rather than being another one.
_NO_SEQUENCE = re.compile(r"mask|pos|bias|embed|rotary|cos|sin", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Running:
    """One module that is executing.

    ``serial`` tells two calls of the same module apart; 0 where the call itself was not seen.
    """

    module: nn.Module
    serial: int
    inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def takes_several(self) -> bool:
        """Tell whether the module was given more than one sequence; True where it is not known."""
        if self.inputs is None:
            return True
        args, kwargs = self.inputs
        named = (value for name, value in kwargs.items() if not _NO_SEQUENCE.search(name))
        sequences = {
            id(value)
            for value in (*args, *named)
            if isinstance(value, torch.Tensor) and value.ndim >= 2 and value.is_floating_point()
        }
        return len(sequences) > 1


class Session(threading.local):
    """The state of one thread. ``SESSION`` below is the only instance."""

    def __init__(self) -> None:
        self.recorders: list[Recorder] = []
        self.stack: list[Running] = []
        self.mode: CaptureMode | None = None
        self.muted = 0
        self.heads: int | None = None
        self.cross: bool | None = None
        self._serial = 0

    @property
    def listening(self) -> bool:
        """Whether a call made now is to be recorded."""
        # A graph task is running: gradient checkpointing replays a forward that was already
        # recorded.
        return bool(self.recorders) and not self.muted and _graph_task() == -1

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Torch calls in here are not recorded and build no autograd graph."""
        self.muted += 1
        try:
            with torch.no_grad():
                yield
        finally:
            self.muted -= 1

    @contextmanager
    def mute(self) -> Iterator[None]:
        """Torch calls in here are not recorded; grad mode stays as it is (the model's own work)."""
        self.muted += 1
        try:
            yield
        finally:
            self.muted -= 1

    @contextmanager
    def module_runs(
        self, module: nn.Module, inputs: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> Iterator[None]:
        """Around one call of a module."""
        for recorder in self.recorders:
            recorder.module_starts(module, self.stack, inputs)
        self._serial += 1
        depth = len(self.stack)
        self.stack.append(Running(module, self._serial, inputs))
        try:
            yield
        finally:
            del self.stack[depth:]

    def running(self) -> list[Running]:
        """The modules that are executing, innermost first."""
        return [*_called_by_forward(self.stack), *reversed(self.stack)]


def _called_by_forward(stack: list[Running]) -> list[Running]:
    """Modules run as ``module.forward(x)``, past ``__call__``: found in the frames of the stack.

    Only frames up to the nearest ``Module.__call__`` are read, so that in an ordinary model no
    frame's locals are copied (before Python 3.13 such a copy keeps tensors alive until the frame
    ends).
    """
    found: list[Running] = []
    frame = sys._getframe(2)
    for _ in range(_FRAMES_TO_SEARCH):
        if frame.f_code in _CALL_CODE or frame.f_back is None:
            break
        code = frame.f_code
        called = frame.f_back.f_code in _CALL_CODE
        if code.co_name == "forward" and code.co_argcount and not called:
            module = frame.f_locals.get(code.co_varnames[0])
            # A decorated forward looks as if it was called by hand; its module is on the stack.
            on_stack = bool(stack) and stack[-1].module is module
            if isinstance(module, nn.Module) and not on_stack:
                found.append(Running(module, 0))
        frame = frame.f_back
    return found


def _graph_task() -> int:
    return int(torch._C._current_graph_task_id())


@contextmanager
def as_without_capture() -> Iterator[None]:
    """Compiled code in here runs compiled: no function mode, torch.compile's usual stance."""
    depth = torch._C._len_torch_function_stack()
    ours = depth > 0 and torch._C._get_function_stack_at(depth - 1) is SESSION.mode
    mode_off = torch.overrides._pop_mode_temporarily() if ours else nullcontext()
    has_stance = hasattr(torch.compiler, "set_stance")
    with mode_off, torch.compiler.set_stance("default") if has_stance else nullcontext():
        yield


SESSION = Session()
