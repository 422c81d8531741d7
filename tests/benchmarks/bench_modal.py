"""Modal rows of the budget, on the emulator: latency, verified files against the bare SDK, kill, many at once, memory.

Run ``python -m tests.benchmarks.bench_modal [--json FILE]``, with ``--mib``, ``--commands``, ``--sandboxes`` and
``--memory-mib`` for other sizes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hermes_env import CommandCancelled, open_environment
from hermes_env_modal import ModalEnvironment
from tests.benchmarks.harness import Row, compare, measured, report
from tests.emulators.modal.client import Emulator

MIB = 1 << 20
SLICE = 4 << 20


class Bench:
    """One sandbox, reached by our backend and by the bare SDK, each with a connection of its own."""

    def __init__(self, env: ModalEnvironment, size: int) -> None:
        import modal

        self.env = env
        self.client = modal.Client.from_credentials(os.environ["MODAL_TOKEN_ID"], os.environ["MODAL_TOKEN_SECRET"])
        self.box: Any = modal.Sandbox.from_id(env.ref.partition("://")[2], client=self.client)
        self.data = os.urandom(MIB) * size
        self.digest = hashlib.sha256(self.data).hexdigest()
        self.size = f"{size} MiB"

    def bare(self, *argv: str, stdin: bytes | None = None) -> bytes:
        """A command as the SDK's users run it: stdin in slices, then both streams, then the wait."""
        process = self.box.exec(*argv, text=False)
        if stdin is not None:
            for start in range(0, len(stdin), SLICE):
                process.stdin.write(stdin[start : start + SLICE])
                process.stdin.drain()
            process.stdin.write_eof()
            process.stdin.drain()
        output: bytes = process.stdout.read()
        process.stderr.read()
        process.wait()
        return output

    def latency(self) -> list[Row]:
        """`true` there and back, and one with stdin."""
        plain = compare(
            "exec of `true`",
            lambda: self.env.exec("true"),
            lambda: self.bare("sh", "-c", "true"),
            rounds=30,
            budget=1.2,
            against="bare SDK",
        )
        fed = compare(
            "exec of `cat`, 1 KiB of stdin",
            lambda: self.env.exec("cat", stdin=bytes(1024)),
            lambda: self.bare("sh", "-c", "cat", stdin=bytes(1024)),
            rounds=30,
            budget=1.2,
            against="bare SDK",
        )
        return [plain, fed]

    def write(self) -> Row:
        """A verified write."""

        def ours() -> None:
            written = self.env.files.write_bytes("/root/ours", self.data, durable=False)
            assert written.verified and written.sha256 == self.digest

        def bare() -> None:
            self.box.filesystem.write_bytes(self.data, "/root/bare")
            assert self.bare("sha256sum", "/root/bare").split()[0].decode() == self.digest

        against = "filesystem.write_bytes and a digest"
        return compare(f"{self.size} verified write", ours, bare, rounds=5, budget=1.2, against=against)

    def read(self) -> Row:
        """A verified read of what `write` left."""

        def ours() -> None:
            assert len(self.env.files.read_bytes("/root/ours")) == len(self.data)

        def bare() -> None:
            content = self.box.filesystem.read_bytes("/root/ours")
            digest = self.bare("sha256sum", "/root/ours").split()[0].decode()
            assert digest == self.digest == hashlib.sha256(content).hexdigest()

        against = "filesystem.read_bytes and a digest"
        return compare(f"{self.size} verified read", ours, bare, rounds=5, budget=1.2, against=against)

    def transport(self) -> list[Row]:
        """Bytes through stdin and stdout without any digest."""
        into = compare(
            f"{self.size} stdin",
            lambda: self.env.exec("cat >/dev/null", stdin=self.data),
            lambda: self.bare("sh", "-c", "cat >/dev/null", stdin=self.data),
            rounds=5,
            budget=1.1,
            against="bare SDK, 4 MiB drains",
        )
        script = f"head -c {len(self.data)} /dev/zero"
        out = compare(
            f"{self.size} captured stdout",
            lambda: self.env.exec(script, output_limit=1 << 30),
            lambda: self.bare("sh", "-c", script),
            rounds=5,
            budget=1.1,
            against="bare SDK",
        )
        return [into, out]

    def kills(self, script: str, what: str, count: int = 20) -> list[Row]:
        """Time of a kill against one command of the bare SDK, and how many trees it left."""
        left = 0

        def ours() -> None:
            nonlocal left
            process = self.env.start(f"{script}; echo up; wait")
            next(iter(process))
            process.kill()
            left += bool(self.bare("sh", "-c", f"grep -ls {process.id} /proc/[0-9]*/environ"))
            try:
                process.wait(20)
            except CommandCancelled:
                return

        def bare() -> None:
            for _ in range(3):
                self.bare("sh", "-c", "true")

        row = compare(
            f"start, kill and look for {what}", ours, bare, rounds=count, budget=4, against="three bare commands"
        )
        return [row, measured(f"kill of {what}: trees left of {count}", left, "", 0)]

    def crowd(self, count: int) -> list[Row]:
        """Many commands at once, against as many of the bare SDK; and what each costs this process."""
        payload = os.urandom(1 << 16)
        exact: list[int] = []
        costs: list[tuple[int, int]] = []

        def ours() -> None:
            idle = resources()
            running = [self.env.start("cat; sleep 1", stdin=payload) for _ in range(count)]
            while any(process.state in {"new", "staging", "staged"} for process in running):
                time.sleep(0.05)
            now = resources()
            costs.append((now[0] - idle[0], now[1] - idle[1]))
            exact.append(sum(process.wait(600).stdout == payload for process in running))

        def bare() -> None:
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(lambda _: self.bare("sh", "-c", "cat; sleep 1", stdin=payload), range(count)))

        row = compare(f"{count} commands at once: wall", ours, bare, rounds=1, budget=1.3, against="bare SDK")
        descriptors, threads = max(cost[0] for cost in costs), max(cost[1] for cost in costs)
        return [
            row,
            measured(f"{count} commands at once: not exact", count - min(exact), "", 0),
            measured("descriptors for each of them", descriptors / count, "", 4),
            measured("threads for each of them", threads / count, "", 1),
        ]


