"""What the files that an edit names are now: one survey of the environment, turned into states of a plan."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hermes_env._errors import FileChanged
from hermes_env.tools._overlay import Missing, Snapshot, State, Unreadable, canonical, path_problem
from hermes_env.tools._problem import EditError, ErrorCode, Problem

if TYPE_CHECKING:
    from hermes_env import Files
    from hermes_env.files import Survey, Surveyed
    from hermes_env.tools._policy import FilePolicy

_CODES: Final[dict[int, tuple[ErrorCode, str]]] = {
    errno.EACCES: ("permission_denied", "cannot be read: permission denied"),
    errno.EFBIG: ("too_large", "is larger than the limit for one file"),
    errno.ELOOP: ("not_regular", "is a loop of symbolic links"),
    errno.ENOTDIR: ("not_found", "cannot be there: a part of the path is a file, not a directory"),
    errno.ENAMETOOLONG: ("path_invalid", "has a name that is too long"),
}


@dataclass(frozen=True, slots=True)
class Looked:
    """The files of one edit, and the policy with its roots resolved."""

    policy: FilePolicy
    survey: Survey
    found: Mapping[str, Surveyed]
    """By the caller's path."""
    states: Mapping[str, State]
    root: str | None = None
    """The workspace as it was given."""

    def real(self, path: str) -> str:
        """Where a path leads; its text alone where that cannot be told."""
        found = self.found[path]
        plain = canonical(found.real or found.place or found.path)
        if found.real or found.place or self.root is None or self.policy.workspace is None:
            return plain
        # The text starts from the workspace as it was given, policies from where that really is.
        root = canonical(self.root)
        below = plain == root or plain.startswith(f"{root.rstrip('/')}/")
        return canonical(f"{self.policy.workspace}/{plain[len(root) :]}") if below else plain

    def place(self, path: str) -> str:
        """Where a name itself stands, which may be a symbolic link."""
        found = self.found[path]
        return canonical(found.place) if found.link and found.place else self.real(path)


class Place:
    """Where relative paths start, and what a policy's roots really are."""

    def __init__(self, files: Files, policy: FilePolicy) -> None:
        self._files = files
        self._policy = policy
        self._resolved: FilePolicy | None = None

    @property
    def policy(self) -> FilePolicy:
        """With its roots as the caller gave them."""
        return self._policy

    def inside(self, path: str) -> str:
        """The path as the environment takes it."""
        root = self._policy.workspace
        if path.startswith("/") or root is None:
            return path
        return f"{root.rstrip('/')}/{path}"

    def look(self, paths: Iterable[str], *, contents: bool = True) -> Looked:
        """Survey paths, in one round trip with the roots that are not known yet."""
        wanted = tuple(dict.fromkeys(paths))
        usable = {path: self.inside(path) for path in wanted if path_problem(path) is None}
        roots = () if self._resolved is not None else self._roots()
        most = self._policy.max_file_bytes if contents else None
        survey = self._files.survey([*roots, *usable.values()], most=most)
        policy = self._settle(survey)
        found = {path: survey.files[inner] for path, inner in usable.items()}
        return Looked(
            policy, survey, found, {path: state_of(one) for path, one in found.items()}, self._policy.workspace
        )

    def _roots(self) -> tuple[str, ...]:
        root = self._policy.workspace
        return (*(() if root is None else (root,)), *self._policy.extra_roots)

    def _settle(self, survey: Survey) -> FilePolicy:
        if self._resolved is not None:
            return self._resolved
        reals = {root: survey.files[root].real or root for root in self._roots()}
        root = self._policy.workspace
        policy = replace(
            self._policy,
            workspace=None if root is None else reals[root],
            extra_roots=tuple(reals[extra] for extra in self._policy.extra_roots),
        )
        if all(survey.files[known].stat is not None for known in reals):
            # A root that does not exist yet may still become a link.
            self._resolved = policy
        return policy


def state_of(found: Surveyed) -> State:
    """What a plan takes a path for."""
    state = _state(found)
    if isinstance(state, Unreadable):
        below_file = isinstance(found.error, NotADirectoryError)
        return replace(state, link=found.link, target=found.target, below_file=below_file)
    return state


def _state(found: Surveyed) -> State:
    if found.stat is None:
        return _absent(found)
    if found.stat.kind == "directory":
        return Unreadable("is_directory", f"{found.path} is a directory", found.real)
    if found.stat.kind != "file":
        message = f"{found.path} is no regular file but a {found.stat.kind}"
        return Unreadable("not_regular", message, found.real)
    if found.sha256 is None:
        return _unreadable(found)
    return Snapshot(
        found.data or b"",
        found.sha256,
        found.stat.mode,
        found.real,
        found.link,
        found.identity,
        found.target,
        (found.stat.uid, found.stat.gid),
    )


def _absent(found: Surveyed) -> State:
    if found.link:
        message = f"{found.path} is a symbolic link that leads nowhere"
        return Unreadable("not_regular", message, found.place)
    if not isinstance(found.error, FileNotFoundError):
        return _unreadable(found)
    if found.real is None:
        return Unreadable("path_invalid", f"{found.path} goes up from a directory that does not exist")
    return Missing(found.real)


def _unreadable(found: Surveyed) -> Unreadable:
    error = found.error
    if isinstance(error, FileChanged):
        return Unreadable("stale", f"{found.path} keeps changing while it is read", found.real)
    number = error.errno if isinstance(error, OSError) else None
    code, text = _CODES.get(number or 0, ("permission_denied", f"cannot be read: {error}"))
    return Unreadable(code, f"{found.path} {text}", found.real)


def refuse_unreadable(state: State, path: str) -> None:
    """Raise unless a state is a file or a proven absence.

    Raises:
        EditError: With the code that the state has.
    """
    if isinstance(state, Unreadable):
        raise EditError(Problem(state.code, state.message, path))


def require_digest(path: str, now: Snapshot | None, wanted: str | None) -> None:
    """Raise unless a file has the digest that is wanted, if one is.

    Raises:
        EditError: It is stale.
    """
    if wanted is None or (now is not None and now.sha256 == wanted.lower()):
        return
    found = "does not exist" if now is None else f"has the SHA-256 {now.sha256}"
    raise EditError(Problem("stale", f"the file {found}, not {wanted}", path))
