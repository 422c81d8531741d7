"""Hermes agent's own loader and file tools, on our plugin folder.

The published release is older than its terminal environment providers. What came later (a method of the context that a
plugin is given, the base class of providers) stands here as their source has it; everything else is Hermes agent's.
"""

from __future__ import annotations

import abc
import hashlib
import shutil
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hermes_constants
import pytest
from hermes_cli.plugins import PluginContext, PluginManager
from tools.file_operations import ShellFileOperations
from tools.interrupt import set_interrupt

import hermes_env.adapters.hermes_agent as adapter
from hermes_env import open_environment
from hermes_env.adapters.hermes_agent import TerminalEnvironment
from tests.runtimes.asked import BACKEND, OPTIONS

FOLDER = Path(adapter.__file__).parent


class TerminalEnvironmentProvider(abc.ABC):
    """The part of the base class that a provider must fill in."""

    is_remote = True
    is_container = True

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @abc.abstractmethod
    def is_available(self) -> bool: ...

    @abc.abstractmethod
    def create_environment(self, *, cwd: str, timeout: int, **kwargs: Any) -> Any: ...


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a newer Hermes agent has; gives the providers that were registered."""
    module = types.ModuleType("agent.terminal_env_provider")
    module.TerminalEnvironmentProvider = TerminalEnvironmentProvider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, f"{adapter.__name__}._provider", raising=False)
    found: dict[str, Any] = {}

    def register(_: PluginContext, provider: Any) -> None:
        assert isinstance(provider, TerminalEnvironmentProvider)
        found[provider.name] = provider

    monkeypatch.setattr(PluginContext, "register_terminal_environment_provider", register, raising=False)
    return found


@pytest.fixture(params=["copied", "linked"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Hermes agent with our folder among its plugins."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    if request.param == "copied":
        shutil.copytree(FOLDER, plugins / "hermes_env")
    else:
        (plugins / "hermes_env").symlink_to(FOLDER)
    (tmp_path / "config.yaml").write_text("plugins:\n  enabled: [hermes_env]\n")
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert hermes_constants.get_hermes_home() == tmp_path
    return tmp_path


@pytest.mark.usefixtures("home")
def test_its_loader_takes_the_folder(later: dict[str, Any], tmp_path: Path) -> None:
    """It registers a backend for each of ours, and the one asked for runs commands."""
    manager = PluginManager()
    manager.discover_and_load()
    loaded = manager._plugins["hermes_env"]
    assert loaded.enabled and not loaded.error and loaded.manifest.kind == "backend"
    assert {"hermes_env_local", "hermes_env_docker", "hermes_env_ssh"} <= later.keys()
    provider = later[f"hermes_env_{BACKEND}"]
    assert provider.is_available() and not provider.skip_container_guards
    assert provider.is_remote == provider.is_container == (BACKEND == "docker")
    options = {key: value for key, value in OPTIONS.items() if key != "image"}
    made = provider.create_environment(
        cwd="/usr", timeout=30, task_id="one", image=OPTIONS.get("image"), backend_config=options, container_config={}
    )
    try:
        assert made.execute("pwd; exit 3") | {"output_total_chars": 5} == {
            "output": "/usr\n",
            "returncode": 3,
            "cwd": "/usr",
            "cwd_observed": True,
            "output_total_chars": 5,
        }
    finally:
        made.cleanup()


@pytest.mark.usefixtures("home")
def test_an_old_one_is_told_that_it_is_too_old() -> None:
    """The published release has no place for terminal backends: its list of plugins says so."""
    manager = PluginManager()
    manager.discover_and_load()
    assert "must be newer" in str(manager._plugins["hermes_env"].error)


@pytest.fixture(scope="module")
def terminal() -> Iterator[TerminalEnvironment]:
    """An environment as Hermes agent has it."""
    made = TerminalEnvironment(open_environment(BACKEND, **OPTIONS), cwd="/tmp", timeout=60)
    yield made
    made.cleanup()
    assert not made.env.alive()


def test_a_command_sees_the_directory_where_the_last_one_ended(terminal: TerminalEnvironment) -> None:
    """Also after `exit`; a given directory wins, a failed `cd` changes nothing."""
    folder = terminal.get_temp_dir()
    assert terminal.execute(f"mkdir -p {folder}/a/b && cd {folder}/a; exit 3")["returncode"] == 3
    assert terminal.execute("pwd")["output"] == f"{folder}/a\n"
    assert terminal.execute("cd nowhere; pwd")["output"].endswith(f"{folder}/a\n")
    assert terminal.execute("pwd", cwd="b")["output"] == f"{folder}/a/b\n" and terminal.cwd == f"{folder}/a/b"
    assert terminal.execute("pwd", cwd="/nowhere")["returncode"] == 126
    assert terminal.execute("pwd", cwd="/tmp")["output"] == "/tmp\n"
    assert terminal.execute("cd ~ && pwd")["output"] == terminal.execute("pwd", cwd="~")["output"]


def test_output_is_both_streams_in_the_order_of_writing(terminal: TerminalEnvironment) -> None:
    """One stream, and nothing of ours in it."""
    loop = "i=0; while [ $i -lt 200 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    expected = "".join(f"out {number}\nerr {number}\n" for number in range(200))
    assert terminal.execute(loop)["output"] == expected


def test_stdin_reaches_the_command(terminal: TerminalEnvironment) -> None:
    """Whole, also when it is empty, and also what is not UTF-8."""
    path = f"{terminal.get_temp_dir()}/stdin"
    for data in (b"", b"a\r\nb", bytes(range(1, 256)) * 1000):
        text = data.decode("utf-8", "surrogateescape")
        assert terminal.execute(f"cat > {path}", stdin_data=text)["returncode"] == 0
        assert terminal.execute(f"sha256sum < {path}")["output"].split()[0] == hashlib.sha256(data).hexdigest()


def test_time_runs_out(terminal: TerminalEnvironment) -> None:
    """The output until then is there, and the directory is the old one."""
    before = terminal.cwd
    done = terminal.execute("cd /usr; echo first; sleep 600", timeout=5)
    assert done["returncode"] == 124 and done["output"] == "first\n\n[Command timed out after 5s]"
    assert terminal.cwd == before and "cwd" not in done


def test_its_user_stops_a_command(terminal: TerminalEnvironment) -> None:
    """Hermes agent's own interrupt of the thread that runs it."""
    main = threading.get_ident()
    path = f"{terminal.get_temp_dir()}/started"

    def stop() -> None:
        while terminal.env.exec(f"test -e {path}").exit_code:
            pass
        set_interrupt(True, main)

    threading.Thread(target=stop).start()
    try:
        done = terminal.execute(f"touch {path}; sleep 600")
    finally:
        set_interrupt(False, main)
    assert done["returncode"] == 130 and done["output"] == "\n[Command interrupted]"


