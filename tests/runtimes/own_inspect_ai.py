"""What inspect_ai's checks do not look at, on our provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentSpec, SandboxUnavailableError
from inspect_ai.util._sandbox.limits import override_max_exec_output_size

from hermes_env import list_backends
from hermes_env.adapters.inspect_ai import HermesSandbox, SandboxConfig
from tests.runtimes.asked import BACKEND, OPTIONS

pytestmark = pytest.mark.anyio
CONFIG = SandboxConfig(backend=BACKEND, options=OPTIONS)


@pytest.fixture
def anyio_backend() -> str:
    """An environment belongs to its loop."""
    return "asyncio"


@pytest.fixture
async def sandbox() -> AsyncIterator[HermesSandbox]:
    """The sandbox of a sample."""
    made = await HermesSandbox.sample_init("own", CONFIG, {})
    yield made["default"].as_type(HermesSandbox)
    await HermesSandbox.sample_cleanup("own", CONFIG, made, interrupted=False)


async def test_bytes_are_exact(sandbox: HermesSandbox) -> None:
    """In and out, also as stdin, and never as another text: line ends stay."""
    data = bytes(range(256)) * 600 + b"\r\n\xff"
    await sandbox.write_file("folder/data", data)
    assert await sandbox.read_file("folder/data", text=False) == data
    assert (await sandbox.exec(["sh", "-c", "cat >copy"], input=data)).success
    assert await sandbox.read_file("copy", text=False) == data
    await sandbox.write_file("text", "a\r\nb\rc\n")
    assert await sandbox.read_file("text") == "a\r\nb\rc\n"
    with pytest.raises(UnicodeDecodeError):
        await sandbox.read_file("copy")


async def test_output_over_the_limit_is_an_error(sandbox: HermesSandbox) -> None:
    """Never a part of the output that looks whole."""
    with override_max_exec_output_size(1000):
        assert (await sandbox.exec(["printf", "%01000d", "0"])).stdout == "0" * 1000
        with pytest.raises(OutputLimitExceededError):
            await sandbox.exec(["printf", "%01001d", "0"])


async def test_cancelling_kills_the_command(sandbox: HermesSandbox) -> None:
    """When the cancelled call has returned, the command is gone."""
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.exec, ["sh", "-c", "echo $$ >pid; sleep 600; :"])
        with anyio.fail_after(60):
            await sandbox.exec(["sh", "-c", "until test -s pid; do sleep 0.05; done"])
        group.cancel_scope.cancel()
    pid = (await sandbox.read_file("pid")).strip()
    assert not (await sandbox.exec(["kill", "-0", pid])).success


async def test_samples_are_apart_and_leave_nothing(sandbox: HermesSandbox) -> None:
    """Each has a directory or a container of its own; closing removes it."""
    made = await HermesSandbox.sample_init("own", CONFIG, {})
    other = made["default"].as_type(HermesSandbox)
    await sandbox.write_file("mine", "1")
    with pytest.raises(FileNotFoundError):
        await other.read_file("mine")
    folder = (await other.exec(["pwd"])).stdout.strip()
    await HermesSandbox.sample_cleanup("own", CONFIG, made, interrupted=True)
    assert BACKEND != "local" or not await anyio.Path(folder).exists()
    with pytest.raises(SandboxUnavailableError):
        await other.exec(["true"])


async def test_a_file_may_hold_the_configuration(tmp_path: Path) -> None:
    """TOML or JSON; what is not known is refused."""
    path = tmp_path / "sandbox.json"
    path.write_text(json.dumps({"backend": BACKEND, "options": OPTIONS, "env": {"WORD": "told"}}))
    made = await HermesSandbox.sample_init("own", str(path), {})
    try:
        assert (await made["default"].exec(["sh", "-c", "echo $WORD"])).stdout == "told\n"
    finally:
        await HermesSandbox.sample_cleanup("own", str(path), made, interrupted=False)
    path = tmp_path / "sandbox.toml"
    path.write_text("[optoins]\n")
    with pytest.raises(ValueError, match="optoins"):
        await HermesSandbox.sample_init("own", str(path), {})


def test_every_backend_has_a_provider() -> None:
    """By its name, with a configuration that survives a log."""
    for info in list_backends():
        spec = SandboxEnvironmentSpec(f"hermes-{info.name}", CONFIG)
        assert hash(spec) == hash(SandboxEnvironmentSpec.model_validate(json.loads(spec.model_dump_json())))