def resources() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def sandboxes(count: int) -> list[Row]:
    """Many sandboxes at once, each opened, used five times at once and closed."""
    exact: list[int] = []

    def use(number: int) -> bool:
        data = b"%d" % number
        with open_environment("modal", ttl=900) as env, ThreadPoolExecutor(5) as pool:
            return list(pool.map(lambda _: env.exec("cat", stdin=data).stdout, range(5))) == [data] * 5

    start = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        exact.append(sum(pool.map(use, range(count))))
    took = (time.perf_counter() - start) * 1e3
    return [
        measured(f"{count} sandboxes of 5 commands at once: wall for each sandbox", took / count, "ms", 1000),
        measured(f"{count} sandboxes of 5 commands at once: not exact", count - min(exact), "", 0),
    ]


MEMORY = """
import sys, hermes_env
mib = int(sys.argv[1])

def peak():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

block = bytes(range(256)) * 4096
with hermes_env.open_environment("modal") as env:
    warm = 64
    env.files.write_bytes("/root/file", iter([block] * warm))
    sum(map(len, env.files.read_chunks("/root/file")))
    grown = []
    for move in (
        lambda: env.files.write_bytes("/root/file", iter([block] * mib), durable=False),
        lambda: sum(map(len, env.files.read_chunks("/root/file"))),
    ):
        before = peak()
        move()
        grown.append(peak() - before)
print(*grown)
"""


def memory(mib: int) -> list[Row]:
    """Growth of the high-water mark of a process that writes, then reads, a large file in chunks."""
    argv = [sys.executable, "-c", MEMORY, str(mib)]
    grown = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=1200).stdout.split()
    return [
        measured(f"memory over {mib} MiB {way}", int(kib) / 1024, "MiB", 16)
        for way, kib in zip(("in", "out"), grown, strict=True)
    ]


def _number(argv: list[str], name: str, default: int) -> int:
    return int(argv[argv.index(name) + 1]) if name in argv else default


def main(argv: list[str]) -> int:
    """Measure every modal row."""
    with Emulator() as emulator:
        os.environ.update(emulator.environ)
        with open_environment("modal") as env:
            assert isinstance(env, ModalEnvironment)
            bench = Bench(env, _number(argv, "--mib", 32))
            rows = [
                *bench.latency(),
                bench.write(),
                bench.read(),
                *bench.transport(),
                *bench.kills("sleep 300 & sleep 300 &", "a plain tree"),
                *bench.kills("setsid sh -c 'sleep 300 & sleep 300' &", "a tree in a session of its own"),
                *bench.crowd(_number(argv, "--commands", 100)),
            ]
            bench.client.close()
        rows += sandboxes(_number(argv, "--sandboxes", 50))
        rows += memory(_number(argv, "--memory-mib", 1024))
        return report("modal", rows, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
