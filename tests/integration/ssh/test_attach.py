"""Refs of hosts: what they look like, what joins by them, and what is refused."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_env import BaseEnvironment, InvalidArgument, attach, open_environment
from hermes_env_ssh._place import parse_place
from tests.processes import marked
from tests.sshd import Sshd


@pytest.fixture
def access(server: Sshd) -> dict[str, Any]:
    """What a ref does not say: how to get in."""
    return {name: value for name, value in server.options().items() if name not in ("host", "port", "user")}


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command line, in a process of its own."""
    argv = [sys.executable, "-m", "hermes_env", *arguments]
    return subprocess.run(argv, input=stdin, capture_output=True, timeout=120, check=False)


def test_a_ref_is_the_uri_that_openssh_takes(server: Sshd, env: BaseEnvironment) -> None:
    """It names account, host and port, and nothing secret."""
    assert env.ref == f"ssh://{server.user}@127.0.0.1:{server.port}"
    assert env.expires_at is None


def test_other_programs_work_by_the_ref(
    server: Sshd, access: dict[str, Any], env: BaseEnvironment, tmp_path: Path
) -> None:
    """What one client leaves, `exec`, `read`, `write` and `cp` of another process find by the ref alone."""
    options = tmp_path / "options.json"
    options.write_text(json.dumps(access))
    held = str(tmp_path / "held")
    env.files.write_bytes(held, b"\0 from the first client")
    ref, given = env.detach(), ("--options-file", str(options))
    assert run("read", ref, held, *given).stdout == b"\0 from the first client"
    assert run("write", ref, f"{held}2", *given, stdin=b"\xff\0").returncode == 0
    done = run("cp", f"{ref}:{held}2", str(tmp_path / "copy"), *given)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copy").read_bytes() == b"\xff\0"
    done = run("exec", ref, *given, "--", "sh", "-c", "echo $SSH_CONNECTION")
    assert done.stdout.split()[-1] == str(server.port).encode()


def test_a_host_keeps_the_name_that_it_was_given_by(server: Sshd, tmp_path: Path) -> None:
    """A ref leads through the configuration again: to keys and known hosts, under the same name."""
    config = tmp_path / "config"
    config.write_text(
        f"Host build\n HostName 127.0.0.1\n Port {server.port}\n User {server.user}\n IdentityFile {server.key}\n"
        f" UserKnownHostsFile {server.known_hosts}\n"
    )
    with open_environment("ssh", host="build", config=str(config)) as env:
        assert env.ref == f"ssh://{server.user}@build:{server.port}"
        with attach(env.ref, config=str(config)) as guest:
            assert guest.exec("echo $PPID").ok and guest.ref == env.ref
        assert env.exec("true").ok
    with attach("ssh://build", config=str(config)) as env:
        assert env.exec("true").ok


def test_two_clients_share_a_host(server: Sshd, access: dict[str, Any], env: BaseEnvironment) -> None:
    """The first one's command runs on when the second one leaves, which ends its own."""
    process, mark = env.start("cat", live_stdin=True), f"HERMES_TEST_{secrets.token_hex(8)}"
    with attach(env.ref, **access) as guest:
        next(iter(guest.start("echo; sleep 600", env={mark: "1"})))
        assert marked(mark)
    assert not marked(mark)
    process.write(b"still here")
    process.close_stdin()
    assert process.wait(30).stdout == b"still here"


def test_options_cannot_contradict_a_ref(server: Sshd, access: dict[str, Any], env: BaseEnvironment) -> None:
    """An option that says the same is taken; one that says something else is refused by name."""
    with attach(env.ref, host="127.0.0.1", **access) as guest:
        assert guest.exec("true").ok
    with pytest.raises(InvalidArgument, match=r"'host'.*ref"):
        attach(env.ref, host="localhost", **access)
    done = run("read", env.ref, "file", "--option", "port=1")
    assert done.returncode == 2 and b"port" in done.stderr


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("host", (None, "host", None)),
        ("me@host:2222", ("me", "host", 2222)),
        ("me@corp.example@host", ("me@corp.example", "host", None)),
        ("[2001:db8::1]:22", (None, "2001:db8::1", 22)),
        ("me@[::1]", ("me", "::1", None)),
        ("2001:db8::1", (None, "2001:db8::1", None)),
    ],
)
def test_places_are_understood(text: str, place: tuple[str | None, str, int | None]) -> None:
    """Names, addresses of both kinds, ports, and accounts with an @; what is written is read again."""
    assert parse_place("ref", text) == place
    assert parse_place("ref", str(parse_place("ref", text))) == place


@pytest.mark.parametrize("text", ["", "@host", "me@", "host:", "host:0", "host:65536", "host:٢٢", "[::1", "a/b"])
def test_what_is_no_place_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(InvalidArgument, match=r"\[user@\]host\[:port\]"):
        parse_place("ref", text)


def test_a_password_in_a_ref_is_refused_and_not_shown() -> None:
    """A ref is passed around and logged."""
    with pytest.raises(InvalidArgument) as caught:
        attach("ssh://me:wonderland@host")
    assert "password" in str(caught.value) and "wonderland" not in str(caught.value)
