"""Small things that everything sent to a script shares."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_env._result import ExecResult


def local_name(path: str) -> str:
    """The path as no tool can take it for an option or an operator."""
    return path if path.startswith("/") else f"./{path}"


def new_nonce() -> str:
    """What marks the output of one script: 64 random bits."""
    return secrets.token_hex(8)


def ending(result: ExecResult) -> str:
    """How a script ended, for messages; never its output, which may hold file contents."""
    return f"exit code {result.exit_code}, {result.stdout_total} bytes of output"
