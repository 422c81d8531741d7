"""Commands and files in a sandbox: the same file runs on the emulator and live."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import threading
from collections.abc import Callable
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
from hermes_env_vercel import VercelEnvironment
from tests.emulators.vercel.client import Emulator
from tests.integration.clouds import Open
from tests.integration.vercel.conftest import LIVE, access

EVERY_BYTE = bytes(range(256))
SPLIT = "é€𝄞".encode() * 30_000
"""Characters of two, three and four bytes: wherever the service cuts its output, it cuts some of them."""


def test_every_byte_goes_in_and_comes_out_apart(env: BaseEnvironment) -> None:
    """Stdin arrives byte for byte, and so do both streams, each by itself."""
    result = env.exec("tee /dev/stderr; exit 3", stdin=EVERY_BYTE * 16)
    assert (result.exit_code, result.stdout, result.stderr) == (3, EVERY_BYTE * 16, EVERY_BYTE * 16)


def test_characters_at_the_edges_of_the_services_pieces_survive(env: BaseEnvironment) -> None:
    """Text that the service's own output channel would damage arrives whole."""
    assert env.exec("cat", stdin=SPLIT).stdout == SPLIT


@pytest.mark.parametrize("size", [0, 1, 131_072, 160 << 10, 4 << 20, (4 << 20) + 1, (8 << 20) + 1, (16 << 20) + 1])
@pytest.mark.parametrize("kind", ["bytes", "iterable"])
def test_large_stdin_arrives(env: BaseEnvironment, size: int, kind: str) -> None:
    """Whatever way the size takes through the SDK, the digest inside is that of what was sent."""
    data = (EVERY_BYTE[::-1] * (size // 256 + 1))[:size]
    given: Any = data if kind == "bytes" else iter([data[: size // 3], b"", data[size // 3 :]])
    result = env.exec("sha256sum", stdin=given)
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()


def test_a_file_that_grows_while_it_is_sent_arrives(env: BaseEnvironment, tmp_path: Any) -> None:
    """A file that has more content than its size said when the command began is carried to its end."""
    path, data = tmp_path / "grows", EVERY_BYTE * (5 << 12)
    path.write_bytes(data)

    class Growing:
        """A file that is written to after its first bytes were read."""

        def __init__(self) -> None:
            self._file = path.open("rb")
            self.fileno, self.tell = self._file.fileno, self._file.tell
            self._grown = False

        def read(self, size: int) -> bytes:
            """The next bytes."""
            if not self._grown:
                self._grown = True
                with path.open("ab") as more:
                    more.write(data)
            content: bytes = self._file.read(size)
            return content

        def close(self) -> None:
            """Close it."""
            self._file.close()

    growing = Growing()
    result = env.exec("sha256sum", stdin=growing)  # type: ignore[arg-type]  # all of a file that is asked of it
    growing.close()
    assert result.text.split()[0] == hashlib.sha256(data * 2).hexdigest()


def test_text_that_is_a_program_stays_data(env: BaseEnvironment) -> None:
    """Unread stdin that looks like shell is never run."""
    result = env.exec("head -c 3\necho after", stdin=b"echo INJECTED; exit 77\n" * 1000)
    assert (result.exit_code, result.text) == (0, "echafter\n")


def test_odd_names_and_values_arrive(env: BaseEnvironment) -> None:
    """Arguments, variables and file names of any bytes arrive as they are."""
    odd = "a\n'\"$(x) \udcff é"
    assert env.exec(["printf", "%s", odd]).stdout == odd.encode("utf-8", "surrogateescape")
    assert env.exec('printf %s "$ODD"', env={"ODD": odd}).stdout == odd.encode("utf-8", "surrogateescape")
    env.files.write_bytes(" \udcff ", b"1")
    assert env.exec("ls").stdout == b" \xff \n"


def test_commands_start_in_the_sessions_directory(env: BaseEnvironment) -> None:
    """The working directory is the one that the session names, and relative paths are of it."""
    assert isinstance(env, VercelEnvironment)
    assert env.exec("pwd").text == f"{env._box.cwd}\n"
    env.files.write_bytes("here", b"1")
    assert env.files.exists(f"{env._box.cwd}/here")


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
def test_files_go_and_come_back(env: BaseEnvironment, size: int) -> None:
    """A file of any size is written, verified and read back whole."""
    data = (EVERY_BYTE * (size // 256 + 1))[:size]
    assert env.files.write_bytes("f", data).verified
    assert env.files.read_bytes("f") == data


def test_another_user_is_refused(env: BaseEnvironment) -> None:
    """The private directory has one owner, so `user=` is refused before anything runs."""
    with pytest.raises(Unsupported):
        env.exec("id", user="root")


def test_ten_commands_at_once(env: BaseEnvironment) -> None:
    """Commands of one sandbox do not see each other's stdin, output or variables."""
    results: dict[int, bytes] = {}

    def one(number: int) -> None:
        results[number] = env.exec("cat; echo $N", stdin=b"%d " % number * 1000, env={"N": str(number)}).stdout

    _all(range(10), one)
    assert results == {n: b"%d " % n * 1000 + b"%d\n" % n for n in range(10)}


def test_detach_and_attach(opened: Open, shared: Emulator | None) -> None:
    """A detached sandbox goes on without its owner's tag, and another client joins it and finds its files."""
    env = opened(tags={"team": "blue"})
    env.files.write_bytes("f", b"kept")
    ref = env.detach()
    joined = attach(ref, **access(shared))
    assert isinstance(joined, VercelEnvironment)
    assert joined.files.read_bytes("f") == b"kept"
    assert joined._box.tags.keys() == {"team", "hermes_env.environment"}
    joined.close()
    _destroy(ref, shared)


def _destroy(ref: str, shared: Emulator | None) -> None:
    from hermes_env_vercel import _sandbox
    from hermes_env_vercel._environment import _connect
    from hermes_env_vercel._options import VercelOptions

    service = _connect(VercelOptions.model_validate(access(shared)))
    name = ref.partition("://")[2]
    _sandbox.remove(_sandbox.find(service, name))
    with pytest.raises(EnvironmentGone):
        _sandbox.find(service, name)
    service.close()


def test_a_wrong_token_is_named(opened: Open) -> None:
    """A token that Vercel does not accept is one clear error, which does not repeat it."""
    with pytest.raises(BackendUnavailable) as caught:
        opened(token="vcp_wrong", team="team_x", project="prj_x")
    assert caught.value.reason == "denied" and "vcp_wrong" not in str(caught.value)


def test_expiry_is_told(opened: Open) -> None:
    """The time limit that was asked for is the one that the service gives."""
    moment = opened(execution_time_limit=1200).expires_at
    assert moment is not None
    assert dt.timedelta(minutes=15) < moment - dt.datetime.now(dt.UTC) < dt.timedelta(minutes=21)


@pytest.mark.skipif(LIVE, reason="30 sandboxes are over the limits of the smallest plan")
@pytest.mark.skipif(os.environ.get("HERMES_ENV_SLOW") != "1", reason="a test of load: set HERMES_ENV_SLOW=1 to run it")
def test_many_sandboxes_with_five_commands_each(opened: Open) -> None:
    """1000 commands in 200 sandboxes, many at once, all give their own bytes."""
    results: dict[tuple[int, int], bytes] = {}
    envs: dict[int, BaseEnvironment] = {}

    def sandbox(number: int) -> None:
        envs[number] = opened()
        _all(range(5), lambda index: command(number, index))

    def command(number: int, index: int) -> None:
        data = b"%d/%d " % (number, index) * 50
        results[number, index] = envs[number].exec("cat", stdin=data).stdout

    _all(range(200), sandbox)
    wanted = {(n, i): b"%d/%d " % (n, i) * 50 for n in range(200) for i in range(5)}
    assert {key for key, value in wanted.items() if results.get(key) != value} == set()


def _all(numbers: range, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
