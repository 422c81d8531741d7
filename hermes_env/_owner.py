"""Who made a container or sandbox: labels that let a reaper remove what a dead client left, and nothing else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

OWNER_LABEL = "hermes_env.owner"
ENVIRONMENT_LABEL = "hermes_env.environment"


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, named so that no other one on any machine is taken for it."""

    machine: str
    """Hash of the machine id; the id itself is private to the machine."""
    boot: str
    namespace: str
    """Process id namespace: the same number means another process in another container."""
    pid: int
    started: str
    """Start time of the process in clock ticks since boot, against reused process ids."""

    def label(self) -> str:
        """The value of `OWNER_LABEL`."""
        return ".".join((self.machine, self.boot, self.namespace, str(self.pid), self.started))


def this_owner() -> Owner:
    """The calling process."""
    machine = _read("/etc/machine-id") or os.uname().nodename
    return Owner(
        machine=hashlib.sha256(b"hermes_env:" + machine.encode()).hexdigest()[:16],
        boot=_read("/proc/sys/kernel/random/boot_id").replace("-", "")[:16],
        namespace="".join(filter(str.isdigit, _namespace())),
        pid=os.getpid(),
        started=_start_time(os.getpid()) or "0",
    )


def owner_labels(environment_id: str) -> dict[str, str]:
    """Labels for a new object of this process."""
    return {OWNER_LABEL: this_owner().label(), ENVIRONMENT_LABEL: environment_id}


def owner_is_gone(labels: Mapping[str, str]) -> bool:
    """Whether an object was made on this machine, in this boot and namespace, by a process that has ended.

    False for everything else, also for labels that cannot be read: what is not surely ours is never touched.
    """
    parts = labels.get(OWNER_LABEL, "").split(".")
    here = this_owner()
    if parts[:3] != [here.machine, here.boot, here.namespace] or len(parts) != 5 or not parts[3].isdigit():
        return False
    return _start_time(int(parts[3])) != parts[4]


def _start_time(pid: int) -> str | None:
    text = _read(f"/proc/{pid}/stat")
    words = text.rpartition(") ")[2].split()
    return words[19] if len(words) > 19 and words[0] not in ("Z", "X") else None


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "0"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
