"""Dotted module names -> true block numbers, towers and kinds.

A block number is the number in the name of the list that holds the blocks:
``model.layers.3.self_attn`` is layer 3 whether or not layers 0 to 2 have attention. Staged models
nest such lists (``stages.1.blocks.0.attn``): there blocks are numbered through, in the order of
the stages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from torch import nn

_COMPILED_PREFIX = "_orig_mod."
_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_CROSS = re.compile(
    r"cross|encoder_attn|encdec|enc_attn|encoder_attention|src_attn|enc_dec|attn2$", re.IGNORECASE
)
_SELF = re.compile(r"self|attn1$", re.IGNORECASE)
# Attention over windows of gathered keys: column j of such a softmax is not key j, and which key
# it is only the model's own code knows.
_WINDOWED = re.compile(
    r"LongformerSelfAttention|LEDEncoderSelfAttention|BlockSparseAttention|GlobalLocalAttention|"
    r"LongT5LocalAttention|TransientGlobalAttention|LSHSelfAttention|^LocalSelfAttention"
)
_TOWER_SUFFIX = re.compile(r"_?(model|tower|transformer|stack|module|embedder|backbone)$")

Tower = tuple[str, ...]


class ModuleNames:
    """Names, block numbers and towers of one model's modules; costs one walk over the modules."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = {module: _clean(name) for name, module in model.named_modules()}
        self.root = type(model).__name__
        self._found: dict[str, int | None] = {}
        self._through: dict[tuple[Tower, int], dict[str, int]] = {}
        self._alone: dict[Tower, bool] = {}

    @cached_property
    def _by_name(self) -> dict[str, nn.Module]:
        return {name: module for module, name in self.modules.items()}

    @cached_property
    def attention_like(self) -> list[tuple[str, str]]:
        """(dotted name, class name) of modules whose class or last name says attention."""
        return [
            (name, type(module).__name__)
            for module, name in self.modules.items()
            if _ATTENTION.search(type(module).__name__)
            or _ATTENTION.search(name.rpartition(".")[2])
            if not isinstance(
                module, (nn.Dropout, nn.LayerNorm, nn.Linear, nn.ModuleList, nn.Softmax)
            )
        ]

    @cached_property
    def windowed(self) -> list[tuple[str, str]]:
        """(dotted name, class name) of attention whose columns are not token positions."""
        return [
            (name, type(module).__name__)
            for module, name in self.modules.items()
            if _WINDOWED.search(type(module).__name__)
        ]

    @cached_property
    def _attention_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.attention_like)

    def looks_like_attention(self, name: str) -> bool:
        """Tell whether a module's class or last name says attention."""
        return name in self._attention_names

    @cached_property
    def towers(self) -> list[Tower]:
        """Block lists with attention inside, say one of the encoder and one of the decoder."""
        found = (tower_of(name) for name, _ in self.attention_like if _numbers(name))
        return list(dict.fromkeys(found))

    def number(self, name: str) -> int | None:
        """The true block number of a module; None where no list of blocks holds it."""
        if name not in self._found:
            self._found[name] = self._number(name)
        return self._found[name]

    def is_alone(self, name: str) -> bool:
        """Tell whether the block that holds a module is the only one of its tower."""
        tower = tower_of(name)
        if tower not in self._alone:
            blocks = {
                self.number(other) for other in self.modules.values() if tower_of(other) == tower
            }
            self._alone[tower] = len(blocks - {None}) == 1
        return self._alone[tower]

    def _number(self, name: str) -> int | None:
        places = self._block_lists(name)
        if not places:
            return None
        if tower_of(name) in self._uneven:
            return None
        parts = name.split(".")
        if len(places) == 1:
            return int(parts[places[0]])
        return self._numbered_through(tower_of(name), len(places)).get(
            ".".join(parts[: places[-1] + 1])
        )

    @cached_property
    def _uneven(self) -> set[Tower]:
        """Towers with attention inside the blocks of a stage and beside them: order has to do."""
        depths: dict[Tower, set[int]] = {}
        for name, _ in self.attention_like:
            depth = len(self._block_lists(name))
            if depth:
                depths.setdefault(tower_of(name), set()).add(depth)
        return {tower for tower, found in depths.items() if len(found) > 1}

    def _block_lists(self, name: str) -> list[int]:
        """Places in a name whose number counts blocks: the outermost list, nested stages."""
        parts = name.split(".")
        places: list[int] = []
        for place, part in enumerate(parts):
            if not part.isdigit():
                continue
            if not places or self._is_stage(".".join(parts[:place])):
                places.append(place)
            else:
                break
        return places

    def _is_stage(self, container: str) -> bool:
        """Tell whether a nested list counts blocks: its members are alike."""
        module = self._by_name.get(container)
        if module is None or container.rpartition(".")[2] in ("heads", "norms"):
            return False
        members = list(module.named_children())
        return (
            bool(members)
            and all(key.isdigit() for key, _ in members)
            and (len({type(child) for _, child in members}) == 1)
        )

    def _numbered_through(self, tower: Tower, depth: int) -> dict[str, int]:
        """Every block of a staged tower, numbered in the order of the module tree."""
        if (tower, depth) in self._through:
            return self._through[tower, depth]
        numbers = self._through[tower, depth] = {}
        for name in self.modules.values():
            parts = name.split(".")
            if not parts[-1].isdigit() or tower_of(name) != tower:
                continue
            places = self._block_lists(name)
            if len(places) == depth and places[-1] == len(parts) - 1:
                numbers.setdefault(name, len(numbers))
        return numbers


