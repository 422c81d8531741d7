"""The base of backends whose SDK uploads files and runs command text, and can do no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from ._base import BaseEnvironment
from ._blocks import Downloads
from ._capabilities import Capabilities, StdinMode
from ._errors import PayloadTooLarge, Unsupported
from ._staged_area import StagingArea
from ._staged_dispatch import StagedDispatcher

if TYPE_CHECKING:
    from ._command import Command
    from ._dispatcher import Dispatcher
    from ._kill_script import KillReport
    from ._launch import Launch

SHORTEST_LIMIT = 4096
"""Bytes of command text that the framework's own scripts need."""


class StagedEnvironment(BaseEnvironment):
    """Runs every command from private files, for SDKs without live stdin.

    A subclass fills in `_run`, `_stage` and `_unstage`; each may be called from several threads at once. Script,
    variables, arguments and stdin travel as files of a 0700 directory that only this client uses; what the SDK gets
    as command text is constant, short, ASCII and without secrets. Output is collected in private files and carried
    encoded, so ``stdout`` and ``stderr`` are exact and apart on every SDK, also when its own output is merged text.

    Output is read from those files while the command runs only when somebody waits for it: with `on_output`, or after
    `start`, it is asked for every half second to five seconds. A command runs once even when the SDK or a proxy sends
    a request twice, and when the reply to a dispatch is lost a
    second request finds out what happened. It cannot run commands as other users: the directory has one owner.
    """

    stdin_mode: ClassVar[StdinMode] = StdinMode.PAYLOAD
    capabilities = Capabilities(separate_stderr=True, exact_stdout=True, streaming=True, kill_scope="command")
    max_reply_bytes: ClassVar[int] = 4 << 20
    """Bytes of text that `_run` returns reliably; larger output is read back in parts of this size."""
    batch_bytes: ClassVar[int] = 1 << 20
    """Bytes of stdin up to which it goes to `_stage_many` together with the script."""
    fetches: ClassVar[bool] = False
    """The SDK downloads files: large output and large files are read by `_fetch`."""

    _area: StagingArea

    # -- what a backend author writes -------------------------------------------------------------------------------

    def _run(self, script: str, launch: Launch) -> str | bytes | None:
        """Run command text to its end and return what it printed.

        Give the text to the SDK as it is: as script on a shell's stdin, or as ``sh -c script``. Use the SDK's own
        time limit only as a backstop, hours away: deadlines are the framework's. Do not retry.

        Args:
            script: POSIX sh text of a few kilobytes.
            launch: The command it belongs to, by ``id``; ``script`` is the same text.

        Returns:
            Its standard output. Standard error may be mixed in, undecodable bytes may be replaced. None when the SDK
            gives no output back, for example after its own timeout. The exit code is not needed.

        Raises:
            BackendUnavailable, EnvironmentGone: The SDK is certain that nothing was started.
            Exception: Any other error leaves open whether it ran; the framework finds out.
        """
        raise NotImplementedError

    def _stage(self, path: str, chunks: Iterator[bytes]) -> None:
        """Upload a file; its directory exists and is private, so the file's own mode does not matter.

        Args:
            path: Absolute ASCII path of a file that does not exist.
            chunks: Its content; stop and fail when this raises.

        Raises:
            Exception: The file may or may not be there; the command is not dispatched.
        """
        raise NotImplementedError

    def _stage_sized(self, path: str, chunks: Iterator[bytes], size: int) -> None:  # noqa: ARG002 - for SDKs that ask
        """Upload a large file whose length is known; worth filling in where the SDK needs that beforehand.

        Args:
            path: As for `_stage`.
            chunks: As for `_stage`.
            size: Bytes that the caller's stdin said it has. A file may have shrunk or grown since: fail, or take it.

        Raises:
            Exception: As `_stage`.
        """
        self._stage(path, chunks)

    def _stage_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Upload several small files; worth filling in where the SDK takes them in one request.

        Args:
            files: Path and content of each, as for `_stage`. The order does not matter.

        Raises:
            Exception: As `_stage`.
        """
        for path, content in files:
            self._stage(path, iter([content]))

    def _fetch(self, path: str) -> Iterator[bytes]:
        """Download a file; asked only where `fetches` is declared.

        What arrives is checked block by block. A block that is not what the environment says it is, or an error, makes
        the framework go on by `_run`: so it does no harm when the SDK may not read a file that commands may.

        Args:
            path: Absolute ASCII path of a private file, or of any file that is read; it may change meanwhile.
        """
        raise NotImplementedError

    def _unstage(self, path: str) -> None:
        """Remove a file that `_stage` may have made; one that is not there is no error."""
        raise NotImplementedError

    # -- what the framework does with it ----------------------------------------------------------------------------

    def _after_open(self) -> None:
        limit = self.capabilities.max_script_bytes
        if limit is not None and limit < SHORTEST_LIMIT:
            raise Unsupported(f"command text of {limit} bytes is too short: {SHORTEST_LIMIT} are needed")
        self._area = StagingArea(self)
        self._area.open()

    def _before_close(self) -> None:
        self._area.remove()

    def _downloads(self) -> Downloads | None:
        return Downloads(self._area.inline + 1, self._area.download) if self.fetches else None

    def _dispatcher(self, command: Command) -> Dispatcher:
        if command.user is not None:
            raise Unsupported("a staged environment cannot run a command as another user")
        limit = self.capabilities.max_stdin_bytes
        size = command.stdin.size if command.stdin is not None else None
        if limit is not None and size is not None and size > limit:
            problem = f"stdin: {size} bytes is over the backend's limit of {limit} bytes"
            raise PayloadTooLarge(problem)
        return StagedDispatcher(self._area, command, limit)

    def _kill(self, command_id: str, channel: object, grace: float) -> KillReport | None:  # noqa: ARG002
        return self._area.kill(command_id, grace)
