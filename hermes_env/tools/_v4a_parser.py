"""The V4A parser: a state machine over lines that yields operations while the text arrives.

The grammar is a superset of the published one: prose, fences and here-document lines may surround
the envelope, markers may be padded, ``@@`` lines may be stacked, closed or numbered, ``*** Move
File: a -> b`` is a rename. Strict mode refuses everything else, each faulty line by its number;
lenient mode repairs what has one meaning only and says so.
"""

from __future__ import annotations

from typing import Final, Literal

from hermes_env._codec import encode_lossless
from hermes_env.tools._problem import PatchParseError, Problem, excerpt
from hermes_env.tools._v4a_body import AddBody, Body, DeleteBody, UpdateBody
from hermes_env.tools._v4a_markers import HEADERS, OPERATIONS, Marker, read_marker
from hermes_env.tools._v4a_model import Operation, Patch

MAX_PATCH_BYTES: Final = 5 << 20
"""Longest patch that is parsed by default: far above what a model writes in one answer."""

_MAX_PROBLEMS: Final = 50


class StreamingParser:
    """Parses a patch that arrives in pieces.

    ``feed`` returns the operations that the new text completed; ``close`` returns the whole patch
    or raises with every problem. An operation that ``feed`` returned is a preview: only ``close``
    vouches for it.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self._lenient = lenient
        self._pending = ""
        self._number = 0
        self._state: Literal["before", "inside", "after"] = "before"
        self._begun = False
        self._ended = False
        self._body: Body | None = None
        self._operations: list[Operation] = []
        self._fresh: list[Operation] = []
        self._environment: str | None = None
        self._problems: list[Problem] = []
        self._warnings: list[str] = []
        self._noise: list[int] = []

    def feed(self, text: str) -> tuple[Operation, ...]:
        """Take the next piece of text and return the operations that it completed."""
        lines = (self._pending + text).split("\n") if "\n" in text else [self._pending + text]
        self._pending = lines.pop()
        for line in lines:
            self._line(line)
        fresh, self._fresh = tuple(self._fresh), []
        return fresh

    def close(self) -> Patch:
        """End the text and return the patch.

        Raises:
            PatchParseError: The text is not in the grammar; ``problems`` has every fault found.
        """
        if self._pending:
            self._line(self._pending)
            self._pending = ""
        self._finish()
        if self._problems:
            self._problems.sort(key=lambda problem: problem.patch_line or 0)
            raise PatchParseError(*self._problems[:_MAX_PROBLEMS])
        return Patch(tuple(self._operations), self._environment, self._all_warnings())

    def _all_warnings(self) -> tuple[str, ...]:
        if not self._noise:
            return tuple(self._warnings)
        where = ", ".join(str(number) for number in self._noise[:5]) + (", …" if len(self._noise) > 5 else "")
        return (
            f"{len(self._noise)} lines around the patch were ignored (lines {where})",
            *self._warnings,
        )

    def _finish(self) -> None:
        if not self._ended and self._body is not None and self._body.drop_padded_end():
            self._ended = True
        self._close_body()
        if not self._begun and not self._operations and not self._problems:
            self._problem("there is no '*** Begin Patch' line, so this is not a patch", 1)
            return
        if not self._ended and (self._begun or not self._lenient):
            self._problem("there is no '*** End Patch' line; the patch may be cut off", max(self._number, 1))
        elif not self._begun:
            self._warnings.append("there is no '*** Begin Patch' line")
        if not self._operations and not self._problems:
            message = "the patch has no operations"
            self._problems.append(Problem("no_operations", message, patch_line=max(self._number, 1)))

    def _problem(self, message: str, number: int | None = None, *, path: str | None = None) -> None:
        line = number or self._number
        self._problems.append(Problem("parse_error", message, path=path, patch_line=line))

    def _line(self, raw: str) -> None:
        self._number += 1
        # One carriage return at the end belongs to the transport of the patch, further ones are
        # content.
        line = raw.removesuffix("\r")
        if not line.isascii() and not _encodable(line):
            self._problem("the line holds a lone surrogate, which stands for no byte")
            return
        if self._body is not None and self._body.take(line, self._number):
            return
        if not line.strip():
            return
        marker = read_marker(line, lenient=self._lenient)
        if marker is None and self._body is not None and self._body.drop_padded_end():
            # What follows an indented End line is the end of a here-document, or prose.
            self._end()
        if self._state == "inside":
            self._inside(line, marker)
        else:
            self._outside(line, marker)

    def _outside(self, line: str, marker: Marker | None) -> None:
        if marker is None or marker.kind in {"move_to", "environment", "eof"}:
            self._noise.append(self._number)
        elif marker.kind == "begin":
            if self._state == "after":
                self._problem("a second '*** Begin Patch'; send one patch at a time")
                return
            self._begin(line, marker)
        elif self._state == "after":
            if marker.kind in HEADERS:
                self._problem(f"an operation after '*** End Patch': {excerpt(line)!a}")
        elif marker.kind == "end":
            self._problem("'*** End Patch' without '*** Begin Patch'")
            self._ended = True
        else:
            if not self._lenient:
                self._problem("an operation before '*** Begin Patch'")
            self._state = "inside"
            self._inside(line, marker)

    def _begin(self, line: str, marker: Marker) -> None:
        self._begun = True
        self._state = "inside"
        self._check_extra(line, marker)

    def _check_extra(self, line: str, marker: Marker) -> None:
        if marker.repaired:
            self._warnings.append(f"line {self._number}: {marker.repaired}")
        if marker.extra:
            self._problem(f"unexpected {marker.extra!a} at the end of {excerpt(line.strip())!a}")

    def _inside(self, line: str, marker: Marker | None) -> None:
        if marker is None:
            path = self._body.path if self._body is not None else None
            self._problem(self._complaint(line), path=path)
            return
        self._check_extra(line, marker)
        if marker.kind in HEADERS:
            self._close_body()
            self._open(marker)
        elif marker.kind == "end":
            self._end()
        elif marker.kind == "begin":
            self._problem("a second '*** Begin Patch'; send one patch at a time")
        elif marker.kind == "environment":
            self._set_environment(marker.value)
        elif marker.kind == "move_to":
            self._problem("'*** Move to:' must directly follow '*** Update File:'")
        else:
            self._problem("'*** End of File' belongs to the end of a hunk of '*** Update File:'")

    def _end(self) -> None:
        self._close_body()
        self._state = "after"
        self._ended = True

    def _complaint(self, line: str) -> str:
        shown = ascii(excerpt(line))
        if self._body is not None and not line.lstrip().startswith("***"):
            return f"{self._body.rule}, but this line is {shown}"
        return f"{shown} is no operation; expected one of {OPERATIONS}"

    def _set_environment(self, value: str) -> None:
        if self._operations or self._body is not None:
            self._problem("'*** Environment ID:' belongs directly after '*** Begin Patch'")
        elif not value:
            self._problem("'*** Environment ID:' is empty")
        elif self._environment is not None:
            self._problem("'*** Environment ID:' is given twice")
        else:
            self._environment = value

    def _open(self, marker: Marker) -> None:
        path = marker.value
        if not path:
            self._problem("the path is missing after the colon")
        elif "\0" in path:
            self._problem("the path holds a NUL")
        if marker.kind == "add":
            self._body = AddBody(path, self._number, lenient=self._lenient)
        elif marker.kind == "delete":
            self._body = DeleteBody(path, self._number)
        elif marker.kind == "update":
            self._body = UpdateBody(path, self._number, lenient=self._lenient)
        else:
            self._move_file(path)

    def _move_file(self, value: str) -> None:
        parts = [part.strip() for part in value.split(" -> ")]
        if len(parts) != 2 or not all(parts):
            if value:
                self._problem("'*** Move File:' needs exactly one ' -> ' between two paths")
            parts = [value, value]
        self._body = UpdateBody(parts[0], self._number, lenient=self._lenient, move_to=parts[1])

    def _close_body(self) -> None:
        body, self._body = self._body, None
        if body is None:
            return
        operation = body.close()
        self._problems += [problem.at(path=body.path) for problem in body.problems]
        self._warnings += body.warnings
        self._operations.append(operation)
        self._fresh.append(operation)


def _encodable(line: str) -> bool:
    try:
        encode_lossless(line)
    except UnicodeEncodeError:
        return False
    return True


def parse_patch(text: str, *, lenient: bool = False, max_bytes: int = MAX_PATCH_BYTES) -> Patch:
    """Parse a whole patch text.

    Args:
        text: The patch, with or without prose, fences or a here-document around it.
        lenient: Repair what has one meaning only (an added file without ``+``, a header without
            ``***``, odd blanks around markers, no envelope at all, context lines without their
            blank).
        max_bytes: Longest text that is accepted, in UTF-8 bytes.

    Raises:
        PatchParseError: ``parse_error`` (one problem per faulty line), ``no_operations`` or
            ``too_large``.
    """
    if len(text) > max_bytes or (len(text) * 4 > max_bytes and len(text.encode("utf-8", "replace")) > max_bytes):
        raise PatchParseError(Problem("too_large", f"the patch is longer than {max_bytes:,} bytes"))
    parser = StreamingParser(lenient=lenient)
    parser.feed(text)
    return parser.close()
