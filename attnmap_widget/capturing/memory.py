"""Memory: whose it is, and whether a result would fit before the machine starts swapping."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch
from torch import Tensor

from ..errors import CaptureError

_BYTES = 4  # results are float32
_SMALL = 64 << 20


def storage_pointer(tensor: Tensor) -> int:
    """Where the tensor's memory begins; 0 for those without memory of their own.

    Such are nested and sparse tensors, and those inside vmap and grad transforms.
    """
    if (
        tensor.is_nested
        or tensor.layout != torch.strided
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    ):
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # subclasses that only wrap others
        return 0


def require(shape: tuple[int, ...]) -> None:
    """Raise CaptureError if a float32 tensor of this shape would not fit into the free memory."""
    needed = math.prod(shape) * _BYTES
    if needed <= _SMALL:
        return
    free = available_bytes()
    if free is not None and needed > free:
        heads, rows, keys = shape
        raise CaptureError(
            f"{heads} head(s) of {rows} × {keys} weights take {_gigabytes(needed)}, and "
            f"{_gigabytes(free)} of memory are free: ask for one head, or for a window with "
            "queries=slice(…) and keys=slice(…)"
        )


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not tell."""
    found = [size for size in (_from_meminfo(), _from_cgroup()) if size is not None]
    if found:
        return min(found)
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _from_meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _from_cgroup() -> int | None:
    """A container's limit; notebooks often run in one."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        statistics = Path("/sys/fs/cgroup/memory.stat").read_text().split()
        reclaimable = int(statistics[statistics.index("inactive_file") + 1])
        return max(0, int(limit) - used + reclaimable)
    except (OSError, ValueError, IndexError):
        return None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
