"""What LangChain's tests do not look at, on our sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from deepagents.backends.protocol import SandboxBackendProtocol

from hermes_env import attach, open_environment
from hermes_env.adapters.deepagents import HermesSandbox
from tests.runtimes.asked import BACKEND, OPTIONS


@pytest.fixture(scope="module")
def sandbox() -> Iterator[HermesSandbox]:
    """One for all."""
    with open_environment(BACKEND, **OPTIONS) as env:
        env.files.make_dir("/tmp/own-deepagents", parents=True)
        yield HermesSandbox(env)
        env.files.remove("/tmp/own-deepagents", recursive=True)


def test_it_is_what_deepagents_asks_for(sandbox: HermesSandbox) -> None:
    """An instance of its protocol, with an id that leads to it where that can be."""
    assert isinstance(sandbox, SandboxBackendProtocol)
    if sandbox.env.capabilities.reattach:
        with attach(sandbox.id) as other:
            assert other.exec("test -d /tmp/own-deepagents").ok


def test_output_is_both_streams_in_order(sandbox: HermesSandbox) -> None:
    """And its code is the command's."""
    done = sandbox.execute("for i in 1 2 3; do echo out $i; echo err $i >&2; done; exit 7")
    assert (done.output, done.exit_code, done.truncated) == ("out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n", 7, False)


def test_time_runs_out(sandbox: HermesSandbox) -> None:
    """With what was written until then; 0 is no limit, also where the environment has one."""
    done = sandbox.execute("echo first; sleep 600", timeout=5)
    assert done.exit_code == 124 and done.output.startswith("first\n\nkilled after")
    sandbox.env.timeout = 1
    try:
        assert sandbox.execute("sleep 2; echo done", timeout=0).output == "done\n"
        assert sandbox.execute("sleep 600").exit_code == 124
    finally:
        sandbox.env.timeout = None


def test_too_much_output_is_told(sandbox: HermesSandbox) -> None:
    """The first and the last part are kept."""
    done = sandbox.execute("echo start; head -c 20000000 /dev/zero; echo end")
    assert done.truncated and done.output.startswith("start\n") and done.output.endswith("end\n")


async def test_cancelling_kills_the_command(sandbox: HermesSandbox) -> None:
    """When the cancelled call has returned, the command is gone."""
    path = "/tmp/own-deepagents/pid"
    task = asyncio.ensure_future(sandbox.aexecute(f"echo $$ >{path}; sleep 600; :"))
    async with asyncio.timeout(60):
        while (await sandbox.aexecute(f"test -s {path}")).exit_code:
            pass
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await sandbox.aexecute(f"kill -0 $(cat {path})")).exit_code


def test_bytes_are_exact(sandbox: HermesSandbox) -> None:
    """Whatever they are; one that fails does not stop the others."""
    data = bytes(range(256)) * 1000
    files = [("/tmp/own-deepagents/a/b", data), ("/dev/null/x", b""), ("relative", b""), ("/tmp/own-deepagents/c", b"")]
    told = sandbox.upload_files(files)
    assert [one.error for one in told] == [None, "invalid_path", "invalid_path", None]
    got = sandbox.download_files(["/tmp/own-deepagents/a/b", "/tmp", "/nowhere", "/tmp/own-deepagents/c"])
    assert [one.content for one in got] == [data, None, None, b""]
    assert [one.error for one in got] == [None, "is_directory", "file_not_found", None]
