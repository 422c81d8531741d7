"""Commands and files in a sandbox: the same file runs on the emulator and live."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    EnvironmentGone,
    attach,
)
from tests.emulators.daytona.client import Emulator
from tests.integration.cloud_tests import StagedCommandTests, hold_apart
from tests.integration.clouds import Open
from tests.integration.daytona.conftest import LIVE
from tests.slow import slow

EVERY_BYTE = bytes(range(256))
BOUNDARY = b"\r\n--DAYTONA-FILE-BOUNDARY--\r\n"


class TestCommands(StagedCommandTests):
    """What every staged backend does."""


@pytest.mark.parametrize("size", [0, 1, 131_072, 160 << 10, (4 << 20) + 1, (16 << 20) + 1])
def test_large_stdin_arrives(env: BaseEnvironment, size: int) -> None:
    """Whatever way the size takes through the SDK, the digest inside is that of what was sent."""
    import hashlib

    data = (EVERY_BYTE[::-1] * (size // 256 + 1))[:size]
    result = env.exec("sha256sum", stdin=iter([data[: size // 2], data[size // 2 :]]))
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()


def test_a_user_script_does_not_meet_the_shell_of_the_service(env: BaseEnvironment) -> None:
    """Scripts are POSIX sh, whichever shell the service gives the text to."""
    assert env.exec("A='a b'; set -- $A *.none; echo $#").text == "3\n"


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


@pytest.mark.skipif(LIVE, reason="50 sandboxes are over the limits of most organizations")
@slow("a test of load")
def test_fifty_sandboxes_with_five_commands_each(opened: Open) -> None:
    """250 commands in 50 sandboxes at once all give their own bytes."""
    hold_apart(opened, 50)
