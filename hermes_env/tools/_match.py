"""Finding a block of lines in a file, tier by tier, each more forgiving than the one before.

Each tier turns the file once into one normalised buffer with LF line ends and looks for the joined
block in it with ``bytes.find``, which is linear in both even for a file of equal lines. Every tier
keeps the number of lines, so a line number found in a buffer is the line number in the file. There
is no tier of
similarity: text that differs in a word is different text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final

from hermes_env._codec import decode_lossless, encode_lossless
from hermes_env.tools._problem import MAX_CANDIDATES, Candidate, excerpt
from hermes_env.tools._text import Document, LineIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Tier(Enum):
    """How much a block may differ from the file."""

    EXACT = "exact"
    """Not at all; only line terminators are taken as equal."""
    TRAILING = "trailing_space"
    """In blanks and tabs at line ends."""
    PUNCTUATION = "punctuation"
    """Also in typographic quotes, dashes and blanks."""
    INDENT = "indent"
    """Also in one shift of the indentation, the same for all lines."""
    RSTRIP = "rstrip"
    """In any white space at line ends (only in the Codex order)."""
    STRIP = "strip"
    """In any white space around lines (only in the Codex order)."""
    STRIP_PUNCTUATION = "strip_punctuation"
    """Both of the above and punctuation (only in the Codex order)."""


DEFAULT_TIERS: Final = (Tier.EXACT, Tier.TRAILING, Tier.PUNCTUATION, Tier.INDENT)
CODEX_TIERS: Final = (Tier.EXACT, Tier.RSTRIP, Tier.STRIP, Tier.STRIP_PUNCTUATION)

# The table of the Codex matcher and U+2000, U+2001. One character to one, so that columns stay
# comparable.
PUNCTUATION: Final = {
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
    **dict.fromkeys(range(0x2018, 0x201C), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys((0x00A0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
}
_PUNCTUATION_BYTES: Final = {chr(code).encode(): plain.encode() for code, plain in PUNCTUATION.items()}
# Nearly all of them share two bytes; one search for these says which of them occur at all.
_GENERAL: Final = re.compile(rb"\xe2\x80[\x80-\xbf]")
_OTHERS: Final = tuple(fancy for fancy in _PUNCTUATION_BYTES if not _GENERAL.fullmatch(fancy))

INDEX_AFTER: Final = 100
"""Searches of one file after which its lines are indexed: each of them reads the file to its end."""
_INDEX_BYTES: Final = 64 << 20
_MANY: Final = 1_000
"""Places of one line: where each line has more of them, searching by bytes is faster."""
INDENT_BUDGET: Final = 400_000
"""Lines compared at most by one search of the indent tier: about 0.3 s."""


def map_punctuation(data: bytes) -> bytes:
    """Replace typographic punctuation and blanks by their ASCII forms.

    Chained ``replace`` on bytes is 20 times faster than ``str.translate``, and exact: no byte
    sequence of the table can begin inside another character of valid UTF-8.
    """
    if data.isascii():
        return data
    present = set(_GENERAL.findall(data)) if b"\xe2\x80" in data else set[bytes]()
    for fancy in (*present, *_OTHERS):
        data = data.replace(fancy, _PUNCTUATION_BYTES.get(fancy, fancy))
    return data


def _rstrip_blanks(data: bytes) -> bytes:
    if b" \n" not in data and b"\t\n" not in data and data[-1:] not in {b" ", b"\t"}:
        return data
    return b"\n".join([line.rstrip(b" \t") for line in data.split(b"\n")])


def _strip_blanks(data: bytes) -> bytes:
    return b"\n".join([line.strip(b" \t") for line in data.split(b"\n")])


def _strip_text(data: bytes) -> bytes:
    if data.isascii():
        return b"\n".join([line.strip() for line in data.split(b"\n")])
    return encode_lossless("\n".join([line.strip() for line in decode_lossless(data).split("\n")]))


def _rstrip_text(data: bytes) -> bytes:
    if data.isascii():
        return b"\n".join([line.rstrip() for line in data.split(b"\n")])
    return encode_lossless("\n".join([line.rstrip() for line in decode_lossless(data).split("\n")]))


_NORMALISE: Final[dict[Tier, Callable[[bytes], bytes]]] = {
    Tier.EXACT: lambda data: data,
    Tier.TRAILING: _rstrip_blanks,
    Tier.PUNCTUATION: lambda data: _rstrip_blanks(map_punctuation(data)),
    Tier.INDENT: lambda data: _strip_blanks(map_punctuation(data)),
    Tier.RSTRIP: _rstrip_text,
    Tier.STRIP: _strip_text,
    Tier.STRIP_PUNCTUATION: lambda data: _strip_text(map_punctuation(_strip_text(data))),
}


def normalise(tier: Tier, lines: bytes) -> bytes:
    """Return LF-joined lines in the form in which a tier compares them."""
    return _NORMALISE[tier](lines)


@dataclass(frozen=True, slots=True)
class Shift:
    """How the indentation of a block in the file differs from that in the patch."""

    add: bytes = b""
    """Put before every line that is not blank."""
    remove: bytes = b""
    """Taken off every line that is not blank."""
    spaces_per_tab: int = 0
    """The patch indents with spaces, the file with tabs; negative: the other way round."""

    def apply(self, line: bytes) -> bytes | None:
        """Return an added line with the file's indentation; None if it cannot be shifted."""
        text = line.lstrip(b" \t")
        if not text:
            return line
        indent = line[: len(line) - len(text)]
        if self.spaces_per_tab > 0:
            spaces = len(indent) - len(indent.lstrip(b" "))
            tabs, rest = divmod(spaces, self.spaces_per_tab)
            return b"\t" * tabs + b" " * rest + indent[spaces:] + text
        if self.spaces_per_tab < 0:
            return indent.replace(b"\t", b" " * -self.spaces_per_tab) + text
        if not indent.startswith(self.remove):
            return None
        return self.add + indent[len(self.remove) :] + text