def test_output_for_the_model_is_bounded_and_for_programs_whole(terminal: TerminalEnvironment) -> None:
    """Its file tools read through commands: what they read is never cut."""
    assert len(terminal.execute("seq 1 200000")["output"]) == 1_288_895
    shown = terminal.execute("seq 1 200000", bounded_capture=True)
    assert len(shown["output"]) < 51_000 and "bytes left out" in shown["output"]
    assert shown["output_total_chars"] == 1_288_895


def test_its_file_tools_write_and_patch(terminal: TerminalEnvironment, tmp_path: Path) -> None:
    """What they write is what another program finds, and what `fetch_file` brings."""
    files = ShellFileOperations(terminal)
    path = f"{terminal.get_temp_dir()}/file.txt"
    content = "".join(f"line {number}: 'quotes' \"$HOME\" `id` \\n é 中\n" for number in range(20_000))
    assert files.write_file(path, content).error is None
    patched = files.patch_replace(path, "line 19999:", "last line:")
    assert patched.success, patched.error
    expected = content.replace("line 19999:", "last line:").encode()
    assert terminal.execute(f"sha256sum {path}")["output"].split()[0] == hashlib.sha256(expected).hexdigest()
    terminal.fetch_file(path, tmp_path / "here", max_bytes=len(expected))
    assert (tmp_path / "here").read_bytes() == expected
    with pytest.raises(OSError, match="more than"):
        terminal.fetch_file(path, tmp_path / "here", max_bytes=len(expected) - 1)
    assert terminal.fetch_realpath(f"{terminal.get_temp_dir()}/./file.txt") == path
