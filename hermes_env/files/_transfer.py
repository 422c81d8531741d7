"""The client's side of the read script: what arrives is compared with what the environment says it sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_env._errors import FileChanged, HermesEnvError, TransportError

from ._digest import Cksum, Tally
from ._frames import FrameReader, Header
from ._oserror import named_error
from ._wire import ending, local_name, new_nonce

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes_env._launch import Stream
    from hermes_env._result import ExecResult

_NUMBER_MAX = 2**62
"""No file is that large, and a shell still computes with it: its numbers have 64 bits with a sign."""
_BLOCKS_MAX = 1 << 20
"""Digests that are kept: an environment that never stops must not fill this machine's memory."""
_PLAIN = re.compile(r"/[A-Za-z0-9_./,:@%+=~-]*")
"""Paths that the script offers, and that every SDK takes as they are."""


@dataclass(frozen=True, slots=True)
class Part:
    """What to read."""

    path: str
    offset: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Offer:
    """A part that was not printed: where it can be downloaded, and what its blocks must be."""

    path: str
    size: int
    sums: tuple[str, ...]


class Transfer:
    """One run of the read script over several parts, each with a sink for its bytes."""

    def __init__(
        self,
        parts: Sequence[Part],
        sinks: Sequence[Callable[[bytes], object]],
        *,
        smallest_offer: int | None = None,
    ) -> None:
        """Begin with the first part.

        Args:
            parts: What to read.
            sinks: What gets the bytes of each part, which are not checked before its end.
            smallest_offer: Bytes from which a file may be offered; None when the bytes of all must come.
        """
        self.nonce = new_nonce()
        self.offers: dict[int, Offer] = {}
        """By index of the part; its bytes did not come."""
        self.errors: dict[int, OSError | HermesEnvError] = {}
        """By index of the part; a part with an error is not to be trusted."""
        self.tools: list[str] = []
        """What hashed the parts in the environment."""
        self._parts, self._sinks = parts, sinks
        self._place = "-" if smallest_offer is None else str(smallest_offer)
        self._blocks: list[str] = []
        self._index = 0
        self._header = Header(0, "none")
        self._sum: Tally | Cksum = Tally()
        self._complete = False
        self._reader = FrameReader(self.nonce, begin=self._begin, body=self._body, end=self._end, record=self._record)

    def args(self) -> list[str]:
        """Arguments of the script."""
        args = [self.nonce, self._place]
        for part in self._parts:
            limit = "-" if part.limit is None else str(min(part.limit, _NUMBER_MAX))
            args += [local_name(part.path), str(min(part.offset, _NUMBER_MAX)), limit]
        return args

    def on_output(self, stream: Stream, data: bytes) -> None:
        """Take output of the script."""
        if stream == "stdout":
            self._reader.feed(data)

    def finish(self, result: ExecResult) -> None:
        """No more comes: whatever did not arrive whole is an error."""
        self._reader.close()
        if self._complete:
            return
        for index in range(self._index, len(self._parts)):
            path = self._parts[index].path
            lost = f"{path}: the output ended before the file did ({ending(result)})"
            self.errors.setdefault(index, TransportError(lost))

    def _begin(self, header: Header) -> None:
        self._header = header
        self._blocks.clear()
        self._sum = Cksum() if header.by == "cksum" else Tally()

    def _body(self, data: bytes) -> None:
        self._sum.update(data)
        self._sinks[self._index](data)

    def _end(self, remote: str | None) -> None:
        if remote is None:
            self._fail(self._changed("became shorter while it was read"))
            return
        self.tools.append(self._header.by)
        local = self._sum.value() if isinstance(self._sum, Cksum) else self._sum.sha256
        if self._header.by != "none" and remote != local:
            self._fail(self._changed("changed while it was read, or was damaged on the way"))
            return
        self._index += 1

    def _record(self, fields: tuple[str, ...]) -> None:
        match fields:
            case ("ok",):
                self._complete = self._index == len(self._parts)
            case ("fail", code, _, note, _):
                self._fail(named_error(code, self._parts[self._index].path, note))
            case ("block", digest) if len(self._blocks) < _BLOCKS_MAX:
                self._blocks.append(digest)
            case ("place", path, size, by) if size.isdigit() and _PLAIN.fullmatch(path):
                self.tools.append(by)
                self.offers[self._index] = Offer(path, int(size), tuple(self._blocks))
                self._blocks.clear()
                self._index += 1

    def _changed(self, problem: str) -> FileChanged:
        return FileChanged(self._parts[self._index].path, problem)

    def _fail(self, error: OSError | HermesEnvError) -> None:
        self.errors[self._index] = error
        self._index += 1
