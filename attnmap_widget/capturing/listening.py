"""Open and close a recorder in the current thread."""

from __future__ import annotations

from .function_mode import CaptureMode
from .patches import PATCHES
from .recorder import Recorder
from .session import SESSION


def start(recorder: Recorder) -> None:
    """From here on this thread's attention calls are offered to the recorder."""
    PATCHES.open()
    if SESSION.mode is None:
        mode = CaptureMode()
        mode.__enter__()  # type: ignore[no-untyped-call]
        SESSION.mode = mode
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
