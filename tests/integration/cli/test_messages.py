"""What the command line says, and what it never says."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PLUGIN, Run, environment

SHOW = ("--script", 'echo "$LABEL $SIZE $LENGTH"')


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("doctor", "nowhere"), 2, ["nowhere", "installed:", "local", "module:Class"]),
        (("exec", "nowhere", "--", "true"), 125, ["nowhere", "installed:"]),
        (("doctor", "cli_broken:Any"), 3, ["cli_broken:Any", "RuntimeError", "broken in two lines"]),
        (("doctor", "cli_absent:Any"), 3, ["cli_absent"]),
        (("doctor", "json:dumps"), 3, ["json:dumps", "BaseEnvironment"]),
        (("doctor", PLUGIN, "--option", "colour=red"), 2, ["colour", "knows:", "label"]),
        (("doctor", PLUGIN, "--option", "size=big"), 2, ["size", "integer"]),
        (("doctor", PLUGIN, "--option", "hunter2"), 2, ["NAME=VALUE"]),
        (("doctor", PLUGIN, "--option", "timeout=5"), 2, ["timeout", "unknown"]),
        (("doctor", PLUGIN, "--options-file", "/absent.toml"), 2, ["/absent.toml", "No such file"]),
        (("doctor", "local", "--option", "colour=red"), 2, ["colour"]),
        (("exec", "local"), 125, ["--script"]),
        (("exec", "local", "--timeout", "-1", "--", "true"), 125, ["timeout"]),
        (("exec", "local", "--", "-x"), 125, ["./-x"]),
        (("exec", "local", "--user", "nobody", "--", "true"), 125, ["user"]),
        (("exec", "local", "--colour", "--", "true"), 125, ["--colour", "exec --help"]),
        (("paint",), 2, ["paint", "--help"]),
        (("conformance", "local", "--profile", "huge"), 2, ["--profile", "quick", "full"]),
        (("write", "local", "/tmp/never", "--mode", "rw"), 2, ["octal"]),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(
    run: Run, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    """A mistake gives its documented exit code and one line on stderr, no traceback and no output."""
    done = run(*arguments)
    text = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b"")
    assert text.startswith("hermes-env: error: ") and text.count("\n") == 1, text
    assert "Traceback" not in text and "hunter2" not in text
    for word in words:
        assert word in text


def test_the_traceback_is_there_for_who_asks(run: Run) -> None:
    """HERMES_ENV_DEBUG=1 shows where an error came from."""
    done = run("doctor", "nowhere", variables={"HERMES_ENV_DEBUG": "1"})
    assert b"Traceback" in done.stderr and b"BackendNotFound" in done.stderr


@pytest.mark.parametrize(("option", "variable"), [("token", "TOKEN"), ("login", "LOGIN")])
def test_a_secret_on_the_command_line_is_refused(run: Run, option: str, variable: str) -> None:
    """An option that is or holds a secret names the safe ways to give it, and does not repeat the value."""
    done = run("doctor", PLUGIN, "--option", f"{option}=hunter2")
    text = done.stderr.decode()
    assert done.returncode == 2 and "hunter2" not in text
    assert f"HERMES_ENV_CLI_PLUGIN_VAULTENVIRONMENT_{variable}" in text and "--options-file" in text


@pytest.mark.parametrize("secret", ["hunter2", "12345678", '{"a": 1}'])
def test_a_secret_from_the_environment_arrives_and_is_not_shown(run: Run, secret: str) -> None:
    """A secret variable reaches the backend as it stands, digits too; doctor shows only where it is from."""
    variables = {"HERMES_ENV_CLI_PLUGIN_VAULTENVIRONMENT_TOKEN": secret}
    done = run("exec", PLUGIN, *SHOW, variables=variables)
    assert done.stdout.decode() == f"plain 1 {len(secret)}\n"
    told = run("doctor", PLUGIN, variables=variables)
    assert told.returncode == 0 and secret.encode() not in told.stdout + told.stderr
    assert b"from environment variable HERMES_ENV_CLI_PLUGIN_VAULTENVIRONMENT_TOKEN" in told.stdout


def test_the_command_line_wins_over_the_environment_over_the_file(run: Run, folder: Path) -> None:
    """Options come from three places in a fixed order, and doctor tells from which."""
    (folder / "options.toml").write_text('token = "from-file"\nlabel = "from-file"\nsize = 3\n')
    variables = {"HERMES_ENV_CLI_PLUGIN_VAULTENVIRONMENT_LABEL": "7"}
    given = ("--options-file", "options.toml", "--option", "size=5")
    assert run("exec", PLUGIN, *given, *SHOW, variables=variables).stdout == b"7 5 9\n"
    told = run("doctor", PLUGIN, *given, variables=variables).stdout.decode()
    lines = {
        line.split("from", 1)[0].strip(): line.split("from", 1)[1].strip()
        for line in told.splitlines()
        if "from" in line
    }
    assert lines["option token"] == "the options file"
    assert lines["option label"].startswith("environment variable")
    assert lines["option size"] == "--option"
    assert lines["option login"] == "default"
    assert "from-file" not in told


def test_an_option_may_be_called_like_an_argument(run: Run) -> None:
    """An option named `name` reaches the backend."""
    assert run("exec", PLUGIN, "--option", "name=x", *SHOW).returncode == 0


def test_options_from_json(run: Run, folder: Path) -> None:
    """A file named .json is JSON."""
    (folder / "options.json").write_text('{"size": 4, "label": "x"}')
    assert run("exec", PLUGIN, "--options-file", "options.json", *SHOW).stdout == b"x 4 4\n"


def test_doctor_settles_what_is_inside(run: Run) -> None:
    """Doctor names shell, hashers, tools and capabilities, and has sent every byte value through."""
    done = run("doctor", "local")
    assert done.returncode == 0 and done.stderr == b""
    rows = dict(line.strip().split(None, 1) for line in done.stdout.decode().splitlines())
    assert "sha256sum" in rows["hashers"]
    assert rows["bytes"] == "163840 of every value through cat: unchanged"
    assert {"cat", "sh"} <= set(rows["tools"].split())
    assert rows["isolation"] == "none"


def test_backends_lists_every_one(run: Run) -> None:
    """The table and the JSON name each installed backend with its stdin mode."""
    listed = json.loads(run("backends", "--json").stdout)
    by_name = {info["name"]: info for info in listed}
    assert by_name["local"]["stdin_mode"] == "pipe" and by_name["local"]["available"] is True
    assert by_name["local"]["capabilities"]["kill_scope"] == "command"
    table = run("backends").stdout.decode()
    for name in by_name:
        assert any(line.startswith(name) for line in table.splitlines())


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_one_line_with_the_command_that_installs_it(missing: str, folder: Path) -> None:
    """Without the extra `cli` the command says what to install, and nothing else."""
    code = f"import sys; sys.modules[{missing!r}] = None; from hermes_env._cli.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "backends"],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "pip install 'hermes-env[cli]'" in done.stderr


def test_the_version(run: Run) -> None:
    """`--version` prints the version that is installed."""
    done = run("--version")
    assert (done.returncode, done.stdout.decode()) == (0, f"hermes-env {importlib.metadata.version('hermes-env')}\n")


def test_a_copy_without_a_path_names_the_argument_as_it_was_given(run: Run, folder: Path) -> None:
    """The argument without a path is repeated with one colon."""
    (folder / "x").write_bytes(b"x")
    done = run("cp", "x", "local:")
    assert done.returncode == 2
    assert b" local: names no path" in done.stderr
