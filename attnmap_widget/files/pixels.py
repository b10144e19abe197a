"""Pixels as a PNG, written by hand: lossless, and the same bytes for the same pixels."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def png(pixels: NDArray[np.uint8]) -> bytes:
    """(height, width, 4) red, green, blue, alpha as PNG; without alpha where all are opaque."""
    height, width, _ = pixels.shape
    opaque = bool((pixels[..., 3] == 255).all())
    data = pixels[..., :3] if opaque else pixels
    lines = np.zeros((height, 1 + width * data.shape[2]), dtype=np.uint8)  # each with filter 0
    lines[:, 1:] = data.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if opaque else 6, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def data_url(kind: str, data: bytes) -> str:
    """As an address that holds its own content."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
