"""End marks: how a channel learns that a command's main process has ended and all of its output has come. Pure.

For transports that tell the end of a command late, or apart from its output.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._launch import Launch, Stream

_WRAPPER = (
    '_r(){ shift;if %s;then (exec setsid /bin/sh -c "$@" 2>&3 3>&-);'
    'else (exec /bin/sh -c "$@" 2>&3 3>&-);fi;};'
    '_m(){ until printf "\\036%%s %%s\\n" "$1" "$2";do sleep 0.05||return;done;};'
    'trap : HUP INT TERM;{ _r "$@";set -- "$1" "$?";_m "$@";_m "$@" >&3;} 3>&2 2>/dev/null;exit "$2"'
)
"""Runs a script, then writes an end mark with its exit code on both streams.

``$1`` is the mark's secret, the rest goes to ``/bin/sh -c``. The marks tell what transports do not: that all
output of the main process has come (a connection that is cut, or only slow, looks like its end), that it ended while a
background child holds its streams, and that it was started at all.
No variable is set: any name may be one of the caller's. Its own complaints ("Killed") go to /dev/null. A command may
have made its streams non-blocking and full, so the mark is tried again. Names of one letter are aliases in mksh (`r`).
"""
_SESSION = "command -v setsid >/dev/null 2>&1"
_NO_GROUP = "! (IFS=' ';read -r x </proc/$$/stat&&set -- ${x##*') '}&&[ \"$3\" = $$ ])&&" + _SESSION
"""The wrapper does not lead a process group: the third word behind the name of its program is the group's leader."""


class EndMarks:
    """The marks of one command on both of its streams."""

    def __init__(self) -> None:
        self._secret = secrets.token_hex(16)
        self._marks: dict[Stream, EndMark] = {"stdout": EndMark(self._secret), "stderr": EndMark(self._secret)}

    def argv(self, launch: Launch, *, setup: str = "", one_group: bool = False) -> list[str]:
        """The command line that runs a launch under the wrapper.

        Args:
            launch: What to run.
            setup: Shell text that goes ahead, such as ``exec </dev/null;``.
            one_group: Where the service starts the wrapper as the leader of a process group, the command stays in it,
                so that the service can end both. Otherwise it leads a session of its own.
        """
        script = setup + _WRAPPER % (_NO_GROUP if one_group else _SESSION)
        return ["/bin/sh", "-c", script, "sh", self._secret, launch.script, "sh", *launch.args]

    def feed(self, stream: Stream, data: bytes) -> bytes:
        """What of the data is the command's; the start of a mark is kept until the rest has come."""
        return self._marks[stream].feed(data)

    def rest(self) -> Iterator[tuple[Stream, bytes]]:
        """What was kept and turned out to be no mark, when the streams have ended."""
        for stream, mark in self._marks.items():
            if rest := mark.rest():
                yield stream, rest

    @property
    def status(self) -> int | None:
        """The command's exit code when both streams have said that they are complete."""
        out, err = self._marks["stdout"].status, self._marks["stderr"].status
        return out if err is not None else None


class EndMark:
    """Finds the wrapper's end mark in one stream and takes it out."""

    def __init__(self, secret: str) -> None:
        self._mark = b"\x1e" + secret.encode("ascii") + b" "
        self._kept = b""
        self.status: int | None = None
        """Exit code that the mark carried; None until it has come."""

    def feed(self, data: bytes) -> bytes:
        """What of the data is the command's; the start of a mark is kept until the rest has come."""
        if self.status is not None:
            return data
        if self._kept:
            data = self._kept + data
            self._kept = b""
        at = data.find(self._mark)
        if at < 0:
            return self._keep_start(data)
        end = data.find(b"\n", at)
        if end < 0:
            self._kept = data[at:]
            return data[:at]
        self.status = int(data[at + len(self._mark) : end])
        return data[:at] + data[end + 1 :]

    def _keep_start(self, data: bytes) -> bytes:
        at = data.rfind(b"\x1e", max(0, len(data) - len(self._mark)))
        if at < 0 or not self._mark.startswith(data[at:]):
            return data
        self._kept = data[at:]
        return data[:at]

    def rest(self) -> bytes:
        """What was kept and turned out to be no mark, when the stream has ended."""
        kept, self._kept = self._kept, b""
        return kept
