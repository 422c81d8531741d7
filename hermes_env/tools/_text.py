"""Files as bytes with lines: terminators, BOM and undecodable bytes stay where they are.

A line ends at CR LF, LF or CR and nowhere else: form feeds, U+0085 and U+2028 are content. Nothing
here changes a byte; offsets always count from the start of the file, its BOM included.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from hermes_env._codec import decode_lossless, encode_lossless
from hermes_env.tools._problem import EditError, Problem

UTF8_BOM: Final = b"\xef\xbb\xbf"
# The four-byte marks come first: the UTF-32 LE mark begins with the UTF-16 LE one.
_WIDE_BOMS: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32 LE"),
    (b"\x00\x00\xfe\xff", "UTF-32 BE"),
    (b"\xff\xfe", "UTF-16 LE"),
    (b"\xfe\xff", "UTF-16 BE"),
)
_TERMINATOR: Final = re.compile(rb"\r\n|\r|\n")
_STEP: Final = 1 << 14
"""Bytes between checkpoints of a line index; a search between two takes about 0.1 ms."""

BINARY_SAMPLE: Final = 8192
"""Bytes looked at for a NUL, as git does."""
# Every control byte except BEL, BS, TAB, LF, VT, FF, CR and ESC, which terminals' logs are full of.
_CONTROL: Final = bytes([*range(7), *range(14, 27), *range(28, 32), 127])

Eol = Literal["lf", "crlf", "cr", "mixed", "none"]


@dataclass(frozen=True, slots=True)
class TextInfo:
    """What the bytes of a file look like. Reported, never acted upon."""

    binary: bool
    encoding: str
    """``ascii``, ``utf-8``, ``utf-16-le`` and its kin (by BOM), ``unknown-8bit`` or ``binary``."""
    bom: bool
    eol: Eol
    final_newline: bool
    """True also for an empty file: no line lacks its end."""
    lines: int


def wide_encoding(data: bytes) -> str | None:
    """Return the UTF-16 or UTF-32 encoding that ``data`` announces by its BOM, or None."""
    return next((name for mark, name in _WIDE_BOMS if data.startswith(mark)), None)


def is_utf8(data: bytes, *, complete: bool = True) -> bool:
    """Tell whether ``data`` is UTF-8; ``complete=False`` allows a character cut at the end."""
    if data.isascii():
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=complete)
    except UnicodeDecodeError:
        return False
    return True


def is_binary(sample: bytes, *, complete: bool = False) -> bool:
    """Tell whether a file that starts with ``sample`` is better not shown as text.

    Args:
        sample: The first bytes of the file; only the first 8 KiB count.
        complete: ``sample`` is the whole file, so a character cut at its end is invalid.
    """
    head = sample[:BINARY_SAMPLE]
    if wide_encoding(head):
        return False
    if b"\0" in head:
        return True
    if is_utf8(head, complete=complete and len(sample) <= BINARY_SAMPLE):
        return False
    control = len(head) - len(head.translate(None, _CONTROL))
    return control * 10 > len(head)


def describe(data: bytes) -> TextInfo:
    """Report encoding, BOM, line endings and final newline of a whole file."""
    wide = wide_encoding(data)
    binary = is_binary(data, complete=True)
    bom = data.startswith(UTF8_BOM)
    if wide:
        encoding = wide.lower().replace(" ", "-")
    elif binary:
        encoding = "binary"
    elif data.isascii():
        encoding = "ascii"
    else:
        encoding = "utf-8" if is_utf8(data) else "unknown-8bit"
    index = LineIndex(data, start=len(UTF8_BOM) if bom else 0)
    return TextInfo(binary, encoding, bom or wide is not None, _eol(data), not index.open_ended, index.lines)


def _eol(data: bytes) -> Eol:
    crlf = data.count(b"\r\n")
    lf = data.count(b"\n") - crlf
    cr = data.count(b"\r") - crlf
    counts: dict[Eol, int] = {"crlf": crlf, "lf": lf, "cr": cr}
    found = [name for name, count in counts.items() if count]
    if not found:
        return "none"
    return found[0] if len(found) == 1 else "mixed"


class LineIndex:
    """Line numbers (from 0) and byte offsets of a buffer, without a list of its lines.

    Offsets of a few lines are wanted, in files of 100 MiB: it counts terminators between
    checkpoints, which runs at memory speed, and only as far into the buffer as it is asked.
    """

    def __init__(self, data: bytes, *, start: int = 0) -> None:
        self._data = data
        self._offsets = [start]
        self._counts = [0]
        self._last = (0, start)
        """Line and offset that were asked for last: the next ones are mostly behind them."""

    def _terminators(self, start: int, end: int) -> int:
        count = self._data.count
        if self._data.find(b"\r", start, end) < 0:
            return count(b"\n", start, end)
        return count(b"\n", start, end) + count(b"\r", start, end) - count(b"\r\n", start, end)

    def _extend(self) -> bool:
        """Add the next checkpoint; False at the end of the buffer."""
        data, last = self._data, self._offsets[-1]
        if last >= len(data):
            return False
        end = min(last + _STEP, len(data))
        if data[end - 1 : end + 1] == b"\r\n":
            end += 1
        self._offsets.append(end)
        self._counts.append(self._counts[-1] + self._terminators(last, end))
        return True

    def line_at(self, offset: int) -> int:
        """Return the number of the line, terminator included, that holds a byte."""
        if offset > 0 and self._data[offset - 1 : offset + 1] == b"\r\n":
            offset -= 1
        while self._offsets[-1] <= offset and self._extend():
            pass
        i = max(bisect_right(self._offsets, offset) - 1, 0)
        return self._counts[i] + self._terminators(self._offsets[i], offset)

    def offset_of(self, line: int) -> int:
        """Return the offset at which a line starts; the end of the buffer beyond the last."""
        while self._counts[-1] < line and self._extend():
            pass
        if self._counts[-1] < line:
            return len(self._data)
        i = max(bisect_left(self._counts, line) - 1, 0)
        at, offset = self._counts[i], self._offsets[i]
        if at <= self._last[0] <= line:
            at, offset = self._last
        for _ in range(line - at):
            found = _TERMINATOR.search(self._data, offset)
            if found is None:  # pragma: no cover - the counts say that it is there
                return len(self._data)
            offset = found.end()
        self._last = (line, offset)
        return offset

    @cached_property
    def open_ended(self) -> bool:
        """The last line lacks its terminator."""
        return len(self._data) > self._offsets[0] and self._data[-1:] not in {b"\n", b"\r"}

    def at_most(self, line: int) -> int:
        """Return `line`, or the number of lines where there are fewer; counts no further than that."""
        while self._counts[-1] <= line and self._extend():
            pass
        return min(line, self._counts[-1] + self.open_ended) if self._counts[-1] <= line else line

    @cached_property
    def lines(self) -> int:
        """The number of lines; text after the last terminator is one more line."""
        while self._extend():
            pass
        return self._counts[-1] + self.open_ended


class Document:
    """The bytes of one file, addressed by line. Lines count from 0."""

    def __init__(self, data: bytes) -> None:
        """Take the bytes of a file.

        Raises:
            EditError: ``encoding_unsupported``; UTF-16 and UTF-32 cannot be cut at single LF bytes.
        """
        wide = wide_encoding(data)
        if wide:
            message = f"the file is {wide} by its byte order mark; convert it to UTF-8 first"
            raise EditError(Problem("encoding_unsupported", message))
        self.data = data
        self.bom = len(UTF8_BOM) if data.startswith(UTF8_BOM) else 0
        self.index = LineIndex(data, start=self.bom)

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.index.lines

    @property
    def open_ended(self) -> bool:
        """The last line lacks its terminator."""
        return self.index.open_ended

    @cached_property
    def eol(self) -> bytes:
        """The first terminator of the file, which new lines get; LF where there is none."""
        found = _TERMINATOR.search(self.data, self.bom)
        return found.group() if found else b"\n"

    @cached_property
    def utf8(self) -> bool:
        """The file is valid UTF-8."""
        return is_utf8(self.data)

    @cached_property
    def normal(self) -> bytes:
        """The text after the BOM with every terminator as LF."""
        body = self.data[self.bom :] if self.bom else self.data
        if b"\r" not in body:
            return body
        return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the byte range of lines ``first`` up to, not including, ``last``."""
        return self.index.offset_of(first), self.index.offset_of(last)

    def line(self, number: int) -> bytes:
        """Return one line without its terminator; empty beyond the end."""
        start = self.index.offset_of(number)
        found = _TERMINATOR.search(self.data, start)
        return self.data[start : found.start()] if found else self.data[start:]

    def text(self, number: int) -> str:
        """Return one line as lossless text."""
        return decode_lossless(self.line(number))


