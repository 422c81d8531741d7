"""Applying the hunks of one file: all placed, or every problem reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from hermes_env.tools._locate import Block, Placement, Progress, locate
from hermes_env.tools._locate_codex import locate_codex
from hermes_env.tools._match import Haystack
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._splice import Edit, Splice
from hermes_env.tools._text import Document, to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_env.tools._rules import Rules
    from hermes_env.tools._v4a_model import Hunk, PatchLine


@dataclass(frozen=True, slots=True)
class HunkReport:
    """Where one hunk went. Lines count from 1; an empty range names the line before it."""

    hunk: int
    patch_line: int
    tier: str
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    anchor_line: int | None = None
    out_of_order: bool = False
    already_applied: bool = False


@dataclass(frozen=True, slots=True)
class HunksResult:
    """The edit of one file and how it was found."""

    edit: Edit
    hunks: tuple[HunkReport, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines ``first`` up to ``last`` are replaced by new ones."""

    hunk: int
    first: int
    last: int
    new: tuple[bytes, ...]
    unterminated: PatchLine | None = None
    """The last new line, if the patch says that no newline follows it."""


def apply_hunks(document: Document, hunks: Sequence[Hunk], rules: Rules, *, encoding: str | None = None) -> HunksResult:
    """Place all hunks in one file and return the edit.

    Args:
        document: The file.
        hunks: The hunks in the order of the patch.
        rules: How strict.
        encoding: The encoding of a file that is not UTF-8.

    Raises:
        EditError: One problem for each hunk that has no place or cannot be written.
    """
    haystack, progress = Haystack(document), Progress()
    placed: list[tuple[int, Hunk, Placement, list[_Change]]] = []
    applied: list[HunkReport] = []
    problems: list[Problem] = []
    for number, hunk in enumerate(hunks, start=1):
        try:
            block = _block(hunk, encoding)
            placement = (
                locate_codex(haystack, block, progress)
                if rules.first_match
                else locate(haystack, block, progress, rules)
            )
            changes = _changes(document, number, hunk, placement, encoding)
        except EditError as error:
            if rules.idempotent and error.code == "already_applied":
                line = error.problem.candidates[0].line
                size = len(hunk.new)
                applied.append(
                    HunkReport(
                        number,
                        hunk.patch_line,
                        "exact",
                        line,
                        size,
                        line,
                        size,
                        already_applied=True,
                    )
                )
                continue
            problems += [p.at(patch_line=hunk.patch_line, hunk=number) for p in error.problems]
            continue
        progress.take(placement)
        placed.append((number, hunk, placement, changes))
    flat = sorted((change for *_, changes in placed for change in changes), key=lambda c: (c.first, c.last))
    problems += _misplaced_ends(document, flat)
    if problems:
        raise EditError(*problems)
    edit = Edit(document.data, _splices(document, flat, force_newline=rules.force_final_newline))
    return HunksResult(edit, tuple(sorted([*_reports(placed), *applied], key=lambda report: report.hunk)))


def _block(hunk: Hunk, encoding: str | None) -> Block:
    def encode(lines: Sequence[PatchLine]) -> tuple[bytes, ...]:
        return tuple(to_bytes(line.text, None, encoding) for line in lines)

    tail = 0
    for line in reversed(hunk.lines):
        if not line.bare:
            break
        tail += 1
    anchors = tuple(to_bytes(anchor.text, None, encoding) for anchor in hunk.anchors)
    return Block(encode(hunk.old), encode(hunk.new), anchors, hunk.old_start, hunk.end_of_file, tail)


def _changes(document: Document, number: int, hunk: Hunk, placement: Placement, encoding: str | None) -> list[_Change]:
    """Return the runs of removed and added lines of a placed hunk."""
    changes: list[_Change] = []
    position = placement.line
    for is_context, run in groupby(_without_dropped(hunk, placement.dropped), key=lambda line: line.kind == " "):
        lines = list(run)
        if is_context:
            _check_unprefixed(document, lines, position)
            position += len(lines)
            continue
        removed = sum(line.kind == "-" for line in lines)
        added = [line for line in lines if line.kind == "+"]
        new = tuple(_added(document, line, placement, encoding) for line in added)
        unterminated = next((line for line in added if line.no_newline), None)
        if unterminated is not None and unterminated is not added[-1]:
            raise EditError(_not_last(unterminated))
        changes.append(_Change(number, position, position + removed, new, unterminated))
        position += removed
    return changes


