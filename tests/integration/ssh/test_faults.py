"""What a bad network does: a proxy of our own delays, stalls, cuts and resets at every step."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandTimeout,
    OutcomeUnknown,
    Process,
    open_environment,
)
from tests.processes import marked
from tests.proxy import Proxy, proxied

if TYPE_CHECKING:
    from tests.sshd import Sshd

Break = Callable[[Proxy], None]
FAULTS = {"cut": Proxy.cut, "reset": Proxy.reset}
GONE = 10.0
"""Seconds for the commands of a lost connection to end."""


@pytest.fixture
def proxy(server: Sshd) -> Iterator[Proxy]:
    """A proxy in front of the default server."""
    with proxied(server.port) as running:
        yield running


@pytest.fixture
def env(server: Sshd, proxy: Proxy) -> Iterator[BaseEnvironment]:
    """An environment whose only way leads through the proxy; silence is noticed after 2 seconds."""
    options = server.options(port=proxy.port, alive_interval=1, alive_count=2, connect_timeout=5)
    with open_environment("ssh", **options) as opened:
        yield opened


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> Break:
    """How the connection ends."""
    return FAULTS[request.param]


def started(env: BaseEnvironment, script: str) -> Process:
    """A command that has begun to run."""
    process = env.start(f"echo on; {script}")
    assert next(iter(process)) == ("stdout", b"on\n")
    return process


def recover(env: BaseEnvironment) -> None:
    """Run a command after a fault that may have hit what came after the last one, and is not known yet."""
    with contextlib.suppress(OutcomeUnknown):
        env.exec("true")
    assert usable(env)


def assert_gone(process: Process) -> None:
    """The command of a lost connection ends by itself."""
    deadline = time.monotonic() + GONE
    while marked(process.id) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not marked(process.id)


def usable(env: BaseEnvironment) -> bool:
    """Whether commands run again. One that was sent before the loss was noticed is unknown, and never sent again."""
    try:
        return env.exec("true").ok
    except OutcomeUnknown:
        return env.exec("true").ok


def test_lost_while_it_runs(env: BaseEnvironment, proxy: Proxy, fault: Break, tmp_path: Path) -> None:
    """The outcome is unknown, the output so far is kept, nothing runs twice, and the next command works."""
    process = started(env, f"echo once >>{tmp_path}/log; setsid sleep 1000 & sleep 1000")
    fault(proxy)
    with pytest.raises(OutcomeUnknown) as caught:
        process.wait(60)
    assert caught.value.result.stdout == b"on\n"
    assert caught.value.result.state == "unknown"
    assert env.exec(["cat", f"{tmp_path}/log"]).stdout == b"once\n"
    assert proxy.connections == 2
    assert_gone(process)


def test_lost_during_upload(env: BaseEnvironment, proxy: Proxy, fault: Break, tmp_path: Path) -> None:
    """A cut in the middle of stdin never lets the command take a part for the whole."""
    limit = proxy.sent + (4 << 20)
    proxy.on_up = lambda total: fault(proxy) if total > limit else None
    target = tmp_path / "target"
    with pytest.raises(OutcomeUnknown):
        env.exec(f"cat >{target}.new && sleep 5 && mv {target}.new {target}", stdin=bytes(32 << 20), timeout=60)
    proxy.on_up = None
    assert usable(env)
    time.sleep(6)
    assert not target.exists()


def test_lost_during_output(env: BaseEnvironment, proxy: Proxy, fault: Break) -> None:
    """A part of the output is never presented as all of it."""
    limit = proxy.received + (4 << 20)
    proxy.on_down = lambda total: fault(proxy) if total > limit else None
    with pytest.raises(OutcomeUnknown) as caught:
        env.exec("head -c 33554432 /dev/zero", output_limit=64 << 20, timeout=60)
    assert 0 < caught.value.result.stdout_total < 32 << 20
    proxy.on_down = None
    assert usable(env)


def test_lost_at_dispatch(env: BaseEnvironment, proxy: Proxy, fault: Break, tmp_path: Path) -> None:
    """Whenever the link breaks around the start, the command ran once or not at all, and the error says which."""
    for index in range(8):
        log = tmp_path / f"log{index}"
        pieces = [0]

        def count(total: int, pieces: list[int] = pieces, index: int = index) -> None:
            pieces[0] += 1
            if pieces[0] == index + 1:
                fault(proxy)

        proxy.on_up = count
        try:
            outcome = "ran" if env.exec(f"echo once >>{log}").ok else "failed"
        except OutcomeUnknown:
            outcome = "unknown"
        except BackendUnavailable:
            outcome = "not sent"
        proxy.on_up = None
        recover(env)
        lines = log.read_text() if log.exists() else ""
        allowed = {"ran": ["once\n"], "unknown": ["", "once\n"], "not sent": [""]}[outcome]
        assert lines in allowed, outcome


def test_lost_between_commands(env: BaseEnvironment, proxy: Proxy, fault: Break) -> None:
    """An idle connection that was lost is replaced without a word."""
    assert usable(env)
    fault(proxy)
    # Within the first second the loss may not be known here, and the outcome of a command sent into it is not either.
    time.sleep(1.5)
    assert env.exec("echo again").stdout == b"again\n"
    assert env.alive()
    assert proxy.connections == 2


def test_dead_between_commands_without_a_sign(env: BaseEnvironment, proxy: Proxy) -> None:
    """A connection that died silently, as when a firewall forgot it, is found out before anything is sent on it."""
    assert usable(env)
    proxy.stall()
    timer = threading.Timer(4.0, proxy.resume)
    timer.start()
    time.sleep(1.5)
    assert env.exec("echo again").stdout == b"again\n"
    timer.join()


def test_lost_at_connect(server: Sshd, proxy: Proxy) -> None:
    """A connection that ends during the handshake is `unreachable`."""
    options = server.options(port=proxy.port, connect_timeout=5)
    open_environment("ssh", **options).close()
    whole = proxy.received
    for part in (0, 0.05, 0.3, 0.6, 0.9):
        limit = int(whole * part)
        first = proxy.received
        proxy.on_down = lambda total, end=first + limit: proxy.reset() if total > end else None
        with pytest.raises(BackendUnavailable) as caught:
            open_environment("ssh", **options)
        assert caught.value.reason in ("unreachable", "denied")
    proxy.on_down = None
    with open_environment("ssh", **options) as env:
        assert usable(env)


def test_nobody_there_between_commands(env: BaseEnvironment, proxy: Proxy) -> None:
    """While the host cannot be reached commands say so and nothing runs; later they work again."""
    proxy.refuse = True
    proxy.cut()
    with pytest.raises(BackendUnavailable) as caught:
        env.exec("true")
    assert caught.value.reason == "unreachable"
    assert not env.alive()
    proxy.refuse = False
    assert usable(env)
    assert env.alive()


def test_a_silent_peer_is_noticed(env: BaseEnvironment, proxy: Proxy) -> None:
    """A connection that stays open and says nothing is given up after the configured silence."""
    process = started(env, "sleep 1000")
    proxy.stall()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown):
        process.wait(60)
    assert time.monotonic() - began < 30
    proxy.resume()
    assert usable(env)
    assert_gone(process)


def test_a_long_silence_of_the_command_is_none_of_the_peer(env: BaseEnvironment) -> None:
    """A command that says nothing for longer than that is left alone."""
    assert env.exec("sleep 5; echo done").stdout == b"done\n"


@pytest.mark.parametrize("size", [0, 32 << 20])
def test_deadline_on_a_stalled_link(server: Sshd, proxy: Proxy, size: int) -> None:
    """The deadline of a command holds though nothing can be sent, not even a kill; the result says so."""
    with open_environment("ssh", **server.options(port=proxy.port, alive_interval=20)) as env:
        assert usable(env)
        limit = proxy.sent + size // 4
        proxy.on_up = lambda total: proxy.stall() if total >= limit else None
        began = time.monotonic()
        with pytest.raises(CommandTimeout) as caught:
            env.exec("sleep 1000", stdin=bytes(size), timeout=2)
        assert time.monotonic() - began < 40
        assert caught.value.result.kill_unconfirmed or caught.value.result.state != "finished"
        proxy.on_up = None
        proxy.resume()


def test_latency(server: Sshd) -> None:
    """A command that finds a session open costs one round trip: everything is sent, and the result comes back."""
    round_trip = 1.0
    with (
        proxied(server.port, delay=round_trip / 2) as proxy,
        open_environment("ssh", **server.options(port=proxy.port)) as env,
    ):
        assert usable(env)
        deadline = time.monotonic() + 60
        while env._pool._spare is None and time.monotonic() < deadline:  # type: ignore[attr-defined]
            time.sleep(0.05)
        assert env.alive()
        began = time.monotonic()
        assert env.exec("cat", stdin=b"x" * 1000).stdout == b"x" * 1000
        assert round_trip < time.monotonic() - began < 2 * round_trip


def test_server_restarts_between_commands(start: Callable[..., Sshd]) -> None:
    """The environment goes on with the server that came back."""
    server = start()
    with open_environment("ssh", **server.options(connect_timeout=5)) as env:
        assert env.exec("echo one").stdout == b"one\n"
        server.stop()
        assert not env.alive()
        with pytest.raises(BackendUnavailable):
            env.exec("echo two")
        server.start()
        assert env.exec("echo three").stdout == b"three\n"
        running = env.start("echo on; sleep 1000")
        next(iter(running))
        server.stop()
        with pytest.raises(OutcomeUnknown):
            running.wait(60)


def test_many_commands_lose_one_connection(env: BaseEnvironment, proxy: Proxy) -> None:
    """All commands of a lost connection end as unknown, and one new connection serves the next ones."""
    processes = [started(env, "sleep 1000") for _ in range(8)]
    proxy.reset()
    for process in processes:
        with pytest.raises(OutcomeUnknown):
            process.wait(60)
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(env.exec("true").ok)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
    assert proxy.connections == 2
