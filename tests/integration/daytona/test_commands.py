"""Commands and files in a sandbox: the same file runs on the emulator and live."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    EnvironmentGone,
    Unsupported,
    attach,
)
from tests.emulators.daytona.client import Emulator
from tests.integration.clouds import Open
from tests.integration.daytona.conftest import LIVE

EVERY_BYTE = bytes(range(256))
BOUNDARY = b"\r\n--DAYTONA-FILE-BOUNDARY--\r\n"


def test_every_byte_goes_in_and_comes_out_apart(env: BaseEnvironment) -> None:
    """Stdin arrives byte for byte, and so do both streams, each by itself."""
    result = env.exec("tee /dev/stderr; exit 3", stdin=EVERY_BYTE * 16)
    assert (result.exit_code, result.stdout, result.stderr) == (3, EVERY_BYTE * 16, EVERY_BYTE * 16)


@pytest.mark.parametrize("size", [0, 1, 131_072, 160 << 10, (4 << 20) + 1, (16 << 20) + 1])
def test_large_stdin_arrives(env: BaseEnvironment, size: int) -> None:
    """Whatever way the size takes through the SDK, the digest inside is that of what was sent."""
    import hashlib

    data = (EVERY_BYTE[::-1] * (size // 256 + 1))[:size]
    result = env.exec("sha256sum", stdin=iter([data[: size // 2], data[size // 2 :]]))
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()


def test_text_that_is_a_program_stays_data(env: BaseEnvironment) -> None:
    """Unread stdin that looks like shell is never run, and the script's lines are not eaten by its children."""
    result = env.exec("head -c 3\necho after", stdin=b"echo INJECTED; exit 77\n" * 1000)
    assert (result.exit_code, result.text) == (0, "echafter\n")


def test_a_user_script_does_not_meet_the_shell_of_the_service(env: BaseEnvironment) -> None:
    """Scripts are POSIX sh, whichever shell the service gives the text to."""
    assert env.exec("A='a b'; set -- $A *.none; echo $#").text == "3\n"


def test_odd_names_and_values_arrive(env: BaseEnvironment) -> None:
    """Arguments and variables of any bytes arrive as they are."""
    odd = "a\n'\"$(x) \udcff é"
    assert env.exec(["printf", "%s", odd]).stdout == odd.encode("utf-8", "surrogateescape")
    assert env.exec('printf %s "$ODD"', env={"ODD": odd}).stdout == odd.encode("utf-8", "surrogateescape")


def test_a_timeout_keeps_what_was_written(env: BaseEnvironment) -> None:
    """A command over its deadline, also one of a fraction of a second, is killed and its output kept."""
    with pytest.raises(CommandTimeout) as caught:
        env.exec("echo partial; echo err >&2; sleep 600", timeout=2.5)
    assert (caught.value.result.stdout, caught.value.result.stderr) == (b"partial\n", b"err\n")
    assert caught.value.result.kill_unconfirmed is False


def test_a_kill_ends_the_tree_and_nothing_else(env: BaseEnvironment) -> None:
    """A killed command takes its whole tree with it; another command and the sandbox go on."""
    other = env.start("until [ -e stop ]; do sleep 0.05; done; echo other")
    process = env.start("setsid sleep 601 & sleep 601 & : >up; wait")
    while not env.files.exists("up"):
        assert process.state != "finished"
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert env.exec("pgrep -f 'sleep 60[1]' || echo none").text == "none\n"
    env.files.write_bytes("stop", b"")
    assert other.wait(60).text == "other\n"


def test_a_background_child_does_not_hold_the_answer(env: BaseEnvironment) -> None:
    """A child that keeps stdout open is reported, not waited for."""
    result = env.exec("sleep 60 & echo hi", timeout=30)
    assert result.text == "hi\n" and result.held == ("stdout", "stderr")


