"""The exceptions of this package.

ValueError
└── ShapeError      a grid, mask or token list that does not fit; says what was given and what would
RuntimeError
└── CaptureError    a model ran and no attention weights could be read from it
"""

from __future__ import annotations


class ShapeError(ValueError):
    """The data does not have the shape of an attention map.

    The message names the axis, the shape that was given, the shape that is accepted, the likely
    cause and what to do about it.
    """


class CaptureError(RuntimeError):
    """Nothing could be captured; the message lists the modules that look like attention."""


class Stopped(Exception):  # noqa: N818 (it is no error: somebody asked for it)
    """A long computation was given up because its `cancelled` said so; nothing to show."""
