"""How a command is prepared for what a backend can carry."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hermes_env import Capabilities, Launch, PayloadTooLarge, StdinSource
from hermes_env._command import MAX_ARGUMENT, Carriage, Command, Prepared, payload, prepare
from hermes_env._launch import COMMAND_ID_VARIABLE
from hermes_env._shell import LAUNCHER

ALL = Carriage(env=True, cwd=True, raw_bytes=True)
NOTHING = Carriage(env=False, cwd=False, raw_bytes=False)
FULL = Capabilities(half_close=True)
SECRET = "canary-51f2"
ODD = "\udcff\udc80"


def source(data: bytes, *, sized: bool = True) -> StdinSource:
    """A payload, with or without a length that is known in advance."""
    return StdinSource(len(data) if sized else None, iter([data]))


def on_wire(launch: Launch) -> str:
    """All that other processes can read: script, arguments, directory."""
    return "\n".join([launch.script, *launch.args, launch.cwd or ""])


def run(prepared: Prepared, command: Command) -> subprocess.CompletedProcess[bytes]:
    """Do what a backend does: start the launch, send the head and then the payload."""
    env = {"PATH": "/usr/bin:/bin", **prepared.launch.env}
    stdin = prepared.head + b"".join(bytes(chunk) for chunk in payload(command, frames=prepared.frames))
    return subprocess.run(
        prepared.launch.argv(),
        input=stdin,
        capture_output=True,
        env=env,
        cwd=prepared.launch.cwd,
        timeout=60,
        check=False,
    )


def test_a_capable_backend_gets_the_script_itself() -> None:
    """Where everything can be carried nothing is wrapped."""
    command = Command("echo hi", env={"A": SECRET}, cwd="/tmp", stdin=source(b"x"))
    prepared = prepare(command, ALL, FULL)
    assert (prepared.launch.script, prepared.launch.args, prepared.head) == ("echo hi", (), b"")
    assert prepared.launch.cwd == "/tmp" and prepared.launch.stdin is command.stdin
    assert prepared.launch.env == {"A": SECRET, COMMAND_ID_VARIABLE: command.id}


@pytest.mark.parametrize("carriage", [ALL, NOTHING, replace(NOTHING, env=True), replace(ALL, env=False)])
@pytest.mark.parametrize("half_close", [True, False])
def test_values_of_variables_are_in_no_argument(carriage: Carriage, half_close: bool) -> None:
    """Whatever a backend carries, a value travels in the process environment or on stdin, never in script or argv."""
    command = Command("true", env={"A": SECRET}, stdin=source(SECRET.encode()))
    prepared = prepare(command, carriage, Capabilities(half_close=half_close))
    assert SECRET not in on_wire(prepared.launch)
    assert (SECRET.encode() in prepared.head) != carriage.env
    assert SECRET not in repr(command) and SECRET not in repr(prepared.launch)


@pytest.mark.parametrize("carriage", [ALL, NOTHING, replace(NOTHING, env=True), replace(ALL, raw_bytes=False)])
@pytest.mark.parametrize("half_close", [True, False])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("large", [False, True])
def test_the_command_is_the_same_however_it_travels(
    carriage: Carriage, half_close: bool, sized: bool, large: bool
) -> None:
    """Output, exit code, directory, variables and odd arguments do not depend on what the backend carries."""
    padding = "# " + "x" * MAX_ARGUMENT + "\n" if large else ""
    script = padding + 'printf "%s|" "$A" "$(pwd)"; cat; exit 3'
    data = bytes(range(256)) * 300
    command = Command(script, env={"A": SECRET + ODD + "\n"}, cwd="/usr", stdin=source(data, sized=sized))
    prepared = prepare(command, carriage, Capabilities(half_close=half_close))
    done = run(prepared, command)
    assert done.stderr == b""
    assert done.stdout == SECRET.encode() + b"\xff\x80\n|/usr|" + data
    assert done.returncode == 3


@pytest.mark.parametrize("carriage", [ALL, NOTHING])
def test_an_argv_stays_literal(carriage: Carriage) -> None:
    """No shell reads the parts of an argv, and odd bytes in them arrive."""
    command = Command(("printf", "%s|", "$HOME", "*", "", ODD, "-n"))
    done = run(prepare(command, carriage, FULL), command)
    assert done.stdout == b"$HOME|*||\xff\x80|-n|"


def test_only_ascii_is_put_where_raw_bytes_do_not_arrive() -> None:
    """A backend whose arguments are text gets a constant launcher and the rest on stdin."""
    prepared = prepare(Command(("echo", "é")), replace(ALL, raw_bytes=False), FULL)
    assert prepared.launch.script == LAUNCHER and on_wire(prepared.launch).isascii() and prepared.head.isascii()


@pytest.mark.parametrize(("limit", "wrapped"), [(None, False), (100, False), (20, True)])
def test_a_script_over_the_limit_travels_on_stdin(limit: int | None, wrapped: bool) -> None:
    """Above `max_script_bytes` the command text is constant."""
    prepared = prepare(Command("echo " + "x" * 40), ALL, replace(FULL, max_script_bytes=limit))
    assert (prepared.launch.script == LAUNCHER) is wrapped


def test_a_payload_over_the_limit_is_refused() -> None:
    """A known size above `max_stdin_bytes` is refused before anything runs; at the limit it passes."""
    capabilities = replace(FULL, max_stdin_bytes=4)
    assert prepare(Command("cat", stdin=source(b"1234")), ALL, capabilities)
    with pytest.raises(PayloadTooLarge, match="5 bytes"):
        prepare(Command("cat", stdin=source(b"12345")), ALL, capabilities)


@pytest.mark.parametrize(("stdin", "frames"), [(None, False), (b"sized", False), ([b"a", b"b"], True)])
def test_frames_are_for_payloads_of_unknown_length(stdin: Any, frames: bool) -> None:
    """Without half-close a payload of known length ends by length, and any other one comes in frames."""

    def chunks() -> Iterator[bytes]:
        yield from stdin

    given = None if stdin is None else source(stdin) if isinstance(stdin, bytes) else StdinSource(None, chunks())
    assert prepare(Command("cat", stdin=given), ALL, Capabilities()).frames is frames
    assert prepare(Command("cat", live_stdin=True), ALL, Capabilities()).frames is True


def test_messages_do_not_show_the_command() -> None:
    """A command is described by its program or its length; text and arguments may hold secrets."""
    assert SECRET not in Command(f"echo {SECRET}").describe()
    assert SECRET not in Command(("echo", SECRET)).describe() and "'echo'" in Command(("echo", SECRET)).describe()
