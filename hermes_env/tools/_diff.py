"""Unified diffs of edits: only the edited ranges are compared, whatever the size of the file."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from hermes_env.tools._display import clean, is_escaped, show_bytes
from hermes_env.tools._splice import Splice, apply_splices, single_splice
from hermes_env.tools._text import LineIndex, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DIFF_LINES: Final = 100
"""Lines shown of one file's diff unless the caller says otherwise; then a summary follows."""

_CONTEXT: Final = 3
# difflib is quadratic in equal lines: larger windows are shown as removed and added as a whole.
_MAX_WINDOW: Final = 1_000
_MAX_LINE: Final = 1_000
_MAX_BYTES: Final = 4 * _MAX_LINE

# Notes below a line, in the form that unified diffs have for a missing newline.
_OPEN_END: Final = "\\ No newline at end of file\n"
_NOT_UTF8: Final = "\\ Bytes that are not UTF-8 are shown as \\xNN, backslashes doubled\n"
_LONE_CR: Final = "\\ The line ends in CR alone\n"

_Line = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The diff of one file."""

    text: str
    """Unified diff, clean UTF-8, LF line ends."""
    added: int
    removed: int
    truncated: bool
    """Lines were left out; the last line of ``text`` says how many."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines from ``old`` (numbered from 0) on become other lines from ``new`` on."""

    old: int
    old_lines: tuple[_Line, ...]
    new: int
    new_lines: tuple[_Line, ...]

    @property
    def old_end(self) -> int:
        return self.old + len(self.old_lines)


def unified_diff(
    before: bytes | None,
    after: bytes | None,
    *,
    path: str,
    old_path: str | None = None,
    splices: Sequence[Splice] | None = None,
    max_lines: int | None = MAX_DIFF_LINES,
) -> FileDiff:
    """Return the unified diff of one file.

    Args:
        before: The old content; None for a new file.
        after: The new content; None for a deleted file.
        path: The name after the edit.
        old_path: The name before it, if it was moved.
        splices: The replaced ranges of ``before``, if they are known; else the first to the last
            difference.
        max_lines: Lines of the diff to show; None for all.
    """
    old, new = before or b"", after or b""
    if splices is None or after is None:
        splices = single_splice(old, new)
    index = LineIndex(old)
    changes = list(_changes(old, index, splices))
    added = sum(len(change.new_lines) for change in changes)
    removed = sum(len(change.old_lines) for change in changes)
    header = _header(before, after, path, old_path)
    body: list[str] = []
    total = 0
    for lines in _hunks(old, index, changes):
        total += len(lines)
        room = len(lines) if max_lines is None else max(max_lines - len(body), 0)
        body += (_render(line) for line in lines[:room])
    hidden = total - len(body)
    if hidden:
        body.append(f"... {hidden:,} more lines of this diff (in all +{added:,} -{removed:,})\n")
    return FileDiff("".join([*header, *body]) if body or old_path else "", added, removed, hidden > 0)


def _header(before: bytes | None, after: bytes | None, path: str, old_path: str | None) -> list[str]:
    source = clean(old_path if old_path is not None else path).replace("\n", "\\n")
    target = clean(path).replace("\n", "\\n")
    moved = [f"rename from {source}\n", f"rename to {target}\n"] if old_path is not None else []
    if before == after:
        return moved
    old_name = "/dev/null" if before is None else _prefixed("a", source)
    new_name = "/dev/null" if after is None else _prefixed("b", target)
    return [*moved, f"--- {old_name}\n", f"+++ {new_name}\n"]


def _prefixed(letter: str, path: str) -> str:
    return path if path.startswith("/") else f"{letter}/{path}"


def _changes(before: bytes, index: LineIndex, splices: Sequence[Splice]) -> Iterator[_Change]:
    """Yield the changed runs of lines, ascending."""
    delta = 0
    for start, end, group in _windows(index, before, splices):
        old_lines = split_lines(before[start:end])
        shifted = [Splice(s.start - start, s.end - start, s.new) for s in group]
        new_lines = split_lines(apply_splices(before[start:end], shifted))
        first = index.line_at(start)
        for a, b, c, d in _opcodes(old_lines, new_lines):
            yield _Change(first + a, tuple(old_lines[a:b]), first + delta + c, tuple(new_lines[c:d]))
        delta += len(new_lines) - len(old_lines)