def _indent(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(b" \t"))]


def find_shift(file_lines: Sequence[bytes], block: Sequence[bytes]) -> Shift | None:
    """Return the one shift that turns the indentation of ``block`` into that of the file.

    Both have the same text apart from blanks around it. Blank lines say nothing.
    """
    pairs = [(_indent(have), _indent(want)) for have, want in zip(file_lines, block, strict=True) if want.strip(b" \t")]
    if not pairs:
        return None
    have, want = pairs[0]
    if have.endswith(want):
        shift = Shift(add=have[: len(have) - len(want)])
        if all(h == shift.add + w for h, w in pairs):
            return shift
    if want.endswith(have):
        shift = Shift(remove=want[: len(want) - len(have)])
        if all(w == shift.remove + h for h, w in pairs):
            return shift
    return _tab_shift(pairs)


def _tab_shift(pairs: list[tuple[bytes, bytes]]) -> Shift | None:
    for width in (4, 2, 8, 3):
        blank = b" " * width
        if all(not h.strip(b"\t") and h.replace(b"\t", blank) == w for h, w in pairs):
            return Shift(spaces_per_tab=width)
        if all(not w.strip(b"\t") and w.replace(b"\t", blank) == h for h, w in pairs):
            return Shift(spaces_per_tab=-width)
    return None


