"""Commands and files in a sandbox: the same file runs on the emulator and live."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import threading
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    EnvironmentGone,
    InvalidArgument,
    PayloadTooLarge,
    attach,
)
from hermes_env_modal import ModalEnvironment, _sandbox
from hermes_env_modal._stdin import SLICE
from tests.emulators.modal.client import Emulator
from tests.integration.cloud_tests import CommandTests, hold_apart
from tests.integration.clouds import Open
from tests.integration.modal.conftest import LIVE, LIVE_OPTIONS
from tests.slow import slow

EVERY_BYTE = bytes(range(256))
SLOW = slow("a test of load")


class TestCommands(CommandTests):
    """What every cloud backend does."""


@pytest.mark.parametrize("size", [0, 1, 131_072, 160 << 10, SLICE - 1, SLICE, SLICE + 1, (16 << 20) + 1])
def test_stdin_of_any_size_arrives(env: BaseEnvironment, size: int) -> None:
    """From memory and from an iterable, the digest inside is that of what was sent."""
    data = (EVERY_BYTE[::-1] * (size // 256 + 1))[:size]
    wanted = hashlib.sha256(data).hexdigest()
    assert env.exec("sha256sum", stdin=data).text.split()[0] == wanted
    parts = iter([data[: size // 2], b"", data[size // 2 :]])
    assert env.exec("sha256sum", stdin=parts).text.split()[0] == wanted


def test_stdin_that_is_not_read_is_no_failure(env: BaseEnvironment) -> None:
    """A command that reads a little of a lot, or closes its stdin, ends as it wants to."""
    result = env.exec("head -c 10", stdin=bytes(32 << 20))
    assert (result.exit_code, result.stdout) == (0, bytes(10))
    assert env.exec("exec <&-; sleep 0.2; exit 4", stdin=iter([b"x" * (5 << 20)] * 3)).exit_code == 4


def test_a_command_talks_while_it_runs(env: BaseEnvironment) -> None:
    """What is written comes back before stdin ends."""
    process = env.start("while read -r line; do echo got $line; done; echo end", live_stdin=True)
    output = iter(process)
    for word in (b"one", b"two"):
        process.write(word + b"\n")
        assert next(output) == ("stdout", b"got " + word + b"\n")
    process.close_stdin()
    assert process.wait(60).stdout == b"got one\ngot two\nend\n"


def test_large_output_arrives_whole(env: BaseEnvironment) -> None:
    """More output than is held anywhere arrives, also when nobody takes it for a while."""
    digest, slow = hashlib.sha256(), threading.Event()

    def take(_: str, data: bytes) -> None:
        if not slow.is_set():
            slow.set()
            threading.Event().wait(1)
        digest.update(data)

    data = EVERY_BYTE * (64 << 10)
    result = env.exec("cat", stdin=data, on_output=take, output_limit=0)
    assert result.stdout_total == len(data) and digest.digest() == hashlib.sha256(data).digest()


def test_scripts_and_arguments_over_the_limit_arrive(env: BaseEnvironment) -> None:
    """What Modal would refuse as arguments travels on stdin, characters of several bytes too."""
    for text in ("x" * 66_000, "世" * 22_000, "世" * 43_000):
        assert env.exec(f"printf %s '{text}' | wc -c").text.strip() == str(len(text.encode()))
    long = [str(index) + "y" * 30_000 for index in range(3)]
    assert env.exec(["printf", "%s", *long]).stdout == "".join(long).encode()


def test_a_variable_that_linux_cannot_carry_is_refused(env: BaseEnvironment) -> None:
    """A value over 128 KiB is refused by name; one below it arrives."""
    assert env.exec('printf %s "$BIG" | wc -c', env={"BIG": "x" * 130_000}).text.strip() == "130000"
    with pytest.raises(PayloadTooLarge, match="BIG"):
        env.exec("true", env={"BIG": "x" * 140_000})


def test_death_by_a_signal_is_told(env: BaseEnvironment) -> None:
    """128 and the signal, also when the command kills what runs it."""
    assert env.exec("kill -9 $$").exit_code == 137
    assert env.exec("echo x; kill -9 $PPID; sleep 600", timeout=60).exit_code == 137


def test_commands_cost_one_thread_each(env: BaseEnvironment) -> None:
    """Streams and waits share the SDK's one loop: what runs takes the thread of its caller and no descriptor."""
    env.exec("true")
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    processes = [env.start("until [ -e go ]; do sleep 0.1; done; cat", stdin=b"x" * 100) for _ in range(10)]
    while any(process.state != "dispatched" for process in processes):
        assert all(process.state != "finished" for process in processes)
    assert threading.active_count() - threads <= 10 and len(os.listdir("/proc/self/fd")) - descriptors <= 2
    env.exec(": >go")
    assert [process.wait(60).stdout for process in processes] == [b"x" * 100] * 10


