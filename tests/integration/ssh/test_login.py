"""Host keys, keys, passwords, agents, and the ways to a host."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import BackendUnavailable, InvalidArgument, open_environment
from tests import sshd
from tests.proxy import proxied

if TYPE_CHECKING:
    from tests.sshd import Account, Sshd

Start = Callable[..., "Sshd"]


def works(**options: Any) -> bool:
    """Whether a command runs with these options."""
    with open_environment("ssh", **options) as env:
        return env.exec("echo hi").stdout == b"hi\n"


# -- host keys ----------------------------------------------------------------------------------------------------


def test_an_unknown_host_is_rejected(server: Sshd, tmp_path: Path) -> None:
    """By default nothing is added and nobody is logged in."""
    known = tmp_path / "known"
    with pytest.raises(BackendUnavailable, match=r"is not known.*accept-new") as caught:
        works(**server.options(known_hosts=str(known)))
    assert caught.value.reason == "denied"
    assert "SHA256:" in str(caught.value)
    assert not known.exists()


def test_accept_new_remembers(server: Sshd, tmp_path: Path) -> None:
    """A host accepted once is known to OpenSSH too, by the same file."""
    known = tmp_path / "known"
    assert works(**server.options(known_hosts=str(known), host_keys="accept-new"))
    assert works(**server.options(known_hosts=str(known)))
    found = subprocess.run(["ssh-keygen", "-F", f"[127.0.0.1]:{server.port}", "-f", str(known)], check=False)
    assert found.returncode == 0


@pytest.mark.parametrize("policy", ["reject", "accept-new"])
def test_a_changed_host_key_is_refused(server: Sshd, tmp_path: Path, policy: str) -> None:
    """A server with another key than the known one gets no password, whatever the policy."""
    other = Path(f"{sshd.make_key(tmp_path / 'other')}.pub").read_text().split()
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.port} {other[0]} {other[1]}\n")
    asked: list[int] = []

    def password() -> str:
        asked.append(1)
        return "secret"

    with pytest.raises(BackendUnavailable, match="is not the one"):
        works(**server.options(known_hosts=str(known), host_keys=policy, key_file=None, password=password))
    assert asked == []
    assert known.read_text().count("\n") == 1


def test_the_known_kind_of_key_is_asked_for(start: Start, tmp_path: Path) -> None:
    """A server with several keys is known by any one of them."""
    rsa = sshd.make_key(tmp_path / "rsa_host", kind="rsa")
    server = start(lines=(f"HostKey {rsa}",))
    public = Path(f"{rsa}.pub").read_text().split()
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {public[0]} {public[1]}\n")
    assert works(**server.options())


# -- credentials --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_kinds_of_keys(start: Start, tmp_path: Path, kind: str) -> None:
    """Keys of every kind in use log in, with a passphrase given as text or by a callable when it is needed."""
    server = start()
    key = sshd.make_key(tmp_path / kind, kind=kind, passphrase="open sesame")
    with open(server.folder / "authorized_keys", "a") as file:
        file.write(Path(f"{key}.pub").read_text())
    assert works(**server.options(key_file=str(key), passphrase="open sesame"))
    assert works(**server.options(key_file=[str(tmp_path / "absent"), str(key)], passphrase=lambda: "open sesame"))
    with pytest.raises(BackendUnavailable, match="encrypted") as caught:
        works(**server.options(key_file=str(key)))
    assert caught.value.reason == "no_credentials"
    with pytest.raises(BackendUnavailable, match="passphrase"):
        works(**server.options(key_file=str(key), passphrase="wrong"))


def test_a_key_that_is_not_accepted(server: Sshd, tmp_path: Path) -> None:
    """The error says what was tried, never a secret."""
    key = sshd.make_key(tmp_path / "stranger")
    with pytest.raises(BackendUnavailable, match="stranger") as caught:
        works(**server.options(key_file=str(key), password="hunter2"))
    assert caught.value.reason == "denied"
    assert "hunter2" not in str(caught.value)


def test_nothing_to_log_in_with(server: Sshd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a key, an agent and a password the error says what to give."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(BackendUnavailable, match="key_file or password") as caught:
        works(**server.options(key_file=None))
    assert caught.value.reason == "no_credentials"


@contextlib.contextmanager
def agent(folder: Path, *keys: Path) -> Iterator[str]:
    """A real agent with these keys; its socket."""
    path = str(folder / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        subprocess.run(
            ["ssh-add", "-q", *map(str, keys)], env={**os.environ, "SSH_AUTH_SOCK": path}, check=True, timeout=30
        )
        yield path
    finally:
        process.terminate()
        process.wait()


def test_agent_keys(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's keys log in, by variable or by the configuration's socket; it is not forwarded."""
    monkeypatch.setenv("HOME", str(tmp_path))
    stranger = sshd.make_key(tmp_path / "stranger")
    with agent(tmp_path, stranger, server.key) as path:
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        with open_environment("ssh", **server.options(key_file=None)) as env:
            assert env.exec('printf "%s" "${SSH_AUTH_SOCK-none}"').stdout == b"none"
        monkeypatch.delenv("SSH_AUTH_SOCK")
        config = tmp_path / "config"
        config.write_text(f"IdentityAgent {path}\nIdentitiesOnly yes\nIdentityFile {server.key}\n")
        assert works(**server.options(key_file=None, config=str(config)))
        config.write_text(f"IdentityAgent {path}\nIdentitiesOnly yes\nIdentityFile {tmp_path}/nothing\n")
        with pytest.raises(BackendUnavailable) as caught:
            works(**server.options(key_file=None, config=str(config)))
        assert caught.value.reason == "no_credentials"


@pytest.fixture
def person() -> Iterator[Account]:
    """A temporary account with a password."""
    if os.geteuid() != 0:
        pytest.skip("only root can make accounts")
    with sshd.account() as made:
        yield made


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
def test_password(start: Start, person: Account, method: str) -> None:
    """A password logs in by both methods, as text or from a callable; a wrong one is denied."""
    lines = {
        "password": ("PasswordAuthentication yes", "KbdInteractiveAuthentication no"),
        "keyboard-interactive": ("PasswordAuthentication no", "KbdInteractiveAuthentication yes"),
    }[method]
    pam = "UsePAM no" if method == "password" else "UsePAM yes"
    server = start(lines=lines, before=(pam,))
    options = server.options(user=person.name, key_file=None, agent=False)
    assert works(**options, password=person.password)
    assert works(**options, password=lambda: person.password)
    with pytest.raises(BackendUnavailable, match="password") as caught:
        works(**options, password="wrong")
    assert caught.value.reason == "denied"


# -- ways ---------------------------------------------------------------------------------------------------------


def test_nobody_listens() -> None:
    """A refused connection is `unreachable`, and so is a name that does not exist."""
    for host, port in (("127.0.0.1", sshd.free_port()), ("no-such-host.invalid", 22)):
        with pytest.raises(BackendUnavailable) as caught:
            works(host=host, port=port, config="none", connect_timeout=5)
        assert caught.value.reason == "unreachable"
        assert caught.value.retryable


def test_what_listens_is_silent(server: Sshd) -> None:
    """A peer that accepts and says nothing costs the time limit and no more."""
    with proxied(server.port) as proxy:
        proxy.stall()
        began = time.monotonic()
        with pytest.raises(BackendUnavailable) as caught:
            works(**server.options(port=proxy.port, connect_timeout=1))
        assert caught.value.reason == "unreachable"
        assert time.monotonic() - began < 15


def test_chain_of_jump_hosts(start: Start, tmp_path: Path) -> None:
    """Two hosts on the way, by option and by configuration, each with its host key checked."""
    first, second, last = start(), start(), start()
    known = tmp_path / "known"
    known.write_text("".join(server.known_hosts.read_text() for server in (first, second, last)))
    for server in (first, second):
        (server.folder / "authorized_keys").write_text(Path(f"{last.key}.pub").read_text())
    options = last.options(known_hosts=str(known))
    jump = f"{first.user}@127.0.0.1:{first.port},{first.user}@127.0.0.1:{second.port}"
    with open_environment("ssh", **options, jump=jump) as env:
        assert env.exec("cat", stdin=bytes(3 << 20)).stdout == bytes(3 << 20)
        peer = env.exec("echo $SSH_CONNECTION").text.split()
        # A channel that closes while there is still something to send must not cost the way a byte.
        for _ in range(40):
            assert env.exec("head -c 100000", stdin=bytes(300_000)).stdout == bytes(100_000)
    assert peer[3] == str(last.port)
    for server in (first, second):
        assert "Accepted publickey" in (server.folder / "log").read_text()
    known.write_text("".join(server.known_hosts.read_text() for server in (first, last)))
    with pytest.raises(BackendUnavailable, match=str(second.port)):
        works(**options, jump=jump)


