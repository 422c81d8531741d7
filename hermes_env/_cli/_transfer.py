"""`hermes-env read` and `hermes-env write`: file bytes between an environment and our standard streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_env._errors import InvalidArgument

from ._failure import say
from ._streams import chunks, regular_stdin, stdin_is_closed, write_all

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment
    from hermes_env.files import WriteResult


def read_file(env: BaseEnvironment, path: str) -> int:
    """Copy a file to stdout, verified by its digest.

    Raises:
        VerificationError: What was written is not what the file holds.
        OSError: The file cannot be read.
    """
    for chunk in env.files.read_chunks(path):
        write_all(1, chunk)
    return 0


def write_file(env: BaseEnvironment, path: str, *, mode: int | None, make_parents: bool, if_sha256: str | None) -> int:
    """Make stdin the content of a file, and say on stderr how that was verified.

    Raises:
        VerificationError, FileChanged, OSError: The file holds what it held before.
    """
    if stdin_is_closed():
        raise InvalidArgument("stdin", "is closed: give the content there")
    data = regular_stdin() or chunks()
    result = env.files.write_bytes(path, data, mode=mode, make_parents=make_parents, if_sha256=if_sha256)
    say(_sentence(result))
    return 0


def _sentence(result: WriteResult) -> str:
    done = "created" if result.created else "replaced"
    proof = f"verified by {result.verified_by}" if result.verified else "NOT VERIFIED: the environment has no hasher"
    how = "" if result.atomic else ", written in place"
    return f"{done} {result.path}: {result.size} bytes, sha256 {result.sha256}, {proof}{how}"


def octal(text: str | None) -> int | None:
    """A file mode such as 0644.

    Raises:
        InvalidArgument: It is no octal number up to 7777.
    """
    if text is None:
        return None
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise InvalidArgument("--mode", f"must be octal, for example 0644, not {text!r}")
    return mode
