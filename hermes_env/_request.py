"""Turns what a caller asked for into a checked command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from . import _validate
from ._command import Command
from ._errors import InvalidArgument
from ._stdin import in_memory, source_of

if TYPE_CHECKING:
    from ._launch import StdinLike, Stream


class Defaults(Protocol):
    """What an environment adds to each of its commands."""

    cwd: str | None
    env: dict[str, str]
    timeout: float | None


def check_command(
    cmd: object,
    *,
    base: Defaults,
    stdin: StdinLike | None = None,
    live_stdin: bool = False,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    timeout: float | None = None,
    output_limit: int,
    merge_stderr: bool = False,
    on_output: Callable[[Stream, bytes], None] | None = None,
) -> Command:
    """Check everything that can be checked before anything runs; see `BaseEnvironment.exec`.

    Raises:
        InvalidArgument: An argument cannot be carried.
    """
    if live_stdin and stdin is not None:
        raise InvalidArgument("stdin", "cannot be given together with live_stdin=True")
    if on_output is not None and not callable(on_output):
        raise InvalidArgument("on_output", f"must be callable, not {type(on_output).__name__}")
    memory = in_memory(stdin) if isinstance(stdin, bytes | bytearray | memoryview) else None
    limit = _validate.check_timeout("timeout", timeout)
    return Command(
        _validate.check_command(cmd),
        stdin=source_of(stdin),
        memory=memory or None,
        live_stdin=live_stdin,
        cwd=_resolve_cwd(base.cwd, cwd),
        env={**base.env, **_validate.check_env(env)},
        user=None if user is None else _validate.check_text("user", user),
        timeout=base.timeout if timeout is None else limit,
        output_limit=_validate.check_size("output_limit", output_limit),
        merge_stderr=merge_stderr,
        on_output=on_output,
    )


def _resolve_cwd(base: str | None, cwd: str | None) -> str | None:
    """The directory of a command; a relative one starts at the environment's."""
    if cwd is None:
        return base
    _validate.check_path("cwd", cwd)
    if base is None or cwd.startswith("/"):
        return cwd
    return f"{base.rstrip('/')}/{cwd}"
