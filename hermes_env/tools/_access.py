"""Which policy question each path of an edit raises, asked of the place that is then written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_env.tools._overlay import Missing, path_problem
from hermes_env.tools._plan import unquoted
from hermes_env.tools._problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_env.tools._look import Looked
    from hermes_env.tools._policy import Access
    from hermes_env.tools._v4a_model import Operation, Patch


def path_access(
    looked: Looked, path: str, access: Access, *, shown: str | None = None, follow: bool = True
) -> list[Problem]:
    """Why a path is refused.

    Args:
        looked: What was found.
        path: As it was looked at.
        access: What is wanted.
        shown: The caller's spelling, where that is another.
        follow: A symbolic link there is followed.
    """
    problem = _ask(looked, path, access, shown or path, follow=follow)
    return [] if problem is None else [problem]


def patch_access(looked: Looked, patch: Patch) -> list[Problem]:
    """Why paths of a patch are refused, each with its line."""
    problems: list[Problem] = []
    for operation in patch.operations:
        for path, follow in _paths(operation):
            problem = _ask(looked, path, "write", path, follow=follow)
            if problem is not None:
                problems.append(problem.at(patch_line=operation.patch_line))
    return list(dict.fromkeys(problems))


def _paths(operation: Operation) -> Iterator[tuple[str, bool]]:
    """Each path and whether a symbolic link there is followed: a link is deleted and moved as such."""
    moves_only = operation.move_to is not None and not operation.hunks
    follow = not (operation.kind == "delete" or moves_only)
    for path in (operation.path, operation.move_to):
        if path is None:
            continue
        yield path, follow or path == operation.move_to
        bare = unquoted(path)
        if bare is not None:
            yield bare, follow


def _ask(looked: Looked, path: str, access: Access, shown: str, *, follow: bool) -> Problem | None:
    problem = path_problem(path)
    if problem is not None:
        return problem.at(path=shown)
    found = looked.found[path]
    link = found.link and follow
    resolved = looked.real(path) if follow else looked.place(path)
    refusal = looked.policy.check_path(shown, resolved, access=access, link=link)
    names_directory = path.rpartition("/")[2] in {"", ".", ".."}
    if refusal is None and access == "write" and names_directory and isinstance(looked.states[path], Missing):
        return Problem("path_invalid", "the path can only name a directory, and none is there", shown)
    return refusal
