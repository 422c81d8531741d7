"""The environment that Hermes agent runs its commands in."""

from __future__ import annotations

import contextlib
import errno
import posixpath
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    EnvironmentGone,
    ExecResult,
    HermesEnvError,
    OutcomeUnknown,
    Process,
)

NOT_ENTERED, TIMED_OUT, INTERRUPTED = 126, 124, 130
"""Exit codes that Hermes agent knows: no such directory, out of time, stopped by its user."""
_LOOK = 0.1
"""Seconds between looks for an interrupt while a command runs."""
_BOUNDED = 50_000
"""Bytes kept of a command whose output is for the model; what programs read is kept whole."""

_RUN = r"""
"$1" -c "trap 'pwd -P >$2' EXIT
"'eval "$1"' "$1" "$3" 2>&1
s=$?
[ ! -s "$2" ] || { printf '\000'; cat "$2"; } >&2
rm -f "$2"
exit $s
"""
"""Runs the command ``$3`` in the shell ``$1``, both streams as one, and tells on stderr in which directory it ended.

The file ``$2`` keeps that out of the command's own output, also when the command says `exit`.
"""


class TerminalEnvironment:
    """Runs commands for Hermes agent; `cwd` follows them. `cleanup` closes the environment."""

    is_local = False

    def __init__(self, env: BaseEnvironment, *, cwd: str = "", timeout: float = 60) -> None:
        """Use an open environment, from now on this object's own."""
        self.env, self.timeout, self.cwd = env, timeout, ""
        probe = env.exec("umask 077; mktemp -d && { command -v bash || command -v sh; }", check=True).text.split("\n")
        self._folder, self._shell = probe[0], probe[1]
        survey = env.files.survey(["."], most=0)
        self._home, self.cwd = survey.home or "/", survey.files["."].real or "/"
        wanted = self._absolute(cwd)
        if wanted and (found := env.files.survey([wanted], most=0).files[wanted]).stat:
            self.cwd = found.real or self.cwd

    def execute(
        self,
        command: str,
        cwd: str = "",
        *,
        timeout: float | None = None,
        stdin_data: str | None = None,
        bounded_capture: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """Run a command: ``output``, both streams in the order in which it wrote, and ``returncode``.

        What is not UTF-8 is shown as U+FFFD: Hermes agent takes text only. Files are not carried this way.
        """
        limit = timeout or self.timeout
        script = shlex.join(
            ["exec", "/bin/sh", "-c", _RUN, "sh", self._shell, f"{self._folder}/{uuid4().hex}", command]
        )
        try:
            process = self.env.start(
                script,
                cwd=self._absolute(cwd) or self.cwd,
                stdin=None if stdin_data is None else stdin_data.encode("utf-8", "surrogateescape"),
                timeout=limit,
                output_limit=_BOUNDED if bounded_capture else sys.maxsize,
            )
            return self._result(_wait(process), None)
        except CommandTimeout as error:
            return self._result(error.result, TIMED_OUT, f"\n[Command timed out after {limit}s]")
        except CommandCancelled as error:
            return self._result(error.result, INTERRUPTED, "\n[Command interrupted]")
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            return {"output": f"cd: {error}\n", "returncode": NOT_ENTERED}
        except (BackendUnavailable, EnvironmentGone, OutcomeUnknown) as error:
            raise _connection_error()(str(error)) from error

    def _result(self, done: ExecResult, code: int | None, note: str = "") -> dict[str, Any]:
        result: dict[str, Any] = {
            "output": _text(done) + note,
            "returncode": done.exit_code if code is None else code,
            "output_total_chars": done.stdout_total,
        }
        _, told, where = done.stderr.rpartition(b"\0")
        if told and code is None:
            self.cwd = result["cwd"] = where.decode("utf-8", "surrogateescape").removesuffix("\n")
            result["cwd_observed"] = True
        return result

    def cleanup(self) -> None:
        """Remove what this object made in the environment, and close it."""
        with contextlib.suppress(OSError, HermesEnvError):
            self.env.files.remove(self._folder, recursive=True)
        self.env.close()

    def get_temp_dir(self) -> str:
        """A directory in the environment for files of Hermes agent, gone with `cleanup`; others cannot look into it."""
        return self._folder

    def fetch_file(self, remote_path: str, local_dest: str | Path, *, max_bytes: int) -> None:
        """Copy the exact bytes of a file to this machine, checked.

        Raises:
            OSError: It cannot be read, or has more than `max_bytes`.
        """
        data = self.env.files.read_bytes(self._absolute(remote_path), limit=max_bytes + 1)
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, f"has more than {max_bytes} bytes", remote_path)
        Path(local_dest).write_bytes(data)

    def fetch_realpath(self, remote_path: str) -> str | None:
        """The path without symbolic links, as the environment resolves it."""
        path = self._absolute(remote_path)
        return self.env.files.survey([path], most=0).files[path].real

    def _absolute(self, path: str) -> str:
        """Relative paths start where the last command ended; ``~`` is the home directory there."""
        if path == "~" or path.startswith("~/"):
            return self._home + path[1:]
        return posixpath.join(self.cwd, path) if path else ""


def _wait(process: Process) -> ExecResult:
    """Wait for the end, or for a stop that the user of Hermes agent asked of this thread."""
    interrupted = _interrupts()
    while True:
        try:
            return process.wait(_LOOK)
        except CommandTimeout:
            raise
        except TimeoutError:
            if interrupted():
                process.kill()
        except BaseException:
            process.kill()
            raise


def _interrupts() -> Callable[[], bool]:
    try:
        from tools.interrupt import is_interrupted
    except ImportError:
        return lambda: False
    return is_interrupted


def _connection_error() -> type[Exception]:
    try:
        from tools.environments.base import EnvironmentConnectionError
    except ImportError:
        return ConnectionError
    return EnvironmentConnectionError


def _text(done: ExecResult) -> str:
    """Output as text; where its middle is missing, that is told there."""
    data = done.stdout
    if done.truncated:
        half = len(data) // 2
        data = data[:half] + f"\n[{done.stdout_total - len(data)} bytes left out]\n".encode() + data[half:]
    return data.decode("utf-8", "replace")
