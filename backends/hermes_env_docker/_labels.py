"""Labels that name the process to which a container belongs, so that it can be found when that process is gone."""

from __future__ import annotations

import os
import secrets
import time

PREFIX = "hermes_env."
ENVIRONMENT = PREFIX + "environment"


def owner_labels(ttl: float) -> dict[str, str]:
    """Labels for one new environment of this process.

    A process id alone means little: it is told apart by the machine, its boot, the process id namespace (two
    containers of one machine may both run a process 7) and the process's start time in clock ticks since boot.
    """
    return {
        ENVIRONMENT: secrets.token_hex(16),
        PREFIX + "machine": _first_line("/etc/machine-id"),
        PREFIX + "boot": _first_line("/proc/sys/kernel/random/boot_id"),
        PREFIX + "pid_namespace": _link("/proc/self/ns/pid"),
        PREFIX + "pid": str(os.getpid()),
        PREFIX + "pid_start": _start_time(),
        PREFIX + "expires": str(int(time.time() + ttl)),
    }


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _start_time() -> str:
    """Field 22 of /proc/self/stat; the name in field 2 may hold spaces and parentheses."""
    return _first_line("/proc/self/stat").rpartition(")")[2].split()[19]
