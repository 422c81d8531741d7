"""Runs the command line as a person would: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PLUGIN = "cli_plugin:VaultEnvironment"
ROOM = "cli_plugin:RoomEnvironment"
_PLUGIN_TEXT = '''
"""A backend with options of every kind, for the tests of the command line."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, SecretStr

from hermes_env import (
    BackendOptions,
    Capabilities,
    CommandEnvironment,
    EnvironmentGone,
    owner_is_gone,
    owner_labels,
)


class Login(BaseModel):
    user: str = "nobody"
    password: SecretStr = SecretStr("")


class VaultOptions(BackendOptions):
    token: SecretStr | None = None
    login: Login = Login()
    label: str = "plain"
    size: int = 1
    name: str = "also an argument of open_environment"


class VaultEnvironment(CommandEnvironment):
    """This machine; the options only have to arrive."""

    Options = VaultOptions
    capabilities = Capabilities(
        separate_stderr=True, exact_stdout=True, streaming=True, half_close=True, kill_scope="command", live_stdin=True
    )

    def _argv(self, launch):
        token = self.options.token
        shown = token.get_secret_value() if token else "none"
        label, size = self.options.label, self.options.size
        return ["env", f"LABEL={label}", f"SIZE={size}", f"LENGTH={len(shown)}", *launch.argv()]


class SlowEnvironment(VaultEnvironment):
    """The same without live stdin: what arrives there is carried as an iterable."""

    capabilities = Capabilities(
        separate_stderr=True, exact_stdout=True, streaming=True, half_close=True, kill_scope="command"
    )


class RoomOptions(BackendOptions):
    building: str
    name: str = "hall"


class RoomEnvironment(CommandEnvironment):
    """A folder that outlives its client, with a label that says who made it."""

    Options = RoomOptions
    capabilities = replace(CommandEnvironment.capabilities, reattach=True)

    def _open(self):
        self.room = tempfile.mkdtemp(dir=self.options.building)
        Path(self.room, ".labels").write_text(json.dumps(owner_labels("room")))

    def _attach(self, ident):
        self.room = ident
        if not Path(ident).is_dir():
            raise EnvironmentGone(f"there is no room {ident}")

    def _ident(self):
        return self.room

    def _close(self):
        shutil.rmtree(self.room)

    @classmethod
    def _reap(cls, options):
        gone = [
            label.parent
            for label in Path(options.building).glob("*/.labels")
            if owner_is_gone(json.loads(label.read_text()))
        ]
        for room in gone:
            shutil.rmtree(room)
        return [str(room) for room in gone]

    def _argv(self, launch):
        return ["env", "-C", self.room, *launch.argv()]
'''

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
Start = Callable[..., "subprocess.Popen[bytes]"]


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Variables for one call: nothing of the test run's own options, and the plugin importable."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HERMES_ENV_")}
    return {**kept, "PYTHONPATH": str(folder), "COLUMNS": "200", **variables}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds the plugin, one that breaks on import, and nothing else."""
    (tmp_path / "cli_plugin.py").write_text(_PLUGIN_TEXT)
    (tmp_path / "cli_broken.py").write_text("raise RuntimeError('broken\\nin two lines')\n")
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start the command line; whatever still runs at the end of the test is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def call(*arguments: str, variables: dict[str, str] | None = None, **settings: object) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-m", "hermes_env", *arguments],
            env=environment(folder, **(variables or {})),
            cwd=folder,
            **streams,  # type: ignore[call-overload]
        )
        started.append(process)
        return process

    yield call
    for process in started:
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
        process.wait(60)


@pytest.fixture
def run(folder: Path) -> Run:
    """Run the command line to its end."""

    def call(
        *arguments: str, variables: dict[str, str] | None = None, **settings: object
    ) -> subprocess.CompletedProcess[bytes]:
        settings.setdefault("input", b"")
        if "stdin" in settings:
            del settings["input"]
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            [sys.executable, "-m", "hermes_env", *arguments],
            env=environment(folder, **(variables or {})),
            cwd=folder,
            capture_output=True,
            timeout=120,
            check=False,
            **settings,  # type: ignore[call-overload]
        )
        return done

    return call
