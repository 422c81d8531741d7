"""A process table of its own for each sandbox, where this machine lets us make one."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess

_INIT = "trap '' CHLD; echo up; exec sleep infinity"
"""The first process: it ignores the end of children, so that the kernel lets go of orphans."""


@functools.cache
def available() -> bool:
    """Whether namespaces can be made and entered: root, and the tools of util-linux."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "setsid"))):
        return False
    return subprocess.run([*_UNSHARE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


_UNSHARE = ("unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child")


class Namespace:
    """A process namespace with its own /proc; files are the machine's.

    Attributes:
        pid: Its first process, as this machine numbers it.
    """

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            [*_UNSHARE, "/bin/sh", "-c", _INIT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        (self.pid,) = children(self._holder.pid)

    def argv(self, program: str, cwd: str) -> list[str]:
        """Run a program inside, in this directory, as leader of a session."""
        return ["nsenter", f"--target={self.pid}", "--pid", "--mount", "--", "env", "-C", cwd, "setsid", program]

    def pids(self) -> list[int]:
        """The processes inside besides the first, as this machine numbers them."""
        own, found = os.stat(f"/proc/{self.pid}/ns/pid").st_ino, []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.stat(f"/proc/{name}/ns/pid").st_ino == own and int(name) != self.pid:
                    found.append(int(name))
        return found

    def end(self) -> None:
        """End every process inside: the kernel does so when the first one ends."""
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
