"""Cloud rows of the budget: verified files and latency against the bare SDK, on the emulator of the service.

Run ``python -m tests.benchmarks.bench_cloud NAME [--mib N] [--rounds N] [--json FILE]`` with NAME daytona or vercel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from typing import Protocol

from hermes_env import BaseEnvironment, open_environment
from tests.benchmarks.harness import Row, compare, number, report

MIB = 1 << 20


class Bare(Protocol):
    """The SDK without us, in a sandbox of its own."""

    home: str

    def write(self, path: str, data: bytes) -> None:
        """Upload a file."""

    def read(self, path: str) -> bytes:
        """Download a file."""

    def run(self, script: str) -> str:
        """Run a script of the shell and return its output."""


class BareDaytona:
    """The `daytona` package."""

    def __init__(self, url: str, key: str) -> None:
        from daytona import Daytona, DaytonaConfig

        client = Daytona(DaytonaConfig(api_key=key, api_url=url, target="local"))
        self._box = client.create()
        self.home = self._box.get_work_dir()

    def write(self, path: str, data: bytes) -> None:
        """Upload a file."""
        self._box.fs.upload_file(data, path)

    def read(self, path: str) -> bytes:
        """Download a file."""
        return self._box.fs.download_file(path)

    def run(self, script: str) -> str:
        """Run a script."""
        return str(self._box.process.exec(script).result)


class BareVercel:
    """The `vercel` package."""

    def __init__(self, client: object) -> None:
        self._session = client.create_sandbox(persistent=False).session()  # type: ignore[attr-defined]
        self.home = self._session.cwd

    def write(self, path: str, data: bytes) -> None:
        """Upload a file."""
        self._session.fs.write_bytes(path, data)

    def read(self, path: str) -> bytes:
        """Download a file."""
        content: bytes = self._session.fs.read_bytes(path)
        return content

    def run(self, script: str) -> str:
        """Run a script."""
        return str(self._session.run_process("sh", ["-c", script], capture_output=True).stdout)


@contextlib.contextmanager
def both(name: str) -> Iterator[tuple[BaseEnvironment, Bare]]:
    """Our environment and the bare SDK, on one emulator."""
    if name == "daytona":
        from tests.emulators.daytona.client import Emulator as Daytona

        with Daytona() as running:
            os.environ.update(running.environ)
            with open_environment("daytona") as env:
                yield env, BareDaytona(running.api_url, running.key)
        return
    from tests.emulators.vercel.client import Emulator as Vercel

    with Vercel() as emulator:
        os.environ.update(emulator.environ)
        with (
            open_environment("vercel", base_url=emulator.base_url) as env,
            contextlib.closing(emulator.connect()) as sdk,
        ):
            yield env, BareVercel(sdk)


def latency(env: BaseEnvironment, bare: Bare, rounds: int) -> list[Row]:
    """A command without stdin, and one that gets its stdin as a file, as the SDK alone would do it."""

    def staged() -> None:
        bare.write(f"{bare.home}/in", b"x" * 1000)
        assert bare.run(f"cat <{bare.home}/in >/dev/null") == ""

    return [
        compare(
            "exec of `true`",
            lambda: env.exec("true"),
            lambda: bare.run("true"),
            rounds=rounds * 4,
            budget=3.0,
            against="bare SDK: one command",
        ),
        compare(
            "exec with 1,000 bytes of stdin",
            lambda: env.exec("cat >/dev/null", stdin=b"x" * 1000),
            staged,
            rounds=rounds * 4,
            budget=1.5,
            against="bare SDK: one upload, one command",
        ),
    ]


def files(env: BaseEnvironment, bare: Bare, size: int, rounds: int) -> list[Row]:
    """Verified writes, reads and output against transfers of the SDK and one digest by a command."""
    data = os.urandom(MIB) * size
    path, fresh = f"{bare.home}/bare", f"{bare.home}/fresh"
    bare.write(path, data)

    def write() -> None:
        assert env.files.write_bytes("ours", data).verified

    def bare_write() -> None:
        # A new file each time, as ours is: overwriting one whose blocks are there costs the service less.
        bare.write(fresh, data)
        assert bare.run(f"sha256sum {fresh}; rm {fresh}").split()[0] == hashlib.sha256(data).hexdigest()

    def read() -> None:
        assert len(env.files.read_bytes("ours")) == len(data)

    def bare_read() -> None:
        content = bare.read(path)
        assert bare.run(f"sha256sum {path}").split()[0] == hashlib.sha256(content).hexdigest()

    def output() -> None:
        assert len(env.exec("cat ours", output_limit=len(data)).stdout) == len(data)

    def bare_output() -> None:
        told = bare.run(f"rm -f {fresh}; cat {path} >{fresh}; sha256sum {fresh}").split()[0]
        assert told == hashlib.sha256(bare.read(fresh)).hexdigest()

    common = {"rounds": rounds, "budget": 1.2}
    return [
        compare(f"{size} MiB verified write", write, bare_write, against="bare SDK and sha256sum", **common),  # type: ignore[arg-type]
        compare(f"{size} MiB verified read", read, bare_read, against="bare SDK and sha256sum", **common),  # type: ignore[arg-type]
        compare(f"{size} MiB of output", output, bare_output, against="bare SDK, a file and sha256sum", **common),  # type: ignore[arg-type]
    ]


def main(argv: list[str]) -> int:
    """Measure one backend."""
    name = argv[1]
    rounds = number(argv, "--rounds", 5)
    with both(name) as (env, bare):
        rows = latency(env, bare, rounds) + files(env, bare, number(argv, "--mib", 32), rounds)
    return report(f"{name} on its emulator", rows, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
