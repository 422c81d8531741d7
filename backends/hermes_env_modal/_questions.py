"""What this backend was built on and only the hosted service can confirm: asked by `hermes-env probe modal`.

Every question goes straight to the SDK, past the transport that is made to bear the answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from hermes_env import Probe

from . import _failures

if TYPE_CHECKING:
    from ._session import Session

_SOON = 60.0
"""Seconds for a question that takes no time: a new sandbox may still be starting."""
_WIDE = 65_000
"""Characters of three bytes: under the SDK's limit of 65,536 characters, over any limit of the service in bytes."""
_MESSAGE = 15 << 20
"""Bytes of one message of stdin: under the SDK's limit of 16 MiB."""
_KEPT = 5.0
"""Seconds between the end of a command and the first look at its output."""


class Questions:
    """The questions about one running sandbox.

    Args:
        session: Runs the SDK's calls on its loop.
        box: The SDK's sandbox.
    """

    def __init__(self, session: Session, box: Any) -> None:
        self._session, self._box = session, box

    def all(self, patience: float) -> Sequence[Probe]:
        """Every question, in the order of asking."""
        long = f"Is a command of {patience:.0f} s told its end?"
        return (
            self._probe("directory", "Where does a command start?", "/root", self._directory),
            self._probe("missing-program", "What becomes of a program that is not there?", "refused", self._missing),
            self._probe("missing-workdir", "What becomes of a directory that is not there?", "refused", self._nowhere),
            self._probe("argv-bytes", f"Are {3 * _WIDE} bytes in {_WIDE} characters taken?", "refused", self._argv),
            self._probe("stdin-message", f"Does a message of {_MESSAGE} bytes arrive?", "whole", self._message),
            self._probe("late-end", "What meets an end of stdin after the command's?", "conflict", self._late_end),
            self._probe("stream-end", "What does a stream's end wait for?", "end of its pipe", self._stream_end),
            self._probe("timeout-exit", "Which exit code is told at a timeout?", "-1", self._timeout_exit),
            self._probe("retention", f"Is output there {_KEPT:.0f} s after the end?", "kept", self._retention),
            self._probe("tag-names", "Are dots in the names of tags taken?", "yes", self._tags),
            self._probe("long-command", long, "told", lambda: self._long(patience), patience + _SOON),
        )

    def _probe(
        self,
        name: str,
        question: str,
        expected: str,
        ask: Callable[[], Coroutine[Any, Any, str]],
        within: float = _SOON,
    ) -> Probe:
        return Probe(name, question, expected, lambda: self._session.run(ask(), within, f"question {name!r}"))

    async def _start(self, *argv: str, limit: int | None = None, workdir: str | None = None) -> Any:
        return await self._box.exec.aio(*argv, timeout=limit, workdir=workdir, text=False)

    async def _said(self, *argv: str, limit: int | None = None) -> tuple[int, bytes]:
        process = await self._start(*argv, limit=limit)
        output, code = await asyncio.gather(process.stdout.read.aio(), process.wait.aio())
        return code, output

    async def _refused(self, *argv: str, workdir: str | None = None) -> str:
        try:
            process = await self._start(*argv, workdir=workdir)
            return f"ran, exit code {await process.wait.aio()}"
        except Exception as error:
            if not _failures.refused(error):
                raise
            return "refused"

    async def _directory(self) -> str:
        return (await self._said("pwd"))[1].decode().strip()

    async def _missing(self) -> str:
        return await self._refused("/no/such/program")

    async def _nowhere(self) -> str:
        return await self._refused("true", workdir="/no/such/directory")

    async def _argv(self) -> str:
        return await self._refused("true", "\u4e00" * _WIDE)

    async def _message(self) -> str:
        process = await self._start("wc", "-c")
        process.stdin.write(bytes(_MESSAGE))
        process.stdin.write_eof()
        await process.stdin.drain.aio()
        size = (await process.stdout.read.aio()).decode().strip()
        await process.wait.aio()
        return "whole" if size == str(_MESSAGE) else f"{size} bytes"

    async def _late_end(self) -> str:
        process = await self._start("true")
        await process.wait.aio()
        process.stdin.write_eof()
        try:
            await process.stdin.drain.aio()
        except Exception as error:
            if not _failures.is_sdk_error(error):
                raise
            return "conflict" if type(error).__name__ == "ConflictError" else type(error).__name__
        return "taken"

    async def _stream_end(self) -> str:
        process = await self._start("sh", "-c", "sleep 3 & echo out")
        start = time.monotonic()
        await process.stdout.read.aio()
        waited = time.monotonic() - start
        await process.wait.aio()
        return "end of its pipe" if waited > 2 else "end of the command"

    async def _timeout_exit(self) -> str:
        return str((await self._said("sleep", "30", limit=2))[0])

    async def _retention(self) -> str:
        process = await self._start("echo", "kept")
        await process.wait.aio()
        await asyncio.sleep(_KEPT)
        return "kept" if await process.stdout.read.aio() == b"kept\n" else "lost"

    async def _tags(self) -> str:
        tags = dict(await self._box.get_tags.aio())
        try:
            await self._box.set_tags.aio({**tags, "hermes_env.probe": "asked"})
        except Exception as error:
            if not _failures.refused(error):
                raise
            return "no"
        found = await self._box.get_tags.aio()
        await self._box.set_tags.aio(tags)
        return "yes" if found.get("hermes_env.probe") == "asked" else "dropped"

    async def _long(self, patience: float) -> str:
        code, output = await self._said("sh", "-c", f"sleep {int(patience)}; echo over")
        return "told" if (code, output) == (0, b"over\n") else f"exit code {code}"
