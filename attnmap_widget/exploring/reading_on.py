"""Long heads in an explorer: a first look at once, the whole head read beside the notebook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..grid.grids import LongGrid, Streamed
from ..passes import Pass
from . import captions
from .combined import read
from .reading_over import Overdue, over_many, read_beside, read_here
from .sources import Choice, Extraction, Source

if TYPE_CHECKING:
    from ..map import AttentionMap

_AT_ONCE = 1 << 24
"""Cells of a head that is read at once; a longer one gets a first look while it is read."""
_KEPT = 8
"""Long heads that stay read."""


class ReadingOn:
    """Mixed into `AttentionExplorer`."""

    map: AttentionMap
    error: str
    _source: Source
    _choice: Choice
    _caption: str
    _status: str
    _long: dict[Choice, LongGrid]
    _pass: Pass | None
    _over: tuple[Choice, Extraction] | None = None
    """The map over many heads that was read last, for the same choice in another arrangement."""
    _pending = False
    """Whether the choice is being read beside the notebook; the map is of the one before."""

    def _fail(self, failure: Exception) -> None:
        raise NotImplementedError

    def _draw(self, *, again: bool = False) -> None:
        raise NotImplementedError

    def _say(self, text: str) -> None:
        self.map.status = text

    def _read_chosen(self, *, beside: bool, again: bool) -> Extraction | None:
        """What was chosen; None: it is going to be drawn, but not now.

        `again`: it is the same choice as before, so that nothing need be read once more.
        """
        source, choice = self._source, self._choice
        if not over_many(choice):
            self._over = None
            return read(source, choice)
        if again and self._over is not None and self._over[0] == choice:
            return self._over[1]
        self._over = None
        cells = math.prod(self.map._checked.shape)
        try:
            seen = read_here(source, choice, cells=cells, waits=not beside, say=self._say)
        except Overdue:
            self._pending = True
            self.error = self.map.error = ""
            self._pass = read_beside(
                source, choice, say=self._say, done=self._over_read, failed=self._over_failed
            )
            return None
        self._over = choice, seen
        return seen

    def _over_read(self, seen: Extraction) -> None:
        self._over = self._choice, seen
        self._draw(again=True)

    def _over_failed(self, failure: Exception) -> None:
        self._stop()
        self._fail(failure)

    def _long_grid(self, choice: Choice, head: Streamed) -> LongGrid:
        grid = self._long.get(choice)
        reads = getattr(head, "reads", 1)
        if grid is None and math.prod(head.shape) * reads <= _AT_ONCE:
            grid = head.read()
        if grid is None:
            return head.first_look()
        self._keep(choice, grid)
        return grid

    def _keep(self, choice: Choice, grid: LongGrid) -> None:
        """Remember the heads that were read last, so that going back costs nothing."""
        self._long.pop(choice, None)
        self._long[choice] = grid
        while len(self._long) > _KEPT:
            del self._long[next(iter(self._long))]

    def _read_on(self) -> None:
        """After a first look, read the whole head beside the notebook."""
        grid, choice = self.map._checked.grid, self._choice
        if not isinstance(grid, LongGrid) or grid.survey.read == 1:
            return
        queries, keys = grid.shape
        status = self._status

        def progress(fraction: float) -> None:
            self.map.status = f"reading {queries} × {keys} weights: {fraction:.0%}"

        def done(whole: LongGrid) -> None:
            self._keep(choice, whole)
            seen = counted_heads(Extraction(whole), whole)
            title = captions.title(self._source, choice, seen, self._caption)
            self.map.update(weights=whole, status=status, title=title)

        progress(0)
        assert isinstance(grid.source, Streamed)
        self._pass = Pass(grid.source.read, progress=progress, done=done, failed=self._fail)

    def _stop(self) -> None:
        self._pending = False
        if self._pass is not None:
            self._pass.cancel()
            self._pass = None


def counted_heads(seen: Extraction, grid: LongGrid) -> Extraction:
    """Over how many heads a mean was taken, which only the pass over them tells."""
    heads = getattr(grid.source, "heads", None)
    return seen if heads is None else seen._replace(heads=heads)


def read_whole(drawn: dict[str, Any]) -> dict[str, Any]:
    """A map's inputs with a long head read to its end, where nothing reads on."""
    grid = drawn["weights"]
    if isinstance(grid, LongGrid) and isinstance(grid.source, Streamed) and grid.survey.read < 1:
        return {**drawn, "weights": grid.source.read()}
    return drawn
