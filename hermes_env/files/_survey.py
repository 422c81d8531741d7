"""The client's side of the survey script."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_env._errors import FileChanged, HermesEnvError, TransportError

from . import _stats
from ._digest import Cksum, Tally
from ._frames import FrameReader, Header
from ._oserror import named_error
from ._types import Surveyed
from ._wire import ending, local_name, new_nonce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_env._launch import Stream
    from hermes_env._result import ExecResult


class SurveyRun:
    """One run of the script over some paths."""

    def __init__(self, paths: Sequence[str], most: int | None) -> None:
        self.nonce = new_nonce()
        self.home, self.uid = "", 0
        self.found: list[Surveyed] = []
        self.tools: list[str] = []
        self._paths, self._most = paths, most
        self._now: Surveyed | None = None
        self._body: list[bytes] = []
        self._sum: Tally | Cksum = Tally()
        self._by = "none"
        self._complete = False
        self._reader = FrameReader(self.nonce, begin=self._begin, body=self._take, end=self._end, record=self._record)

    def args(self) -> list[str]:
        """Arguments of the script."""
        most = "-" if self._most is None else str(self._most)
        return [self.nonce, most, *(local_name(path) for path in self._paths)]

    def on_output(self, stream: Stream, data: bytes) -> None:
        """Take output of the script."""
        if stream == "stdout":
            self._reader.feed(data)

    def finish(self, result: ExecResult) -> None:
        """No more comes.

        Raises:
            TransportError: Not everything arrived.
        """
        self._reader.close()
        if not self._complete:
            path = self._paths[min(len(self.found), len(self._paths) - 1)]
            raise TransportError(f"{path}: the output ended before the survey did ({ending(result)})")

    def _begin(self, header: Header) -> None:
        self._by = header.by
        self._body = []
        self._sum = Cksum() if header.by == "cksum" else Tally()

    def _take(self, data: bytes) -> None:
        self._sum.update(data)
        self._body.append(data)

    def _end(self, remote: str | None) -> None:
        assert self._now is not None
        path = self._now.path
        if remote is None:
            self._close(error=FileChanged(path, "became shorter while it was read"))
            return
        self.tools.append(self._by)
        local = self._sum.value() if isinstance(self._sum, Cksum) else self._sum.sha256
        if self._by != "none" and remote != local:
            self._close(error=FileChanged(path, "changed while it was read, or was damaged on the way"))
            return
        data, self._body = b"".join(self._body), []
        # A tool other than SHA-256 proved the bytes: their SHA-256 is still to be computed.
        sha256 = hashlib.sha256(data).hexdigest() if isinstance(self._sum, Cksum) else self._sum.sha256
        self._close(data=data, sha256=sha256)

    def _close(
        self, *, data: bytes | None = None, sha256: str | None = None, error: OSError | HermesEnvError | None = None
    ) -> None:
        assert self._now is not None
        self.found.append(replace(self._now, data=data, sha256=sha256, error=error))
        self._now, self._body = None, []

    def _record(self, fields: tuple[str, ...]) -> None:
        match fields:
            case ("ok", home, uid):
                self.home, self.uid = home, int(uid) if uid.isdigit() else 0
                self._complete = len(self.found) == len(self._paths)
            case ("at", *rest):
                self._now = _entry(self._paths[len(self.found)], rest)
            case ("none",):
                self._close()
            case ("sum", digest, by):
                self.tools.append(by)
                self._close(sha256=digest if by not in ("none", "cksum") else None)
            case ("fail", code, _, note, *_):
                assert self._now is not None
                self._close(error=named_error(code, self._now.path, note))
            case _:
                return


def _entry(path: str, fields: Sequence[str]) -> Surveyed:
    link, place, real, missing, state, target, ident = fields
    stat = _stats.parse(state, path, "") if state else None
    parents: list[str] = []
    directory = real
    for _ in missing:
        directory = directory.rpartition("/")[0]
        parents.insert(0, directory)
    return Surveyed(
        path=path,
        real=real or None,
        place=place or None,
        link=link == "1",
        target=target or None,
        missing=tuple(parents),
        stat=stat,
        identity=_identity(ident),
    )


def _identity(ident: str) -> tuple[int, int] | None:
    """The numbers in ``device:inode:size uid:gid``."""
    words = ident.partition(" ")[0].split(":")
    if len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        return None
    return int(words[0]), int(words[1])
