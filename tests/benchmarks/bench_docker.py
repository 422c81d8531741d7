"""Docker rows of the budget: latency and where it goes, verified files, kill, death of the client, many at once.

Run ``python -m tests.benchmarks.bench_docker [--json FILE]``, with ``--mib``, ``--commands``, ``--containers`` and
``--memory-mib`` for other sizes;
it uses the engine that runs, or its own.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hermes_env import BaseEnvironment, CommandCancelled, open_environment
from tests.benchmarks.harness import Row, compare, measured, number, report
from tests.benchmarks.sandbox import SandboxBench, memory
from tests.engine import IMAGE, Engine, engine

SCRATCH = "/bench"
"""A memory file system of the container: the disk is not what is measured."""


class Bench(SandboxBench):
    """One container, reached by our backend and by the `docker` command."""

    against = "docker exec -i"

    def __init__(self, env: BaseEnvironment, running: Engine, size: int) -> None:
        super().__init__(env, size)
        self.engine = running
        self.container = env.ref.partition("://")[2]

    def bare(self, *argv: str, stdin: bytes = b"") -> bytes:
        """`docker exec` with captured output."""
        return self.engine.cli("exec", "-i", self.container, *argv, stdin=stdin, timeout=600).stdout

    def latency(self) -> Row:
        """`true` there and back."""
        return compare(
            "exec of `true`",
            lambda: self.env.exec("true"),
            lambda: self.bare("sh", "-c", "true"),
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
            assert self.bare("sh", "-c", script, stdin=self.data).split()[0].decode() == self.digest

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
            head, _, content = self.bare("sh", "-c", script).partition(b"\n")
            assert head.split()[0].decode() == self.digest == hashlib.sha256(content).hexdigest()

        return compare(
            f"{self.size} verified read",
            ours,
            bare,
            rounds=5,
            budget=1.1,
            against="captured docker exec 'sha256sum f; cat f'",
        )

    def kills(self, script: str, what: str, count: int = 200) -> list[Row]:
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
            measured(f"kill of {what}: p95", times[int(count * 0.95)], "ms", 50),
            measured(f"kill of {what}: trees left of {count}", left, "", 0),
        ]

    def bare_crowd(self, count: int, payload: bytes) -> None:
        """The same with `docker exec`, a process for each."""
        argv = ["docker", "exec", "-i", self.container, "sh", "-c", "cat; sleep 1"]
        variables = {**os.environ, **self.engine.variables}
        pipe = subprocess.PIPE
        running = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=variables) for _ in range(count)]
        for process in running:
            assert process.stdin is not None
            process.stdin.write(payload)
            process.stdin.close()
        for process in running:
            assert process.stdout is not None
            process.stdout.read()
            process.stdout.close()
            process.wait()

    def calls(self) -> list[Row]:
        """Where the time of one command goes: medians of each call to the engine's API, and of what runs inside."""
        from docker import APIClient

        times: dict[str, list[float]] = {}
        api = APIClient(base_url=self.engine.host, version="auto")

        def timed(what: str, call: Callable[[], Any]) -> Any:
            start = time.perf_counter()
            done = call()
            times.setdefault(what, []).append((time.perf_counter() - start) * 1e3)
            return done

        for _ in range(30):
            made = timed("POST exec (create)", lambda: api.exec_create(self.container, ["/bin/sh", "-c", ":"]))
            stream = timed("POST exec/start (until 101)", lambda: api.exec_start(made["Id"], socket=True))  # noqa: B023
            timed("process starts, runs and ends (until EOF)", lambda: _drain(stream))  # noqa: B023
            timed("GET exec/json (inspect; only without end marks)", lambda: api.exec_inspect(made["Id"]))  # noqa: B023
            stream._response.close()
            stream.close()
        api.close()
        parts = {what: statistics.median(values) for what, values in times.items()}
        whole = sum(parts.values())
        return [Row(f"share of {what}", part, whole, "ms", 1, "the whole command") for what, part in parts.items()]


def _drain(stream: Any) -> None:
    stream._sock.settimeout(60)
    while stream._sock.recv(1 << 16):
        continue


def containers(running: Engine, count: int) -> list[Row]:
    """Many containers at once, each opened, used and closed, against `docker run --rm`."""
    exact: list[int] = []

    def use(number: int) -> bool:
        data = b"%d" % number
        with open_environment("docker", image=IMAGE, host=running.host, ttl=900) as env:
            return env.exec("cat", stdin=data).stdout == data

    def ours() -> None:
        with ThreadPoolExecutor(count) as pool:
            exact.append(sum(pool.map(use, range(count))))

    def bare() -> None:
        argv = ["docker", "run", "--rm", "--interactive", "--init", IMAGE, "cat"]
        variables = {**os.environ, **running.variables}
        pipe = subprocess.PIPE
        started = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=variables) for _ in range(count)]
        for process in started:
            process.communicate(b"x")

    row = compare(f"{count} containers at once: wall", ours, bare, rounds=1, budget=2, against="docker run --rm")
    return [row, measured(f"{count} containers at once: not exact", count - min(exact), "", 0)]


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
    size, commands = number(argv, "--mib", 256), number(argv, "--commands", 500)
    scratch = (f"{SCRATCH}:size=2g",)
    with (
        engine() as running,
        open_environment("docker", image=IMAGE, host=running.host, tmpfs=scratch, ttl=3600) as env,
    ):
        bench = Bench(env, running, size)
        rows = [
            bench.latency(),
            bench.write(),
            bench.read(),
            *bench.transport(),
            *bench.kills("sleep 300 & sleep 300 &", "a plain tree"),
            *bench.kills("setsid sleep 300 & setsid sleep 300 &", "a setsid tree"),
            *bench.crowd(commands, rounds=3 if commands <= 100 else 1),
            *bench.calls(),
        ]
        rows += client_deaths(running)
        rows += containers(running, number(argv, "--containers", 64))
        big = {"image": IMAGE, "host": running.host, "tmpfs": ["/big:size=2g"]}
        rows += memory("docker", big, "/big/file", number(argv, "--memory-mib", 1024), warm=4)
    return report("docker", rows, argv)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