@pytest.mark.parametrize("count", [60])
def test_more_commands_than_a_connection_has_streams(env: BaseEnvironment, count: int) -> None:
    """Commands that all wait for their stdin at once get it: none waits for the end of the others."""
    processes = [env.start("cat", live_stdin=True) for _ in range(count)]
    for index, process in enumerate(processes):
        process.write(b"%d" % index)
    assert [next(iter(process)) for process in processes] == [("stdout", b"%d" % index) for index in range(count)]
    for process in processes:
        process.close_stdin()
    assert [process.wait(60).exit_code for process in processes] == [0] * count


def test_detach_and_attach(opened: Open, shared: Emulator | None) -> None:
    """A detached sandbox goes on without its owner's tags, and another client joins it and finds its files."""
    env = opened()
    env.files.write_bytes("f", b"kept")
    expires = env.expires_at
    ref = env.detach()
    ident = ref.partition("://")[2]
    joined = attach(ref, **(LIVE_OPTIONS if LIVE else {}))
    assert isinstance(joined, ModalEnvironment)
    assert joined.files.read_bytes("f") == b"kept" and expires is not None
    assert joined.expires_at is not None and abs(joined.expires_at - expires) < dt.timedelta(minutes=5)
    tags = joined._link.run(joined._box.get_tags.aio(), 60, "tags")
    joined.close()
    assert "hermes_env.owner" not in tags and "hermes_env.environment" in tags
    again = attach(ref, **(LIVE_OPTIONS if LIVE else {}))
    assert isinstance(again, ModalEnvironment)
    _sandbox.remove(again._link, again._box)
    again._link.close()
    again._life.closed = True
    if shared is not None:
        assert shared.sandboxes()[ident]["state"] == "terminated"
    with pytest.raises(EnvironmentGone):
        attach(ref, **(LIVE_OPTIONS if LIVE else {}))


def test_a_ref_to_nothing(opened: Open) -> None:
    """Attaching to what Modal does not know says that it is gone."""
    with pytest.raises(EnvironmentGone):
        attach("modal://sb-01J00000000000000000000000")


def test_a_wrong_token_is_named(opened: Open) -> None:
    """A token that Modal does not accept is one clear error, which says where it came from and does not show it."""
    with pytest.raises(BackendUnavailable, match="token of options") as caught:
        opened(token_id="ak-wrong", token_secret="as-wrong")
    assert caught.value.reason == "denied"
    assert "ak-wrong" not in str(caught.value) and "as-wrong" not in str(caught.value)


def test_expiry_is_told(opened: Open) -> None:
    """The lifetime that was asked for is the one that the environment tells."""
    moment = opened(ttl=1200).expires_at
    assert moment is not None
    assert dt.timedelta(minutes=10) < moment - dt.datetime.now(dt.UTC) < dt.timedelta(minutes=21)


def test_what_options_ask_for_is_there(opened: Open) -> None:
    """The working directory, and no network."""
    env = opened(workdir="/tmp", block_network=True)
    assert env.exec("pwd").text == "/tmp\n"


@pytest.mark.parametrize("volumes", [("v",), (":/x",), ("v:x",), ("v:/x:rw",)])
def test_a_volume_of_another_form_is_refused(opened: Open, volumes: Any) -> None:
    """Before anything is made."""
    with pytest.raises(InvalidArgument, match="volumes"):
        opened(volumes=volumes)


@SLOW
@pytest.mark.skipif(LIVE, reason="200 sandboxes are over the limits of most workspaces")
def test_two_hundred_sandboxes_with_five_commands_each(opened: Open) -> None:
    """1,000 commands in 200 sandboxes at once all give their own bytes."""
    hold_apart(opened, 200, gathered=True)
