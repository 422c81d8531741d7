"""The bodies of the three file operations of a patch, line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol

from hermes_env.tools._problem import Problem, excerpt
from hermes_env.tools._v4a_markers import HEADERS, read_hunk_header, read_marker
from hermes_env.tools._v4a_model import Anchor, Hunk, Operation, PatchLine, Prefix

_PREFIXES: Final[dict[str, Prefix]] = {" ": " ", "-": "-", "+": "+"}


class Body(Protocol):
    """Collects the lines between one header and the next."""

    path: str
    rule: str
    """What its lines must look like, for messages."""
    problems: list[Problem]
    warnings: list[str]

    def take(self, line: str, number: int) -> bool:
        """Take a line, or return False if it must be a marker."""

    def drop_padded_end(self) -> bool:
        """Give back a last line that is an indented ``*** End Patch``; True if there was one."""

    def close(self) -> Operation:
        """Return the operation."""


def _is_no_newline(line: str) -> bool:
    return line.startswith("\\ ") and "no newline" in line.lower()


class _Collector:
    rule = "this operation has no lines"

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self._number = number

    def _problem(self, message: str, number: int) -> None:
        self.problems.append(Problem("parse_error", message, patch_line=number))

    def drop_padded_end(self) -> bool:
        return False


class DeleteBody(_Collector):
    """``*** Delete File:`` has no body."""

    rule = "'*** Delete File:' has no lines of its own"

    def take(self, line: str, number: int) -> bool:
        """Refuse everything."""
        del line, number
        return False

    def close(self) -> Operation:
        """Return the operation."""
        return Operation("delete", self.path, self._number)


class AddBody(_Collector):
    """``*** Add File:``: every line starts with ``+``; in lenient mode, none may."""

    rule = "every line of an added file starts with '+'"

    def __init__(self, path: str, number: int, *, lenient: bool = False) -> None:
        super().__init__(path, number)
        self._lenient = lenient
        self._lines: list[PatchLine] = []
        self._raw = False
        self._blank: list[int] = []

    def take(self, line: str, number: int) -> bool:
        """Take a line of content."""
        if not line.strip() and not line.startswith("+"):
            self._blank.append(number)
            return True
        if line.startswith("+") and not self._raw:
            self._flush_blank()
            self._lines.append(PatchLine("+", line[1:], number))
            return True
        if _is_no_newline(line) and self._lines:
            self._lines[-1] = replace(self._lines[-1], no_newline=True)
            return True
        return self._take_raw(line, number)

    def _take_raw(self, line: str, number: int) -> bool:
        if not self._lenient or (self._lines and not self._raw):
            return False
        if line.lstrip().startswith("***") and read_marker(line, lenient=True) is not None:
            return False
        if not self._raw:
            self._raw = True
            self.warnings.append(f"line {number}: the lines of {self.path!r} have no '+'; taken as they are")
        self._flush_blank()
        self._lines.append(PatchLine("+", line, number))
        return True

    def _flush_blank(self) -> None:
        """Blank lines before more content: content where nothing has a ``+``, else faults."""
        for number in self._blank:
            if self._raw:
                self._lines.append(PatchLine("+", "", number))
            else:
                self._problem(f"{self.rule}, but this line is empty", number)
        self._blank.clear()

    def close(self) -> Operation:
        """Return the operation; blank lines at the end were only a gap before the next marker."""
        for line in self._lines[:-1]:
            if line.no_newline:
                self._problem("'\\ No newline at end of file' before the last line", line.patch_line)
        return Operation("add", self.path, self._number, lines=tuple(self._lines))


class UpdateBody(_Collector):
    """``*** Update File:``: an optional ``*** Move to:``, then hunks."""

    rule = (
        "every line of a hunk starts with ' ' (context line), '+' (added line) or '-' (removed "
        "line), and a hunk with '@@'"
    )

    def __init__(self, path: str, number: int, *, lenient: bool = False, move_to: str | None = None) -> None:
        super().__init__(path, number)
        self._lenient = lenient
        self._move_to = move_to
        self._rename_only = move_to is not None
        self._hunks: list[Hunk] = []
        self._open: Hunk | None = None
        self._lines: list[PatchLine] = []
        self._ended = False

    def take(self, line: str, number: int) -> bool:
        """Take a line of a hunk or the ``@@`` before it."""
        if line.startswith("*"):
            return self._take_marker(line, number)
        header = read_hunk_header(line)
        if header is not None:
            self._take_header(header, number)
            return True
        if line == "":
            if not self._ended:
                self._append(PatchLine(" ", "", number, bare=True))
            return True
        if _is_no_newline(line):
            return self._take_no_newline(number)
        if line[0] in _PREFIXES and not self._ended:
            self._append(PatchLine(_PREFIXES[line[0]], line[1:], number))
            return True
        return self._take_unprefixed(line, number)

    def _append(self, line: PatchLine) -> None:
        if self._open is None:
            self._open = Hunk(line.patch_line)
        self._lines.append(line)

    def _take_no_newline(self, number: int) -> bool:
        if not self._lines:
            self._problem("'\\ No newline at end of file' without a line before it", number)
        else:
            self._lines[-1] = replace(self._lines[-1], no_newline=True)
        return True

    def _take_unprefixed(self, line: str, number: int) -> bool:
        if not self._lenient or self._ended or self._ends_padded():
            if self._ended and line[0] in _PREFIXES and read_marker(line) is None:
                self._problem("after '*** End of File' only '@@' or the next operation can follow", number)
                return True
            return False
        if not line.strip():
            self._append(PatchLine(" ", "", number, bare=True))
            return True
        marker = read_marker(line, lenient=True)
        if marker is not None and marker.kind in HEADERS:
            return False
        if line.startswith("@@"):
            return False
        self.warnings.append(f"line {number}: no prefix; taken as context if the file has exactly this line")
        self._append(PatchLine(" ", line, number, unprefixed=True))
        return True

    def _take_marker(self, line: str, number: int) -> bool:
        marker = read_marker(line, lenient=self._lenient)
        if marker is None:
            return False if line.startswith("***") else self._take_unprefixed(line, number)
        if marker.kind == "eof" and not marker.extra:
            self._take_end_of_file(number)
            return True
        if marker.kind == "move_to" and self._open is None and not self._hunks:
            self._take_move(marker.value, number)
            return True
        return False

    def _take_move(self, value: str, number: int) -> None:
        if self._move_to is not None:
            self._problem("a second destination; a file can move to one place only", number)
        elif not value or "\0" in value:
            self._problem("'*** Move to:' needs a path", number)
        else:
            self._move_to = value

    def _take_end_of_file(self, number: int) -> None:
        if self._open is None:
            self.warnings.append(f"line {number}: '*** End of File' without a hunk before it")
            return
        self._open = replace(self._open, end_of_file=True)
        self._ended = True

    def _take_header(self, header: tuple[int | None, str | None], number: int) -> None:
        old_start, text = header
        stacked = self._open is not None and not self._lines and not self._ended
        if not stacked:
            self._close_hunk()
            self._open = Hunk(number)
        assert self._open is not None
        if old_start is not None:
            self._open = replace(self._open, old_start=old_start)
        if text is not None:
            self._open = replace(self._open, anchors=(*self._open.anchors, Anchor(text, number)))

    def _close_hunk(self) -> None:
        hunk, self._open, self._ended = self._open, None, False
        lines, self._lines = tuple(self._lines), []
        if hunk is None:
            return
        only_blank = all(line.bare for line in lines)
        if only_blank and hunk.patch_line == (lines[0].patch_line if lines else 0):
            return  # A gap between the header and the first '@@', or before the next operation.
        if not lines:
            self._problem("the hunk has no lines", hunk.patch_line)
            return
        self._hunks.append(replace(hunk, lines=lines))

    def drop_padded_end(self) -> bool:
        """Codex accepts an indented ``*** End Patch`` as the last line even inside a hunk."""
        if not self._ends_padded():
            return False
        while self._lines[-1].bare:
            self._lines.pop()
        self._lines.pop()
        if not self._lines and self._open is not None and not self._open.anchors:
            self._open = None
        return True

    def _ends_padded(self) -> bool:
        last = next((line for line in reversed(self._lines) if not line.bare), None)
        return last is not None and last.kind == " " and last.text.strip() == "*** End Patch"

    def close(self) -> Operation:
        """Return the operation."""
        self._close_hunk()
        if not self._hunks and self._move_to is None and not self.problems:
            self._problem(
                f"the update of {excerpt(self.path)!r} has no hunk and no '*** Move to:'",
                self._number,
            )
        return Operation("update", self.path, self._number, hunks=tuple(self._hunks), move_to=self._move_to)
