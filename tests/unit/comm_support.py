"""What travels to the browser, kept for the tests to read."""

from __future__ import annotations

from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm


class RecordingComm(BaseComm):
    """A comm that keeps what would travel to the browser."""

    def __init__(self, **kwargs: object) -> None:
        self.sent: list[tuple[dict, list]] = []
        super().__init__(**kwargs)

    def publish_msg(self, msg_type: str, data=None, buffers=None, **_: object) -> None:
        self.sent.append((data or {}, list(buffers or [])))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch):
    """Make widgets whose messages can be read: sent(widget) -> [(state, bytes in buffers)]."""
    monkeypatch.setattr(comm, "create_comm", RecordingComm)

    def messages(widget: Any) -> list[tuple[dict, int]]:
        found = [
            (data["state"], sum(len(buffer) for buffer in buffers))
            for data, buffers in widget.comm.sent
            if data.get("method") == "update"
        ]
        widget.comm.sent.clear()
        return found

    return messages
