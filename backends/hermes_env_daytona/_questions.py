"""What this backend was built on and only the hosted service can confirm: asked by `hermes-env probe daytona`.

Every question goes straight to the SDK, past the transport that is made to bear the answers.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from hermes_env import Probe

from . import _failures

_BOUNDARY = b"DAYTONA-FILE-BOUNDARY"
"""The constant that ends a part of a download (daemon 0.190)."""
_BODY = 64 << 20
"""Bytes of one upload that the service's proxy has to let through."""
_SOON = 30
"""Seconds of patience for requests that take no time."""


class Questions:
    """The questions about one running sandbox.

    Args:
        box: The SDK's sandbox.
        auto_stop: Minutes after which the service stops it when idle.
    """

    def __init__(self, box: Any, auto_stop: int) -> None:
        self._box, self._auto_stop = box, auto_stop
        self._folder = f"/tmp/hermes-env-probe-{secrets.token_hex(8)}"  # noqa: S108 - inside the sandbox

    def all(self, patience: float) -> Sequence[Probe]:
        """Every question, in the order of asking."""
        return (
            Probe("shell", "Which shell reads the command?", "zsh", self._shell),
            Probe("shell-options", "With which options does that shell start?", "none", self._shell_options),
            Probe("start-up-files", "Does /etc/zsh/zshenv print anything or change options?", "no", self._zshenv),
            Probe("command-channel", "Does the command come on the shell's stdin?", "stdin", self._command_channel),
            Probe("streams", "Are stdout and stderr one text?", "merged", self._streams),
            Probe("bad-bytes", "What becomes of a byte that is no UTF-8?", "U+FFFD", self._bad_bytes),
            Probe("timeout-output", "Is output kept when a command runs out of time?", "lost", self._timeout_output),
            Probe("upload-mode", "Which mode has an uploaded file?", "0644", self._upload_mode),
            Probe("boundary", "Does a download end at the constant boundary?", "cut short", self._boundary),
            Probe("body-size", f"Does an upload of {_BODY} bytes pass the proxy?", "whole", self._body_size),
            Probe(
                "request-time",
                f"Is a request answered that takes {patience:.0f} s?",
                "answered",
                lambda: self._request_time(patience),
            ),
            Probe(
                "activity",
                "Does reported activity keep a sandbox from being stopped?",
                "kept",
                lambda: self._activity(patience),
            ),
        )

    def _say(self, script: str, timeout: int = _SOON) -> str:
        return str(self._box.process.exec(script, timeout=timeout).result)

    # -- commands -------------------------------------------------------------------------------------------------

    def _shell(self) -> str:
        return self._say('basename "$(readlink /proc/$$/exe)"').strip()

    def _shell_options(self) -> str:
        words = self._say("tr '\\0' '\\n' </proc/$$/cmdline").split("\n")[1:]
        return " ".join(word for word in words if word) or "none"

    def _zshenv(self) -> str:
        said = self._say("cat /etc/zsh/zshenv /etc/zshenv ~/.zshenv 2>/dev/null </dev/null")
        active = [line for line in said.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        words = ("echo", "print", "setopt", "unsetopt", "exec ")
        return "yes" if any(word in line for line in active for word in words) else "no"

    def _command_channel(self) -> str:
        words = self._say("tr '\\0' '\\n' </proc/$$/cmdline").split("\n")
        return "argument" if "-c" in words else "stdin"

    def _streams(self) -> str:
        return "merged" if self._say("echo out; echo err >&2").split() == ["out", "err"] else "apart"

    def _bad_bytes(self) -> str:
        said = self._say("printf 'a\\377b'")
        return "U+FFFD" if said == "a\ufffdb" else ascii(said)

    def _timeout_output(self) -> str:
        try:
            said = self._say("echo early; sleep 8", timeout=2)
        except Exception as error:
            if _failures.ran_out_of_time(error):
                return "kept" if "early" in str(error) else "lost"
            raise
        return "kept" if "early" in said else "no timeout"

    def _request_time(self, patience: float) -> str:
        return "answered" if "over" in self._say(f"sleep {int(patience)}; echo over", int(patience) + _SOON) else "cut"

    def _activity(self, patience: float) -> str:
        """Idle for longer than the service allows, but for what the keeper of every environment reports."""
        minutes = self._auto_stop + 0.5
        if patience < 60 * minutes:
            raise ValueError(f"needs --patience of {60 * minutes:.0f} s or more, or a shorter option auto_stop")
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(min(15.0, max(0.0, end - time.monotonic())))
            self._box.refresh_activity(_SOON)
        self._box.refresh_data()
        return "kept" if str(getattr(self._box.state, "value", self._box.state)) == "started" else "stopped"

    # -- files ----------------------------------------------------------------------------------------------------

    def _send(self, content: bytes) -> str:
        path = f"{self._folder}/{secrets.token_hex(8)}"
        self._say(f"umask 077; mkdir -p {self._folder} </dev/null")
        self._box.fs.upload_file(content, path, _SOON)
        return path

    def _upload_mode(self) -> str:
        return "0" + self._say(f"stat -c %a {self._send(b'x')} </dev/null").strip()

    def _boundary(self) -> str:
        content = b"begin\r\n--" + _BOUNDARY + b"--\r\nend"
        back = self._box.fs.download_file(self._send(content), _SOON)
        return "exact" if back == content else "cut short" if content.startswith(back) else "changed"

    def _body_size(self) -> str:
        path = self._send(bytes(_BODY))
        size = self._say(f"wc -c <{path}; rm -rf {self._folder} </dev/null").strip()
        return "whole" if size == str(_BODY) else f"{size} bytes"
