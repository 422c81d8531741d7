"""A real Docker engine for tests, benchmarks and the demo: the one that runs, or one of our own.

As a script::

    python -m tests.engine up              start one (or find the one that runs); prints its address
    python -m tests.engine down            stop exactly the one that `up` started
    python -m tests.engine run CMD ARG...  run a command with DOCKER_HOST and HERMES_ENV_TEST_IMAGE set, then stop it
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.processes import is_dead

IMAGE = "hermes-env-test/busybox:1"
"""busybox and nothing else: no bash, no coreutils, /tmp, and the user `agent` (1000:1000)."""
_STATE = os.path.join(tempfile.gettempdir(), f"hermes-env-engine-{os.getuid()}")
_START = 60.0
"""Seconds for a new engine to answer; it takes 2 on an idle machine."""
_STOP = 30.0


class EngineUnavailable(Exception):
    """No engine runs here and none can be started; says why."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A Docker engine that answers.

    Attributes:
        host: Its address, in the form of DOCKER_HOST.
        folder: Where our own engine lives; None for one that ran already, which is never stopped.
    """

    host: str
    folder: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What a program needs in its environment to use this engine."""
        return {"DOCKER_HOST": self.host, "HERMES_ENV_TEST_IMAGE": IMAGE}

    def cli(self, *args: str, stdin: bytes = b"", timeout: float = 60.0) -> subprocess.CompletedProcess[bytes]:
        """Run the `docker` command-line tool against this engine: the outside truth of the tests."""
        return subprocess.run(
            ["docker", *args],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            env={**os.environ, **self.variables},
        )

    def inspect(self, name: str, template: str) -> str:
        """One value of `docker inspect`, empty when there is no such object."""
        return self.cli("inspect", "--format", template, name).stdout.decode().strip()

    def answers(self) -> bool:
        """Whether the engine takes requests."""
        try:
            return self.cli("version", "--format", "{{.Server.Version}}", timeout=10).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def find() -> Engine | None:
    """The engine that runs already: DOCKER_HOST, the one that `up` started, or the machine's own."""
    hosts = [os.environ.get("DOCKER_HOST"), "unix:///var/run/docker.sock"]
    candidates = [Engine(host) for host in hosts if host]
    candidates.insert(1 if hosts[0] else 0, Engine(_socket(_STATE), _STATE))
    for engine in candidates:
        path = engine.host.removeprefix("unix://")
        if path.startswith("/") and not os.path.exists(path):
            continue
        if engine.answers():
            return engine
    return None


