"""Commands and files in a sandbox: the same file runs on the emulator and live."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    EnvironmentGone,
    attach,
)
from hermes_env_vercel import VercelEnvironment
from tests.emulators.vercel.client import Emulator
from tests.integration.cloud_tests import StagedCommandTests, hold_apart
from tests.integration.clouds import Open
from tests.integration.vercel.conftest import LIVE, access
from tests.slow import slow

EVERY_BYTE = bytes(range(256))
SPLIT = "é€𝄞".encode() * 30_000
"""Characters of two, three and four bytes: wherever the service cuts its output, it cuts some of them."""


class TestCommands(StagedCommandTests):
    """What every staged backend does."""


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


def test_commands_start_in_the_sessions_directory(env: BaseEnvironment) -> None:
    """The working directory is the one that the session names, and relative paths are of it."""
    assert isinstance(env, VercelEnvironment)
    assert env.exec("pwd").text == f"{env._box.cwd}\n"
    env.files.write_bytes("here", b"1")
    assert env.files.exists(f"{env._box.cwd}/here")


@pytest.mark.parametrize("size", [0, 100, 3 << 20, 12 << 20])
def test_files_go_and_come_back(env: BaseEnvironment, size: int) -> None:
    """A file of any size is written, verified and read back whole."""
    data = (EVERY_BYTE * (size // 256 + 1))[:size]
    assert env.files.write_bytes("f", data).verified
    assert env.files.read_bytes("f") == data


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


def test_file_names_of_any_bytes_arrive(env: BaseEnvironment) -> None:
    """A name with white space at its ends and a byte that is no text is the file's name."""
    env.files.write_bytes(" \udcff ", b"1")
    assert env.exec("ls").stdout == b" \xff \n"


@pytest.mark.skipif(LIVE, reason="30 sandboxes are over the limits of the smallest plan")
@slow("a test of load")
def test_many_sandboxes_with_five_commands_each(opened: Open) -> None:
    """1,000 commands in 200 sandboxes, many at once, all give their own bytes."""
    hold_apart(opened, 200)
