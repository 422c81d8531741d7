"""What an agent may do to files: pure checks on resolved paths and counted changes.

The caller resolves paths inside the environment and asks here; this module reads nothing. A refusal
is a problem with the text of the limit in it, a confirmation is a list of reasons to ask somebody.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal

from hermes_env.tools._overlay import canonical, path_problem
from hermes_env.tools._problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

Access = Literal["read", "write"]
Symlinks = Literal["inside", "refuse", "anywhere"]

# The write allowlist of HelloAgents; a name without a suffix is allowed there too.
_HELLOAGENTS_SUFFIXES: Final = frozenset(
    {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".txt", ".html", ".htm", ".css", ".js"}
)


@dataclass(frozen=True, slots=True)
class CountedChange:
    """One file change, as limits see it."""

    path: str
    kind: Literal["add", "update", "delete", "move"]
    changed_lines: int
    """An update: + and - lines; an add: its lines; a delete: 1."""
    size: int
    """Bytes of the new content; 0 for a delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePolicy:
    """Limits for file tools. All paths are absolute and resolved, except ``forbidden`` patterns."""

    workspace: str | None = None
    """The root that relative paths start from and that writes stay in; None allows every place."""
    extra_roots: tuple[str, ...] = ()
    """Further directories where reads and writes are allowed."""
    read_outside: bool = False
    """Reading is allowed everywhere."""
    forbidden: tuple[str, ...] = ()
    """Shell patterns. One without a slash fits any component of a path (``.git``), others the path
    from the workspace or, with a leading slash, the whole path. What fits a directory fits all
    below it."""
    allowed_suffixes: frozenset[str] | None = None
    """Suffixes that may be written, with their dot, in lower case; None allows all."""
    allow_absolute: bool = True
    """Absolute paths are allowed, inside the roots."""
    symlinks: Symlinks = "inside"
    """Writing through a symbolic link: if its target is inside the roots, never, or always."""
    max_files: int | None = 100
    max_changed_lines: int | None = None
    max_patch_bytes: int = 5 << 20
    max_file_bytes: int = 1 << 30
    read_before_write: bool = False
    """An existing file must have been read through the same tools before it is changed."""
    allow_delete: bool = True
    confirm_delete: bool = True
    confirm_files: int | None = 6
    """Ask from this number of files on."""
    confirm_lines: int | None = 400
    """Ask from this number of changed lines on."""

    @classmethod
    def codex(cls, workspace: str) -> FilePolicy:
        """Return the workspace-write mode of Codex: read everywhere, write in the workspace."""
        return cls(
            workspace=workspace,
            read_outside=True,
            forbidden=(".git",),
            confirm_delete=False,
            confirm_files=None,
            confirm_lines=None,
        )

    @classmethod
    def openclaw(cls, workspace: str) -> FilePolicy:
        """Return what OpenClaw allows by default: the workspace only."""
        return cls(workspace=workspace, confirm_delete=False, confirm_files=None, confirm_lines=None)

    @classmethod
    def helloagents(cls, workspace: str) -> FilePolicy:
        """Return the limits of HelloAgents: 10 files, 800 lines, text suffixes, relative paths."""
        return cls(
            workspace=workspace,
            allow_absolute=False,
            allowed_suffixes=_HELLOAGENTS_SUFFIXES,
            symlinks="refuse",
            max_files=10,
            max_changed_lines=800,
        )

    @classmethod
    def claude_code(cls, workspace: str) -> FilePolicy:
        """Return what Claude Code asks for: an existing file is read before it is changed."""
        return cls(
            workspace=workspace,
            read_outside=True,
            read_before_write=True,
            confirm_delete=False,
            confirm_files=None,
            confirm_lines=None,
        )

    def check_path(self, path: str, resolved: str, *, access: Access, link: bool = False) -> Problem | None:
        """Return why a path is refused, or None.

        Args:
            path: As the caller wrote it.
            resolved: Absolute, with every symbolic link resolved inside the environment. For
                deleting or moving a link, the link's own place.
            access: What is wanted.
            link: The path itself is a symbolic link and would be followed.
        """
        problem = (
            path_problem(path) or self._check_spelling(path) or self._check_place(path, resolved, access, link=link)
        )
        if problem is None and access == "write":
            problem = self._check_suffix(resolved)
        return None if problem is None else problem.at(path=path)

    def _check_spelling(self, path: str) -> Problem | None:
        if path == "~" or path.startswith("~/"):
            return Problem("path_invalid", "'~' is not expanded; write the path out")
        if path.startswith("/"):
            return None if self.allow_absolute else Problem("path_outside_root", "absolute paths are not allowed")
        if self.workspace is not None and canonical(path).split("/")[0] == "..":
            joined = canonical(f"{self.workspace}/{path}")
            if not self._inside(joined):
                return Problem("path_outside_root", f"the path leaves the workspace {self.workspace}")
        return None

    def _check_place(self, path: str, resolved: str, access: Access, *, link: bool) -> Problem | None:
        inside = self._inside(resolved)
        if access == "read":
            if not inside and not self.read_outside:
                return Problem("path_outside_root", self._outside(path, resolved))
        else:
            if link and self.symlinks == "refuse":
                return Problem("policy_refused", "writing through a symbolic link is not allowed")
            if not inside and not (link and self.symlinks == "anywhere"):
                return Problem("path_outside_root", self._outside(path, resolved))
        pattern = self._forbidden_by(resolved) if access == "write" or inside else None
        if pattern is not None:
            return Problem("policy_refused", f"the path is forbidden by {pattern!r}")
        return None

    def _outside(self, path: str, resolved: str) -> str:
        target = "" if canonical(path) == canonical(resolved) else f" (it leads to {resolved})"
        return f"the path is outside the workspace {self.workspace}{target}"

    def _inside(self, resolved: str) -> bool:
        if self.workspace is None:
            return True
        place = canonical(resolved)
        return any(_is_below(place, canonical(root)) for root in (self.workspace, *self.extra_roots))

    def _forbidden_by(self, resolved: str) -> str | None:
        place = canonical(resolved)
        parts = place.strip("/").split("/")
        parents = ["/" + "/".join(parts[: i + 1]) for i in range(len(parts))]
        return next(
            (pattern for pattern in self.forbidden if self._fits(pattern, place, parts, parents)),
            None,
        )

    def _fits(self, pattern: str, place: str, parts: list[str], parents: list[str]) -> bool:
        bare = pattern.rstrip("/")
        if "/" not in bare:
            return any(fnmatchcase(part, bare) for part in self._components(place, parts))
        root = canonical(self.workspace or "/")
        whole = bare if bare.startswith("/") else f"{root.rstrip('/')}/{bare}"
        return any(fnmatchcase(parent, whole) for parent in parents)

    def _components(self, place: str, parts: list[str]) -> list[str]:
        """Return the components below the root: a workspace inside ``build`` is no ``build``."""
        if self.workspace is not None and _is_below(place, canonical(self.workspace)):
            return parts[len([part for part in canonical(self.workspace).split("/") if part]) :]
        return parts

    def _check_suffix(self, resolved: str) -> Problem | None:
        if self.allowed_suffixes is None:
            return None
        name = resolved.rsplit("/", 1)[-1]
        dot = name.rfind(".")
        suffix = name[dot:].lower() if dot > 0 else ""
        if not suffix or suffix in self.allowed_suffixes:
            return None
        return Problem("policy_refused", f"Disallowed file suffix for write: {suffix}")

    def check_patch_size(self, size: int) -> Problem | None:
        """Return a refusal if a patch of ``size`` bytes is too long."""
        if size <= self.max_patch_bytes:
            return None
        return Problem("too_large", f"the patch has {size:,} bytes, the limit is {self.max_patch_bytes:,}")

    def check_changes(self, changes: Iterable[CountedChange]) -> tuple[Problem, ...]:
        """Return every limit that a set of changes breaks."""
        changes = list(changes)
        problems: list[Problem] = []
        if self.max_files is not None and len(changes) > self.max_files:
            problems.append(Problem("too_large", f"Too many files in patch: {len(changes)} > {self.max_files}"))
        lines = sum(change.changed_lines for change in changes)
        if self.max_changed_lines is not None and lines > self.max_changed_lines:
            problems.append(
                Problem(
                    "too_large",
                    f"Patch too large: {lines} changed lines > {self.max_changed_lines}",
                )
            )
        for change in changes:
            if change.size > self.max_file_bytes:
                message = f"the new file has {change.size:,} bytes, the limit is {self.max_file_bytes:,}"
                problems.append(Problem("too_large", message, path=change.path))
            if change.kind == "delete" and not self.allow_delete:
                problems.append(Problem("policy_refused", "deleting files is not allowed", path=change.path))
        return tuple(problems)

    def confirmation(self, changes: Iterable[CountedChange]) -> tuple[str, ...]:
        """Return the reasons for which somebody must confirm; empty if nobody must."""
        changes = list(changes)
        reasons: list[str] = []
        deleted = [change.path for change in changes if change.kind == "delete"]
        if deleted and self.confirm_delete:
            reasons.append(f"deletes {', '.join(deleted[:5])}{', …' if len(deleted) > 5 else ''}")
        if self.confirm_files is not None and len(changes) >= self.confirm_files:
            reasons.append(f"changes {len(changes)} files")
        lines = sum(change.changed_lines for change in changes)
        if self.confirm_lines is not None and lines >= self.confirm_lines:
            reasons.append(f"changes {lines} lines")
        return tuple(reasons)


def _is_below(place: str, root: str) -> bool:
    return place == root or place.startswith(root.rstrip("/") + "/")
