"""A parsed patch: operations, hunks and lines, each with its line number in the patch text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OperationKind = Literal["add", "delete", "update"]
Prefix = Literal[" ", "-", "+"]


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk, or of the content of an added file."""

    kind: Prefix
    text: str
    patch_line: int
    no_newline: bool = False
    """``\\ No newline at end of file`` follows it."""
    bare: bool = False
    """It was wholly empty: a context line without its blank, or only the end of a paragraph."""
    unprefixed: bool = False
    """It came without a prefix: context only if the file has exactly this line there."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The text of one ``@@`` line."""

    text: str
    patch_line: int


@dataclass(frozen=True, slots=True)
class Hunk:
    """One block of lines to find and to change."""

    patch_line: int
    anchors: tuple[Anchor, ...] = ()
    old_start: int | None = None
    """1-based line of ``@@ -a,b +c,d @@``; only breaks ties, but 0 means before everything."""
    lines: tuple[PatchLine, ...] = ()
    end_of_file: bool = False

    @property
    def old(self) -> tuple[PatchLine, ...]:
        """The lines that must be in the file."""
        return tuple(line for line in self.lines if line.kind != "+")

    @property
    def new(self) -> tuple[PatchLine, ...]:
        """The lines that will be in the file."""
        return tuple(line for line in self.lines if line.kind != "-")


@dataclass(frozen=True, slots=True)
class Operation:
    """What a patch does to one file."""

    kind: OperationKind
    path: str
    patch_line: int
    lines: tuple[PatchLine, ...] = ()
    """The content of an added file."""
    hunks: tuple[Hunk, ...] = ()
    move_to: str | None = None

    @property
    def changed_lines(self) -> int:
        """Lines as limits count them: an update its + and - lines, an add its lines, a delete 1."""
        if self.kind == "delete":
            return 1
        if self.kind == "add":
            return len(self.lines)
        return sum(line.kind != " " for hunk in self.hunks for line in hunk.lines)


@dataclass(frozen=True, slots=True)
class Patch:
    """A whole patch."""

    operations: tuple[Operation, ...]
    environment_id: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def changed_lines(self) -> int:
        """The sum over all operations."""
        return sum(operation.changed_lines for operation in self.operations)

    def render(self) -> str:
        """Return the patch in its canonical spelling, which every V4A parser reads."""
        out = ["*** Begin Patch"]
        if self.environment_id is not None:
            out.append(f"*** Environment ID: {self.environment_id}")
        for operation in self.operations:
            out += _render_operation(operation)
        return "\n".join([*out, "*** End Patch", ""])


_NO_NEWLINE = "\\ No newline at end of file"


def _render_operation(operation: Operation) -> list[str]:
    out = [f"*** {operation.kind.title()} File: {operation.path}"]
    if operation.move_to is not None:
        out.append(f"*** Move to: {operation.move_to}")
    for line in operation.lines:
        out += _render_line(line)
    for hunk in operation.hunks:
        out += _render_hunk(hunk)
    return out


def _render_hunk(hunk: Hunk) -> list[str]:
    out = []
    if hunk.old_start is not None:
        old, new = len(hunk.old), len(hunk.new)
        out.append(f"@@ -{hunk.old_start},{old} +{hunk.old_start},{new} @@")
    out += [f"@@ {anchor.text}" for anchor in hunk.anchors]
    out = out or ["@@"]
    for line in hunk.lines:
        out += _render_line(line)
    return [*out, "*** End of File"] if hunk.end_of_file else out


def _render_line(line: PatchLine) -> list[str]:
    # A bare line stays bare: a blank in its place would make it a context line that must match.
    shown = line.text if line.bare or line.unprefixed else f"{line.kind}{line.text}"
    return [shown, _NO_NEWLINE] if line.no_newline else [shown]
