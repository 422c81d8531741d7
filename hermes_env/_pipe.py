"""Dispatch in mode `pipe`: stdin is written to the command's own channel."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from ._command import Command, payload
from ._errors import Unsupported
from ._launch import SupportsPump
from ._shell import GUARD_STATUS, frame

if TYPE_CHECKING:
    from ._command import Prepared
    from ._kill_script import KillReport
    from ._launch import Channel, Launch
    from ._result import ExecResult

_JOINABLE = 1 << 20
"""Bytes up to which head and payload are joined in memory instead of being sent by a thread."""
_JOIN = 1.0
"""Seconds for the writer to notice that its channel is gone."""
_PROMPT = 0.02
"""Seconds more when it is inside the caller's own iterable, which may block for ever and is then left behind."""


class Host(Protocol):
    """What dispatch needs of an environment."""

    def _reserve(self, command_id: str, cancelled: Callable[[], bool]) -> None: ...

    def _release(self, command_id: str) -> None: ...

    def _launch(self, launch: Launch) -> Channel: ...

    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None: ...


class PipeDispatcher:
    """Carries one prepared command over a channel with live stdin."""

    def __init__(self, host: Host, command: Command, prepared: Prepared) -> None:
        self._host = host
        self._command = command
        self._prepared = prepared
        self._writer: threading.Thread | None = None
        self._over = False
        self._asking = threading.Event()  # The writer is inside the caller's iterable, or has ended.

    def stage(self, cancelled: Callable[[], bool]) -> None:
        """Wait until the environment can take the command."""
        self._host._reserve(self._command.id, cancelled)  # noqa: SLF001 - see dispatch

    def follow(self) -> None:
        """Output arrives while the command runs anyway."""

    def dispatch(self) -> Channel:
        """Start the command."""
        return self._host._launch(self._prepared.launch)  # noqa: SLF001 - the hook is the backend's side of dispatch

    def feed(self, channel: Channel, failed: Callable[[BaseException], None]) -> memoryview | None:
        """Send from memory on the pump's thread where that is possible, else from a writer thread."""
        command, head = self._command, self._prepared.head
        if command.live_stdin:
            if head:
                channel.write(head)
            return None
        if command.stdin is None and not head:
            channel.close_stdin()
            return None
        if isinstance(channel, SupportsPump) and (joined := self._joined()) is not None:
            return joined
        self._writer = threading.Thread(target=self._send, args=(channel, failed), name="hermes-env-stdin", daemon=True)
        self._writer.start()
        return None

    def _joined(self) -> memoryview | None:
        memory, head = self._command.memory, self._prepared.head
        if self._command.stdin is None:
            return memoryview(head)
        if memory is None:
            return None
        if not head:
            return memory
        return memoryview(head + memory) if len(memory) <= _JOINABLE else None

    def _send(self, channel: Channel, failed: Callable[[BaseException], None]) -> None:
        try:
            self._send_all(channel)
        except ConnectionError:
            # A closed stdin is the command's right; a lost link shows on the output side.
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failed(error)
        finally:
            _close(channel)
            self._asking.set()

    def _send_all(self, channel: Channel) -> None:
        if self._prepared.head:
            channel.write(self._prepared.head)
        chunks = payload(self._command, frames=self._prepared.frames)
        while (chunk := self._ask(chunks)) is not None and not self._over:
            if chunk:
                channel.write(chunk)

    def _ask(self, chunks: Iterator[bytes | memoryview]) -> bytes | memoryview | None:
        """The caller's next chunk; None at the end."""
        self._asking.set()
        chunk = next(chunks, None)
        self._asking.clear()
        return chunk

    def write(self, channel: Channel, data: bytes | memoryview | None) -> None:
        """Send live stdin; None is end-of-file."""
        if not self._prepared.frames:
            if data is None:
                channel.close_stdin()
            elif data:
                channel.write(data)
            return
        if data != b"":
            channel.write(frame(data or b""))

    def settle(self, result: ExecResult, opening: bytes) -> ExecResult:
        """Raise what the guard reported: the directory could not be entered, nothing ran."""
        refused_cwd(result, opening, self._command)
        return result

    def kill(self, channel: Channel, grace: float) -> KillReport | None:
        """End the command's tree."""
        return self._host._kill(self._command.id, channel, grace)  # noqa: SLF001 - see dispatch

    def discard(self) -> None:
        """The channel is gone: the writer ends, unless the caller's own iterable blocks it."""
        self._over = True
        if self._writer is not None and self._writer is not threading.current_thread():
            self._asking.wait(_JOIN)
            self._writer.join(_PROMPT)
        self._host._release(self._command.id)  # noqa: SLF001 - see dispatch


def refused_cwd(result: ExecResult, opening: bytes, command: Command) -> None:
    """Raise what a guard reported in the opening of stderr, if it did: a word, and what it is about."""
    nonce = command.nonce.encode()
    if result.exit_code != GUARD_STATUS or nonce not in opening:
        return
    word, _, detail = opening.partition(nonce)[2].lstrip().partition(b" ")
    reason = word.strip().decode("ascii", "replace")
    if reason == "lacks" and detail:
        lacking = detail.split(maxsplit=1)[0].decode("ascii", "replace")
        raise Unsupported(f"the environment lacks {lacking}, which stdin needs; nothing ran")
    if reason == "yash":
        raise Unsupported("/bin/sh is yash, which cannot carry text that is not ASCII; nothing ran")
    if command.refusal is not None:
        raise command.refusal(reason, detail.removesuffix(b"\n"))
    raise cwd_error(reason, command.cwd or ".")


def cwd_error(word: str, cwd: str, what: str = "cwd", advice: str = "") -> OSError:
    """The builtin error for a working directory that cannot be entered."""
    kinds: dict[str, type[OSError]] = {"missing": FileNotFoundError, "notdir": NotADirectoryError}
    codes = {"missing": errno.ENOENT, "notdir": errno.ENOTDIR}
    texts = {"missing": "no such directory", "notdir": "not a directory"}
    kind = kinds.get(word, PermissionError)
    return kind(codes.get(word, errno.EACCES), f"{what}: {texts.get(word, 'cannot be entered')}{advice}", cwd)


def _close(channel: Channel) -> None:
    try:
        channel.close_stdin()
    except OSError:
        return
