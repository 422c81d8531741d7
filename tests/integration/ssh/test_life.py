"""Opening and closing, long transfers, files, secrecy, and userlands with little in them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import BaseEnvironment, list_backends, open_environment
from tests import sshd
from tests.processes import marked
from tests.waiting import until

if TYPE_CHECKING:
    from tests.sshd import Sshd

Start = Callable[..., "Sshd"]


def children_of(server: Sshd) -> int:
    """Processes that serve connections of this server."""
    assert server.process is not None
    return len(sshd.descendants(server.process.pid))


@pytest.mark.slow
def test_a_hundred_cycles_leave_nothing(start: Start) -> None:
    """No thread, descriptor, remote process or connection is left, whether a command ran or not."""
    server = start()
    with open_environment("ssh", **server.options()) as env:
        env.exec("true", timeout=60)
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for cycle in range(100):
        with open_environment("ssh", **server.options()) as env:
            if cycle % 2:
                assert env.exec("cat", stdin=b"x").ok
    # Fewer, where something of the first environment was still ending when it was counted.
    until(lambda: threading.active_count() <= threads, 30)
    until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors, 30)
    until(lambda: children_of(server) == 0, 30)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [(), ("RekeyLimit 16M",)])
def test_600_mebibytes_each_way_on_one_connection(start: Start, lines: tuple[str, ...]) -> None:
    """More than the 512 MiB after which paramiko would exchange keys and hang; also when the server exchanges keys."""
    server = start(lines=lines)
    block, count = os.urandom(1 << 20), 600
    expected = hashlib.sha256()
    for _ in range(count):
        expected.update(block)
    with open_environment("ssh", **server.options()) as env:
        received = hashlib.sha256()
        result = env.exec(
            "cat",
            stdin=(block for _ in range(count)),
            on_output=lambda _, data: received.update(data),
            output_limit=0,
            timeout=500,
        )
        assert result.exit_code == 0
        assert result.stdout_total == count << 20
        assert received.digest() == expected.digest()
        assert env.exec("echo after").stdout == b"after\n"


def test_files(env: BaseEnvironment, tmp_path: Path) -> None:
    """A verified write and read of odd names and bytes."""
    data = os.urandom(3 << 20)
    path = str(tmp_path / "a 'b'\n\udcff")
    written = env.files.write_bytes(path, data)
    assert written.verified
    assert (written.size, written.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert Path(path).read_bytes() == data
    assert env.files.read_bytes(path) == data


def test_files_without_sftp(start: Start, tmp_path: Path) -> None:
    """Files need no subsystem of the server."""
    server = start(lines=("Subsystem sftp /bin/false",))
    with open_environment("ssh", **server.options()) as env:
        assert env.files.write_bytes(str(tmp_path / "f"), b"bytes\0").verified
        assert env.files.read_bytes(str(tmp_path / "f")) == b"bytes\0"


def test_nothing_is_seen_in_the_process_list(env: BaseEnvironment) -> None:
    """While a command runs, its script, variables and stdin are in nobody's command line."""
    canary = "canary" + os.urandom(8).hex()
    seen: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                if canary.encode() in line:
                    seen.append(line.decode("utf-8", "replace"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(10):
            script = f"x={canary}-script; cat >/dev/null; sleep 0.05"
            # The script itself is an argument of the command's own shell, as on every backend.
            assert env.exec(["sh", "-c", "cat >/dev/null; sleep 0.05"], stdin=script.encode(), env={"V": canary}).ok
    finally:
        stop.set()
        watcher.join()
    assert seen == []


def test_options_never_show_secrets(server: Sshd) -> None:
    """Neither the options nor the environment print a password."""
    with open_environment("ssh", **server.options(password="hunter2", passphrase="hunter3")) as env:
        shown = repr(env.options) + repr(env) + repr(vars(env))
    assert "hunter" not in shown


def test_listing_imports_no_sdk() -> None:
    """The backend is listed without paramiko being loaded."""
    assert any(info.name == "ssh" and info.available for info in list_backends())
    script = "import sys, hermes_env; hermes_env.list_backends(); sys.exit('paramiko' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.fixture
def busybox(start: Start, tmp_path: Path) -> Sshd:
    """A server whose commands find busybox and nothing else: no bash, no coreutils, no /bin/sh but ash."""
    program = shutil.which("busybox")
    if os.geteuid() != 0 or program is None:
        pytest.skip("needs root and busybox")
    root = tmp_path / "root"
    for name in ("bin", "proc", "tmp", "dev", "home"):
        (root / name).mkdir(parents=True)
    shutil.copy(program, root / "bin/busybox")
    if subprocess.run(["chroot", str(root), "/bin/busybox", "true"], check=False).returncode:
        pytest.skip("busybox is not a static program here, or chroot is not allowed")
    subprocess.run(["chroot", str(root), "/bin/busybox", "--install", "-s", "/bin"], check=True)
    inside = f"mount --bind /proc {root}/proc && mount --bind /dev {root}/dev && exec chroot {root}"
    probe = subprocess.run(["unshare", "-m", "sh", "-c", f"{inside} /bin/true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip(f"mounts are not allowed: {probe.stderr.decode()}")
    login = tmp_path / "ash"
    login.write_text(
        f'#!/bin/sh\nexport IN="$2"\nexec unshare -m sh -c \'{inside} /bin/env -i '
        f'PATH=/bin HOME=/home /bin/ash -c "$IN"\'\n'
    )
    login.chmod(0o755)
    return start(shell=str(login))


def test_busybox_alone(busybox: Sshd) -> None:
    """Commands, files and kills work where there is only busybox."""
    data = bytes(range(256)) * 5000
    with open_environment("ssh", **busybox.options()) as env:
        assert env.exec("ls /bin/bash /usr 2>/dev/null; cat", stdin=data).stdout == data
        assert env.files.write_bytes("/tmp/f", data).verified
        assert env.files.read_bytes("/tmp/f") == data
        process = env.start("trap : TERM; setsid sleep 1000 & echo on; while :; do sleep 1; done")
        assert next(iter(process)) == ("stdout", b"on\n")
        process.kill()
        assert process.state == "cancelled"
        assert marked(process.id) == []
