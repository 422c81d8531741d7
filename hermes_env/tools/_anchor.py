"""The lines that ``@@`` texts name, and the scope that each opens."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from hermes_env._codec import decode_lossless
from hermes_env.tools._match import Haystack, Tier, normalise
from hermes_env.tools._near import near_lines
from hermes_env.tools._problem import EditError, Problem, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_ANCHORS: Final = 100
"""A text on more lines than this names nothing."""

_WHOLE_LINE: Final = (Tier.EXACT, Tier.TRAILING, Tier.PUNCTUATION)


def resolve_anchors(haystack: Haystack, texts: Sequence[bytes], cursor: int) -> tuple[int, ...]:
    """Return the lines that the last of stacked anchors may mean, each below the one before it.

    Anchors are looked for below ``cursor`` first, then in the whole file.

    Raises:
        EditError: ``anchor_not_found`` or ``ambiguous_match``.
    """
    places = _places(haystack, texts[0], cursor) or (_places(haystack, texts[0], 0) if cursor else ())
    if not places:
        raise _not_found(haystack, texts[0])
    for text in texts[1:]:
        deeper = sorted({line for place in places for line in _below(haystack, text, place)})
        if not deeper:
            raise _not_found(haystack, text)
        places = tuple(deeper)
    return places


def _places(haystack: Haystack, text: bytes, start: int) -> tuple[int, ...]:
    for tier in _WHOLE_LINE:
        hits = haystack.find(tier, [text], start)
        lines = tuple(hit.line for hit in islice(hits, MAX_ANCHORS + 1))
        if len(lines) > MAX_ANCHORS:
            raise _ambiguous(haystack, text, lines)
        if lines:
            return lines
    for search in (_stripped, _starting, _containing):
        lines = tuple(islice(search(haystack, text, start), MAX_ANCHORS + 1))
        if len(lines) > 1:
            raise _ambiguous(haystack, text, lines)
        if lines:
            return lines
    return ()


def _below(haystack: Haystack, text: bytes, place: int) -> tuple[int, ...]:
    """Return the lines of an inner anchor in the scope of an outer one, else the next one."""
    end = scope_end(haystack, place)
    try:
        lines = _places(haystack, text, place + 1)
    except EditError as error:
        lines = tuple(c.line - 1 for c in error.problem.candidates)
        if sum(line < end for line in lines) != 1:
            raise
    inside = tuple(line for line in lines if line < end)
    return inside or lines[:1]


def _stripped(haystack: Haystack, text: bytes, start: int) -> Iterator[int]:
    return haystack.buffer(Tier.INDENT).find(normalise(Tier.INDENT, text), start)


def _starting(haystack: Haystack, text: bytes, start: int) -> Iterator[int]:
    return _search(haystack, b"\n" + normalise(Tier.INDENT, text), start)


def _containing(haystack: Haystack, text: bytes, start: int) -> Iterator[int]:
    return _search(haystack, normalise(Tier.INDENT, text), start)


def _search(haystack: Haystack, needle: bytes, start: int) -> Iterator[int]:
    """Yield the lines with ``needle``, each once."""
    buffer = haystack.buffer(Tier.INDENT)
    position = buffer.index.offset_of(start + 1) - 1
    last = -1
    while (position := buffer.data.find(needle, position)) >= 0:
        line = buffer.index.line_at(position + needle.startswith(b"\n")) - 1
        if line != last and line >= start:
            yield line
        last = line
        position += 1


def scope_end(haystack: Haystack, anchor: int) -> int:
    """Return the first line below that is not blank and not deeper; else the end of the file."""
    buffer = haystack.buffer(Tier.TRAILING)
    limit = _indent_width(buffer.data, buffer.index.offset_of(anchor + 1))
    start = buffer.index.offset_of(anchor + 2) - 1
    found = re.compile(rb"\n[ \t]{0,%d}[^ \t\n]" % limit).search(buffer.data, max(start, 0))
    return buffer.index.line_at(found.start() + 1) - 1 if found else haystack.lines


def _indent_width(data: bytes, position: int) -> int:
    end = position
    while data[end : end + 1] in {b" ", b"\t"}:
        end += 1
    return end - position


def _not_found(haystack: Haystack, text: bytes) -> EditError:
    message = f"the line of '@@ {excerpt(decode_lossless(text))}' is not in the file"
    return EditError(Problem("anchor_not_found", message, candidates=near_lines(haystack, [text])))


def _ambiguous(haystack: Haystack, text: bytes, lines: Sequence[int]) -> EditError:
    shown = ", ".join(str(line + 1) for line in lines[:5])
    message = f"'@@ {excerpt(decode_lossless(text))}' fits several lines ({shown}); write the whole line"
    return EditError(
        Problem(
            "ambiguous_match",
            message,
            candidates=tuple(haystack.candidate(line) for line in lines[:5]),
        )
    )
