"""Small things that everything sent to a script shares."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hermes_env._errors import Unsupported

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment
    from hermes_env._result import ExecResult


def run_script(env: BaseEnvironment, script: str, args: Sequence[str], **settings: Any) -> ExecResult:
    """Run one of the file scripts, whose first argument is its nonce.

    Raises:
        Unsupported: The environment lacks a tool that nothing replaces; names it.
        HermesEnvError: As `BaseEnvironment.run_script`.
    """
    result = env.run_script(script, args, **settings)
    mark = f"\n{args[0]} lacks ".encode()
    if f"\n{args[0]} yash\n".encode() in result.stderr:
        raise Unsupported("/bin/sh is yash, which cannot carry names that are not ASCII")
    for output in (result.stderr, result.stdout):
        if mark in output:
            tools = output.partition(mark)[2].partition(b"\n")[0].decode("ascii", "replace")
            raise Unsupported(f"the environment lacks {', '.join(tools.split())}")
    return result


def local_name(path: str) -> str:
    """The path as no tool can take it for an option or an operator."""
    return path if path.startswith("/") else f"./{path}"


def new_nonce() -> str:
    """What marks the output of one script: 64 random bits."""
    return secrets.token_hex(8)


def ending(result: ExecResult) -> str:
    """How a script ended, for messages; never its output, which may hold file contents."""
    return f"exit code {result.exit_code}, {result.stdout_total} bytes of output"
