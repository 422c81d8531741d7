"""Local rows of the budget: latency, bulk streams, kill, many at once, import and memory.

Run ``python -m tests.benchmarks.bench_local [--json FILE]``.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from hermes_env import BaseEnvironment, CommandCancelled, open_environment
from tests.benchmarks.harness import Row, compare, measured, report

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


def latency(env: BaseEnvironment) -> Row:
    """`true`, against subprocess."""

    def bare() -> None:
        subprocess.run(["sh", "-c", "true"], input=b"", capture_output=True, check=False)

    return compare(
        "exec of `true`", lambda: env.exec("true"), bare, rounds=200, budget=1.5, against="subprocess.run(sh -c true)"
    )


def bulk(env: BaseEnvironment) -> list[Row]:
    """256 MiB into and out of a command, against subprocess."""
    data = os.urandom(MIB) * 256
    into = compare(
        "256 MiB stdin",
        lambda: env.exec("cat >/dev/null", stdin=data),
        lambda: subprocess.run(["sh", "-c", "cat >/dev/null"], input=data, capture_output=True, check=False),
        rounds=3,
        budget=0.7,
        against="subprocess.run(input=)",
    )
    script = "head -c 268435456 /dev/zero"
    out = compare(
        "256 MiB captured stdout",
        lambda: env.exec(script, output_limit=1 << 30),
        lambda: subprocess.run(["sh", "-c", script], capture_output=True, check=False),
        rounds=5,
        budget=0.8,
        against="subprocess.run(capture_output)",
    )
    return [into, out]


def _tree_alive(mark: str) -> bool:
    done = subprocess.run(["grep", "-lsa", mark, *_environs()], capture_output=True, check=False)
    return bool(done.stdout)


def _environs() -> list[str]:
    return [f"/proc/{name}/environ" for name in os.listdir("/proc") if name.isdigit()]


def kills(env: BaseEnvironment, script: str, what: str, count: int = 200) -> list[Row]:
    """Time of `kill`, and how many trees it left."""
    times, left = [], 0
    for _ in range(count):
        process = env.start(f"{script}; echo up; wait")
        next(iter(process))
        start = time.perf_counter()
        process.kill()
        times.append((time.perf_counter() - start) * 1e3)
        left += _tree_alive(process.id)
        try:
            process.wait(20)
        except CommandCancelled:
            continue
    times.sort()
    p95 = times[int(len(times) * 0.95)]
    return [
        measured(f"kill of {what}: p95", p95, "ms", 50),
        measured(f"kill of {what}: trees left of {count}", left, "", 0),
    ]


CLIENT = """
import hermes_env, sys
env = hermes_env.open_environment("local")
process = env.start("setsid sleep 300 & sleep 300 & echo $HERMES_ENV_COMMAND; sleep 300")
print(next(iter(process))[1].decode().strip(), flush=True)
process.wait()
"""


def client_deaths(count: int = 40) -> list[Row]:
    """SIGKILL of a client: time until its commands are gone."""
    times, left = [], 0
    for _ in range(count):
        with subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            mark = client.stdout.readline().decode().strip()
            client.kill()
            start = time.perf_counter()
            while _tree_alive(mark) and time.perf_counter() - start < 5:
                continue
            left += _tree_alive(mark)
            times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    return [
        measured("client SIGKILLed: commands gone, p95", times[int(len(times) * 0.95)], "ms", 200),
        measured(f"client SIGKILLed: trees left of {count}", left, "", 0),
    ]


def crowd(env: BaseEnvironment) -> list[Row]:
    """500 commands at once, each with 64 KiB through `cat`, against as many bare processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    data = os.urandom(1 << 16)
    exact: list[int] = []

    def ours() -> None:
        processes = [env.start("sleep 1; cat", stdin=data) for _ in range(500)]
        exact.append(sum(process.wait(120).stdout == data for process in processes))

    def bare() -> None:
        argv = ["sh", "-c", "sleep 1; cat"]
        running = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(500)]
        for process in running:
            assert process.stdin is not None
            process.stdin.write(data[:4096])
        for process in running:
            process.communicate()

    row = compare("500 commands at once: wall", ours, bare, rounds=3, budget=1.3, against="500 bare Popen")
    return [row, measured("500 commands at once: not exact", 500 - min(exact), "", 0)]


def import_time() -> Row:
    """`import hermes_env` over `python -c pass`, in seconds."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    pairs = [(run("import hermes_env"), run("pass")) for _ in range(15)]
    extra = statistics.median(a for a, _ in pairs) - statistics.median(b for _, b in pairs)
    return measured("import hermes_env over `python -c pass`", extra, "s", 0.06)


def memory() -> list[Row]:
    """Growth of the resident set over 1 GiB streamed in and out, each in a process of its own."""
    rows = []
    for name in ("in", "out"):
        code = f"from tests.benchmarks.bench_local import stream_{name}; print(stream_{name}())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        rows.append(measured(f"memory growth over 1 GiB streamed {name}", float(done.stdout), "MiB", 16))
    return rows


def _peak() -> float:
    """High-water mark of this process in MiB; ru_maxrss would also hold that of the process that started it."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def stream_in() -> float:
    """Growth in MiB while 1 GiB goes into a command."""

    def chunks() -> Iterator[bytes]:
        block = bytes(MIB)
        for _ in range(1024):
            yield block

    with open_environment("local") as env:
        env.exec("cat >/dev/null", stdin=iter([bytes(MIB)] * 4))
        before = _peak()
        assert env.exec("wc -c", stdin=chunks()).text.strip() == str(1 << 30)
        return _peak() - before


def stream_out() -> float:
    """Growth in MiB while 1 GiB comes out of a command."""
    total = 0

    def take(_: str, data: bytes) -> None:
        nonlocal total
        total += len(data)

    with open_environment("local") as env:
        env.exec("head -c 4194304 /dev/zero", on_output=take, output_limit=0)
        before, total = _peak(), 0
        env.exec("head -c 1073741824 /dev/zero", on_output=take, output_limit=0)
        assert total == 1 << 30
        return _peak() - before


def main() -> int:
    """Measure every local row."""
    with open_environment("local") as env:
        rows = [
            latency(env),
            *bulk(env),
            *kills(env, "sleep 300 & sleep 300 &", "a plain tree"),
            *kills(env, "setsid sleep 300 & setsid sleep 300 &", "a setsid tree"),
            *crowd(env),
        ]
    rows += [*client_deaths(), import_time(), *memory()]
    return report("local", rows, sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
