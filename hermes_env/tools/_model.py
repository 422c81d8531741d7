r"""The published form of edits: what a tool call returns, as JSON with a schema.

Importing this module imports pydantic; the pure code uses dataclasses and never needs it. All text
is clean UTF-8: bytes of paths and lines that are not UTF-8 are shown as ``\xNN``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from hermes_env.tools._display import clean
from hermes_env.tools._problem import MAX_CANDIDATES, ErrorCode
from hermes_env.tools._text import is_binary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_env.tools._hunks import HunkReport
    from hermes_env.tools._plan import Plan
    from hermes_env.tools._problem import Problem
    from hermes_env.tools._result import FileChange

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Status = Literal["applied", "unchanged", "refused", "rolled_back", "rollback_failed"]
StaleCheck = Literal["passed", "failed", "not_run"]

MAX_ERRORS = 50
"""Errors listed in one outcome."""


class Record(BaseModel):
    """Published data: closed and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CandidateLine(Record):
    """A line of a file that the edit may have meant."""

    line: int = Field(ge=1, description="Line number in the file as it was read, from 1.")
    text: str = Field(description="The line, cut after 200 characters.")


class ErrorInfo(Record):
    """Why an edit was refused."""

    code: ErrorCode
    message: str
    path: str | None = Field(default=None, description="The path as the caller wrote it.")
    patch_line: int | None = Field(default=None, ge=1, description="Line in the patch text, from 1.")
    hunk: int | None = Field(default=None, ge=1, description="Number of the hunk in its file, from 1.")
    candidates: list[CandidateLine] = Field(
        default=[], max_length=MAX_CANDIDATES, description="Lines that the edit may have meant."
    )

    @classmethod
    def of(cls, problem: Problem) -> ErrorInfo:
        """Return the published form of a problem."""
        return cls(
            code=problem.code,
            message=clean(problem.message),
            path=None if problem.path is None else clean(problem.path),
            patch_line=problem.patch_line,
            hunk=problem.hunk,
            candidates=[CandidateLine(line=c.line, text=clean(c.text)) for c in problem.candidates],
        )


class HunkOutcome(Record):
    """Where one hunk went."""

    hunk: int = Field(ge=1)
    patch_line: int = Field(ge=1)
    tier: str = Field(description="How the old lines were matched: exact, trailing_space, …")
    old_start: int = Field(ge=0, description="First line before the edit, from 1.")
    old_lines: int = Field(ge=0)
    new_start: int = Field(ge=0, description="First line after the edit, from 1.")
    new_lines: int = Field(ge=0)
    anchor_line: int | None = Field(default=None, description="The line of the '@@' text that was used.")
    out_of_order: bool = False
    already_applied: bool = False

    @classmethod
    def of(cls, report: HunkReport) -> HunkOutcome:
        """Return the published form of a report."""
        return cls(
            hunk=report.hunk,
            patch_line=report.patch_line,
            tier=report.tier,
            old_start=report.old_start,
            old_lines=report.old_lines,
            new_start=report.new_start,
            new_lines=report.new_lines,
            anchor_line=report.anchor_line,
            out_of_order=report.out_of_order,
            already_applied=report.already_applied,
        )


class ChangedFile(Record):
    """One file that an edit changed, or would change."""

    path: str
    operation: Literal["add", "update", "delete", "move"]
    moved_from: str | None = None
    before_sha256: Sha256 | None = None
    after_sha256: Sha256 | None = None
    before_bytes: int = Field(default=0, ge=0)
    after_bytes: int = Field(default=0, ge=0)
    mode: str | None = Field(default=None, description="Octal permission bits that were kept, as 0644.")
    binary: bool = False
    overwrote: bool = Field(default=False, description="An existing file was replaced.")
    added_lines: int = Field(default=0, ge=0)
    removed_lines: int = Field(default=0, ge=0)
    diff: str = Field(default="", description="Unified diff, at most 100 lines, then a summary.")
    hunks: list[HunkOutcome] = []

    @classmethod
    def of(cls, change: FileChange) -> ChangedFile:
        """Return the published form of a change."""
        before = None if change.before is None else change.before.data
        diff = change.diff()
        return cls(
            path=clean(change.path),
            operation=change.kind,
            moved_from=None if change.source is None else clean(change.source),
            before_sha256=None if change.before is None else change.before.sha256,
            after_sha256=change.after_sha256,
            before_bytes=len(before or b""),
            after_bytes=len(change.after or b""),
            mode=None if change.mode is None else f"{change.mode:04o}",
            binary=is_binary(before or change.after or b""),
            overwrote=change.replaced is not None,
            added_lines=diff.added,
            removed_lines=diff.removed,
            diff=diff.text,
            hunks=[HunkOutcome.of(report) for report in change.hunks],
        )


class EditOutcome(Record):
    """What an edit did. Returned by every editing tool, never raised."""

    ok: bool
    status: Status
    edit_id: str | None = Field(default=None, description="What undo takes.")
    dry_run: bool = False
    changed_files: list[ChangedFile] = []
    unchanged_files: list[str] = []
    diff: str = Field(default="", description="The diffs of all files.")
    bytes_changed: int = Field(default=0, ge=0, description="Bytes written, over all files.")
    before_sha256: Sha256 | None = Field(default=None, description="Of the only changed file, if it is one.")
    after_sha256: Sha256 | None = Field(default=None, description="Of the only changed file, if it is one.")
    stale_check: StaleCheck = "not_run"
    side_effects_fired: list[str] = Field(default=[], description="Names of the observers told.")
    reports: list[str] = Field(default=[], description="What observers had to say, such as new diagnostics.")
    warnings: list[str] = []
    left_changed: list[str] = Field(default=[], description="After rollback_failed: files that are not as they were.")
    error: ErrorInfo | None = Field(default=None, description="The first error.")
    errors: list[ErrorInfo] = Field(default=[], max_length=MAX_ERRORS)

    @classmethod
    def refused(cls, problems: Sequence[Problem], *, warnings: Sequence[str] = ()) -> EditOutcome:
        """Return the outcome of an edit that changed nothing because of ``problems``."""
        errors = [ErrorInfo.of(problem) for problem in problems[:MAX_ERRORS]]
        return cls(
            ok=False,
            status="refused",
            stale_check="failed" if any(e.code == "stale" for e in errors) else "not_run",
            warnings=[clean(warning) for warning in warnings],
            error=errors[0] if errors else None,
            errors=errors,
        )

    @classmethod
    def planned(cls, plan: Plan) -> EditOutcome:
        """Return the outcome that a plan would have: of a dry run, or to be completed."""
        if plan.problems:
            return cls.refused(plan.problems, warnings=plan.warnings)
        files = [ChangedFile.of(change) for change in plan.changes]
        only = files[0] if len(files) == 1 else None
        return cls(
            ok=True,
            status="applied" if files else "unchanged",
            dry_run=True,
            changed_files=files,
            unchanged_files=[clean(path) for path in plan.unchanged],
            diff="".join(file.diff for file in files),
            bytes_changed=sum(len(change.after or b"") for change in plan.changes if change.content_changed),
            before_sha256=only.before_sha256 if only else None,
            after_sha256=only.after_sha256 if only else None,
            warnings=[clean(warning) for warning in plan.warnings],
        )
