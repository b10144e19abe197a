"""Reading what travels as the front end does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def values_of(wire: dict[str, Any]) -> NDArray[np.float32]:
    return np.frombuffer(wire["data"], dtype="<f4").reshape(wire["shape"])


def states_of(wire: dict[str, Any]) -> NDArray[np.uint8]:
    states = np.frombuffer(wire["states"], dtype=np.uint8)
    count = wire["shape"][0] * wire["shape"][1]
    if wire["at"] is not None:
        states = np.stack([states & 15, states >> 4], axis=1).ravel()[:count]
    return states.reshape(wire["shape"])


def places_of(wire: dict[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The query and the key of each cell's largest weight."""
    (height, width), (rows, columns) = wire["shape"], wire["bin"]
    wide = len(wire["at"]) > 2 * height * width
    offsets = np.frombuffer(wire["at"], dtype="<u4" if wide else "<u2").astype(np.int64)
    down, across = np.divmod(offsets.reshape(height, width), columns)
    q0, _, k0, _ = wire["window"]
    return (
        q0 + np.arange(height)[:, None] * rows + down,
        k0 + np.arange(width) * columns + across,
    )


def labels_of(wire: dict[str, Any]) -> tuple[list[str], list[str | None] | None]:
    """The labels and raw tokens of each position."""
    if "labels" in wire:
        return wire["labels"], wire["raw"]
    count = wire["count"]
    if wire["texts"] is None:
        return list(map(str, range(count))), None
    units = wire["texts"].decode().encode("utf-16-le")
    numbers = np.frombuffer(units, dtype="<u2")
    texts, at, before = [], 0, b""
    while at < len(numbers):
        shared, own = int(numbers[at]), int(numbers[at + 1])
        before = before[: 2 * shared] + units[2 * at + 4 : 2 * (at + 2 + own)]
        texts.append(before.decode("utf-16-le"))
        at += 2 + own
    half = len(texts) // 2 if wire["pairs"] else len(texts)
    ids = wire["ids"]
    kind = "<u4" if ids is not None and len(ids) > 2 * count else "<u2"
    numbers = np.arange(count) if ids is None else np.frombuffer(ids, dtype=kind)
    labels = [texts[number] for number in numbers]
    if not wire["pairs"]:
        return labels, None
    raw = [texts[half + number] for number in numbers]
    pairs = zip(raw, labels, strict=True)
    return labels, [None if token == label else token for token, label in pairs]
