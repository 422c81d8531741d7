"""Images for tests beside the busybox one: Debian as people run it, one with Python, one with no shell at all."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator

from tests.engine import Engine, EngineUnavailable, add_entry, busybox_root

DEBIAN = "hermes-env-test/debian:1"
"""Debian minbase: bash, dash as sh, coreutils, and the user `agent` (1000:1000)."""
DISTROLESS = "hermes-env-test/distroless:1"
"""One static program, /app/sleep."""
PYTHON = "hermes-env-test/python:1"
"""busybox, but dash as sh, bash, GNU grep, `adduser`, and the Python of the tests as `python` and `python3`."""
_SUITE = "bookworm"
_CACHED = os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), f"hermes-env-test/debian-{_SUITE}-1.tar"
)
_BUILD = 900.0
"""Seconds for a build; it takes 50 on an idle machine."""
MIRROR = "HERMES_ENV_TEST_MIRROR"
"""Variable that names another mirror than the tool's own."""


def ensure_debian(engine: Engine) -> None:
    """Make the Debian image unless the engine has it, from a root file system that is built once for each machine.

    Raises:
        EngineUnavailable: It cannot be built here; says why.
    """
    if engine.cli("image", "inspect", DEBIAN).returncode == 0:
        return
    if not os.path.exists(_CACHED):
        _build()
    with open(_CACHED, "rb") as packed:
        _import(engine, DEBIAN, packed.read())


def ensure_distroless(engine: Engine) -> None:
    """Make the image with one program unless the engine has it.

    Raises:
        EngineUnavailable: There is no static busybox to make it of.
    """
    if engine.cli("image", "inspect", DISTROLESS).returncode == 0:
        return
    busybox = shutil.which("busybox")
    if busybox is None:
        raise EngineUnavailable("no busybox: install Debian's busybox-static")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar, open(busybox, "rb") as program:
        add_entry(tar, "app", mode=0o755, kind=tarfile.DIRTYPE)
        add_entry(tar, "app/sleep", program.read(), mode=0o755)
    _import(engine, DISTROLESS, packed.getvalue())


def ensure_python(engine: Engine) -> None:
    """Make the image with Python unless the engine has it, of programs and libraries of this machine.

    Raises:
        EngineUnavailable: There is no static busybox to make it of.
    """
    if engine.cli("image", "inspect", PYTHON).returncode == 0:
        return
    library = sysconfig.get_path("stdlib")
    python = os.path.realpath(
        os.path.join(sysconfig.get_config_var("BINDIR"), f"python{sysconfig.get_python_version()}")
    )
    programs = {f"bin/{name}": os.path.realpath(shutil.which(name) or name) for name in ("bash", "dash", "grep")}
    packed = io.BytesIO(busybox_root("sh", "bash", "dash", "grep"))
    extensions = glob.glob(f"{library}/lib-dynload/*.so")
    with tarfile.open(fileobj=packed, mode="a") as tar:
        for path in sorted({python, *_libraries([python, *programs.values(), *extensions])}):
            _add_file(tar, path, path)
        for name, path in programs.items():
            _add_file(tar, path, name)
        add_entry(tar, "bin/sh", kind=tarfile.SYMTYPE, link="dash")
        tar.add(library, library, filter=_shipped)
        for name in ("python", "python3"):
            add_entry(tar, f"usr/local/bin/{name}", kind=tarfile.SYMTYPE, link=python)
        add_entry(tar, "usr/bin/env", kind=tarfile.SYMTYPE, link="/bin/env")
        add_entry(tar, "usr/local/bin/adduser", _ADDUSER, mode=0o755)
    _import(engine, PYTHON, packed.getvalue(), "ENV PATH=/usr/local/bin:/usr/bin:/bin")


_ADDUSER = b"""#!/bin/sh
case $1 in
-D) printf '%s:x:1001:1001::/:/bin/sh\\n' "$2" >>/etc/passwd ;;
*) echo 'BusyBox has no such applet here; this stands for it: adduser -D NAME' ;;
esac
"""


def _libraries(programs: Iterable[str]) -> set[str]:
    """The shared libraries of programs, their loader among them, by the names under which they are looked for."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", told))


def _add_file(tar: tarfile.TarFile, path: str, name: str) -> None:
    with open(path, "rb") as file:
        add_entry(tar, name.lstrip("/"), file.read(), mode=0o755)


def _shipped(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of the standard library, what commands need."""
    left_out = {"ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "dist-packages", "test", "tkinter"}
    parts = entry.name.split("/")
    return None if left_out & set(parts) or any(part.startswith("config-") for part in parts) else entry


def _import(engine: Engine, name: str, root: bytes, *changes: str) -> None:
    asked = [word for change in ("WORKDIR /", *changes) for word in ("--change", change)]
    done = engine.cli("import", *asked, "-", name, stdin=root, timeout=300)
    if done.returncode:
        raise EngineUnavailable(f"docker import: {done.stderr.decode(errors='replace').strip()}")


def is_cached(engine: Engine) -> bool:
    """Whether the Debian image need not be built."""
    return os.path.exists(_CACHED) or engine.cli("image", "inspect", DEBIAN).returncode == 0


def _build() -> None:
    os.makedirs(os.path.dirname(_CACHED), exist_ok=True)
    with _debian_root() as root:
        _add_user(root)
        subprocess.run(["tar", "--numeric-owner", "-C", root, "-cf", f"{_CACHED}.{os.getpid()}", "."], check=True)
    os.replace(f"{_CACHED}.{os.getpid()}", _CACHED)


@contextlib.contextmanager
def _debian_root() -> Iterator[str]:
    """A freshly built root file system, gone afterwards."""
    tool = shutil.which("debootstrap", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")
    if tool is None or os.getuid() != 0:
        raise EngineUnavailable("a Debian image is built by root with debootstrap: neither image nor cache is there")
    with tempfile.TemporaryDirectory(prefix="hermes-env-debian-") as root:
        mirror = [os.environ[MIRROR]] if MIRROR in os.environ else []
        try:
            built = subprocess.run(
                [tool, "--variant=minbase", _SUITE, root, *mirror], capture_output=True, timeout=_BUILD, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise EngineUnavailable(f"debootstrap takes more than {_BUILD:.0f} s") from error
        if built.returncode:
            raise EngineUnavailable(f"debootstrap: {built.stdout.decode(errors='replace').strip()[-300:]}")
        yield root


def _add_user(root: str) -> None:
    for name, line in {"passwd": "agent:x:1000:1000::/home/agent:/bin/sh", "group": "agent:x:1000:"}.items():
        with open(os.path.join(root, "etc", name), "a", encoding="ascii") as file:
            file.write(line + "\n")
    home = os.path.join(root, "home/agent")
    os.makedirs(home, exist_ok=True)
    os.chown(home, 1000, 1000)
    for package in glob.glob(f"{root}/var/cache/apt/archives/*.deb"):
        os.unlink(package)
