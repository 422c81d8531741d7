"""The ssh rows of the budget: latency, verified bulk transfers, many at once; against OpenSSH's own client.

Run ``python -m tests.benchmarks.bench_ssh [--json FILE] [--size MIB] [--rounds N]``. Starts a server of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes_env import BaseEnvironment, open_environment
from tests.benchmarks.harness import Row, compare, measured, report
from tests.proxy import proxied
from tests.sshd import Sshd, running

MIB = 1 << 20
CIPHER = "aes128-gcm@openssh.com"
"""The cipher that this backend asks for first: bulk is compared like with like."""


def client(server: Sshd, *options: str) -> list[str]:
    """The command line of OpenSSH's client for a server."""
    return [
        "ssh", "-F", "none", "-i", str(server.key), "-p", str(server.port), "-l", server.user, "-c", CIPHER,
        "-o", f"UserKnownHostsFile={server.known_hosts}", *options, "127.0.0.1",
    ]  # fmt: skip


@contextlib.contextmanager
def master(server: Sshd) -> Iterator[list[str]]:
    """A command line that uses an open connection (ControlMaster)."""
    path = str(server.folder / "mux")
    subprocess.run(
        client(server, "-M", "-N", "-f", "-S", path, "-o", "ControlPersist=yes"), check=True, capture_output=True
    )
    try:
        yield client(server, "-S", path)
    finally:
        subprocess.run(client(server, "-S", path, "-O", "exit"), check=False, capture_output=True)


def run(argv: list[str], command: str, stdin: bytes = b"") -> bytes:
    """Run a command by OpenSSH's client."""
    return subprocess.run([*argv, command], input=stdin, capture_output=True, check=True).stdout


def latency(env: BaseEnvironment, mux: list[str], rounds: int) -> list[Row]:
    """`true` on an open connection, and how even it is."""
    row = compare(
        "exec of `true`",
        lambda: env.exec("true"),
        lambda: run(mux, "true"),
        rounds=rounds,
        budget=0.6,
        against="ssh with ControlMaster",
    )
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        env.exec("true")
        times.append(time.perf_counter() - start)
    even = statistics.quantiles(times, n=10)[8] / statistics.median(times)
    return [row, measured("p90 of `true` over its median", even, "x", 1.5)]


def bulk(env: BaseEnvironment, server: Sshd, size: int, folder: str) -> list[Row]:
    """Verified write and read, against the client and one digest."""
    data = os.urandom(MIB) * size
    digest = hashlib.sha256(data).hexdigest()
    cold = client(server)

    def write_bare() -> None:
        assert run(cold, f"cat >{folder}/theirs && sha256sum <{folder}/theirs", data).decode().startswith(digest)

    def write() -> None:
        assert env.files.write_bytes(f"{folder}/ours", data).sha256 == digest

    def read_bare() -> None:
        got = run(cold, f"sha256sum <{folder}/ours; cat {folder}/ours")
        head, _, body = got.partition(b"\n")
        assert head.startswith(hashlib.sha256(body).hexdigest().encode())

    def read() -> None:
        assert len(env.files.read_bytes(f"{folder}/ours")) == len(data)

    against = "ssh 'cat >f && sha256sum <f'"
    return [
        compare(f"{size} MiB verified write", write, write_bare, rounds=3, budget=1.3, against=against),
        compare(f"{size} MiB verified read", read, read_bare, rounds=3, budget=1.3, against="ssh 'sha256sum f; cat f'"),
    ]


def many(start: Callable[[int], BaseEnvironment], mux: list[str], count: int, connections: int) -> Row:
    """So many commands at once, each with 64 KiB through `cat`; wall time against as many by the client."""
    data = os.urandom(1 << 16)
    with start(connections) as env:

        def ours() -> None:
            processes = [env.start("cat", stdin=data) for _ in range(count)]
            assert all(process.wait().stdout == data for process in processes)

        def theirs() -> None:
            pending = [
                subprocess.Popen([*mux, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)
            ]
            assert all(process.communicate(data)[0] == data for process in pending)

        what = f"{count} commands at once, {connections} connection{'s'[: connections > 1]}"
        return compare(what, ours, theirs, rounds=3, budget=1.3, against="as many `ssh` with ControlMaster")


def round_trips(server: Sshd, folder: str) -> list[Row]:
    """What a command and a small verified write cost on a link with a delay, in round trips."""
    trip = 0.1
    rows = []
    with (
        proxied(server.port, delay=trip / 2) as proxy,
        open_environment("ssh", **server.options(port=proxy.port)) as env,
    ):
        env.files.write_bytes(f"{folder}/small", b"x")
        calls: dict[str, Callable[[], object]] = {
            "exec of `true`": lambda: env.exec("true"),
            "small verified write": lambda: env.files.write_bytes(f"{folder}/small", b"bytes"),
            "small read": lambda: env.files.read_bytes(f"{folder}/small"),
        }
        for what, call in calls.items():
            times = []
            for _ in range(7):
                time.sleep(0.5)
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            rows.append(measured(f"{what}, delay {trip * 500:.0f} ms", statistics.median(times) / trip, "trips", 2))
    return rows


def main(argv: list[str]) -> int:
    """Run all rows."""
    size = int(argv[argv.index("--size") + 1]) if "--size" in argv else 256
    rounds = int(argv[argv.index("--rounds") + 1]) if "--rounds" in argv else 40
    shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory(dir=shm) as folder,
        running(Sshd(Path(home), lines=("MaxSessions 600",))) as server,
        master(server) as mux,
    ):
        with open_environment("ssh", **server.options()) as env:
            rows += latency(env, mux, rounds)
            rows += bulk(env, server, size, folder)

        def start(connections: int) -> BaseEnvironment:
            return open_environment("ssh", **server.options(connections=connections))

        rows.append(many(start, mux, 64, 1))
        rows.append(many(start, mux, 500, 4))
        rows += round_trips(server, folder)
    return report("ssh", rows, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
