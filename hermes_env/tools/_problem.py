"""What can go wrong in an edit: the closed set of error codes, one record, one exception."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

ErrorCode = Literal[
    "parse_error",
    "no_operations",
    "environment_mismatch",
    "invalid_argument",
    "path_outside_root",
    "path_invalid",
    "policy_refused",
    "confirmation_required",
    "not_found",
    "already_exists",
    "is_directory",
    "not_regular",
    "permission_denied",
    "context_not_found",
    "anchor_not_found",
    "ambiguous_match",
    "overlap",
    "out_of_order",
    "already_applied",
    "stale",
    "encoding_unsupported",
    "too_large",
    "write_failed",
    "verify_failed",
    "rolled_back",
    "rollback_failed",
]

ERROR_CODES: Final[tuple[str, ...]] = get_args(ErrorCode)

MAX_CANDIDATES: Final = 5
"""More lines than this help nobody to choose, and each costs the reader of the error tokens."""

_MAX_EXCERPT: Final = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line of a file that an edit may have meant."""

    line: int
    """1-based line number in the file as it was read."""
    text: str
    """The line without its terminator, cut after 200 characters."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why an edit was refused."""

    code: ErrorCode
    message: str
    path: str | None = None
    """The path as the caller wrote it."""
    patch_line: int | None = None
    """1-based line number in the patch text."""
    hunk: int | None = None
    """1-based number of the hunk within its file operation."""
    candidates: tuple[Candidate, ...] = ()
    """At most five lines that the edit may have meant."""

    def at(self, *, path: str | None = None, patch_line: int | None = None, hunk: int | None = None) -> Problem:
        """Return the same problem with the places filled in that it does not know yet."""
        return replace(
            self,
            path=self.path if self.path is not None else path,
            patch_line=self.patch_line if self.patch_line is not None else patch_line,
            hunk=self.hunk if self.hunk is not None else hunk,
        )

    def __str__(self) -> str:
        where = [self.path] if self.path is not None else []
        where += [f"hunk {self.hunk}"] if self.hunk is not None else []
        where += [f"patch line {self.patch_line}"] if self.patch_line is not None else []
        head = f"{', '.join(where)}: " if where else ""
        return f"{head}{self.message} [{self.code}]"


class EditError(ValueError):
    """An edit that cannot be made; ``problems`` holds every reason, first one first."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def problem(self) -> Problem:
        """The first problem."""
        return self.problems[0]

    @property
    def code(self) -> ErrorCode:
        """The code of the first problem."""
        return self.problems[0].code


class PatchParseError(EditError):
    """A patch text that is not in the grammar; one problem per faulty line."""


def excerpt(text: str) -> str:
    """Return ``text`` for a message: on one line, at most 200 characters."""
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]}…"
