"""What this backend was built on and only the hosted service can confirm: asked by `hermes-env probe vercel`.

Every question goes straight to the SDK, past the transport that is made to bear the answers.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_env import Probe

from . import _sdk

if TYPE_CHECKING:
    from ._sdk import Box

_BODY = 32 << 20
"""Bytes of one upload that the service has to let through."""
_SPLIT = 60_000
"""Characters of three bytes: whatever the size of the service's pieces, some are cut by an edge."""
_SOON = 10.0


class Questions:
    """The questions about one running sandbox, which the last one stops."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._folder = f"/tmp/hermes-env-probe-{secrets.token_hex(8)}"  # noqa: S108 - inside the sandbox

    def all(self, patience: float) -> Sequence[Probe]:
        """Every question, in the order of asking."""
        long = f"Is a request answered that takes {patience:.0f} s?"
        return (
            Probe("directory", "Do commands start in the session's directory?", "yes", self._directory),
            Probe("owner", "Do uploads belong to the user of commands?", "yes", self._owner),
            Probe("upload-mode", "Which mode has a new file that was asked to be 0600?", "0600", self._upload_mode),
            Probe("overwrite-mode", "Which mode has an older file of 0644 then?", "0644", self._overwrite_mode),
            Probe("overwrite", "Does an upload write into the file that is there?", "same inode", self._overwrite),
            Probe("bad-bytes", "What becomes of a byte that is no UTF-8?", "U+FFFD", self._bad_bytes),
            Probe("edges", "Do long texts of UTF-8 survive?", "damaged", self._edges),
            Probe("end", "What does the answer to a command wait for?", "end of its output", self._end),
            Probe("signal-exit", "Which exit code has a command killed by signal 9?", "137", self._signal_exit),
            Probe("kill-scope", "What does a kill by the service reach?", "process", self._kill_scope),
            Probe("listing", "Does a listing tell the arguments of commands?", "yes", self._listing),
            Probe("body-size", f"Does an upload of {_BODY} bytes arrive?", "whole", self._body_size),
            Probe("request-time", long, "answered", lambda: self._request_time(patience)),
            Probe("extension", "Can the time limit be extended by a minute?", "60 s", self._extension),
            Probe("stopped", "What is answered once the session has stopped?", "410 sandbox_stopped", self._stopped),
        )

    def _say(self, script: str) -> str:
        return self._box.run(script).strip()

    def _send(self, name: str, content: bytes) -> str:
        self._say(f"umask 077; mkdir -p {self._folder}")
        path = f"{self._folder}/{name}"
        self._box.write([(path, content)])
        return path

    # -- files ----------------------------------------------------------------------------------------------------

    def _directory(self) -> str:
        return "yes" if self._say("pwd -P") == self._box.cwd else "no"

    def _owner(self) -> str:
        owner, user = self._say(f"stat -c %u {self._send('owner', b'x')}; id -u").split()
        return "yes" if owner == user else "no"

    def _upload_mode(self) -> str:
        return "0" + self._say(f"stat -c %a {self._send('mode', b'x')}")

    def _overwrite_mode(self) -> str:
        self._say(f"chmod 644 {self._send('older', b'x')}")
        return "0" + self._say(f"stat -c %a {self._send('older', b'y')}")

    def _overwrite(self) -> str:
        before = self._say(f"stat -c %i {self._send('inode', b'x')}")
        return "same inode" if self._say(f"stat -c %i {self._send('inode', b'y')}") == before else "another inode"

    def _body_size(self) -> str:
        path = self._send("body", os.urandom(1 << 20) * (_BODY >> 20))
        size = self._say(f"wc -c <{path}; rm -rf {self._folder}")
        return "whole" if size == str(_BODY) else f"{size} bytes"

    # -- commands -------------------------------------------------------------------------------------------------

    def _bad_bytes(self) -> str:
        said = self._say("printf 'a\\377b'")
        return "U+FFFD" if said == "a\ufffdb" else ascii(said)

    def _edges(self) -> str:
        path = self._send("text", ("\u20ac" * _SPLIT).encode())
        return "exact" if self._say(f"cat {path}") == "\u20ac" * _SPLIT else "damaged"

    def _end(self) -> str:
        start = time.monotonic()
        self._say("sleep 4 & echo")
        return "end of its output" if time.monotonic() - start > 3 else "end of its process"

    def _signal_exit(self) -> str:
        return str(self._box.finish("kill -9 $$")[0])

    def _kill_scope(self) -> str:
        mark, child = secrets.token_hex(16), f"{self._folder}/child"
        self._say(f"mkdir -p {self._folder}")
        self._box.begin(f"sleep 300 & echo $! >{child}.new; mv {child}.new {child}; wait", mark)
        self._wait(f"[ -s {child} ]")
        self._box.kill(mark)
        alive = self._say(f"sleep 1; kill -9 $(cat {child}) 2>/dev/null && echo alive")
        return "process" if alive else "group"

    def _wait(self, condition: str) -> None:
        end = time.monotonic() + _SOON
        while self._box.finish(condition)[0] != 0:
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}: not within {_SOON:g} s")

    def _listing(self) -> str:
        mark = secrets.token_hex(16)
        self._box.begin("sleep 300", mark)
        return "yes" if self._box.kill(mark) == 1 else "no"

    def _request_time(self, patience: float) -> str:
        return "answered" if self._say(f"sleep {int(patience)}; echo over") == "over" else "cut"

    # -- the session ----------------------------------------------------------------------------------------------

    def _extension(self) -> str:
        before = self._box.expires_at
        self._box.extend(60)
        after = self._box.expires_at
        if before is None or after is None:
            raise ValueError("the service tells no time limit")
        return f"{(after - before).total_seconds():.0f} s"

    def _stopped(self) -> str:
        self._box.stop()
        try:
            self._say("true")
        except Exception as error:
            failure = _sdk.failure_of(error)
            if failure is None:
                raise
            return f"{failure.status} {failure.code or 'without a code'}"
        return "it runs again"
