"""A process table of its own for each sandbox, where this machine lets us make one."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import time

_INIT = ("env", "--ignore-signal=CHLD", "sleep", "infinity")
"""The first process: it ignores the end of children, so that the kernel lets go of orphans. (No shell could do it: dash
keeps the default action under ``trap '' CHLD``, and orphans would stay as zombies.)"""


@functools.cache
def available() -> bool:
    """Whether namespaces can be made: the tools of util-linux and, without root, a kernel that lets users make them."""
    if not all(map(shutil.which, ("unshare", "nsenter", "setsid"))):
        return False
    return subprocess.run([*_unshare(), "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def _unshare() -> list[str]:
    """Without root it takes a namespace of users, too, in which everybody stays who he is."""
    user = ["--user", "--map-current-user"] if os.geteuid() else []
    return ["unshare", *user, "--pid", "--fork", "--mount", "--mount-proc", "--kill-child"]


class Namespace:
    """A process namespace with its own /proc; files are the machine's.

    Attributes:
        pid: Its first process, as this machine numbers it.
    """

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            [*_unshare(), *_INIT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        self.pid = self._wait_for_init()

    def _wait_for_init(self) -> int:
        """Until the first process ignores its children, which it does when it has become ``sleep``."""
        while self._holder.poll() is None:
            for pid in children(self._holder.pid):
                with open(f"/proc/{pid}/comm") as file:
                    if file.read() == "sleep\n":
                        return pid
            time.sleep(0.001)
        raise RuntimeError("no namespace could be made; the message of unshare is above")

    def argv(self, program: str, cwd: str) -> list[str]:
        """Run a program inside, in this directory, as leader of a session."""
        user = ["--user", "--preserve-credentials"] if os.geteuid() else []
        enter = ["nsenter", f"--target={self.pid}", *user, "--pid", "--mount"]
        return [*enter, "--", "env", "-C", cwd, "setsid", program]

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


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
