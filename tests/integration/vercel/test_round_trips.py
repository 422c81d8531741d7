"""Round trips, counted by the emulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermes_env import BaseEnvironment
from tests.emulators.vercel.client import Emulator
from tests.integration.clouds import Open
from tests.waiting import until

Work = Callable[[BaseEnvironment], object]


@pytest.fixture(autouse=True)
def _no_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What idle environments clean up by themselves after a second is not counted, however slow the machine is."""
    monkeypatch.setattr("hermes_env._staged_area._FLUSH_AFTER", 3600.0)


@pytest.mark.parametrize(
    "work",
    [
        lambda env: env.exec("true"),
        lambda env: env.exec("cat", stdin=b"x" * 100_000),
        lambda env: env.exec("cat", stdin=b"x" * 100_000, env={"A": "b"}, cwd="/"),
        lambda env: env.exec(f": {'x' * 200_000}"),
        lambda env: env.files.write_bytes("f", b"x" * 100_000),
        lambda env: env.files.read_bytes("f"),
        lambda env: env.files.stat("f"),
    ],
    ids=["exec", "exec with stdin", "exec with all", "long script", "write", "read", "stat"],
)
def test_what_a_call_costs(faulty: Open, emulator: Emulator, work: Work) -> None:
    """Each call takes one upload and one command, whatever travels with it."""
    env = faulty()
    env.files.write_bytes("f", b"warm")
    emulator.forget()
    work(env)
    assert emulator.counts() == {"write": 1, "run": 1}


def test_a_large_read_is_one_download_more(faulty: Open, emulator: Emulator) -> None:
    """What is too large for a reply comes by one download, whose digests the reply brings along."""
    env, data = faulty(), bytes(range(256)) * (9 << 12)
    env.files.write_bytes("f", data)
    env.exec("true")
    emulator.forget()
    assert env.files.read_bytes("f") == data
    counts = emulator.counts()
    assert (counts["write"], counts["read"]) == (1, 1)


@pytest.mark.parametrize(
    ("parts", "uploads", "commands"), [(1, 2, 1), (2, 3, 2), (5, 6, 2)], ids=["one part", "two parts", "five parts"]
)
def test_stdin_of_unknown_length_goes_in_parts(
    faulty: Open, emulator: Emulator, parts: int, uploads: int, commands: int
) -> None:
    """Each 4 MiB of an iterable is one upload, the script another, and several parts are joined by one command."""
    env = faulty()
    emulator.forget()
    process = env.start("wc -c; until [ -e go ]; do sleep 0.02; done", stdin=iter([bytes(1 << 20)] * 4 * parts))
    until(lambda: emulator.counts().get("run", 0) >= commands)
    assert emulator.counts() == {"write": uploads, "run": commands}
    env.exec(": >go")
    assert int(process.wait(60).text) == parts << 22


def test_large_stdin_of_known_length_is_one_upload(faulty: Open, emulator: Emulator) -> None:
    """Bytes of any length are one stream, beside the upload of the script."""
    env = faulty()
    emulator.forget()
    env.exec("cat >/dev/null", stdin=bytes(9 << 20))
    assert emulator.counts()["write"] == 2


@pytest.mark.parametrize("size", [(1 << 20) + 1, 4 << 20, (4 << 20) + 1, (8 << 20) + 65_537])
def test_large_output_arrives_once(faulty: Open, emulator: Emulator, size: int) -> None:
    """Output that is downloaded has the length that the command wrote, whatever it is a multiple of."""
    env, data = faulty(), (bytes(range(255)) * (size // 255 + 1))[:size]
    result = env.exec("cat", stdin=data)
    assert result.stdout == data and result.stdout_total == size
    assert emulator.counts(env.ref.partition("://")[2])["read"] == 1


def test_waiting_asks_for_nothing(faulty: Open, emulator: Emulator) -> None:
    """A command that takes its time is waited for by its one request."""
    env = faulty()
    env.exec("true")
    emulator.forget()
    env.exec("sleep 3")
    assert emulator.counts() == {"write": 1, "run": 1}


def test_opening_and_closing(faulty: Open, emulator: Emulator) -> None:
    """Opening is one creation and one command; closing is one command, and stopping before destroying."""
    faulty().close()
    emulator.forget()
    env = faulty()
    assert emulator.counts() == {"create": 1, "run": 1}
    env.close()
    assert emulator.counts() == {"create": 1, "run": 2, "stop": 1, "destroy": 1}
