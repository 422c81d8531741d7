"""Finds and ends the processes of a sandbox by a variable that each of them carries."""

from __future__ import annotations

import contextlib
import os
import signal
import time


def marked(name: str, value: str) -> list[int]:
    """Processes that were started with this variable."""
    wanted = f"{name}={value}".encode()
    found = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0"):
                found.append(int(pid))
    return found


def kill_marked(name: str, value: str) -> None:
    """Kill them until none is left."""
    while hits := marked(name, value):
        for pid in hits:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
