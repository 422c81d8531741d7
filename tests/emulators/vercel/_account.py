"""The account of a sandbox: whom its commands run as, and as whom its files are written."""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine in the part of the sandbox's default account."""

    uid: int
    gid: int

    def options(self) -> dict[str, Any]:
        """Options of `subprocess.Popen`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: str) -> None:
        """Give it a directory."""
        os.chown(path, self.uid, self.gid)


def account(name: str) -> Account | None:
    """The account of this name; None is the user that the emulator runs as.

    Raises:
        KeyError: There is no such user.
    """
    if not name or os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(name)
    return Account(entry.pw_uid, entry.pw_gid)


@contextmanager
def acting_as(who: Account | None) -> Iterator[None]:
    """Files that this thread touches are touched by that account, with its rights; other threads are not concerned."""
    if who is None:
        yield
        return
    # Linux keeps these two ids for each thread, and a change from 0 takes root's rights over files away.
    _libc.setfsgid(who.gid)
    _libc.setfsuid(who.uid)
    try:
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(0)
