"""The client's own private directory inside a staged environment: its lease, its service scripts, what to erase."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from . import _staged_reply, _timer
from . import _staged_script as text
from ._blocks import BlockCheck
from ._errors import BackendUnavailable, HermesEnvError, StagingError, TransportError, Unsupported
from ._launch import Launch
from ._staged_call import bounded

if TYPE_CHECKING:
    from ._kill_script import KillReport

logger = logging.getLogger("hermes_env")

_OPEN_SECONDS = 60.0
_ASK_SECONDS = 30.0
_ERASE_SECONDS = 5.0
_NEWS_SECONDS = 3.0
"""Less than `Process` waits for the end of a killed command."""
_FILL = 4 << 20
"""Bytes of a download that one call of the SDK brings: each has a thread of its own, which a busy machine delays."""
_RENEW_AFTER = 1200.0
"""Seconds without use after which the lease (an hour) is renewed before anything is staged."""
_FLUSH_AFTER = 1.0
"""Seconds after which the output files of ended commands are erased, when no next command does it."""
_CLAIMS = 256
"""Ended commands whose claims are kept, so that a re-sent dispatch of one never runs."""
_TRASH = 64
"""Ended commands that one script cleans up after."""
_BATCH = 32
"""Ids in one script that only erases, which keeps its text short."""


class StagedHost(Protocol):
    """What the staging area needs of an environment."""

    @property
    def max_reply_bytes(self) -> int: ...

    def _run(self, script: str, launch: Launch) -> str | bytes | None: ...

    def _stage(self, path: str, chunks: Iterator[bytes]) -> None: ...

    def _stage_sized(self, path: str, chunks: Iterator[bytes], size: int) -> None: ...

    def _unstage(self, path: str) -> None: ...

    @property
    def batch_bytes(self) -> int: ...

    @property
    def fetches(self) -> bool: ...

    def _stage_many(self, files: Sequence[tuple[str, bytes]]) -> None: ...

    def _fetch(self, path: str) -> Iterator[bytes]: ...

    def _reserve(self, command_id: str, cancelled: Callable[[], bool]) -> None: ...

    def _release(self, command_id: str) -> None: ...

    def _kill(self, command_id: str, channel: object, grace: float) -> KillReport | None: ...


class StagingArea:
    """One private directory and everything that is asked of it. Thread-safe."""

    def __init__(self, host: StagedHost) -> None:
        self.host = host
        self.home = ""
        self.encoder = "base64"
        self.inline = host.max_reply_bytes // 4
        self._lock = threading.Lock()
        self._touched = 0.0
        self._trash: deque[str] = deque()
        self._claims: deque[str] = deque()
        self._doubtful: deque[str] = deque(maxlen=_TRASH)
        self._alarm: _timer.Alarm | None = None
        self._removed = False

    # -- life -----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the directory and sweep expired ones of others.

        Raises:
            Unsupported: The environment lacks what staging needs; the message names it.
            BackendUnavailable: It does not answer.
        """
        nonce = secrets.token_hex(16)
        name = text.DIRECTORY_PREFIX + secrets.token_hex(16)
        try:
            reply = self._ask(text.open_text(nonce, name), _OPEN_SECONDS)
        except ConnectionError as error:
            problem = f"the environment does not run commands: {error}"
            raise BackendUnavailable(problem, reason="unreachable") from error
        words = _staged_reply.words(reply, nonce)
        if words[:1] == ["missing"]:
            raise Unsupported(f"the environment lacks {' '.join(words[1:])}")
        if len(words) != 3 or words[0] != "home" or words[1] not in text.ENCODERS:
            problem = "the environment runs commands but their output does not come back"
            raise BackendUnavailable(problem, reason="unreachable")
        self.encoder, self.home = words[1:]
        self._touched = _clock()

    def ready(self) -> None:
        """Before staging: see to it that nobody takes the directory for abandoned, and that it is there.

        Raises:
            StagingError: It is gone and cannot be made again.
        """
        now = _clock()
        with self._lock:
            if now - self._touched < _RENEW_AFTER:
                return
            self._touched = now
        self.renew()

    def lost(self) -> None:
        """A script did not find the directory: see to it before anything is staged again."""
        self._touched = float("-inf")

    def renew(self) -> None:
        """Touch the lease; make the directory again when the environment lost it.

        Raises:
            StagingError: It cannot be made.
        """
        nonce = secrets.token_hex(16)
        reply = self._ask(text.renew_text(nonce, self.home), _ASK_SECONDS)
        if _staged_reply.words(reply, nonce) != ["ok"]:
            self.lost()
            raise StagingError("the private directory is gone and cannot be made again")

    def remove(self) -> None:
        """Remove the directory and all in it; best effort, the environment may be gone."""
        with self._lock:
            if self._removed or not self.home:
                return
            self._removed = True
            if self._alarm is not None:
                self._alarm.cancel()
        self._quietly(lambda nonce: text.remove_text(nonce, self.home))

    def path(self, command_id: str, kind: str) -> str:
        """Where a file of a command is."""
        return f"{self.home}/{command_id}.{kind}"

    # -- questions ------------------------------------------------------------------------------------------------

    def _ask(self, script: str, seconds: float, command_id: str = "") -> str | bytes | None:
        """Run one of our own scripts, with a bound."""
        launch = Launch(script, id=command_id)
        try:
            return bounded(lambda: self.host._run(script, launch), seconds)  # noqa: SLF001 - the backend's hook
        except (HermesEnvError, ConnectionError):
            raise
        except Exception as error:
            raise ConnectionError(f"the backend failed: {type(error).__name__}") from error

    def look(self, command_id: str, seconds: float) -> _staged_reply.Report | None:
        """What became of a command; None when the reply says nothing. One that has not started never will.

        Raises:
            ConnectionError: The environment does not answer.
        """
        nonce = secrets.token_hex(16)
        script = text.look_text(nonce, self.home, command_id, self.inline, self.encoder, sums=self.host.fetches)
        reply = self._ask(script, seconds, command_id)
        return _staged_reply.parse_report(reply, nonce, self.encoder)

    def news(self, command_id: str, sent: tuple[int, int]) -> tuple[bytes, bytes]:
        """What a running command has written on both streams after the first `sent` bytes; nothing if that fails."""
        nonce, count = secrets.token_hex(16), max(1, self.inline // text.PIECE // 2)
        skip = (sent[0] // text.PIECE, sent[1] // text.PIECE)
        script = text.follow_text(nonce, self.home, command_id, skip, count, self.encoder)
        try:
            reply = self._ask(script, _NEWS_SECONDS, command_id)
            return _staged_reply.parse_news(reply, nonce, self.encoder, sent, (text.PIECE, count))
        except (HermesEnvError, ConnectionError):
            return b"", b""

    def kill(self, command_id: str, grace: float) -> KillReport:
        """End a command's tree; one that has not started never will.

        Raises:
            ConnectionError: The environment does not answer.
        """
        nonce = secrets.token_hex(16)
        script = text.kill_text(nonce, self.home, command_id, grace)
        report = _staged_reply.parse_kill(self._ask(script, grace + 5.0, command_id), nonce)
        logger.debug("kill of %s: %s", command_id, report)
        return report

    def fetched(self, path: str, size: int, sums: Sequence[str]) -> Iterator[bytes]:
        """The first `size` bytes of an output file, by the SDK's download as far as its blocks have these digests.

        Raises:
            TransportError, ConnectionError: As `pieces`, which carries the rest.
        """
        right: list[bytes] = []
        check = BlockCheck(size, sums, right.append)
        for chunk in self.download(path):
            wanted = check.feed(chunk)
            yield from right
            right.clear()
            if not wanted:
                break
        if check.done < size:
            logger.debug("a download differs from byte %d on: read back encoded", check.done)
            yield from self.pieces(path, size, check.done)

    def download(self, path: str) -> Iterator[bytes]:
        """What the SDK downloads, for somebody who checks it; it ends early when the download fails."""
        chunks, held = self.host._fetch(path), list[bytes]()  # noqa: SLF001 - the backend's hook

        def fill() -> None:
            size = 0
            for chunk in chunks:
                held.append(chunk)
                size += len(chunk)
                if size >= _FILL:
                    return

        while True:
            try:
                bounded(fill, _ASK_SECONDS * 4)
            except Exception as error:  # noqa: BLE001 - who checks it finds out what is missing
                logger.debug("a download failed: %s", type(error).__name__)
                return
            if not held:
                return
            yield from held
            held.clear()

    def pieces(self, path: str, size: int, start: int = 0) -> Iterator[bytes]:
        """The bytes of an output file from `start`, a multiple of `PIECE`, to `size`, in replies of bounded length.

        Raises:
            TransportError: It arrives damaged, twice.
            ConnectionError: The environment does not answer.
        """
        count = max(1, self.inline // text.PIECE)
        for skip in range(start // text.PIECE, -(-size // text.PIECE), count):
            wanted = min(count * text.PIECE, size - skip * text.PIECE)
            yield self._piece(path, skip, count, wanted)

    def _piece(self, path: str, skip: int, count: int, wanted: int) -> bytes:
        for last in (False, True):
            nonce = secrets.token_hex(16)
            script = text.read_text(nonce, path, skip, count, self.encoder)
            reply = self._ask(script, _ASK_SECONDS)
            try:
                return _staged_reply.parse_piece(reply, nonce, wanted, self.encoder)
            except TransportError:
                if last:
                    raise
        raise AssertionError  # The loop returns or raises.

    # -- what has to go -------------------------------------------------------------------------------------------

    def ended(self, command_id: str) -> None:
        """The command's output arrived: its files go with the next command, or soon."""
        with self._lock:
            self._trash.append(command_id)
            self._flush_soon()

    def _flush_soon(self) -> None:
        if self._alarm is None and not self._removed:
            self._alarm = _timer.call_at(time.monotonic() + _FLUSH_AFTER, self._flush)

    def take_trash(self) -> tuple[list[str], list[str]]:
        """Ended commands whose files, and long ended ones whose claims, the next script erases."""
        with self._lock:
            trash = _take(self._trash, _TRASH)
            self._claims.extend(trash)
            return trash, _take(self._claims, min(_TRASH, len(self._claims) - _CLAIMS))

    def give_back(self, trash: Sequence[str]) -> None:
        """The script that was to erase these did not run."""
        with self._lock:
            self._trash.extend(trash)

    def doubtful(self) -> list[str]:
        """Commands whose files may still arrive: every script erases them."""
        with self._lock:
            return list(self._doubtful)

    def doubt(self, command_id: str) -> None:
        """Files of this command may be there, or may still arrive: every later script erases them."""
        with self._lock:
            if command_id not in self._doubtful:
                self._doubtful.append(command_id)
            self._flush_soon()

    def erase(self, command_id: str) -> bool:
        """Erase the files of a command now and fence it; False when the environment does not confirm."""
        return self._erase_all([command_id])

    def _flush(self) -> None:
        with self._lock:
            self._alarm = None
            if self._removed:
                return
        trash, _ = self.take_trash()
        ids = [*trash, *self.doubtful()]
        for start in range(0, len(ids), _BATCH):
            self._erase_all(ids[start : start + _BATCH])

    def _erase_all(self, ids: Sequence[str]) -> bool:
        return self._quietly(lambda nonce: text.erase_text(nonce, self.home, ids))

    def _quietly(self, build: Callable[[str], str]) -> bool:
        """Run a clean-up script; what fails here is erased again later, or has gone with its environment."""
        nonce = secrets.token_hex(16)
        try:
            reply = self._ask(build(nonce), _ERASE_SECONDS)
        except (HermesEnvError, ConnectionError) as error:
            logger.debug("clean-up not confirmed: %s", type(error).__name__)
            return False
        return _staged_reply.words(reply, nonce) == ["ok"]


def _clock() -> float:
    """Seconds that count while this machine sleeps, as those of leases do, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _take(queue: deque[str], count: int) -> list[str]:
    return [queue.popleft() for _ in range(min(count, len(queue)))]
