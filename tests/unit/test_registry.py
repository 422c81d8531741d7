"""Backends found through entry points: real distributions on the path of a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GOOD = """
from hermes_env import CommandEnvironment
class Good(CommandEnvironment):
    def _argv(self, launch):
        return launch.argv()
"""
BROKEN = {
    "raises": ("raise RuntimeError('out of order')\n", "RuntimeError: out of order"),
    "syntax": ("def (\n", "SyntaxError"),
    "exits": ("import sys\nsys.exit('gone')\n", "SystemExit"),
    "unmet": ("import an_sdk_that_is_not_installed\n", "an_sdk_that_is_not_installed"),
    "nothing": ("", "has no attribute"),
    "no_class": ("Good = 7\n", "not a class derived from BaseEnvironment"),
    "other_class": ("class Good: pass\n", "not a class derived from BaseEnvironment"),
    "old": (GOOD + "    api_version = 0\n", "version 0"),
    "unsure": (GOOD + "    @classmethod\n    def _unavailable(cls):\n        raise OSError('hm')\n", "hm"),
    "missing_tool": (
        GOOD
        + "    install = 'apt install it'\n    @classmethod\n    def _unavailable(cls):\n        return 'no tool'\n",
        "no tool",
    ),
}


def distribution(folder: Path, name: str, text: str) -> None:
    """Install a plugin by hand: a module and the metadata that pip would write."""
    (folder / f"plugin_{name}.py").write_text(text)
    info = folder / f"hermes_env_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hermes-env-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hermes_env.backends]\n{name} = plugin_{name}:Good\n")


def python(folder: Path, code: str) -> Any:
    """What a fresh interpreter with that folder on its path prints as JSON."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """`list_backends` with one good plugin among every kind of broken one."""
    folder = tmp_path_factory.mktemp("plugins")
    distribution(folder, "good", GOOD)
    for name, (text, _) in BROKEN.items():
        distribution(folder, name, text)
    code = (
        "import json, hermes_env\n"
        "rows = {b.name: [b.available, b.reason, b.install, b.stdin_mode and b.stdin_mode.value]"
        " for b in hermes_env.list_backends()}\n"
        "print(json.dumps(rows))"
    )
    rows: dict[str, list[Any]] = python(folder, code)
    return rows


def test_broken_plugins_hide_no_other(listed: dict[str, list[Any]]) -> None:
    """Built-in and third-party backends come through the same door, next to any number of broken ones."""
    assert {"local", "docker", "good", *BROKEN} <= set(listed)
    assert listed["good"] == [True, None, "", "pipe"]
    assert listed["local"][0] is True


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_listed_with_its_reason(listed: dict[str, list[Any]], name: str) -> None:
    """What is wrong with a plugin stands in its own row."""
    available, reason, _, _ = listed[name]
    assert available is False and BROKEN[name][1] in reason


def test_a_backend_that_lacks_something_says_how_to_install_it(listed: dict[str, list[Any]]) -> None:
    """The command that installs what is missing is in the row, only when something is missing."""
    assert listed["missing_tool"][2] == "apt install it"


def test_the_listing_is_sorted_and_imports_no_sdk(tmp_path: Path) -> None:
    """Names are in order; looking at the backends imports neither SDKs nor pydantic."""
    code = (
        "import json, sys, hermes_env\n"
        "names = [b.name for b in hermes_env.list_backends()]\n"
        "print(json.dumps([names, sorted({'docker', 'requests', 'pydantic'} & set(sys.modules))]))"
    )
    names, loaded = python(tmp_path, code)
    assert names == sorted(names) and loaded == []


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("nowhere", "BackendNotFound", ["nowhere", "local", "module:Class"]),
        ("", "BackendNotFound", []),
        ("plugin_good:", "BackendNotFound", ["module:Class"]),
        (":Good", "BackendNotFound", ["module:Class"]),
        ("plugin_good:Absent", "BackendNotFound", ["Absent"]),
        ("plugin_absent:Good", "BackendUnavailable", ["plugin_absent"]),
        ("plugin_raises:Good", "BackendUnavailable", ["RuntimeError", "out of order"]),
        ("plugin_no_class:Good", "BackendUnavailable", ["BaseEnvironment"]),
        ("plugin_old:Good", "BackendUnavailable", ["version 0"]),
        ("raises", "BackendUnavailable", ["out of order"]),
        ("exits", "BackendUnavailable", ["SystemExit"]),
    ],
)
def test_opening_what_cannot_be_opened_is_a_typed_error(
    tmp_path: Path, name: str, error: str, words: list[str]
) -> None:
    """An unknown or broken backend raises an error that names it; no call falls back to another."""
    distribution(tmp_path, "good", GOOD)
    for broken in ("raises", "no_class", "old", "exits"):
        distribution(tmp_path, broken, BROKEN[broken][0])
    code = (
        "import json, hermes_env\n"
        "try:\n"
        f"    hermes_env.open_environment({name!r})\n"
        "except hermes_env.HermesEnvError as error:\n"
        "    print(json.dumps([type(error).__name__, str(error)]))\n"
    )
    kind, message = python(tmp_path, code)
    assert kind == error
    for word in words:
        assert word in message


def test_a_class_by_path_opens(tmp_path: Path) -> None:
    """`module:Class` needs no entry point."""
    distribution(tmp_path, "good", GOOD)
    code = (
        "import json, hermes_env\n"
        "with hermes_env.open_environment('plugin_good:Good') as env:\n"
        "    print(json.dumps(env.exec('echo hi').text))"
    )
    assert python(tmp_path, code) == "hi\n"
