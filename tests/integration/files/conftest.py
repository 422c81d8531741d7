"""One set of behaviours over every way in which files are carried: natively, and by scripts in several shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import BaseEnvironment, CommandEnvironment, Files, Launch, open_environment

from .folders import make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


NOBODY = 65534


class ShellEnvironment(CommandEnvironment):
    """Commands of this machine by a chosen shell, PATH and user, so that nothing native is used."""

    carries_env = True
    carries_cwd = True
    carries_bytes = True

    def __init__(
        self,
        shell: Sequence[str] = ("/bin/sh",),
        *,
        path: str = os.defpath,
        prefix: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**{"timeout": 120, **settings})
        self.runs = 0
        self._shell, self._prefix = tuple(shell), tuple(prefix)
        self._variables = {"PATH": path, **(extra or {})}

    def _argv(self, launch: Launch) -> list[str]:
        self.runs += 1
        return [*self._prefix, *self._shell, *launch.argv()[1:]]

    def _environ(self, launch: Launch) -> Mapping[str, str]:
        return {**self._variables, **launch.env}


@dataclass
class Place:
    """Files of an environment whose directory can be looked at from outside."""

    files: Files
    dir: Path
    env: BaseEnvironment
    user: str
    native: bool

    def put(self, name: str, data: bytes = b"", mode: int = 0o644) -> Path:
        """Make a file that belongs to the acting user, without the code under test."""
        path = self.dir / name
        path.write_bytes(data)
        self.own(path)
        # A change of owner clears special bits.
        path.chmod(mode)
        return path

    def own(self, path: Path) -> None:
        """Give a file to the acting user."""
        if self.user == "nobody":
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def cat(self, name: str) -> bytes:
        """What another program reads there."""
        return subprocess.run(["cat", self.dir / name], capture_output=True, check=True).stdout

    def left_over(self) -> list[str]:
        """Temporary files anywhere below."""
        return [str(path) for path in self.dir.rglob(".hermes*")]


class _AsUser:
    """Calls that run with another effective user."""

    def __init__(self, files: Files, uid: int) -> None:
        self._files, self._uid = files, uid

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._files, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            with acting_as(self._uid):
                result = method(*args, **kwargs)
                return list(result) if name == "read_chunks" else result

        return call


@contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """Have the rights of another user for the time of a block."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


_SHELLS = {
    "sh": ["/bin/sh"],
    "bash": ["bash"],
    "mksh": ["mksh"],
    "busybox": ["busybox", "sh"],
}
_IS_ROOT = os.geteuid() == 0
USERS = ("root", "nobody") if _IS_ROOT else ("self",)


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that every user can reach; pytest's own are closed to others whenever another run starts."""
    with tempfile.TemporaryDirectory(prefix="hermes-files-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def applets() -> Iterator[str]:
    """A directory that holds the applets of busybox and nothing else."""
    if shutil.which("busybox") is None:
        pytest.skip("busybox is not installed")
    with open_directory() as directory:
        subprocess.run(["busybox", "--install", "-s", directory], check=True)
        yield str(directory)


@pytest.fixture
def home() -> Iterator[Path]:
    """Where the files of a test are."""
    with open_directory() as directory:
        place = directory / "place"
        place.mkdir()
        yield place


@contextmanager
def make_place(variant: str, home: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place of one variant, open for the time of a block."""
    how, user = variant.split("-")
    if user == "nobody":
        os.chown(home, NOBODY, NOBODY)
    env: BaseEnvironment
    if how == "native":
        env = open_environment("local", cwd=str(home))
        with env:
            files = env.files
            acting = _AsUser(files, NOBODY) if user == "nobody" else files
            yield Place(acting, home, env, user, native=True)  # type: ignore[arg-type]
        return
    shell = _SHELLS[how]
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    path = request.getfixturevalue("applets") if how == "busybox" else os.defpath
    prefix = ["/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    shell = [shutil.which(shell[0]) or shell[0], *shell[1:]]
    env = ShellEnvironment(shell, path=path, prefix=prefix if user == "nobody" else (), cwd=str(home))
    with env:
        yield Place(env.files, home, env, user, native=False)


@pytest.fixture
def place(request: pytest.FixtureRequest, home: Path) -> Iterator[Place]:
    """Files by every way that the test is marked for."""
    with make_place(request.param, home, request) as made:
        yield made


@pytest.fixture
def scripted(request: pytest.FixtureRequest, home: Path) -> Iterator[Place]:
    """Files by scripts only."""
    with make_place(request.param, home, request) as made:
        yield made


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks that choose variants."""
    config.addinivalue_line("markers", "users: also as a user without rights")
    config.addinivalue_line("markers", "shells: also in bash and mksh")
    config.addinivalue_line("markers", "once: before anything runs, so that one variant tells all")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test runs natively and in two shells with two sets of tools; marks ask for more or less."""
    for fixture in {"place", "scripted"} & set(metafunc.fixturenames):
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        chosen = [f"{how}-{USERS[0]}" for how in ("native", "sh", "busybox")]
        if "once" in marks:
            chosen = [f"sh-{USERS[0]}"]
        if "shells" in marks:
            chosen += [f"{how}-{USERS[0]}" for how in ("bash", "mksh")]
        if "users" in marks:
            chosen += [f"{how}-{user}" for how in ("native", "sh") for user in USERS[1:]]
        kept = [variant for variant in chosen if fixture == "place" or not variant.startswith("native")]
        metafunc.parametrize(fixture, kept, indirect=True)


@contextmanager
def tools(applets: str, **scripts: str | None) -> Iterator[str]:
    """A PATH of busybox applets in which some tools are missing (None) or other scripts."""
    with_tools = Path(applets).parent / f"tools-{os.urandom(4).hex()}"
    with_tools.mkdir(mode=0o755)
    try:
        for name in os.listdir(applets):
            if name not in scripts:
                (with_tools / name).symlink_to(Path(applets) / name)
        for name, script in scripts.items():
            if script is not None:
                (with_tools / name).write_text(f"#!/bin/sh\n{script}\n")
                (with_tools / name).chmod(0o755)
        yield str(with_tools)
    finally:
        shutil.rmtree(with_tools)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of this machine."""
    root = tmp_path / "source"
    root.mkdir()
    make(root)
    return root