def start(folder: str, *arguments: str) -> Engine:
    """Start an engine of our own: socket, data and process files all live in `folder`; more arguments of dockerd.

    Raises:
        EngineUnavailable: It cannot run here.
    """
    _check_possible()
    again = os.path.exists(folder) and bool(os.listdir(folder))
    os.makedirs(folder, mode=0o711, exist_ok=True)
    with open(os.path.join(folder, "log"), "ab") as log:
        process = subprocess.Popen(
            [
                "dockerd",
                f"--host={_socket(folder)}",
                f"--data-root={folder}/data",
                f"--exec-root={folder}/exec",
                f"--pidfile={folder}/pid",
                "--containerd-namespace=hermes-env-test",
                "--containerd-plugins-namespace=hermes-env-test-plugins",
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    engine = Engine(_socket(folder), folder)
    end = time.monotonic() + _START
    while not engine.answers():
        if process.poll() is not None or time.monotonic() > end:
            reason = _last_line(os.path.join(folder, "log"))
            if not again:
                stop(folder)
            raise EngineUnavailable(f"dockerd does not start here: {reason}")
        time.sleep(0.1)
    # The process belongs to its pid file from here on: another program may stop it.
    process.returncode = 0
    return engine


def kill(folder: str) -> None:
    """Kill exactly the engine that lives in `folder`, as a crash would; its containers may live on."""
    pid = _pid_of(folder)
    assert pid is not None, "it does not run"
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    # Its containerd dies with it; where nobody reaps that, a new engine would take the zombie for a living one.
    path = os.path.join(folder, "exec/containerd/containerd.pid")
    with contextlib.suppress(OSError):
        with open(path, encoding="ascii") as file:
            containerd = int(file.read())
        end = time.monotonic() + _STOP
        while not is_dead(containerd) and time.monotonic() < end:
            time.sleep(0.02)
        os.unlink(path)


def stop(folder: str) -> None:
    """Stop exactly the engine that lives in `folder`, wait for its end, and remove the folder."""
    pid = _pid_of(folder)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + _STOP
        while _pid_of(folder) == pid and time.monotonic() < end:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.05)
    for root in _mounts_under(folder):
        subprocess.run(["umount", "--lazy", root], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def ensure_image(engine: Engine) -> None:
    """Make the busybox image unless the engine has it; no registry is asked.

    Raises:
        EngineUnavailable: There is no static busybox to make it of.
    """
    if engine.cli("image", "inspect", IMAGE).returncode == 0:
        return
    done = engine.cli("import", "--change", "WORKDIR /", "-", IMAGE, stdin=busybox_root())
    if done.returncode:
        raise EngineUnavailable(f"docker import: {done.stderr.decode(errors='replace').strip()}")


def busybox_root(*left_out: str) -> bytes:
    """A root file system as tar: busybox, its applets but some as links, /etc/passwd with `root` and `agent`, /tmp."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise EngineUnavailable("no busybox: install Debian's busybox-static")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar, tempfile.TemporaryDirectory() as links:
        for path, mode in _FOLDERS.items():
            add_entry(tar, path, mode=mode, kind=tarfile.DIRTYPE)
        with open(busybox, "rb") as binary:
            add_entry(tar, "bin/busybox", binary.read(), mode=0o755)
        subprocess.run([busybox, "--install", "-s", links], check=True)
        for applet in sorted(set(os.listdir(links)) - {"busybox", *left_out}):
            add_entry(tar, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
        for path, text in _FILES.items():
            add_entry(tar, path, text.encode())
        add_entry(tar, "home/agent", mode=0o755, kind=tarfile.DIRTYPE, owner=1000)
    return packed.getvalue()


_FOLDERS = {
    **dict.fromkeys(("bin", "dev", "etc", "home", "proc", "root", "sys", "usr", "var"), 0o755),
    "tmp": 0o1777,
}
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n",
    "etc/group": "root:x:0:\nagent:x:1000:\n",
}


def add_entry(
    tar: tarfile.TarFile,
    path: str,
    content: bytes = b"",
    *,
    mode: int = 0o644,
    kind: bytes = tarfile.REGTYPE,
    link: str = "",
    owner: int = 0,
) -> None:
    """Add one file, folder or link to a root file system."""
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode, entry.type, entry.linkname = len(content), mode, kind, link
    entry.uid = entry.gid = owner
    tar.addfile(entry, io.BytesIO(content))


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """An engine with the test image: the one that runs, or one of our own that is stopped at the end.

    Raises:
        EngineUnavailable: No engine can run here.
    """
    running = find()
    folder = None
    if running is None:
        folder = tempfile.mkdtemp(prefix="hermes-env-engine-")
        running = start(folder)
    try:
        ensure_image(running)
        yield running
    finally:
        if folder is not None:
            stop(folder)


def _check_possible() -> None:
    missing = [tool for tool in ("dockerd", "docker", "containerd", "iptables") if not shutil.which(tool)]
    if missing:
        raise EngineUnavailable(f"not installed: {', '.join(missing)} (Debian: docker.io, iptables)")
    if os.getuid() != 0:
        raise EngineUnavailable("no engine runs, and only root can start one")


def _socket(folder: str) -> str:
    return f"unix://{folder}/docker.sock"


def _pid_of(folder: str) -> int | None:
    """The process of our engine; None when it is gone. A reused process id is not taken for it."""
    try:
        with open(os.path.join(folder, "pid"), encoding="ascii") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return pid if os.fsencode(f"--pidfile={folder}/pid") in file.read() else None
    except (OSError, ValueError):
        return None


def _mounts_under(folder: str) -> list[str]:
    with open("/proc/self/mounts", encoding="utf-8") as file:
        points = [line.split()[1] for line in file]
    return sorted((point for point in points if point.startswith(folder + "/")), reverse=True)


def _last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().strip().splitlines()
    return lines[-1] if lines else "it wrote no log"


def _up() -> int:
    running = find() or start(_STATE)
    ensure_image(running)
    print(json.dumps(running.variables) if "--json" in sys.argv else running.host)
    return 0


def _run(argv: list[str], variables: Mapping[str, str]) -> int:
    return subprocess.run(argv, check=False, env={**os.environ, **variables}).returncode


def main(argv: list[str]) -> int:
    """The command line; exit code 3 means that no engine can run here."""
    verb, *rest = argv or ["help"]
    try:
        if verb == "up":
            return _up()
        if verb == "down":
            stop(_STATE)
            return 0
        if verb == "run" and rest:
            with engine() as running:
                return _run(rest, running.variables)
    except EngineUnavailable as error:
        print(f"no Docker engine: {error}", file=sys.stderr)
        return 3
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
