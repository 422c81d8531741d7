"""Rows that every backend of a sandbox has: bytes through stdin and stdout, many commands at once, memory."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from hermes_env import BaseEnvironment
from tests.benchmarks.harness import Row, compare, measured

MIB = 1 << 20


class SandboxBench:
    """One sandbox, reached by our backend and by an opponent, which a subclass drives."""

    against: str
    """The opponent."""

    def __init__(self, env: BaseEnvironment, size: int) -> None:
        self.env = env
        self.data = os.urandom(MIB) * size
        self.digest = hashlib.sha256(self.data).hexdigest()
        self.size = f"{size} MiB"

    def bare(self, *argv: str, stdin: bytes = b"") -> bytes:
        """A command as the opponent's users run it; its stdout."""
        raise NotImplementedError

    def bare_crowd(self, count: int, payload: bytes) -> None:
        """As many of the opponent's commands at once as ours: ``cat; sleep 1``."""
        raise NotImplementedError

    def transport(self) -> list[Row]:
        """Bytes through stdin and stdout without any digest."""
        script = f"head -c {len(self.data)} /dev/zero"
        common: dict[str, Any] = {"rounds": 5, "budget": 1.1, "against": self.against}
        return [
            compare(
                f"{self.size} stdin",
                lambda: self.env.exec("cat >/dev/null", stdin=self.data),
                lambda: self.bare("sh", "-c", "cat >/dev/null", stdin=self.data),
                **common,
            ),
            compare(
                f"{self.size} captured stdout",
                lambda: self.env.exec(script, output_limit=1 << 30),
                lambda: self.bare("sh", "-c", script),
                **common,
            ),
        ]

    def crowd(self, count: int, *, rounds: int = 1) -> list[Row]:
        """Many commands at once, against as many of the opponent's; and what each costs this process."""
        payload = os.urandom(1 << 16)
        exact: list[int] = []
        descriptors: list[int] = []
        threads: list[int] = []

        def ours() -> None:
            idle_descriptors, idle_threads = resources()
            running = [self.env.start("cat; sleep 1", stdin=payload) for _ in range(count)]
            while any(process.state in {"new", "staging", "staged"} for process in running):
                time.sleep(0.05)
            used_descriptors, used_threads = resources()
            descriptors.append(used_descriptors - idle_descriptors)
            threads.append(used_threads - idle_threads)
            exact.append(sum(process.wait(600).stdout == payload for process in running))

        def bare() -> None:
            self.bare_crowd(count, payload)

        what = f"{count} commands at once"
        row = compare(f"{what}: wall", ours, bare, rounds=rounds, budget=1.3, against=self.against)
        return [
            row,
            measured(f"{what}: not exact", count - min(exact), "", 0),
            measured("descriptors for each of them", max(descriptors) / count, "", 4),
            measured("threads for each of them", max(threads) / count, "", 1),
        ]


def resources() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


_MEMORY = """
import json, sys, hermes_env
backend, options, path, warm, mib = sys.argv[1:]

def peak():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

block = bytes(range(256)) * 4096
with hermes_env.open_environment(backend, **json.loads(options)) as env:
    def write(count):
        env.files.write_bytes(path, iter([block] * int(count)), durable=False)
    def read():
        sum(map(len, env.files.read_chunks(path)))
    write(warm)
    read()
    grown = []
    for move in (lambda: write(mib), read):
        before = peak()
        move()
        grown.append(peak() - before)
print(*grown)
"""


def memory(backend: str, options: dict[str, Any], path: str, mib: int, *, warm: int) -> list[Row]:
    """Growth of the high-water mark of a process that writes, then reads, a large file in chunks.

    Args:
        backend: Its name.
        options: Its options.
        path: The file.
        mib: Size of the file.
        warm: MiB that are written and read before anything is measured.
    """
    argv = [sys.executable, "-c", _MEMORY, backend, json.dumps(options), path, str(warm), str(mib)]
    grown = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=1200).stdout.split()
    return [
        measured(f"memory over {mib} MiB {way}", int(kib) / 1024, "MiB", 16)
        for way, kib in zip(("in", "out"), grown, strict=True)
    ]