class _Buffer:
    """The lines of a file in one tier's form, each with an LF before and after it."""

    def __init__(self, lines: bytes) -> None:
        self.data = b"\n" + lines if lines.endswith(b"\n") or not lines else b"\n%b\n" % lines
        self.index = LineIndex(self.data)
        self._searches = 0
        self._lines: list[bytes] = []
        self._places: dict[bytes, list[int]] = {}

    def find(self, block: bytes, start: int, end: int | None = None) -> Iterator[int]:
        """Yield the lines at which ``block`` (LF-joined) begins, from line ``start`` on."""
        self._searches += 1
        if self._searches <= INDEX_AFTER or len(self.data) > _INDEX_BYTES:
            return self._find(block, start, end)
        if not self._places:
            self._build_index()
        lines = block.split(b"\n")
        rarest = min(range(len(lines)), key=lambda i: len(self._places.get(lines[i], ())))
        if len(self._places.get(lines[rarest], ())) > _MANY:
            return self._find(block, start, end)
        return self._find_indexed(lines, rarest, start, end)

    def _build_index(self) -> None:
        self._lines = self.data.split(b"\n")[1:-1]
        for number, line in enumerate(self._lines):
            self._places.setdefault(line, []).append(number)

    def _find_indexed(self, block: list[bytes], rarest: int, start: int, end: int | None) -> Iterator[int]:
        """The same by the rarest line of the block."""
        places = self._places.get(block[rarest], [])
        for place in islice(places, bisect_left(places, start + rarest), None):
            first, behind = place - rarest, place - rarest + len(block)
            if end is not None and behind > end:
                return
            if self._lines[first:behind] == block:
                yield first

    def _find(self, block: bytes, start: int, end: int | None) -> Iterator[int]:
        needle = b"\n%b\n" % block
        # Line k follows the (k+1)th LF of the buffer; the needle's own first LF is one byte
        # earlier.
        position = self.index.offset_of(start + 1) - 1
        stop = len(self.data) if end is None else self.index.offset_of(end + 1)
        while True:
            position = self.data.find(needle, position, stop)
            if position < 0:
                return
            yield self.index.line_at(position + 1) - 1
            position += 1

    def lines(self, first: int, last: int) -> list[bytes]:
        """Return lines ``first`` up to, not including, ``last``."""
        start, end = self.index.offset_of(first + 1), self.index.offset_of(last + 1)
        return self.data[start : max(end - 1, start)].split(b"\n") if last > first else []


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a block of lines is."""

    line: int
    """From 0."""
    tier: Tier
    shift: Shift | None = None


class Haystack:
    """One file in which blocks are looked for; a tier's buffer is built when first tried."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.lines = document.lines
        self.diagnosed = 0
        """Blocks for which near lines were looked for."""
        self._buffers: dict[Tier, _Buffer] = {}

    def buffer(self, tier: Tier) -> _Buffer:
        """Return the file in the form of a tier."""
        if tier not in self._buffers:
            self._buffers[tier] = self._build(tier)
        return self._buffers[tier]

    def _build(self, tier: Tier) -> _Buffer:
        if tier is Tier.INDENT:
            # It begins like the tier before it, and mapping punctuation is the dear part.
            fresh = _Buffer(_strip_blanks(self.buffer(Tier.PUNCTUATION).data[1:]))
        else:
            fresh = _Buffer(normalise(tier, self.document.normal))
        # Most files look the same in several tiers; one copy of a large file is enough.
        return next((known for known in self._buffers.values() if known.data == fresh.data), fresh)

    def find(self, tier: Tier, block: Sequence[bytes], start: int = 0, end: int | None = None) -> Iterator[Hit]:
        """Yield the places of ``block`` from ``start`` to ``end`` in one tier, overlapping too."""
        if not block or len(block) > self.lines - start:
            return
        joined = b"\n".join(block)
        lines = self.buffer(tier).find(normalise(tier, joined), start, end)
        if tier is not Tier.INDENT:
            for line in lines:
                yield Hit(line, tier)
            return
        yield from self._find_shifted(block, lines)

    def _find_shifted(self, block: Sequence[bytes], lines: Iterator[int]) -> Iterator[Hit]:
        want = normalise(Tier.PUNCTUATION, b"\n".join(block)).split(b"\n")
        have = self.buffer(Tier.PUNCTUATION)
        budget = INDENT_BUDGET
        for line in lines:
            budget -= len(block)
            if budget < 0:
                return
            shift = find_shift(have.lines(line, line + len(block)), want)
            if shift is not None:
                yield Hit(line, Tier.INDENT, shift)

    def candidate(self, line: int) -> Candidate:
        """Return a line (from 0) for an error message."""
        return Candidate(line + 1, excerpt(self.document.text(line)))

    def candidates(self, hits: Sequence[Hit]) -> tuple[Candidate, ...]:
        """Return the first few places for an error message."""
        return tuple(self.candidate(hit.line) for hit in hits[:MAX_CANDIDATES])
