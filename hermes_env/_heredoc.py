"""The base of backends whose only channel is command text."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import ClassVar

from . import _heredoc_script as text
from . import _staged_reply
from ._capabilities import StdinMode
from ._command import MAX_ARGUMENT
from ._errors import PayloadTooLarge, StagingError
from ._launch import Launch
from ._staged import StagedEnvironment

_TRIES = 3


class HeredocEnvironment(StagedEnvironment):
    """Runs every command by text alone, for tools that neither take stdin nor upload files.

    A subclass fills in `_run` only. Bytes travel as escaped words of command text, decoded by a builtin of the shell
    and appended to a private file piece by piece, each piece fenced by the size of the file. Every byte value and any
    length arrives; where it cannot, `PayloadTooLarge` is raised before anything runs.

    Exposure: a tool that hands the text over as ``sh -c text`` shows stdin, variables and script to everyone who can
    read command lines there, while a piece is written. Prefer `StagedEnvironment` where files can be uploaded.
    """

    stdin_mode: ClassVar[StdinMode] = StdinMode.HEREDOC

    def _stage(self, path: str, chunks: Iterator[bytes]) -> None:
        """Append the content to the file, piece by piece."""
        limit = min(MAX_ARGUMENT, self.capabilities.max_script_bytes or MAX_ARGUMENT)
        budget = limit - text.overhead(path)
        if budget < text.LONGEST:
            raise PayloadTooLarge(f"command text of {limit} bytes has no room for stdin")
        offset = 0
        for size, word in text.split(chunks, budget):
            self._append(path, offset, size, word)
            offset += size
        if not offset:
            self._append(path, 0, 0, "")  # An iterable of nothing is an empty file, not a missing one.

    def _append(self, path: str, offset: int, size: int, word: str) -> None:
        """Write one piece; sent again when no reply comes, which the fence makes safe."""
        for last in (False,) * (_TRIES - 1) + (True,):
            nonce = secrets.token_hex(16)
            try:
                reply = self._say(text.append_text(nonce, path, offset, size, word), path)
            except Exception:
                if last:
                    raise
                continue
            words = _staged_reply.words(reply, nonce)
            if words == ["at", str(offset + size)]:
                return
            if words:
                problem = f"a piece of {size} bytes at {offset} was not written ({' '.join(words)})"
                raise StagingError(f"{problem}; nothing ran")
        raise StagingError("a piece of a private file was not confirmed; nothing ran")

    def _unstage(self, path: str) -> None:
        """Remove the file."""
        nonce = secrets.token_hex(16)
        reply = self._say(text.remove_text(nonce, path), path)
        if _staged_reply.words(reply, nonce) != ["ok"]:
            raise StagingError("a private file was not removed")

    def _say(self, script: str, path: str) -> str | bytes | None:
        command_id = path.rpartition("/")[2].partition(".")[0]
        return self._run(script, Launch(script, id=command_id))
