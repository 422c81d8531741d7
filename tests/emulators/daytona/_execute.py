"""Runs a command as the vendor's daemon does: the text is the shell's stdin, both streams are one pipe."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.emulators._namespace import children

if TYPE_CHECKING:
    from tests.emulators._namespace import Namespace

_SHELLS = {
    "zsh": ("/usr/bin/zsh", "/bin/zsh"),
    "bash": ("/usr/bin/bash", "/bin/bash"),
    "dash": ("/usr/bin/dash", "/bin/dash"),
}
START_FAILED = -1
"""Exit code of a command that could not be started, or whose shell died of a signal (daemon process/execute)."""


def _one_each(error: UnicodeError) -> tuple[str, int]:
    """Go writes one U+FFFD for every byte that is not UTF-8; Python's ``replace`` one for a cut sequence."""
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("daytona-go", _one_each)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    output: bytes
    timed_out: bool = False


def shell_path(name: str) -> str:
    """Where a shell is.

    Raises:
        FileNotFoundError: This machine has none.
    """
    for path in _SHELLS[name]:
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"no {name} on this machine")


def run(
    command: str,
    *,
    shell: str,
    cwd: str,
    env: dict[str, str],
    timeout: int,
    wait_for_pipe_end: bool,
    namespace: Namespace | None,
) -> Outcome:
    """Run a command to its end, or kill its group after `timeout` seconds (0 is never)."""
    try:
        os.stat(cwd)
    except OSError as error:
        return Outcome(START_FAILED, f"chdir {cwd}: {(error.strerror or '').lower()}".encode())
    program = shell_path(shell)
    try:
        child = subprocess.Popen(
            [program] if namespace is None else namespace.argv(program, cwd),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        return Outcome(START_FAILED, f"chdir {cwd}: {(error.strerror or '').lower()}".encode())
    inside = namespace is not None
    return _drive(child, as_utf8(command), timeout, wait_for_pipe_end=wait_for_pipe_end, inside=inside)


def _drive(
    child: subprocess.Popen[bytes], text: bytes, timeout: int, *, wait_for_pipe_end: bool, inside: bool
) -> Outcome:
    late = threading.Event()

    def expire() -> None:
        late.set()
        with contextlib.suppress(OSError):
            for leader in children(child.pid) if inside else [child.pid]:
                os.killpg(leader, signal.SIGKILL)

    alarm = threading.Timer(timeout, expire) if timeout else None
    if alarm is not None:
        alarm.daemon = True
        alarm.start()
    feeder = threading.Thread(target=_feed, args=(child, text), daemon=True)
    feeder.start()
    try:
        output = _read_all(child, wait_for_pipe_end=wait_for_pipe_end)
        code = child.wait()
    finally:
        if alarm is not None:
            alarm.cancel()
    feeder.join()
    return Outcome(START_FAILED if code < 0 else code, output, timed_out=late.is_set())


def _feed(child: subprocess.Popen[bytes], text: bytes) -> None:
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.write(text)
    with contextlib.suppress(OSError):
        child.stdin.close()


def _read_all(child: subprocess.Popen[bytes], *, wait_for_pipe_end: bool) -> bytes:
    assert child.stdout is not None
    if wait_for_pipe_end:
        with child.stdout:
            return child.stdout.read()
    child.wait()
    os.set_blocking(child.stdout.fileno(), False)
    with child.stdout:
        return child.stdout.read() or b""


def as_utf8(command: str) -> bytes:
    """The text as Go reads it from JSON: a lone surrogate is U+FFFD."""
    return command.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def as_text(output: bytes, *, lossy: bool) -> str:
    """The output as Go writes it to JSON."""
    return output.decode("utf-8", "daytona-go" if lossy else "surrogateescape")
