"""Verified file transfer against the bare tools that do the same job: a table, and JSON for the record.

Run ``python tests/benchmarks/bench_files.py [--mib 256] [--rounds 5] [--json FILE]``. Candidates take turns in every
round, in a new order each time; the figures are medians, and ratios of medians to the row named as opponent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hermes_env import CommandEnvironment, Launch, open_environment

MIB = 1 << 20


class Scripted(CommandEnvironment):
    """This machine by scripts only, as any remote environment is."""

    carries_env = True
    carries_cwd = True
    carries_bytes = True

    def _argv(self, launch: Launch) -> list[str]:
        return launch.argv()

    def _environ(self, launch: Launch) -> Mapping[str, str]:
        return {"PATH": os.defpath, **launch.env}


BUDGETS = {
    "local write": ("cat >f && sha256sum f", 0.5),
    "local read": ("captured cat", 1.0),
    "local read_chunks": ("captured cat", 1.0),
    "script write": ("cat >f && sha256sum f", None),
    "script read": ("captured sha256sum f; cat f", None),
    "local write, 4 KiB": ("cat >f && sha256sum f, 4 KiB", 0.3),
    "script write, 4 KiB": ("cat >f && sha256sum f, 4 KiB", None),
}


def candidates(directory: Path, size: int, stack: list[CommandEnvironment]) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    data = random.Random(1).randbytes(MIB) * (size // MIB)
    small = data[:4096]
    source = directory / "source"
    source.write_bytes(data)
    local = open_environment("local", cwd=str(directory))
    script = Scripted(cwd=str(directory)).open()
    assert isinstance(local, CommandEnvironment)
    stack += [local, script]

    def bare_write(content: bytes, name: str) -> None:
        command = ["sh", "-c", 'cat >"$1" && sha256sum "$1"', "sh", str(directory / name)]
        subprocess.run(command, input=content, capture_output=True, check=True)

    def captured(command: str) -> bytes:
        run = subprocess.run(["sh", "-c", command, "sh", str(source)], capture_output=True, check=True)
        return run.stdout

    return {
        "cat >f && sha256sum f": lambda: bare_write(data, "bare"),
        "captured cat": lambda: captured('cat "$1"'),
        "captured sha256sum f; cat f": lambda: captured('sha256sum "$1"; cat "$1"'),
        "cat >f && sha256sum f, 4 KiB": lambda: bare_write(small, "bare-small"),
        "local write": lambda: local.files.write_bytes("local", data),
        "local read": lambda: local.files.read_bytes("source"),
        "local read_chunks": lambda: sum(len(chunk) for chunk in local.files.read_chunks("source")),
        "script write": lambda: script.files.write_bytes("script", data),
        "script read": lambda: script.files.read_bytes("source"),
        "local write, 4 KiB": lambda: local.files.write_bytes("small", small),
        "script write, 4 KiB": lambda: script.files.write_bytes("script-small", small),
    }


def measure(tasks: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of every task; one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        order = list(tasks)
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            tasks[name]()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


_STREAM = """
import sys
sys.path[:0] = {path!r}
from tests.benchmarks.bench_files import Scripted
from hermes_env import open_environment
env = open_environment("local", cwd={directory!r}) if {native} else Scripted(cwd={directory!r}).open()
def job(size):
    if {write}:
        env.files.write_bytes("stream", (bytes(1 << 20) for _ in range(size)), durable=False)
    else:
        assert sum(map(len, env.files.read_chunks("stream"))) >= size << 20
def peak():
    # Not ru_maxrss: that one is inherited from the parent.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
job(4)
before = peak()
job({mib})
print((peak() - before) / 1024)
env.close()
"""


def memory_growth(directory: Path, mib: int) -> Iterator[tuple[str, float]]:
    """MiB by which the client grew while it streamed that many MiB, in a process of its own."""
    root = str(Path(__file__).parents[2])
    for native in (True, False):
        for write in (True, False):
            code = _STREAM.format(path=[root], mib=mib, directory=str(directory), native=native, write=write)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            how, what = "local" if native else "script", "write" if write else "read"
            yield f"{how} {what}, {mib} MiB streamed", float(done.stdout)
    (directory / "stream").unlink()


def report(medians: dict[str, float], growth: dict[str, float]) -> bool:
    """Print the table; False when a budget is missed."""
    good = True
    print(f"{'what':32} {'ms':>9}  {'ratio':>6}  {'budget':>6}  opponent")
    for name, seconds in medians.items():
        opponent, budget = BUDGETS.get(name, ("", None))
        ratio = seconds / medians[opponent] if opponent else None
        missed = budget is not None and ratio is not None and ratio > budget
        good = good and not missed
        shown = f"{ratio:6.2f}" if ratio is not None else f"{'':6}"
        print(f"{name:32} {seconds * 1000:9.1f}  {shown}  {budget or '':>6}  {opponent}{'  MISSED' if missed else ''}")
    for name, mib in growth.items():
        print(f"{name:32} {mib:9.1f} MiB growth, budget 16{'  MISSED' if mib > 16 else ''}")
        good = good and mib <= 16
    return good


def main() -> int:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the large file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stream", type=int, default=1024, help="MiB streamed for the memory rows; 0 leaves them out")
    parser.add_argument("--dir", type=Path, help="where the files go; on a disk, its speed is measured too")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="hermes-bench-", dir=options.dir))
    stack: list[CommandEnvironment] = []
    try:
        medians = measure(candidates(directory, options.mib * MIB, stack), options.rounds)
        growth = dict(memory_growth(directory, options.stream)) if options.stream else {}
    finally:
        for env in stack:
            env.close()
        shutil.rmtree(directory)
    good = report(medians, growth)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the benchmark itself: {peak:.0f} MiB")
    if options.json:
        figures = {"seconds": medians, "growth_mib": growth, "budgets": BUDGETS, "mib": options.mib}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
