"""Modal rows of the budget, on the emulator: latency, verified files against the bare SDK, kill, many at once, memory.

Run ``python -m tests.benchmarks.bench_modal [--json FILE]``, with ``--mib``, ``--commands``, ``--sandboxes`` and
``--memory-mib`` for other sizes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hermes_env import CommandCancelled, open_environment
from hermes_env_modal import ModalEnvironment
from tests.benchmarks.harness import Row, compare, measured, number, report
from tests.benchmarks.sandbox import SandboxBench, memory
from tests.emulators.modal.client import Emulator

SLICE = 4 << 20


class Bench(SandboxBench):
    """One sandbox, reached by our backend and by the bare SDK, each with a connection of its own."""

    against = "bare SDK, 4 MiB drains"

    def __init__(self, env: ModalEnvironment, size: int) -> None:
        import modal

        super().__init__(env, size)
        self.client = modal.Client.from_credentials(os.environ["MODAL_TOKEN_ID"], os.environ["MODAL_TOKEN_SECRET"])
        self.box: Any = modal.Sandbox.from_id(env.ref.partition("://")[2], client=self.client)

    def bare(self, *argv: str, stdin: bytes = b"") -> bytes:
        """A command as the SDK's users run it: stdin in slices, then both streams, then the wait."""
        process = self.box.exec(*argv, text=False)
        if stdin:
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

    def bare_crowd(self, count: int, payload: bytes) -> None:
        """The same with the SDK, a thread for each."""
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda _: self.bare("sh", "-c", "cat; sleep 1", stdin=payload), range(count)))


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


def main(argv: list[str]) -> int:
    """Measure every modal row."""
    with Emulator() as emulator:
        os.environ.update(emulator.environ)
        with open_environment("modal") as env:
            assert isinstance(env, ModalEnvironment)
            bench = Bench(env, number(argv, "--mib", 32))
            rows = [
                *bench.latency(),
                bench.write(),
                bench.read(),
                *bench.transport(),
                *bench.kills("sleep 300 & sleep 300 &", "a plain tree"),
                *bench.kills("setsid sh -c 'sleep 300 & sleep 300' &", "a tree in a session of its own"),
                *bench.crowd(number(argv, "--commands", 100)),
            ]
            bench.client.close()
        rows += sandboxes(number(argv, "--sandboxes", 50))
        rows += memory("modal", {}, "/root/file", number(argv, "--memory-mib", 1024), warm=64)
        return report("modal", rows, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