@pytest.mark.parametrize("size", [0, 100, 3 << 20, 12 << 20])
def test_content_with_the_services_own_boundary_survives(env: BaseEnvironment, size: int) -> None:
    """A file that holds the boundary of the service's downloads is written and read back whole."""
    data = BOUNDARY + EVERY_BYTE * (size // 256) + BOUNDARY
    assert env.files.write_bytes("tricky", data).verified
    assert env.files.read_bytes("tricky") == data


def test_output_with_the_services_own_boundary_survives(env: BaseEnvironment) -> None:
    """Output of any size that holds the boundary arrives whole."""
    data = (BOUNDARY + EVERY_BYTE * 4096) * 8
    assert env.exec("cat", stdin=data).stdout == data


def test_names_that_the_service_would_trim_are_kept(env: BaseEnvironment) -> None:
    """White space at the ends of a file name is part of the name."""
    env.files.write_bytes(" f ", b"1")
    assert env.exec("ls").stdout == b" f \n"


def test_another_user_is_refused(env: BaseEnvironment) -> None:
    """The private directory has one owner, so `user=` is refused before anything runs."""
    with pytest.raises(Unsupported):
        env.exec("id", user="nobody")


def test_ten_commands_at_once_stay_apart(env: BaseEnvironment) -> None:
    """Commands of one sandbox that run at the same time get their own stdin and output."""
    results: dict[int, bytes] = {}

    def one(number: int) -> None:
        results[number] = env.exec("cat; echo $N", stdin=b"%d " % number * 1000, env={"N": str(number)}).stdout

    threads = [threading.Thread(target=one, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: b"%d " % n * 1000 + b"%d\n" % n for n in range(10)}


def test_detach_and_attach(opened: Open, shared: Emulator | None) -> None:
    """A detached sandbox goes on without its owner's label, and another client joins it and finds its files."""
    env = opened()
    env.files.write_bytes("f", b"kept")
    ref = env.detach()
    access: dict[str, Any] = {} if shared is None else {"api_key": shared.key, "api_url": shared.api_url}
    joined = attach(ref, **access)
    assert joined.files.read_bytes("f") == b"kept"
    joined.close()
    if shared is not None:
        labels = shared.sandboxes()[ref.partition("://")[2]]["labels"]
        assert "hermes_env.owner" not in labels and "hermes_env.environment" in labels
    _delete(ref, shared)


def _delete(ref: str, shared: Emulator | None) -> None:
    from hermes_env_daytona import _sandbox, _sdk
    from hermes_env_daytona._options import DaytonaOptions

    given = {} if shared is None else {"api_key": shared.key, "api_url": shared.api_url}
    ident = ref.partition("://")[2]
    client = _sdk.connect(DaytonaOptions.model_validate(given))
    _sandbox.delete(client, ident)
    with pytest.raises(EnvironmentGone):
        _sandbox.find(client, ident)


def test_a_wrong_key_is_named(opened: Open) -> None:
    """A key that Daytona does not accept is one clear error."""
    with pytest.raises(BackendUnavailable) as caught:
        opened(api_key="dtn_wrong")
    assert caught.value.reason == "denied" and "dtn_wrong" not in str(caught.value)


def test_expiry_is_told(opened: Open) -> None:
    """The lifetime that was asked for is the one that the service gives."""
    import datetime as dt

    moment = opened(ttl=3600).expires_at
    assert moment is not None
    assert dt.timedelta(minutes=50) < moment - dt.datetime.now(dt.UTC) < dt.timedelta(minutes=61)


@pytest.mark.skipif(LIVE, reason="200 sandboxes are over the limits of most organizations")
@pytest.mark.skipif(os.environ.get("HERMES_ENV_SLOW") != "1", reason="a test of load: set HERMES_ENV_SLOW=1 to run it")
def test_many_sandboxes_with_five_commands_each(opened: Open) -> None:
    """1000 commands in 200 sandboxes at once all give their own bytes."""
    results: dict[tuple[int, int], bytes] = {}
    envs: dict[int, BaseEnvironment] = {}

    def sandbox(number: int) -> None:
        envs[number] = opened()
        threads = [threading.Thread(target=command, args=(number, index)) for index in range(5)]
        _all(threads)

    def command(number: int, index: int) -> None:
        data = b"%d/%d " % (number, index) * 50
        results[number, index] = envs[number].exec("cat", stdin=data).stdout

    _all([threading.Thread(target=sandbox, args=(number,)) for number in range(200)])
    wanted = {(n, i): b"%d/%d " % (n, i) * 50 for n in range(200) for i in range(5)}
    assert {key: value == wanted[key] for key, value in results.items()} == dict.fromkeys(wanted, True)


def _all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
