"""Links that are cut and containers that go away: every fault is an error of its own, never output or an exit code."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    EnvironmentGone,
    OutcomeUnknown,
    open_environment,
)
from tests.engine import IMAGE, Engine

from .proxy import Cut, Proxy


@pytest.fixture
def proxy(engine: Engine) -> Iterator[Proxy]:
    """A way to the engine that a test can cut."""
    with Proxy(engine) as made:
        yield made


@pytest.fixture
def far(proxy: Proxy, foreign: str) -> Iterator[BaseEnvironment]:
    """A container that is reached over TCP, through the proxy."""
    with open_environment("docker", container=foreign, host=proxy.host) as env:
        # The first command also starts the watcher, by requests like its own.
        env.exec("true")
        yield env


def runs(engine: Engine, container: str) -> int:
    """How often the command of these tests ran, counted by the file that it appends to."""
    return len(engine.cli("exec", container, "cat", "/tmp/ran").stdout.split())


RUN = "echo ran >>/tmp/ran; printf %0100d 1; sleep 1; printf %0100d 2; exit 3"


def test_tcp_carries_everything(far: BaseEnvironment) -> None:
    """Over TCP, stdin ends, both streams are exact, and unread stdin loses no output."""
    data = os.urandom(5 << 20)
    assert far.exec("cat", stdin=data).stdout == data
    for _ in range(10):
        result = far.exec("head -c 2000000 /dev/zero; exit 3", stdin=data)
        assert (len(result.stdout), result.exit_code) == (2_000_000, 3)


@pytest.mark.parametrize("at", ["before", "unanswered"])
def test_cut_before_the_command_could_start(
    far: BaseEnvironment, proxy: Proxy, engine: Engine, foreign: str, at: str
) -> None:
    """A link cut while the exec is only being created means: nothing ran, and it can be tried again."""
    proxy.cut = Cut("/exec HTTP", at)
    with pytest.raises(BackendUnavailable) as caught:
        far.exec(RUN)
    assert caught.value.reason == "unreachable" and caught.value.retryable
    assert runs(engine, foreign) == 0
    assert far.exec("echo again").text == "again\n"


@pytest.mark.parametrize(
    ("at", "after", "ran"),
    [
        pytest.param("before", 0, 0, id="start not sent"),
        pytest.param("unanswered", 0, 1, id="start not answered"),
        pytest.param("body", 0, 1, id="before output"),
        pytest.param("body", 5, 1, id="in a frame header"),
        pytest.param("body", 58, 1, id="in a frame"),
        pytest.param("body", 108, 1, id="between two frames"),
    ],
)
def test_cut_after_dispatch(
    far: BaseEnvironment, proxy: Proxy, engine: Engine, foreign: str, at: str, after: int, ran: int
) -> None:
    """A link cut from the start request on is OutcomeUnknown, with the output so far; the command runs once at most."""
    cut = proxy.cut = Cut("/start HTTP", at, after)
    with pytest.raises(OutcomeUnknown) as caught:
        far.exec(RUN)
    assert cut.done.wait(30)
    whole = b"%0100d" % 1
    result = caught.value.result
    assert result.stdout == (whole if after == 108 else b"") and result.exit_code == -1
    end = time.monotonic() + 30
    while runs(engine, foreign) < ran and time.monotonic() < end:
        time.sleep(0.05)
    assert runs(engine, foreign) == ran
    assert far.exec("echo again").text == "again\n"


@pytest.mark.parametrize("at", ["before", "unanswered"])
def test_cut_while_the_watcher_is_started(proxy: Proxy, engine: Engine, foreign: str, at: str) -> None:
    """A link cut ahead of the first command: nothing ran, and the lost watcher kills nothing later."""
    with open_environment("docker", container=foreign, host=proxy.host) as env:
        proxy.cut = Cut("/start HTTP", at)
        with pytest.raises(BackendUnavailable) as caught:
            env.exec(RUN)
        assert caught.value.retryable and runs(engine, foreign) == 0
        assert env.exec("sleep 4; echo unharmed").text == "unharmed\n"


def test_links_that_are_cut_and_made_again(proxy: Proxy, foreign: str) -> None:
    """After a cut of every link the commands of before are ended, and those of after are not."""
    with open_environment("docker", container=foreign, host=proxy.host) as env:
        process = env.start("echo begun; sleep 300; :")
        assert next(iter(process)) == ("stdout", b"begun\n")
        proxy.drop_all()
        assert env.exec("sleep 4; echo unharmed").text == "unharmed\n"
        with pytest.raises(OutcomeUnknown):
            process.wait(60)
        assert "sleep 300" not in env.exec("ps -o args").text


def test_cut_while_stdin_is_sent(far: BaseEnvironment, proxy: Proxy) -> None:
    """A link cut in the middle of a large stdin is OutcomeUnknown, whoever sends it."""
    for stdin in (os.urandom(8 << 20), iter([os.urandom(1 << 20)] * 8)):
        proxy.cut = Cut("/start HTTP", "body", 108)
        with pytest.raises(OutcomeUnknown):
            far.exec("printf %0100d 1; sleep 1; cat >/dev/null", stdin=stdin)


def test_lease_is_lost(proxy: Proxy, engine: Engine) -> None:
    """A link that was cut ends the commands of the container that was made over it; later ones are watched anew."""
    with open_environment("docker", image=IMAGE, host=proxy.host, ttl=600) as env:
        assert "HERMES_ENV_CLIENT=" not in env.exec("env").text
        process = env.start("echo begun; sleep 300; :")
        assert next(iter(process)) == ("stdout", b"begun\n")
        proxy.drop_all()
        with pytest.raises(OutcomeUnknown):
            process.wait(60)
        end = time.monotonic() + 30
        while b"sleep 300" in engine.cli("top", env.ref.partition("://")[2]).stdout and time.monotonic() < end:
            time.sleep(0.05)
        assert b"sleep 300" not in engine.cli("top", env.ref.partition("://")[2]).stdout
        assert "HERMES_ENV_CLIENT=" in env.exec("env").text


def test_engine_goes_away(proxy: Proxy, far: BaseEnvironment) -> None:
    """Without an engine a command fails before it is sent, and the environment is not alive."""
    assert far.alive()
    proxy.cut_all()
    with pytest.raises(BackendUnavailable) as caught:
        far.exec("true")
    assert caught.value.reason == "unreachable"
    assert not far.alive()


def test_paused_container(engine: Engine, foreign: str) -> None:
    """A paused container says so and can be used again once it goes on."""
    with open_environment("docker", container=foreign, host=engine.host) as env:
        engine.cli("pause", foreign)
        with pytest.raises(BackendUnavailable, match="paused") as caught:
            env.exec("true")
        assert caught.value.retryable and not env.alive()
        with pytest.raises(BackendUnavailable, match="paused"):
            open_environment("docker", container=foreign, host=engine.host)
        engine.cli("unpause", foreign)
        assert env.exec("echo on").text == "on\n" and env.alive()


def test_stopped_and_removed_container(engine: Engine, foreign: str) -> None:
    """A container that was stopped, and then removed, is EnvironmentGone; closing is still fine."""
    with open_environment("docker", container=foreign, host=engine.host) as env:
        engine.cli("stop", "--time", "0", foreign)
        with pytest.raises(EnvironmentGone, match="not running"):
            env.exec("true")
        engine.cli("rm", foreign)
        with pytest.raises(EnvironmentGone):
            env.exec("true")
        assert not env.alive()
    with pytest.raises(EnvironmentGone):
        open_environment("docker", container=foreign, host=engine.host)


@pytest.mark.parametrize("how", [("kill",), ("rm", "--force"), ("stop", "--time", "0")])
def test_container_ends_under_a_running_command(engine: Engine, fresh: BaseEnvironment, how: tuple[str, ...]) -> None:
    """A container that ends under a command is OutcomeUnknown with the output so far, not exit code 137."""
    process = fresh.start("echo begun; sleep 300")
    assert next(iter(process)) == ("stdout", b"begun\n")
    engine.cli(*how, fresh.ref.partition("://")[2])
    with pytest.raises(OutcomeUnknown) as caught:
        process.wait(60)
    assert caught.value.result.stdout == b"begun\n" and caught.value.result.exit_code == -1


def test_container_paused_under_a_running_command(engine: Engine, foreign: str) -> None:
    """A deadline holds although the container is frozen; the kill is reported as unconfirmed."""
    with open_environment("docker", container=foreign, host=engine.host) as env:
        process = env.start("echo begun; sleep 300", timeout=3)
        assert next(iter(process)) == ("stdout", b"begun\n")
        engine.cli("pause", foreign)
        try:
            with pytest.raises(TimeoutError) as caught:
                process.wait(60)
        finally:
            engine.cli("unpause", foreign)
        assert "killed after" in str(caught.value)
        result = caught.value.result  # type: ignore[attr-defined]
        assert result.kill_unconfirmed and result.state == "unknown"


def test_image_without_a_shell(engine: Engine) -> None:
    """An image that cannot hold a container open is refused with the reason, and leaves nothing."""
    before = engine.cli("ps", "--all", "--quiet").stdout
    name = "hermes-env-test/empty:1"
    archive = b"\0" * 10240
    assert engine.cli("import", "-", name, stdin=archive).returncode == 0
    try:
        with pytest.raises((BackendUnavailable, ValueError), match="/bin/sh"):
            open_environment("docker", image=name, host=engine.host)
    finally:
        engine.cli("rmi", "--force", name)
    assert engine.cli("ps", "--all", "--quiet").stdout == before


def test_image_that_is_not_there(engine: Engine) -> None:
    """A missing image is named; nothing is pulled."""
    with pytest.raises(BackendUnavailable, match="no-such-image") as caught:
        open_environment("docker", image="hermes-env-test/no-such-image:9", host=engine.host)
    assert caught.value.reason == "not_installed"


def test_no_engine_at_all() -> None:
    """An address where nothing listens is unreachable."""
    with pytest.raises(BackendUnavailable) as caught:
        open_environment("docker", image=IMAGE, host="unix:///nonexistent/docker.sock")
    assert caught.value.reason == "unreachable"