def _without_dropped(hunk: Hunk, dropped: int) -> list[PatchLine]:
    """Return the lines of a hunk that was found only without its last, empty, old lines."""
    lines = list(hunk.lines)
    for _ in range(dropped):
        last_old = max(i for i, line in enumerate(lines) if line.kind != "+")
        old = lines.pop(last_old)
        if old.kind == " ":
            lines.insert(last_old, replace(old, kind="+"))
        last_new = max((i for i, line in enumerate(lines) if line.kind != "-"), default=-1)
        if last_new < 0 or lines[last_new].text:
            continue
        new = lines.pop(last_new)
        if new.kind == " ":
            lines.insert(last_new, replace(new, kind="-"))
    return lines


def _added(document: Document, line: PatchLine, placement: Placement, encoding: str | None) -> bytes:
    data = to_bytes(line.text, document, encoding)
    if placement.shift is None:
        return data
    shifted = placement.shift.apply(data)
    if shifted is None:
        message = (
            f"the hunk fits at line {placement.line + 1} with less indentation, but this added "
            "line has less than would have to be removed"
        )
        raise EditError(Problem("context_not_found", message, patch_line=line.patch_line))
    return shifted


def _check_unprefixed(document: Document, lines: Sequence[PatchLine], position: int) -> None:
    for offset, line in enumerate(lines):
        if line.unprefixed and document.text(position + offset) != line.text:
            message = (
                "a line of a hunk starts with ' ' (context), '+' (added) or '-' (removed); "
                f"without one it must be exactly line {position + offset + 1} of the file"
            )
            raise EditError(Problem("parse_error", message, patch_line=line.patch_line))


def _not_last(line: PatchLine) -> Problem:
    message = "'\\ No newline at end of file' after a line that would not be the last of the file"
    return Problem("parse_error", message, patch_line=line.patch_line)


def _misplaced_ends(document: Document, changes: Sequence[_Change]) -> list[Problem]:
    return [
        _not_last(change.unterminated).at(hunk=change.hunk)
        for i, change in enumerate(changes)
        if change.unterminated is not None and (change.last < document.lines or i + 1 < len(changes))
    ]


def _splices(document: Document, changes: Sequence[_Change], *, force_newline: bool) -> tuple[Splice, ...]:
    """Turn line changes into byte ranges; a written line gets the first terminator of the file."""
    eol, size = document.eol, len(document.data)
    splices: list[Splice] = []
    open_ended = document.open_ended
    for change in changes:
        start, end = document.span(change.first, change.last)
        new = b"".join([line + eol for line in change.new])
        if change.unterminated is not None:
            new = new[: len(new) - len(eol)]
        if change.last == document.lines and change.first < change.last:
            open_ended = False
        elif start == size and new and open_ended:
            # Text goes behind a line that has no terminator.
            new, open_ended = eol + new, False
        splices.append(Splice(start, end, new))
    if force_newline and open_ended:
        splices.append(Splice(size, size, eol))
    return _merged(splices)


def _merged(splices: Sequence[Splice]) -> tuple[Splice, ...]:
    """Join ranges that touch, so that they ascend strictly."""
    out: list[Splice] = []
    for splice in splices:
        if out and out[-1].end == splice.start:
            out[-1] = Splice(out[-1].start, splice.end, out[-1].new + splice.new)
        else:
            out.append(splice)
    return tuple(out)


def _reports(placed: Sequence[tuple[int, Hunk, Placement, list[_Change]]]) -> list[HunkReport]:
    reports: list[HunkReport] = []
    delta = 0
    for number, hunk, place, changes in sorted(placed, key=lambda item: (item[2].line, item[0])):
        removed = sum(change.last - change.first for change in changes)
        added = sum(len(change.new) for change in changes)
        new_length = place.length - removed + added
        report = HunkReport(
            number,
            hunk.patch_line,
            place.tier.value,
            place.line + (place.length > 0),
            place.length,
            place.line + delta + (new_length > 0),
            new_length,
            None if place.anchor is None else place.anchor + 1,
            place.out_of_order,
        )
        reports.append(report)
        delta += added - removed
    return reports