def _windows(index: LineIndex, before: bytes, splices: Sequence[Splice]) -> Iterator[tuple[int, int, list[Splice]]]:
    """Yield byte ranges of whole lines that hold one or more splices."""
    group: list[Splice] = []
    start = end = 0
    for splice in splices:
        first = index.offset_of(index.line_at(splice.start))
        # A line that a splice joins with the one before it belongs to the window, so look one byte
        # back.
        if splice.start == first and first > 0:
            first = index.offset_of(max(index.line_at(splice.start) - 1, 0))
        if group and first <= end:
            group.append(splice)
        else:
            if group:
                yield start, end, group
            group, start = [splice], first
        last_line = index.line_at(splice.end)
        end = splice.end if splice.end == len(before) else index.offset_of(last_line + 1)
    if group:
        yield start, end, group


def _opcodes(old: Sequence[_Line], new: Sequence[_Line]) -> Iterator[tuple[int, int, int, int]]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b, c, d = head, len(old) - tail, head, len(new) - tail
    if max(b - a, d - c) > _MAX_WINDOW or a == b or c == d:
        if a < b or c < d:
            yield a, b, c, d
        return
    matcher = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag != "equal":
            yield a + i, a + j, c + k, c + m


_Shown = tuple[str, _Line]


def _hunks(before: bytes, index: LineIndex, changes: Sequence[_Change]) -> Iterator[list[_Shown]]:
    group: list[_Change] = []
    for change in changes:
        if group and change.old - group[-1].old_end > 2 * _CONTEXT:
            yield _hunk(before, index, group)
            group = []
        group.append(change)
    if group:
        yield _hunk(before, index, group)


def _hunk(before: bytes, index: LineIndex, group: Sequence[_Change]) -> list[_Shown]:
    first = max(group[0].old - _CONTEXT, 0)
    last = index.at_most(group[-1].old_end + _CONTEXT)
    lines: list[_Shown] = []
    position = first
    for change in group:
        lines += [(" ", line) for line in _lines(before, index, position, change.old)]
        lines += [("-", line) for line in change.old_lines]
        lines += [("+", line) for line in change.new_lines]
        position = change.old_end
    lines += [(" ", line) for line in _lines(before, index, position, last)]
    old_count = sum(kind != "+" for kind, _ in lines)
    new_count = sum(kind != "-" for kind, _ in lines)
    new_first = first + group[0].new - group[0].old
    return [
        (
            "@",
            (f"@@ -{_range(first, old_count)} +{_range(new_first, new_count)} @@".encode(), b"\n"),
        ),
        *lines,
    ]


def _lines(before: bytes, index: LineIndex, first: int, last: int) -> list[_Line]:
    return split_lines(before[index.offset_of(first) : index.offset_of(last)])


def _range(first: int, count: int) -> str:
    start = first + 1 if count else first
    return f"{start}" if count == 1 else f"{start},{count}"


def _head(content: bytes) -> bytes:
    """As much of a line as may be shown, cut before a character: a line can have 100 MiB."""
    if len(content) <= _MAX_BYTES:
        return content
    # A character of UTF-8 has at most three bytes behind its first one.
    cut = next((at for at in range(_MAX_BYTES, _MAX_BYTES - 4, -1) if content[at] & 0xC0 != 0x80), _MAX_BYTES)
    return content[:cut]


def _render(line: _Shown) -> str:
    kind, (content, end) = line
    if kind == "@":
        return content.decode() + "\n"
    head = _head(content)
    shown = show_bytes(head)
    if len(shown) > _MAX_LINE or len(head) < len(content):
        shown = f"{shown[:_MAX_LINE]}… ({len(content):,} bytes)"
    notes = [_OPEN_END] if not end else []
    notes += [_NOT_UTF8] if is_escaped(head) else []
    # A lone CR must not look like CR LF.
    notes += [_LONE_CR] if end == b"\r" else []
    ending = "\r\n" if end == b"\r\n" else "\n"
    return "".join([kind, shown, ending, *notes])
