"""`hermes-env exec`: one command, with our own streams as its streams and its exit code as ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from hermes_env._errors import InvalidArgument

from ._failure import say
from ._streams import Feeder, chunks, forward, regular_stdin, stdin_is_closed

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment
    from hermes_env._process import Process
    from hermes_env._result import ExecResult

_KEPT = 1 << 16
"""Bytes of output kept in memory: enough for what the framework itself reads there; all of it is forwarded."""


def program_of(argv: Sequence[str], script: str | None) -> str | list[str]:
    """What to run: a literal argv, or a script with the argv as its positional parameters.

    Raises:
        InvalidArgument: Neither was given.
    """
    if script is None and not argv:
        raise InvalidArgument("command", "is missing: give it after --, or as --script TEXT")
    if script is None:
        return list(argv)
    return ["/bin/sh", "-c", script, "sh", *argv] if argv else script


def execute(
    env: BaseEnvironment,
    program: str | list[str],
    *,
    cwd: str | None,
    variables: dict[str, str],
    user: str | None,
    timeout: float | None,
    with_stdin: bool,
) -> int:
    """Run it and return its exit code; an interrupt kills its whole tree.

    Raises:
        HermesEnvError, OSError, OutputClosed, KeyboardInterrupt: It did not run to its end.
    """
    stdin, live = _stdin(env, with_stdin=with_stdin)
    process = env.start(
        program,
        stdin=stdin,
        live_stdin=live,
        cwd=cwd,
        env=variables,
        user=user,
        timeout=timeout,
        output_limit=_KEPT,
        on_output=forward,
    )
    feeder = Feeder(process) if live else None
    try:
        result = process.wait()
    except KeyboardInterrupt:
        process.kill()
        raise
    except Exception:
        if feeder is not None and feeder.error is not None:
            raise feeder.error from None
        raise
    return _end(process, result)


def _stdin(env: BaseEnvironment, *, with_stdin: bool) -> tuple[BinaryIO | Iterable[bytes] | None, bool]:
    """What to give as stdin, and whether to feed it live: what is typed may depend on what was answered."""
    if not with_stdin or stdin_is_closed():
        return None, False
    if (file := regular_stdin()) is not None:
        return file, False
    if env.capabilities.live_stdin:
        return None, True
    return chunks(), False


def _end(process: Process, result: ExecResult) -> int:
    if result.held:
        held = " and ".join(result.held)
        say(f"note: a background process of command {process.id[:8]} still holds {held}; what it writes now is lost")
    return result.exit_code
