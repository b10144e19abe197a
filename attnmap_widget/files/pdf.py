"""A PDF with its objects in one order: the writer behind `raster` numbers them by chance.

Only the numbering and the order of entries change, never a stream. A document that is not laid out
as that writer does it (one classic cross-reference table) is returned as it is.
"""

from __future__ import annotations

import re

_REFERENCE = re.compile(rb"\b(\d+) 0 R\b")
_ENTRIES = re.compile(rb"(?:^ *\/[A-Za-z]+\d+ \d+ 0 R\n)+", re.MULTILINE)
_TRAILER = re.compile(
    rb"xref\n0 (\d+)\n((?:\d{10} \d{5} [nf][ \r]\n)+)trailer\n(.*?)startxref", re.DOTALL
)


def canonical(document: bytes) -> bytes:
    """The same document, the same bytes each time."""
    found = _TRAILER.search(document)
    if found is None:
        return document
    objects = _objects(document, found)
    trailer = found[3]
    order: list[int] = []
    waiting = _references(trailer)[::-1]
    while waiting:
        number = waiting.pop()
        if number not in order and number in objects:
            order.append(number)
            waiting += _references(_split(objects[number])[0])[::-1]
    renumbered = {old: new for new, old in enumerate(order, start=1)}

    def rename(text: bytes) -> bytes:
        return _REFERENCE.sub(lambda ref: b"%d 0 R" % renumbered.get(int(ref[1]), 0), text)

    out = [document[: min(_offsets(found).values())]]
    places = []
    at = len(out[0])
    for new, old in enumerate(order, start=1):
        text, stream = _split(objects[old])
        made = b"%d 0 obj" % new + rename(text) + stream
        places.append(at)
        out.append(made)
        at += len(made)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    out.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(order) + 1) + table)
    size = re.sub(rb"/Size \d+", b"/Size %d" % (len(order) + 1), rename(trailer))
    out.append(b"trailer\n" + size + b"startxref\n%d\n%%%%EOF\n" % at)
    return b"".join(out)


def _offsets(found: re.Match[bytes]) -> dict[int, int]:
    """Where each object starts."""
    lines = found[2].splitlines()
    return {number: int(line[:10]) for number, line in enumerate(lines) if line[17:18] == b"n"}


def _objects(document: bytes, found: re.Match[bytes]) -> dict[int, bytes]:
    """What follows "N 0 obj", up to the next object, with its entries sorted."""
    offsets = _offsets(found)
    ends = [*sorted(offsets.values())[1:], found.start()]
    following = dict(zip(sorted(offsets.values()), ends, strict=True))
    objects = {}
    for number, start in offsets.items():
        body = document[start : following[start]].removeprefix(b"%d 0 obj" % number)
        text, stream = _split(body)
        objects[number] = _ENTRIES.sub(_sorted, text) + stream
    return objects


def _sorted(entries: re.Match[bytes]) -> bytes:
    return b"".join(sorted(entries[0].splitlines(keepends=True)))


def _split(body: bytes) -> tuple[bytes, bytes]:
    """The readable part of an object, and its stream."""
    at = body.find(b"\nstream")
    return (body, b"") if at < 0 else (body[:at], body[at:])


def _references(text: bytes) -> list[int]:
    return [int(number) for number in _REFERENCE.findall(text)]
