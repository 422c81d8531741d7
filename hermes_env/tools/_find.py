"""Finding the places of a text in a file, by bytes, without decoding it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from hermes_env._codec import decode_lossless, encode_lossless
from hermes_env.tools._match import Haystack, Tier, map_punctuation
from hermes_env.tools._near import near_lines
from hermes_env.tools._problem import MAX_CANDIDATES, Candidate
from hermes_env.tools._text import Document, LineIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PLACES: Final = 10_000
"""Overlapping places listed one by one; beyond that they are only counted."""

MAX_NEAR_BYTES: Final = 32 << 20
"""Largest file in which near matches are looked for: several copies, about 10 ms per MiB."""

_NUMBERED: Final = re.compile(r"[ ]*(?:L|line )?\d+(?:\t|: ?|→|[ ]*\| ?)")


@dataclass(frozen=True, slots=True)
class Place:
    """A byte range of the file."""

    start: int
    end: int


def find_places(document: Document, needle: bytes) -> tuple[list[Place], int]:
    """Return the places of an LF-normalised text, overlapping ones too, and how many there are.

    Beyond 10,000 the list holds the disjoint ones only, and so does the count.
    """
    data = document.data
    if b"\r" not in data or b"\n" not in needle:
        return _scan(data, needle, document.bom)
    crlf = data.count(b"\r\n")
    if crlf == data.count(b"\n") == data.count(b"\r"):
        return _scan(data, needle.replace(b"\n", b"\r\n"), document.bom)
    return _scan_mixed(document, needle)


def _scan(data: bytes, needle: bytes, start: int) -> tuple[list[Place], int]:
    places: list[Place] = []
    position = data.find(needle, start)
    while position >= 0:
        places.append(Place(position, position + len(needle)))
        if len(places) > MAX_PLACES:
            return _scan_disjoint(data, needle, start)
        position = data.find(needle, position + 1)
    return places, len(places)


def _scan_disjoint(data: bytes, needle: bytes, start: int) -> tuple[list[Place], int]:
    starts: list[int] = []
    position = data.find(needle, start)
    while position >= 0:
        starts.append(position)
        position = data.find(needle, position + len(needle))
    return [Place(at, at + len(needle)) for at in starts], len(starts)


def _scan_mixed(document: Document, needle: bytes) -> tuple[list[Place], int]:
    """Search where terminators differ: by line and column, which normalising keeps."""
    normal = document.normal
    index = LineIndex(normal)
    found, total = _scan(normal, needle, 0)

    def original(offset: int) -> int:
        line = index.line_at(offset)
        return document.index.offset_of(line) + offset - index.offset_of(line)

    return [Place(original(place.start), original(place.end)) for place in found], total


def find_lenient(document: Document, needle: bytes) -> list[Place]:
    """Return places that differ in blanks at line ends, else in typographic punctuation."""
    haystack = Haystack(document)
    return (
        _whole_lines(haystack, needle, Tier.TRAILING)
        or _inside_lines(document, needle)
        or _whole_lines(haystack, needle, Tier.PUNCTUATION)
    )


def _whole_lines(haystack: Haystack, needle: bytes, tier: Tier) -> list[Place]:
    document = haystack.document
    closed = needle.endswith(b"\n")
    lines = needle.removesuffix(b"\n").split(b"\n")
    if not any(line.strip() for line in lines):
        return []
    places: list[Place] = []
    for hit in islice(haystack.find(tier, lines), MAX_PLACES):
        start, end = document.span(hit.line, hit.line + len(lines))
        if not closed:
            last = hit.line + len(lines) - 1
            end = document.index.offset_of(last) + len(document.line(last))
        places.append(Place(start, end))
    return places


def _inside_lines(document: Document, needle: bytes) -> list[Place]:
    """Search with mapped punctuation: characters map one to one, so columns stay the same."""
    mapped = map_punctuation(document.normal)
    index = LineIndex(mapped)
    found, _ = _scan(mapped, map_punctuation(needle), 0)

    def original(offset: int) -> int:
        line = index.line_at(offset)
        column = len(decode_lossless(mapped[index.offset_of(line) : offset]))
        text = decode_lossless(document.line(line))[:column]
        return document.index.offset_of(line) + len(encode_lossless(text))

    return [Place(original(place.start), original(place.end)) for place in found]


def near_match(document: Document, needle: bytes) -> tuple[str, tuple[Candidate, ...]]:
    """Return a hint and the lines that an unfound text may have meant."""
    if len(document.data) > MAX_NEAR_BYTES:
        return "", ()
    haystack = Haystack(document)
    places = _whole_lines(haystack, needle, Tier.TRAILING)
    if places:
        return "The text differs from the file only in blanks at line ends.", _candidates(document, places)
    places = _inside_lines(document, needle) or _whole_lines(haystack, needle, Tier.PUNCTUATION)
    if places:
        return "The text differs from the file only in typographic punctuation.", _candidates(document, places)
    lines = needle.removesuffix(b"\n").split(b"\n")
    hits = list(islice(haystack.find(Tier.INDENT, lines), MAX_CANDIDATES))
    if hits:
        return "The text differs from the file in its indentation.", haystack.candidates(hits)
    near = near_lines(haystack, lines)
    return ("The nearest lines are listed." if near else ""), near


def _candidates(document: Document, places: Sequence[Place]) -> tuple[Candidate, ...]:
    lines = [document.index.line_at(place.start) for place in places[:MAX_CANDIDATES]]
    return tuple(Candidate(line + 1, document.text(line)[:200]) for line in lines)


def pasted_numbers(text: str) -> str | None:
    """Return the text without the numbers of a listing, if every line begins with one."""
    lines = text.split("\n")
    told = [line for line in lines if line.strip()]
    if not told or not all(_NUMBERED.match(line) for line in told):
        return None
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in lines)
