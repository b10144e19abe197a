"""Records refer to the model's own tensors; before the model writes to one, they get a copy."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

from .records import Rebuilt


class KeptMemory:
    """Which records look at which memory; a record that is dropped is forgotten."""

    def __init__(self) -> None:
        self._records: dict[int, weakref.WeakSet[Rebuilt]] = {}

    def add(self, record: Rebuilt) -> None:
        """A record was made."""
        for tensor in record.tensors():
            pointer = tensor.untyped_storage().data_ptr()
            self._records.setdefault(pointer, weakref.WeakSet()).add(record)

    def before_write(self, target: object) -> None:
        """A function is about to write to this tensor."""
        if not isinstance(target, Tensor) or not self._records or _without_memory(target):
            return
        for record in self._records.pop(target.untyped_storage().data_ptr(), ()):
            with torch.no_grad(), torch._C.DisableTorchFunction():
                record.part_from(target.untyped_storage().data_ptr())


def _without_memory(tensor: Tensor) -> bool:
    return (
        tensor.is_nested
        or tensor.layout != torch.strided
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )
