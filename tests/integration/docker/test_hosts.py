"""Ways to an engine: TLS, ssh, DOCKER_HOST and contexts; each carries every byte, and refuses by name."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_env import BackendUnavailable, BaseEnvironment, CommandTimeout, InvalidArgument, open_environment, reap
from tests.engine import IMAGE, Engine
from tests.sshd import Sshd, missing, running

from .own_engine import OwnEngine
from .test_kill import sleeping, wait_until


@pytest.fixture(autouse=True)
def nothing_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine's own docker settings take no part."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def encrypted(own: OwnEngine) -> Iterator[BaseEnvironment]:
    """A container that is reached by TLS."""
    with open_environment("docker", image=IMAGE, **tls_options(own), ttl=600) as made:
        yield made


def tls_options(own: OwnEngine, who: str = "client") -> dict[str, Any]:
    """How the tests' own engine is reached by TLS."""
    return {"host": own.address, "tls": str(own.certificates / who)}


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """An SSH server on this machine, with a client's configuration file for it."""
    if problem := missing("ssh"):
        pytest.skip(problem)
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    with running(server):
        (server.folder / "ssh_config").write_text(
            f"Host 127.0.0.1\n IdentityFile {server.key}\n IdentitiesOnly yes\n"
            f" UserKnownHostsFile {server.known_hosts}\n GlobalKnownHostsFile none\n"
        )
        yield server


@pytest.fixture
def tunnelled(sshd: Sshd, engine: Engine) -> dict[str, Any]:
    """Options that reach the engine under test by ssh."""
    path = engine.host.removeprefix("unix://")
    return {
        "host": f"ssh://{sshd.user}@127.0.0.1:{sshd.port}{path}",
        "ssh_config": str(sshd.folder / "ssh_config"),
    }


def carries_everything(env: BaseEnvironment) -> None:
    """Stdin of every kind ends, streams are exact and apart, files are verified."""
    data = os.urandom((3 << 20) + 1)
    assert env.exec("cat", stdin=data).stdout == data
    assert (
        env.exec("cat", stdin=iter([data[:100_000], b"\0", data[100_000:]])).stdout
        == data[:100_000] + b"\0" + data[100_000:]
    )
    assert env.exec("cat; echo end >&2; exit 3", stdin=b"").stderr == b"end\n"
    assert env.exec("cat").stdout == b""
    assert env.files.write_bytes("/tmp/file", data).sha256 == hashlib.sha256(data).hexdigest()
    assert env.files.read_bytes("/tmp/file") == data
    live = env.start("while read -r line; do echo got $line; done; echo over", live_stdin=True)
    live.write(b"one\n")
    assert next(iter(live)) == ("stdout", b"got one\n")
    live.write(b"two\n")
    live.close_stdin()
    assert live.wait(60).stdout == b"got one\ngot two\nover\n"


def unread_stdin_loses_nothing(env: BaseEnvironment) -> None:
    """A command that reads none of a long stdin ends with all of its output and its exit code."""
    result = env.exec("head -c 2000000 /dev/zero; exit 3", stdin=bytes(3 << 20))
    assert (len(result.stdout), result.exit_code) == (2_000_000, 3)


def test_tls_carries_everything(encrypted: BaseEnvironment) -> None:
    """Over TLS stdin is framed by length, since closing one direction would end both; every byte arrives."""
    assert not encrypted.capabilities.half_close
    carries_everything(encrypted)
    unread_stdin_loses_nothing(encrypted)


def test_tls_command_that_ends_first(encrypted: BaseEnvironment) -> None:
    """A command that ends while more stdin could come ends there; writing to it is a broken pipe."""
    live = encrypted.start("echo begun; exit 5", live_stdin=True)
    result = live.wait(60)
    assert (result.stdout, result.exit_code) == (b"begun\n", 5)
    with pytest.raises(BrokenPipeError):
        live.write(b"late\n")


def test_tls_kill(encrypted: BaseEnvironment) -> None:
    """A command that is reached by TLS is killed with its tree, also while its stdin is being sent."""
    mark = f"{100_000 + int.from_bytes(os.urandom(4), 'big')}"
    with pytest.raises(CommandTimeout) as caught:
        encrypted.exec(f"echo begun; sleep {mark} & sleep {mark}", stdin=os.urandom(8 << 20), timeout=2.0)
    assert caught.value.result.stdout == b"begun\n" and not caught.value.result.kill_unconfirmed
    assert sleeping(mark) == []
    assert encrypted.exec("echo alive").text == "alive\n"


def test_tls_refusals(own: OwnEngine, tmp_path: Path) -> None:
    """A stranger's certificate, an engine nobody vouches for and missing files are refused with the reason."""
    stranger = {"image": IMAGE, **tls_options(own, "stranger")}
    with pytest.raises(BackendUnavailable, match="TLS") as caught:
        open_environment("docker", **stranger)
    assert caught.value.reason == "denied"
    distrust = tmp_path / "distrust"
    distrust.mkdir()
    for name in ("cert.pem", "key.pem"):
        (distrust / name).write_bytes((own.certificates / "client" / name).read_bytes())
    with pytest.raises(InvalidArgument, match=r"ca\.pem"):
        open_environment("docker", image=IMAGE, host=own.address, tls=str(distrust))
    (distrust / "ca.pem").write_bytes((own.certificates / "other.pem").read_bytes())
    with pytest.raises(BackendUnavailable, match="certificate") as caught:
        open_environment("docker", image=IMAGE, host=own.address, tls=str(distrust))
    assert caught.value.reason == "denied"


