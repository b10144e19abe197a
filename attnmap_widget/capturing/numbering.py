"""Which layer, step and part a call is: true block numbers, and calls of one block told apart.

A call is numbered by the block that makes it. Only where a tower is one shared block (ALBERT), or
no list of blocks has a say, the order of execution counts. A block that runs again is another part
of its layer ("self 2"); if it runs again because the stack above it does (two inputs through one
encoder, a decoder called in a loop), that is the next step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..images.windows import Windows
from .naming import Tower

if TYPE_CHECKING:
    from .recorder import Recorder


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in the model a call happens; what number it gets is settled when it is filed.

    name: of the module that makes it; chain: (name, serial) of all modules that run, outermost
    first; step: outermost forwards before this one; number: the block's own, None where there is
    none; alone: whether its tower has no other block.
    """

    recorder: Recorder
    name: str
    chain: tuple[tuple[str, int], ...]
    step: int
    tower: Tower
    cross: bool
    number: int | None
    alone: bool = False
    wanted: bool = True
    assumable: bool = False
    sharded: bool = False
    windows: Windows | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A spot with its numbers: everything a record is filed under."""

    spot: Spot
    layer: int
    step: int
    part: int


class Numbering:
    """Hands out numbers in the order of filing."""

    def __init__(self) -> None:
        self._outer = self._again = 0
        self._reset()

    def _reset(self) -> None:
        self._counts: dict[tuple[Tower, bool], int] = defaultdict(int)
        self._earlier: dict[tuple[str, bool], list[Place]] = defaultdict(list)

    def place(self, spot: Spot) -> Place:
        """Number one call."""
        if spot.step != self._outer:
            self._outer = spot.step
            self._reset()
        if any(
            _stack_ran_again(place.spot, spot) for place in self._earlier[spot.name, spot.cross]
        ):
            self._again += 1
            self._reset()
        earlier = self._earlier[spot.name, spot.cross]
        same = [place for place in earlier if _is_same_run(place.spot, spot)]
        if spot.number is not None and not spot.alone:
            layer, part = spot.number, len(earlier)
        elif spot.number is not None and same:
            layer, part = same[0].layer, len(same)
        else:
            group = (spot.tower, spot.cross)
            layer, part = self._counts[group], 0
            self._counts[group] += 1
        place = Place(spot, layer, spot.step + self._again, part)
        earlier.append(place)
        return place


def _is_same_run(before: Spot, now: Spot) -> bool:
    """Tell whether two calls of a module happen within one run of it; serial 0 says nothing."""
    return bool(now.chain) and now.chain[-1][1] != 0 and before.chain[-1] == now.chain[-1]


def _stack_ran_again(before: Spot, now: Spot) -> bool:
    """Tell whether the module that ran again holds the list of blocks, rather than being in it."""
    pairs = zip(before.chain, now.chain, strict=False)
    again = next((new[0] for old, new in pairs if old != new), now.name)
    return _in_blocks(now.name) and not _in_blocks(again)


def _in_blocks(name: str) -> bool:
    return any(part.isdigit() for part in name.split("."))
