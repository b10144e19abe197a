"""Which keys are patches of a picture, and where each lies on it. Pure: counts and indices only.

A vision transformer cuts a picture into rows × columns of patches and reads them row by row, often
after tokens that are no patch (CLS, registers). How many rows and columns cannot be told from the
count of keys: 24 patches may be 4 × 6 or 3 × 8. So it is said, or follows exactly from the size of
the picture, and the count is checked against it.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import ShapeError

_NUMBERED = re.compile(r"(?<=[^\W\d])\d+$")
_MOST_NAMED = 6


class Patch(NamedTuple):
    """One patch of the picture, counted from the top left of the first frame, from 0."""

    frame: int
    row: int
    column: int


@dataclass(frozen=True, repr=False)
class Patches:
    """The keys of an attention map that are patches of a picture, or of the frames of a video.

    Parameters
    ----------
    rows, columns:
        Patches down and across one frame, read row by row.
    prefix, suffix:
        Names of the tokens before and after the patches; `()` for a model without any.
    registers:
        So many register tokens follow the prefix: "reg1", "reg2", …
    frames:
        Frames of a video, one after the other.
    start:
        The patches are a block of a longer sequence, such as a prompt with an image in it: the
        key of the first patch. The other tokens are the sequence's own, so there is no prefix.

    Raises
    ------
    TypeError, ValueError
        counts that are no whole numbers above 0; `start` together with prefix, suffix or registers.

    A `Patches` stands for the labels of its keys, so it can be given as the tokens of a map:
    `AttentionMap(Patches(14, 14), weights)`.
    """

    rows: int
    columns: int
    prefix: tuple[str, ...] = field(default=cast("tuple[str, ...]", None), kw_only=True)
    suffix: tuple[str, ...] = field(default=(), kw_only=True)
    registers: int = field(default=0, kw_only=True)
    frames: int = field(default=1, kw_only=True)
    start: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, least in (("rows", 1), ("columns", 1), ("frames", 1), ("registers", 0)):
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        before: Any = self.prefix
        if before is None:
            before = ("CLS",) if self.start is None else ()
        for name, names in (("prefix", before), ("suffix", self.suffix)):
            object.__setattr__(self, name, _names(name, names))
        if self.start is None:
            return
        object.__setattr__(self, "start", _whole("start", self.start, 0))
        if self.prefix or self.suffix or self.registers:
            raise ValueError(
                "start: the patches are part of a longer sequence, whose own tokens are the "
                "others: leave prefix, suffix and registers out"
            )

    # -- making one -----------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        count: int,
        image: tuple[int, int] | None = None,
        patch: int | tuple[int, int] | None = None,
        **more: Any,
    ) -> Patches:
        """The grid that `count` keys, a picture of (height, width) and the size of a patch imply.

        `more` is prefix, suffix, registers, frames or start. Raises ShapeError where something does
        not add up, and where picture or patch are missing, naming the grids that it could be.
        """
        count = _whole("count", count, 1)
        one = cls(1, 1, **more)
        if image is None or patch is None:
            raise ShapeError(one._refusal(count))
        rows, columns = grid_of(image, patch)
        made = cls(rows, columns, **more)
        made.check(count)
        return made

    @classmethod
    def merged(cls, grid_thw: Any, merge: int = 2, **more: Any) -> Patches:
        """From `image_grid_thw` or `video_grid_thw` of one picture: (frames, rows, columns).

        A model that merges `merge` × `merge` patches into one token has that many fewer rows and
        columns: (4, 24, 46) is 4 frames of 12 × 23. ShapeError where that is not whole.
        """
        given = grid_thw.tolist() if hasattr(grid_thw, "tolist") else list(grid_thw)
        if len(given) == 1 and isinstance(given[0], (list, tuple)):
            given = list(given[0])
        if len(given) != 3 or any(isinstance(side, (list, tuple)) for side in given):
            raise ShapeError(
                f"grid_thw: got {given!r}, expected (frames, rows, columns) of one picture"
            )
        frames, rows, columns = given
        merge = _whole("merge", merge, 1)
        if rows % merge or columns % merge:
            raise ShapeError(
                f"grid_thw: {rows} × {columns} patches do not merge {merge} by {merge} into whole "
                "tokens"
            )
        sides = (rows // merge, columns // merge)
        return cls(*sides, frames=frames, **{"prefix": (), **more})

    @classmethod
    def from_model(cls, model: Any, pixel_values: Any) -> Patches:
        """What a vision model of transformers makes of `pixel_values` (batch, 3, height, width).

        By the size of those pixels, the config's patch size and its kind's own tokens. ValueError
        for a kind of model that is not known here, ShapeError for pixels that make no whole grid.
        """
        from .vision import patches_of

        return patches_of(model, pixel_values)

    # -- counting -------------------------------------------------------------------------------

    @property
    def patches(self) -> int:
        """How many patches there are, in all frames."""
        return self.frames * self.rows * self.columns

    @property
    def before(self) -> tuple[str, ...]:
        """The names of all tokens before the patches: prefix and registers."""
        return (*self.prefix, *(f"reg{number + 1}" for number in range(self.registers)))

    @property
    def first(self) -> int:
        """The key of the first patch."""
        return len(self.before) if self.start is None else self.start

    @property
    def count(self) -> int:
        """How many keys there are; with `start`, at least so many."""
        return self.first + self.patches + len(self.suffix)

    @property
    def sum(self) -> str:
        """The count written out: "1 CLS + 4 registers + 29 × 29 = 846"."""
        if self.start is not None:
            return f"patches from key {self.start}: {self.start} + {self._grid} = {self.count}"
        parts = [*_counted(self.prefix), *_registers(self.registers), self._grid]
        return f"{' + '.join([*parts, *_counted(self.suffix)])} = {self.count}"

    @property
    def _grid(self) -> str:
        frames = f"{self.frames} × " if self.frames > 1 else ""
        return f"{frames}{self.rows} × {self.columns}"

    def check(self, keys: int) -> None:
        """ShapeError with the sum written out if a map of so many keys is not this."""
        if keys == self.count or (self.start is not None and keys > self.count):
            return
        raise ShapeError(f"patches: {_keys(keys)}: {self.sum}{self._hint(keys)}")

    def _hint(self, keys: int) -> str:
        """What would fit, where that is plain."""
        if self.start is not None:
            return "; the picture ends beyond the last key: is start or the grid another one?"
        bare = keys == self.patches and self.count > keys
        return "; without any token before or after them: prefix=()" if bare else ""

    def _refusal(self, keys: int) -> str:
        """Why a count alone says nothing, with the grids that it could be."""
        around = self.first + len(self.suffix)
        left = keys - around
        parts = [*_counted(self.prefix), *_registers(self.registers), *_counted(self.suffix)]
        named = f"{' + '.join(parts)} + " if parts else ""
        if left < 1 or left % self.frames:
            of = f" in {self.frames} frames" if self.frames > 1 else ""
            return f"patches: {_keys(keys)} are no {named}patches{of}: {left} are left for those"
        each = left // self.frames
        pairs = [f"{a} × {each // a}" for a in range(math.isqrt(each), 1, -1) if each % a == 0]
        could = _either(pairs[:_MOST_NAMED] or [f"1 × {each}"])
        many = f"{self.frames} frames of {each}" if self.frames > 1 else f"{each}"
        return (
            f"patches: {_keys(keys)} = {named}{many} patches, which could be {could}, either side "
            "up; say Patches(rows, columns), or give the picture's (height, width) and the patch "
            "size"
        )

    # -- names ----------------------------------------------------------------------------------

    @property
    def labels(self) -> list[str]:
        """One label per key: "CLS", "reg1", "r0c0" … "r13c13"; in a video "f2 r3c4".

        ValueError with `start`, where the other labels are the sequence's: see `label`.
        """
        if self.start is not None:
            raise ValueError(
                f"patches from key {self.start} are part of a sequence: patches.label(tokens) "
                "names all of it"
            )
        return [*self.before, *self._patch_labels(), *self.suffix]

    def _patch_labels(self) -> Iterator[str]:
        for frame in range(self.frames):
            lead = f"f{frame} " if self.frames > 1 else ""
            for row in range(self.rows):
                for column in range(self.columns):
                    yield f"{lead}r{row}c{column}"

    def label(self, tokens: Sequence[Any] | None = None, keys: int | None = None) -> list[Any]:
        """Labels for a whole sequence: its own tokens, and the patches' where those are.

        `tokens` may be left out: the others are then their positions, `keys` in all. ShapeError if
        the count does not fit.
        """
        if self.start is None:
            self.check(self.count if keys is None else keys)
            return self.labels
        if tokens is None and keys is None:
            raise ValueError("tokens: give the tokens of the sequence, or its length as keys=…")
        own: list[Any] = list(range(keys or 0)) if tokens is None else list(tokens)
        self.check(len(own))
        own[self.start : self.start + self.patches] = self._patch_labels()
        return own

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return self.count

    # -- places ---------------------------------------------------------------------------------

    def place(self, key: int) -> Patch | None:
        """Where on the picture a key lies; None for a key that is no patch."""
        index = operator.index(key) - self.first
        if not 0 <= index < self.patches:
            return None
        frame, rest = divmod(index, self.rows * self.columns)
        return Patch(frame, *divmod(rest, self.columns))

    def key(self, row: int, column: int, frame: int = 0) -> int:
        """The key of a patch; ValueError where there is none."""
        for name, at, many in (
            ("frame", frame, self.frames),
            ("row", row, self.rows),
            ("column", column, self.columns),
        ):
            if not 0 <= operator.index(at) < many:
                raise ValueError(f"{name}: {at} does not exist; there are 0 to {many - 1}")
        return self.first + (frame * self.rows + row) * self.columns + column

    def on_picture(self, row: Any) -> NDArray[Any]:
        """One row of a map, (keys,), as (frames, rows, columns); what is on no patch is left out.

        ShapeError if the row does not have this many keys.
        """
        values = np.asarray(row)
        if values.ndim != 1:
            raise ShapeError(f"row: got shape {values.shape}, expected one row of a map, (keys,)")
        self.check(values.shape[0])
        part = values[self.first : self.first + self.patches]
        return part.reshape(self.frames, self.rows, self.columns)

    def __repr__(self) -> str:
        parts = [str(self.rows), str(self.columns)]
        if self.start is None and self.prefix != ("CLS",):
            parts.append(f"prefix={self.prefix}")
        plain: dict[str, Any] = {"suffix": (), "registers": 0, "frames": 1, "start": None}
        parts += [
            f"{name}={getattr(self, name)}"
            for name, usual in plain.items()
            if getattr(self, name) != usual
        ]
        return f"Patches({', '.join(parts)})"


def as_patches(given: Any) -> Patches:
    """A `Patches`, or (rows, columns) for one with a CLS token before it."""
    if isinstance(given, Patches):
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return Patches(*given)
    raise TypeError(f"patches: got {given!r}, expected Patches(rows, columns) or (rows, columns)")


def grid_of(image: tuple[int, int], patch: int | tuple[int, int]) -> tuple[int, int]:
    """(rows, columns) of whole patches; ShapeError, with the fix, where pixels are left over."""
    size = patch if isinstance(patch, (tuple, list)) else (patch, patch)
    height, width = (_whole("image", side, 1) for side in image)
    down, across = (_whole("patch", side, 1) for side in size)
    if height % down or width % across:
        fitting = (height // down * down, width // across * across)
        raise ShapeError(
            f"image: {height} × {width} pixels are no whole patches of {down} × {across}; a model "
            f"leaves the rest out: crop to {fitting[0]} × {fitting[1]}, so that patches and "
            "picture are the same part"
        )
    return height // down, width // across


def _whole(name: str, given: Any, least: int) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}: got {given!r}, expected a whole number") from None
    if isinstance(given, bool) or number < least:
        raise ValueError(f"{name}: got {given!r}, expected {least} or more")
    return number


def _names(name: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(one, str) for one in given):
        raise TypeError(f'{name}: got {given!r}, expected names in order, such as ("CLS",)')
    return tuple(given)


def _counted(names: Sequence[str]) -> list[str]:
    """As "1 CLS", "3 query": equal names, but for a number at their end, are counted together."""
    return [f"{many} {name}" for name, many in Counter(_NUMBERED.sub("", n) for n in names).items()]


def _registers(many: int) -> list[str]:
    return [f"{many} register{'' if many == 1 else 's'}"] if many else []


def _keys(many: int) -> str:
    return f"{many} key{'' if many == 1 else 's'}"


def _either(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"