def _clean(name: str) -> str:
    return name.replace(_COMPILED_PREFIX, "").removesuffix("_orig_mod")


def _numbers(name: str) -> list[int]:
    return [int(part) for part in name.split(".") if part.isdigit()]


def tower_of(name: str) -> Tower:
    """The part of a name before its first number; for a name without one, the parents."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.isdigit():
            return tuple(parts[:place])
    return tuple(parts)


def tower_labels(towers: Iterable[Tower]) -> dict[Tower, str]:
    """A short name for each tower; "self" where there is only one.

    It is the first part of the path that tells it from the others: ("text_model", "encoder",
    "layers") beside ("vision_model", "encoder", "layers") is "text".
    """
    distinct = list(dict.fromkeys(towers))
    if len(distinct) == 1:
        return {distinct[0]: "self"}
    labels: dict[Tower, str] = {}
    for tower in distinct:
        others = [other for other in distinct if other != tower]
        place = _first_difference(tower, others)
        part = tower[place] if place < len(tower) else (tower[-1] if tower else "self")
        short = _TOWER_SUFFIX.sub("", part) or part
        labels[tower] = part if short in labels.values() else short
    return labels


def _first_difference(tower: Tower, others: list[Tower]) -> int:
    place = 0
    while place < len(tower) and any(other[: place + 1] == tower[: place + 1] for other in others):
        place += 1
    return place


def says_cross(name: str, module: nn.Module | None, parent: nn.Module | None) -> bool | None:
    """What names and attributes say about cross attention; None where they say nothing."""
    flag = getattr(module, "is_cross_attention", None)
    if isinstance(flag, bool) and flag:
        return True
    # The innermost name that says something decides: "decoder.layers.0.encoder_attn".
    plain = "selfattention" in type(module).__name__.lower()
    for part in reversed(name.split(".")):
        if part.isdigit():
            break
        if part == "multihead_attn" and isinstance(parent, nn.TransformerDecoderLayer):
            return True
        if _CROSS.search(part):
            return True
        if part == "self":  # "attention.self" and "crossattention.self": the next part decides
            plain = True
        elif _SELF.search(part):
            return False
    return False if plain or isinstance(flag, bool) else None
