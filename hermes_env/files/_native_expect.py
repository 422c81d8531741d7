"""What the caller says that files of this machine are, looked at before a change and right at it."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from hermes_env._errors import FileChanged

from . import _native_paths as paths
from ._native_io import digest_of, holds, naming
from ._oserror import os_error

if TYPE_CHECKING:
    from ._types import Expect


class Expectation:
    """What the caller says that a file holds, and whether that is still so later."""

    def __init__(self, digest: str | None, content: bytes | None = None) -> None:
        self._digest = digest and digest.lower()
        self._content = content
        self._seen: tuple[int, ...] | None = None

    def check(self, name: bytes, path: str) -> None:
        """Compare the digest."""
        if self._digest is None:
            return
        state = paths.lstat_or_none(name)
        if state is None:
            raise FileChanged(path, "does not exist")
        if not stat.S_ISREG(state.st_mode):
            raise FileChanged(path, "is no regular file")
        if self._content is None or not holds(name, self._content):
            found, _ = digest_of(name)
            if found != self._digest:
                raise FileChanged(path, f"holds other bytes than expected: its sha256 is {found}")
        self._seen = _identity(state)

    def recheck(self, name: bytes, path: str) -> None:
        """Compare what can be seen at a glance, right before the swap."""
        if self._seen is None:
            return
        state = paths.lstat_or_none(name)
        if state is None or _identity(state) != self._seen:
            raise FileChanged(path, "changed meanwhile")


class ExpectStep:
    """Changes nothing; fails unless a file is as expected."""

    def __init__(self, change: Expect, name: bytes) -> None:
        self.path = change.path
        self._name = name
        self._absent = change.sha256 is None
        self._expected = Expectation(change.sha256)

    def prepare(self) -> None:
        with naming(self.path):
            if self._absent and paths.lexists(self._name):
                raise os_error(errno.EEXIST, self.path)
            self._expected.check(self._name, self.path)

    def apply(self) -> None:
        with naming(self.path):
            self._expected.recheck(self._name, self.path)

    def undo(self) -> bool:
        """Nothing was done."""
        return True

    def finish(self) -> None:
        """Nothing was kept."""


def require_straight(path: str, *names: bytes) -> None:
    """Raise unless the directories of these absolute names have no symbolic link on their way.

    Raises:
        FileChanged: One has.
    """
    for name in names:
        if os.path.realpath(os.path.dirname(name)) != os.path.dirname(name):
            raise FileChanged(path, "is reached through a symbolic link now")


def _identity(state: os.stat_result) -> tuple[int, ...]:
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