def test_configuration_with_jump_and_include(start: Start, tmp_path: Path) -> None:
    """A `Host` of an included file says everything: name, port, account, keys, known hosts and the way."""
    gate, last = start(), start()
    (tmp_path / "hosts").write_text(
        f"Host inner\n HostName 127.0.0.1\n Port {last.port}\n User {last.user}\n IdentityFile {last.key}\n"
        f" UserKnownHostsFile {last.known_hosts}\n ProxyJump gate\n"
        f"Host gate\n HostName 127.0.0.1\n Port {gate.port}\n User {gate.user}\n IdentityFile {gate.key}\n"
        f" UserKnownHostsFile {gate.known_hosts}\n"
    )
    (tmp_path / "config").write_text(f"Include {tmp_path}/ho*\n")
    assert works(host="inner", config=str(tmp_path / "config"), agent=False)
    assert "Accepted publickey" in (gate.folder / "log").read_text()


def test_proxy_command(start: Start) -> None:
    """The streams of a command are the connection, and the command is gone afterwards."""
    gate, last = start(), start()
    command = (
        f"ssh -F none -i {gate.key} -o UserKnownHostsFile={gate.known_hosts} -l {gate.user} -p {gate.port} "
        "-W %h:%p 127.0.0.1"
    )
    assert works(**last.options(proxy_command=command))
    assert "Accepted publickey" in (gate.folder / "log").read_text()
    with pytest.raises(BackendUnavailable) as caught:
        works(**last.options(proxy_command="exit 3"))
    assert caught.value.reason == "unreachable"


def test_a_broken_configuration_opens_nothing(tmp_path: Path) -> None:
    """A line that cannot be understood is an error of the caller, before anything is connected."""
    (tmp_path / "config").write_text("Match localnetwork x\n")
    with pytest.raises(InvalidArgument, match="localnetwork"):
        works(host="h", config=str(tmp_path / "config"))
    with pytest.raises(InvalidArgument, match="no such file"):
        works(host="h", config=str(tmp_path / "absent"))


def test_dropbear(tmp_path: Path, person: Account) -> None:
    """Another server implementation: bytes, status, kill, several commands at once."""
    if sshd.find("dropbear") is None or sshd.find("dropbearkey") is None:
        pytest.skip("dropbear is not installed")
    with (
        sshd.dropbear(tmp_path, person) as server,
        open_environment("ssh", **server.options()) as env,
    ):
        data = bytes(range(256)) * 40_000
        result = env.exec("cat; echo e >&2; exit 5", stdin=data, timeout=120)
        assert (result.stdout == data, result.stderr, result.exit_code) == (True, b"e\n", 5)
        assert env.exec("kill -s KILL $$").exit_code == 137
        assert env.exec("kill -s TERM $$").exit_code == 143
        assert env.exec("head -c 3145728 /dev/zero >&2", timeout=60).stderr_total == 3 << 20
        processes = [env.start(f"read x; echo {n}; cat", stdin=b"go\n" + data[:100_000]) for n in range(5)]
        assert [process.wait(60).stdout for process in processes] == [
            f"{n}\n".encode() + data[:100_000] for n in range(5)
        ]
        for number in range(60):
            assert env.exec("cat", stdin=b"%d" % number).stdout == b"%d" % number
        sleeper = env.start("setsid sleep 1000 & echo on; sleep 1000")
        assert next(iter(sleeper)) == ("stdout", b"on\n")
        sleeper.kill()
        assert sleeper.state == "cancelled"