def test_certificates_of_other_programs_do_not_count(
    own: OwnEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A bundle or proxy for web requests, named in the environment, changes nothing about the way to the engine."""
    (tmp_path / "bundle").write_bytes((own.certificates / "other.pem").read_bytes())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "bundle"))
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    with open_environment("docker", image=IMAGE, **tls_options(own), ttl=600) as env:
        assert env.exec("echo reached").text == "reached\n"


def test_addresses_from_the_environment(own: OwnEngine, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """DOCKER_HOST is used, with the certificates that DOCKER_CERT_PATH names; an option comes before it."""
    monkeypatch.setenv("DOCKER_HOST", own.address)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(own.certificates / "client"))
    with open_environment("docker", image=IMAGE, ttl=600) as env:
        assert own.engine.inspect(env.ref.partition("://")[2], "{{.State.Running}}") == "true"
    with open_environment("docker", image=IMAGE, host=engine.host, ttl=600) as env:
        assert engine.inspect(env.ref.partition("://")[2], "{{.State.Running}}") == "true"


def test_contexts(own: OwnEngine, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context of the `docker` command is used with its certificates, by DOCKER_CONTEXT and as the current one."""
    folder = own.certificates / "client"
    given = f"host={own.address},ca={folder}/ca.pem,cert={folder}/cert.pem,key={folder}/key.pem"
    docker("context", "create", "far", "--docker", given)
    docker("context", "create", "near", "--docker", f"host={engine.host}")
    docker("context", "use", "near")
    for chosen, there in ((None, engine), ("far", own.engine)):
        if chosen:
            monkeypatch.setenv("DOCKER_CONTEXT", chosen)
        with open_environment("docker", image=IMAGE, ttl=600) as env:
            assert there.inspect(env.ref.partition("://")[2], "{{.State.Running}}") == "true"
    monkeypatch.setenv("DOCKER_CONTEXT", "nowhere")
    with pytest.raises(InvalidArgument, match="nowhere"):
        open_environment("docker", image=IMAGE)


def docker(*args: str) -> None:
    """The `docker` command without an engine's address."""
    subprocess.run(["docker", *args], check=True, capture_output=True)


def test_ssh_carries_everything(tunnelled: dict[str, Any]) -> None:
    """Over ssh:// stdin is closed alone, as on the engine's own socket; nothing is left of the tunnel."""
    before = tunnels()
    with open_environment("docker", image=IMAGE, **tunnelled, ttl=600) as env:
        assert env.capabilities.half_close and tunnels() - before
        carries_everything(env)
        unread_stdin_loses_nothing(env)
    assert tunnels() == before


def tunnels() -> set[str]:
    """The ssh processes of this machine that forward to an engine, read from /proc by no code of ours."""
    script = "grep -lsa hermes-env-tunnel /proc/[0-9]*/cmdline | xargs -r grep -lsaE '^ssh'"
    return set(subprocess.run(["sh", "-c", script], capture_output=True, check=False).stdout.decode().split())


def test_ssh_tunnel_ends_with_its_client(tunnelled: dict[str, Any], engine: Engine) -> None:
    """When the client is SIGKILLed, its commands, its tunnel and then its container go."""
    before = tunnels()
    script = textwrap.dedent(
        """
        import json, sys, time
        from hermes_env import open_environment
        env = open_environment("docker", **json.loads(sys.argv[1]))
        env.start("sleep " + sys.argv[2])
        print(env.ref.partition("://")[2], flush=True)
        time.sleep(600)
        """
    )
    mark = f"{100_000 + int.from_bytes(os.urandom(4), 'big')}"
    options = json.dumps({"image": IMAGE, "ttl": 600, **tunnelled})
    with subprocess.Popen([sys.executable, "-c", script, options, mark], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        ident = client.stdout.readline().decode().strip()
        wait_until(lambda: len(sleeping(mark)) == 1, "the command did not start")
        client.kill()
    wait_until(lambda: sleeping(mark) == [], "the command outlived its client")
    wait_until(lambda: tunnels() == before, "the tunnel outlived its client")
    assert ident in reap("docker", host=engine.host)


def test_ssh_refusals(tunnelled: dict[str, Any], sshd: Sshd, tmp_path: Path) -> None:
    """An unknown host key, a refused login and a socket that is not there are errors with ssh's own words."""
    strange = tmp_path / "ssh_config"
    text = (sshd.folder / "ssh_config").read_text()
    strange.write_text(text.replace(str(sshd.known_hosts), "/dev/null"))
    with pytest.raises(BackendUnavailable, match=r"[Hh]ost key"):
        open_environment("docker", image=IMAGE, **{**tunnelled, "ssh_config": str(strange)})
    strange.write_text(text.replace(str(sshd.key), "/dev/null"))
    with pytest.raises(BackendUnavailable, match="Permission denied") as caught:
        open_environment("docker", image=IMAGE, **{**tunnelled, "ssh_config": str(strange)})
    assert caught.value.reason == "unreachable"
    with pytest.raises(BackendUnavailable):
        open_environment("docker", image=IMAGE, **{**tunnelled, "host": f"ssh://127.0.0.1:{sshd.port}/no/such.sock"})
    with pytest.raises(InvalidArgument, match="host"):
        open_environment("docker", image=IMAGE, host="ssh://")
