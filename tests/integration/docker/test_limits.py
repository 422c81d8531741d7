"""Full disks, mounted files, many commands, many containers and large transfers."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes_env import BaseEnvironment, open_environment, reap
from tests.engine import IMAGE, Engine
from tests.slow import ALL

from .test_kill import CLIENT, sleeping, wait_until


def test_disk_full(engine: Engine) -> None:
    """In a full memory file system of 1 MiB a write is ENOSPC for the caller's path, and the old bytes stay."""
    with open_environment(
        "docker", image=IMAGE, host=engine.host, user="agent", tmpfs=["/small:size=1m,mode=1777"], ttl=600
    ) as env:
        env.files.write_bytes("/small/file", b"old" * 1000)
        for data in (b"n" * 3_000_000, iter([b"n" * 100_000] * 30)):
            with pytest.raises(OSError, match="/small/file") as caught:
                env.files.write_bytes("/small/file", data)
            assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/small/file")
            assert env.files.read_bytes("/small/file") == b"old" * 1000
            assert env.exec("ls -A /small").text == "file\n"
        assert env.files.write_bytes("/small/file", b"fits").verified


def test_file_that_is_a_mount(engine: Engine, tmp_path: Path) -> None:
    """A bind-mounted file cannot be replaced (EBUSY): it is written in place and verified, a read-only one is not."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "kept").write_bytes(b"old")
    tmp_path.chmod(0o755)
    mounts = [f"{tmp_path}/file:/etc/given", f"{tmp_path}/kept:/etc/kept:ro"]
    data = os.urandom(300_000)
    with open_environment("docker", image=IMAGE, host=engine.host, mounts=mounts, ttl=600) as env:
        before = env.exec("ls -A /etc").text
        written = env.files.write_bytes("/etc/given", data)
        assert written.verified and not written.atomic
        assert (tmp_path / "file").read_bytes() == data
        with pytest.raises(OSError, match="/etc/kept") as caught:
            env.files.write_bytes("/etc/kept", data)
        assert caught.value.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
        for call in (env.files.remove, lambda path: env.files.move(path, "/etc/moved")):
            with pytest.raises(OSError, match="/etc/given") as caught:
                call("/etc/given")
            assert caught.value.errno == errno.EBUSY
        assert env.exec("ls -A /etc").text == before
    assert (tmp_path / "kept").read_bytes() == b"old"


def test_many_containers_at_once(engine: Engine) -> None:
    """Many containers opened, used and closed at the same time are all exact, and none is left."""
    count = 64 if ALL else 8
    left = Left(engine, purpose := f"crowd-{os.getpid()}")

    def use(number: int) -> bool:
        data = os.urandom(50_000 + number)
        with open_environment("docker", image=IMAGE, host=engine.host, labels={"purpose": purpose}, ttl=900) as env:
            return env.exec("cat", stdin=data).stdout == data

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(use, range(count))) == [True] * count
    left.nothing()


def test_many_commands_then_death(engine: Engine) -> None:
    """After many commands and lives of containers, and the death of a client, nothing is left anywhere once reaped."""
    commands, cycles = (1000, 100) if ALL else (100, 10)
    left = Left(engine, purpose := f"endurance-{os.getpid()}")
    options: dict[str, Any] = {"image": IMAGE, "host": engine.host, "labels": {"purpose": purpose}, "ttl": 3600}
    with open_environment("docker", **options) as env:
        files, processes = inside(env)
        for number in range(commands):
            if number % 10:
                assert env.exec("cat", stdin=b"%d" % number).stdout == b"%d" % number
            else:
                env.files.write_bytes("/tmp/file", b"%d" % number)
        env.files.remove("/tmp/file")
        # What a command started may end a moment after the answer; nothing may stay.
        wait_until(lambda: inside(env)[1] <= processes, "processes are left in the container")
        assert inside(env)[0] == files
    for _ in range(cycles):
        with open_environment("docker", **options) as env:
            env.exec("true", check=True)
    mark = f"{100_000 + int.from_bytes(os.urandom(4), 'big')}"
    script = CLIENT.replace("ttl=600", f"ttl=600, labels={{'purpose': {purpose!r}}}")
    argv = [sys.executable, "-c", script, IMAGE, engine.host, mark]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        client.stdout.readline()
        wait_until(lambda: len(sleeping(mark)) == 6, "the commands did not start")
        client.send_signal(signal.SIGKILL)
    wait_until(lambda: sleeping(mark) == [], "commands outlived their client")
    assert left.containers() != [], "the container stays until it is reaped"
    reap("docker", host=engine.host)
    left.nothing()


def inside(env: BaseEnvironment) -> tuple[int, int]:
    """How many files and how many processes a container holds."""
    files, processes = env.exec("find / -xdev | wc -l; ls /proc | grep -c '^[0-9]'").text.split()
    return int(files), int(processes)


class Left:
    """What there is now, to find out what is left later; others may use the same engine, so their things are apart."""

    def __init__(self, engine: Engine, purpose: str) -> None:
        self._engine, self._purpose = engine, purpose
        self._before = self._look()
        assert self.containers() == []

    def containers(self) -> list[str]:
        """The containers of this test, in every state, as `docker ps` sees them."""
        shown = self._engine.cli("ps", "--all", "--quiet", "--filter", f"label=purpose={self._purpose}")
        return shown.stdout.decode().split()

    def _look(self) -> tuple[bytes, int, int]:
        volumes = self._engine.cli("volume", "ls", "--quiet").stdout
        return volumes, len(os.listdir("/proc/self/fd")), threading.active_count()

    def nothing(self) -> None:
        """No container, volume, descriptor or thread more than before."""
        assert self.containers() == []
        assert self._look() == self._before


MEMORY = textwrap.dedent(
    """
    import hashlib, sys
    from hermes_env import open_environment
    image, host, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])

    def peak():
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

    def chunks():
        block = bytes(range(256)) * 4096
        for _ in range(mib):
            yield block

    with open_environment("docker", image=image, host=host, tmpfs=["/big:size=2g"], ttl=900) as env:
        env.files.write_bytes("/big/file", b"warm")
        env.files.read_bytes("/big/file")
        before = peak()
        written = env.files.write_bytes("/big/file", chunks())
        digest = hashlib.sha256()
        for chunk in env.files.read_chunks("/big/file"):
            digest.update(chunk)
        assert written.verified and written.size == mib << 20 and digest.hexdigest() == written.sha256
        print(peak() - before)
    """
)


def test_memory_of_a_large_transfer(engine: Engine) -> None:
    """A large file written and read in chunks costs a few MiB of memory, not its size; the full run moves 1 GiB."""
    mib = 1024 if ALL else 128
    argv = [sys.executable, "-W", "error", "-c", MEMORY, IMAGE, engine.host, str(mib)]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=900)
    assert int(done.stdout) / 1024 <= 16
