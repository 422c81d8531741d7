"""Checks of arguments: whatever no environment can carry is refused before anything runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ._codec import encode_lossless
from ._errors import InvalidArgument, PayloadTooLarge

MAX_ARGUMENT = 131_071
"""Bytes of one argument that Linux can start a program with: MAX_ARG_STRLEN is 131,072, the final NUL included."""
_MAX_ENVIRONMENT = 1_500_000
"""Bytes of all variables: a quarter of the default 8 MiB stack, less arguments and what the environment has itself."""
_FOR_EVER = 1e9
"""Seconds, 31 years: over what waits of the system take, and no limit in practice."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_text(argument: str, value: object) -> str:
    """A string that can be an argument of a process: no NUL, no surrogates but the escapes U+DC80 to U+DCFF.

    Raises:
        InvalidArgument: It is not such a string.
    """
    if not isinstance(value, str):
        raise InvalidArgument(argument, f"must be str, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgument(argument, f"holds a NUL byte, which no process argument can carry: {value!r}")
    try:
        encode_lossless(value)
    except UnicodeEncodeError as error:
        stray = f"U+{ord(value[error.start]):04X}"
        raise InvalidArgument(argument, f"holds the stray surrogate {stray} at index {error.start}") from None
    return value


def check_command(cmd: object) -> str | tuple[str, ...]:
    """A POSIX sh script as str, or a literal argv as a sequence.

    Raises:
        InvalidArgument: Empty argv, a part that is no text, or a program name that shells read as an option.
    """
    if isinstance(cmd, str):
        return check_text("cmd", cmd)
    if isinstance(cmd, bytes) or not isinstance(cmd, Sequence):
        raise InvalidArgument("cmd", f"must be str or a sequence of str, not {type(cmd).__name__}")
    argv = tuple(check_text(f"cmd[{index}]", part) for index, part in enumerate(cmd))
    if not argv or not argv[0]:
        raise InvalidArgument("cmd", "names no program")
    for index, part in enumerate(argv):
        if len(encode_lossless(part)) > MAX_ARGUMENT:
            raise InvalidArgument(f"cmd[{index}]", f"is over {MAX_ARGUMENT} bytes; pass it on stdin or in a file")
    if argv[0].startswith("-"):
        raise InvalidArgument("cmd[0]", f"starts with '-': write ./{argv[0]} to run a file of that name")
    return argv


def check_env(env: object, argument: str = "env") -> dict[str, str]:
    """Variables whose names every shell keeps: dash, busybox and mksh drop names that are no identifiers.

    Raises:
        InvalidArgument: A name is no identifier, or a value cannot be carried. Values are never shown.
    """
    if env is not None and not isinstance(env, Mapping):
        raise InvalidArgument(argument, f"must be a mapping of names to values, not {type(env).__name__}")
    checked = {}
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not _IDENTIFIER.match(name):
            raise InvalidArgument(argument, f"{name!r} is not an identifier (letters, digits, _)")
        checked[name] = _check_secret(f"{argument}[{name!r}]", value)
    return checked


def _check_secret(argument: str, value: object) -> str:
    """Like `check_text`, without the value in the message."""
    try:
        return check_text(argument, value)
    except InvalidArgument as error:
        problem = "must be str" if not isinstance(value, str) else "holds a NUL byte or a stray surrogate"
        raise InvalidArgument(error.argument, problem) from None


def check_path(argument: str, path: object) -> str:
    """A path inside an environment: any bytes but NUL, not empty.

    Raises:
        InvalidArgument: It is empty or cannot be a path.
    """
    text = check_text(argument, path)
    if not text:
        raise InvalidArgument(argument, "is empty")
    return text


def check_timeout(argument: str, timeout: float | None) -> float | None:
    """Seconds, zero or more; None is no limit.

    Raises:
        InvalidArgument: Negative, NaN, or not a number.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or math.isnan(timeout) or timeout < 0:
        raise InvalidArgument(argument, f"must be seconds >= 0 or None, not {timeout!r}")
    return None if timeout > _FOR_EVER else float(timeout)


def check_size(argument: str, size: int) -> int:
    """A number of bytes, zero or more.

    Raises:
        InvalidArgument: Negative, or not an int.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InvalidArgument(argument, f"must be a number of bytes >= 0, not {size!r}")
    return size


def check_variables(env: Mapping[str, str]) -> None:
    """Refuse variables that the kernel would refuse after a service has accepted them: its complaint would be output.

    Raises:
        PayloadTooLarge: One, or all together, are over what Linux takes for a program.
    """
    total = 0
    for name, value in env.items():
        size = len(name) + 1 + len(encode_lossless(value))
        total += size + 9
        if size > MAX_ARGUMENT:
            raise PayloadTooLarge(f"env[{name!r}]: {size} bytes; Linux takes {MAX_ARGUMENT} for one variable")
    if total > _MAX_ENVIRONMENT:
        raise PayloadTooLarge(f"env: {total} bytes of variables; {_MAX_ENVIRONMENT} can be carried")
