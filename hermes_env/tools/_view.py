"""A window of a file with line numbers, for showing; never a base for writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hermes_env.tools._display import is_escaped, show_bytes
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._text import Document

MAX_VIEW_LINES: Final = 2000
MAX_VIEW_BYTES: Final = 256 << 10
"""Text that is shown at once: more than this does not help a model, and costs its whole context."""


@dataclass(frozen=True, slots=True)
class View:
    """Some lines of a file."""

    text: str
    """The lines with LF ends; clean UTF-8."""
    first: int
    """1-based number of the first line shown; 0 when none is."""
    last: int
    total: int
    notes: tuple[str, ...] = ()
    """What was cut or clipped; never part of ``text``."""


def view_lines(
    data: bytes,
    first: int = 1,
    last: int | None = None,
    *,
    numbers: bool = True,
    max_lines: int = MAX_VIEW_LINES,
    max_bytes: int = MAX_VIEW_BYTES,
) -> View:
    """Return lines ``first`` to ``last`` (1-based, inclusive) of a file.

    Args:
        data: The file.
        first: First line.
        last: Last line; None or -1 for the end; beyond the end it is clipped with a note.
        numbers: Put ``N: `` before each line, as the Anthropic text editor does.
        max_lines: Lines shown at most.
        max_bytes: Bytes shown at most; a single longer line is cut.

    Raises:
        EditError: ``invalid_argument`` for a range that starts outside the file or ends before it
            starts, ``encoding_unsupported`` for UTF-16 and UTF-32.
    """
    document = Document(data)
    total = document.lines
    end = total if last is None or last == -1 else last
    if first < 1 or (end < first and total) or first > max(total, 1):
        message = f"Invalid `view_range`: [{first}, {last}]. The file has the lines [1, {total}]"
        raise EditError(Problem("invalid_argument", message))
    notes = [f"the file has only {total} lines"] if end > total else []
    end = min(end, total)
    window, stop = _window(document, first, min(end, first + max_lines - 1), max_bytes)
    shown = [line for line, _ in window]
    if stop < end:
        notes.append(f"lines {stop + 1} to {end} are not shown; ask for them by range")
    if any(cut for _, cut in window):
        notes.append("a long line was cut")
    odd = [str(first + i) for i, line in enumerate(shown) if is_escaped(line)]
    if odd:
        where = ", ".join(odd[:10]) + (", …" if len(odd) > 10 else "")
        notes.append(f"bytes that are not UTF-8 are shown as \\xNN in lines {where}")
    labels = (f"{first + i}: " if numbers else "" for i in range(len(shown)))
    text = "".join(f"{label}{show_bytes(line)}\n" for label, line in zip(labels, shown, strict=True))
    return View(text, first if shown else 0, stop if shown else 0, total, tuple(notes))


def _window(document: Document, first: int, end: int, budget: int) -> tuple[list[tuple[bytes, bool]], int]:
    """Return the lines that fit and whether each was cut, and the number of the last one."""
    shown: list[tuple[bytes, bool]] = []
    for number in range(first, end + 1):
        line = document.line(number - 1)
        if len(line) > budget and shown:
            return shown, number - 1
        shown.append((line[:budget], len(line) > budget))
        budget -= len(line) + 1
    return shown, end