def split_lines(data: bytes) -> list[tuple[bytes, bytes]]:
    """Cut ``data`` into (content, terminator) pairs; only the last terminator may be empty."""
    pairs: list[tuple[bytes, bytes]] = []
    position = 0
    for found in _TERMINATOR.finditer(data):
        pairs.append((data[position : found.start()], found.group()))
        position = found.end()
    if position < len(data):
        pairs.append((data[position:], b""))
    return pairs


def to_bytes(text: str, document: Document | None, encoding: str | None) -> bytes:
    """Encode text that an edit writes into (or looks for in) a file.

    Args:
        text: Lossless text.
        document: The file it goes into; None for a new file.
        encoding: The encoding of a file that is not UTF-8, as the caller says.

    Raises:
        EditError: ``encoding_unsupported`` or ``invalid_argument``.
    """
    try:
        if encoding is not None:
            return text.encode(encoding)
        data = encode_lossless(text)
    except LookupError:
        raise EditError(Problem("invalid_argument", f"unknown encoding {encoding!r}")) from None
    except UnicodeEncodeError as error:
        bad = text[error.start : error.end]
        message = f"{bad!r} cannot be written in {encoding or 'utf-8'}"
        raise EditError(Problem("encoding_unsupported", message)) from error
    if document is not None and not data.isascii() and not document.utf8:
        message = (
            f"the file is not UTF-8, so {text[:40]!a} would mix two encodings; name its encoding "
            "(encoding=...) or use ASCII only"
        )
        raise EditError(Problem("encoding_unsupported", message))
    return data
