"""Docker rows of the budget: latency, verified files, kill, death of the client, many at once.

Run ``python -m tests.benchmarks.bench_docker [--json FILE] [--mib N]``; it uses the engine that runs, or its own.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time

from hermes_env import BaseEnvironment, CommandCancelled, open_environment
from tests.benchmarks.harness import Row, compare, measured, report
from tests.engine import IMAGE, Engine, engine

MIB = 1 << 20
SCRATCH = "/bench"
"""A memory file system of the container: the disk is not what is measured."""


class Bench:
    """One container, reached by our backend and by the `docker` command."""

    def __init__(self, env: BaseEnvironment, running: Engine, size: int) -> None:
        self.env, self.engine = env, running
        self.container = env.ref.partition("://")[2]
        self.data = os.urandom(MIB) * size
        self.digest = hashlib.sha256(self.data).hexdigest()
        self.size = f"{size} MiB"

    def cli(self, *argv: str, stdin: bytes = b"") -> bytes:
        """`docker exec` with captured output."""
        return self.engine.cli("exec", "-i", self.container, *argv, stdin=stdin, timeout=600).stdout

    def latency(self) -> Row:
        """`true` there and back."""
        return compare(
            "exec of `true`",
            lambda: self.env.exec("true"),
            lambda: self.cli("sh", "-c", "true"),
            rounds=40,
            budget=0.9,
            against="docker exec -i",
        )

    def write(self) -> Row:
        """A verified write, each into a file that is there already."""

        def ours() -> None:
            written = self.env.files.write_bytes(f"{SCRATCH}/ours", self.data)
            assert written.verified and written.sha256 == self.digest

        def bare() -> None:
            script = f"cat >{SCRATCH}/bare && sha256sum {SCRATCH}/bare"
            assert self.cli("sh", "-c", script, stdin=self.data).split()[0].decode() == self.digest

        return compare(
            f"{self.size} verified write",
            ours,
            bare,
            rounds=5,
            budget=1.2,
            against="docker exec -i 'cat >f && sha256sum f'",
        )

    def read(self) -> Row:
        """A verified read of what `write` left."""

        def ours() -> None:
            assert len(self.env.files.read_bytes(f"{SCRATCH}/ours")) == len(self.data)

        def bare() -> None:
            script = f"sha256sum {SCRATCH}/ours; cat {SCRATCH}/ours"
            head, _, content = self.cli("sh", "-c", script).partition(b"\n")
            assert head.split()[0].decode() == self.digest == hashlib.sha256(content).hexdigest()

        return compare(
            f"{self.size} verified read",
            ours,
            bare,
            rounds=5,
            budget=1.1,
            against="captured docker exec 'sha256sum f; cat f'",
        )

    def transport(self) -> list[Row]:
        """Bytes through stdin and stdout without any digest."""
        into = compare(
            f"{self.size} stdin",
            lambda: self.env.exec("cat >/dev/null", stdin=self.data),
            lambda: self.cli("sh", "-c", "cat >/dev/null", stdin=self.data),
            rounds=5,
            budget=1.1,
            against="docker exec -i",
        )
        script = f"head -c {len(self.data)} /dev/zero"
        out = compare(
            f"{self.size} captured stdout",
            lambda: self.env.exec(script, output_limit=1 << 30),
            lambda: self.cli("sh", "-c", script),
            rounds=5,
            budget=1.1,
            against="docker exec -i",
        )
        return [into, out]

    def kills(self, script: str, what: str, count: int = 40) -> list[Row]:
        """Time of a kill, which is one more exec, and how many trees it left."""
        times, left = [], 0
        for _ in range(count):
            process = self.env.start(f"{script}; echo up; wait")
            next(iter(process))
            start = time.perf_counter()
            process.kill()
            times.append((time.perf_counter() - start) * 1e3)
            left += trees_alive(process.id)
            try:
                process.wait(20)
            except CommandCancelled:
                continue
        times.sort()
        return [
            measured(f"kill of {what}: p95", times[int(count * 0.95)], "ms", 250),
            measured(f"kill of {what}: trees left of {count}", left, "", 0),
        ]

    def crowd(self, count: int = 50) -> list[Row]:
        """Many commands at once, against as many `docker exec`."""
        payload = os.urandom(1 << 16)
        exact: list[int] = []

        def ours() -> None:
            running = [self.env.start("cat", stdin=payload) for _ in range(count)]
            exact.append(sum(process.wait(300).stdout == payload for process in running))

        def bare() -> None:
            argv = ["docker", "exec", "-i", self.container, "cat"]
            variables = {**os.environ, **self.engine.variables}
            pipe = subprocess.PIPE
            running = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=variables) for _ in range(count)]
            for process in running:
                process.communicate(payload)

        row = compare(f"{count} commands at once: wall", ours, bare, rounds=3, budget=1.3, against="docker exec -i")
        return [row, measured(f"{count} commands at once: not exact", count - min(exact), "", 0)]


def trees_alive(mark: str) -> bool:
    """Whether a process of this machine still has a command's id in its environment."""
    paths = [f"/proc/{name}/environ" for name in os.listdir("/proc") if name.isdigit()]
    return bool(subprocess.run(["grep", "-lsa", mark, *paths], capture_output=True, check=False).stdout)


CLIENT = """
import sys, hermes_env
env = hermes_env.open_environment("docker", image=sys.argv[1], host=sys.argv[2], ttl=300)
process = env.start("setsid sleep 300 & sleep 300 & echo $HERMES_ENV_COMMAND; sleep 300")
print(next(iter(process))[1].decode().strip(), flush=True)
process.wait()
"""


def client_deaths(running: Engine, count: int = 10) -> list[Row]:
    """SIGKILL of a client: time until its commands are gone; its containers are reaped afterwards."""
    from hermes_env import reap

    times, left = [], 0
    for _ in range(count):
        argv = [sys.executable, "-c", CLIENT, IMAGE, running.host]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            mark = client.stdout.readline().decode().strip()
            client.kill()
            start = time.perf_counter()
            while trees_alive(mark) and time.perf_counter() - start < 5:
                continue
            left += trees_alive(mark)
            times.append((time.perf_counter() - start) * 1e3)
    reap("docker", host=running.host)
    times.sort()
    return [
        measured("client SIGKILLed: commands gone, slowest", times[-1], "ms", 200),
        measured(f"client SIGKILLed: trees left of {count}", left, "", 0),
    ]


def main(argv: list[str]) -> int:
    """Measure every docker row."""
    size = int(argv[argv.index("--mib") + 1]) if "--mib" in argv else 256
    memory = (f"{SCRATCH}:size=2g",)
    with (
        engine() as running,
        open_environment("docker", image=IMAGE, host=running.host, tmpfs=memory, ttl=3600) as env,
    ):
        bench = Bench(env, running, size)
        rows = [
            bench.latency(),
            bench.write(),
            bench.read(),
            *bench.transport(),
            *bench.kills("sleep 300 & sleep 300 &", "a plain tree"),
            *bench.kills("setsid sleep 300 & setsid sleep 300 &", "a setsid tree"),
            *bench.crowd(),
        ]
        rows += client_deaths(running)
    return report("docker", rows, argv)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
