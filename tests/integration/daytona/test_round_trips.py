"""Round trips, counted by the emulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermes_env import BaseEnvironment
from tests.emulators.daytona.client import Emulator
from tests.integration.clouds import Open

Work = Callable[[BaseEnvironment], object]


@pytest.fixture(autouse=True)
def _no_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What idle environments clean up by themselves after a second is not counted, however slow the machine is."""
    monkeypatch.setattr("hermes_env._staged_area._FLUSH_AFTER", 3600.0)


@pytest.mark.parametrize(
    ("work", "wanted"),
    [
        (lambda env: env.exec("true"), {"upload": 1, "execute": 1}),
        (lambda env: env.exec("cat", stdin=b"x" * 100_000), {"upload": 1, "execute": 1}),
        (lambda env: env.exec("cat", stdin=b"x" * 100_000, env={"A": "b"}, cwd="/"), {"upload": 1, "execute": 1}),
        (lambda env: env.exec(f": {'x' * 200_000}"), {"upload": 1, "execute": 1}),
        (lambda env: env.files.write_bytes("f", b"x" * 100_000), {"upload": 1, "execute": 1}),
        (lambda env: env.files.read_bytes("f"), {"upload": 1, "execute": 1}),
        (lambda env: env.files.stat("f"), {"upload": 1, "execute": 1}),
    ],
    ids=["exec", "exec with stdin", "exec with all", "long script", "write", "read", "stat"],
)
def test_what_a_call_costs(faulty: Open, emulator: Emulator, work: Work, wanted: dict[str, int]) -> None:
    """Each call takes one upload and one command, whatever travels with it."""
    env = faulty()
    env.files.write_bytes("f", b"warm")
    emulator.forget()
    work(env)
    assert emulator.counts() == wanted


def test_a_large_read_is_one_download_more(faulty: Open, emulator: Emulator) -> None:
    """What is too large for a reply comes by one download, whose digests the reply brings along."""
    env, data = faulty(), bytes(range(256)) * (9 << 12)
    env.files.write_bytes("f", data)
    emulator.forget()
    assert env.files.read_bytes("f") == data
    assert emulator.counts() == {"upload": 1, "execute": 1, "download": 1}


@pytest.mark.parametrize("size", [(2 << 20) + 1, 4 << 20, (4 << 20) + 1, (8 << 20) + 65_537])
def test_large_output_arrives_once(faulty: Open, emulator: Emulator, size: int) -> None:
    """Output that is downloaded has the length that the command wrote, whatever it is a multiple of."""
    env, data = faulty(), (bytes(range(255)) * (size // 255 + 1))[:size]
    result = env.exec("cat", stdin=data)
    assert result.stdout == data and result.stdout_total == size
    assert emulator.counts(env.ref.partition("://")[2])["download"] == 1


def test_waiting_asks_for_nothing(faulty: Open, emulator: Emulator) -> None:
    """A command that takes its time is waited for by its one request."""
    env = faulty()
    env.exec("true")
    emulator.forget()
    env.exec("sleep 3")
    assert emulator.counts() == {"upload": 1, "execute": 1}


def test_opening_and_closing(faulty: Open, emulator: Emulator) -> None:
    """Opening is one creation and one command, closing one command and one deletion."""
    faulty().close()
    emulator.forget()
    env = faulty()
    assert emulator.counts() == {"create": 1, "execute": 1}
    env.close()
    assert emulator.counts() == {"create": 1, "execute": 2, "delete": 1}
