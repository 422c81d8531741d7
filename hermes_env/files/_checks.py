"""Checks of what callers give to file operations: refused before anything runs."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, get_args

from hermes_env._codec import encode_lossless
from hermes_env._errors import InvalidArgument
from hermes_env._stdin import source_of
from hermes_env._validate import check_path

from ._oserror import os_error
from ._types import Change, Expect, HardLinks, MakeDir, Move, Remove, Symlink, Write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes_env._launch import StdinLike

PATH_MAX = 4095
"""Bytes of a path that Linux takes: PATH_MAX is 4096, the final NUL included."""
_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")


def checked_path(argument: str, path: object) -> str:
    """A path that can be given to an environment.

    Raises:
        InvalidArgument: Empty, with a NUL or with a stray surrogate.
        OSError: ENAMETOOLONG.
    """
    text = check_path(argument, path)
    if len(encode_lossless(text)) > PATH_MAX:
        raise os_error(errno.ENAMETOOLONG, text)
    return text


def file_path(argument: str, path: object) -> str:
    """A path that can name a regular file.

    Raises:
        IsADirectoryError: It ends in ``/``, ``.`` or ``..``.
    """
    text = checked_path(argument, path)
    if text.rpartition("/")[2] in ("", ".", ".."):
        raise os_error(errno.EISDIR, text, "the path names a directory")
    return text


def entry_path(argument: str, path: object) -> str:
    """A path whose last component can be removed, renamed or made; slashes at its end are allowed.

    Raises:
        OSError: EINVAL for a path that ends in ``.`` or ``..``, EBUSY for the root.
    """
    text = checked_path(argument, path)
    last = text.rstrip("/").rpartition("/")[2]
    if not last:
        raise os_error(errno.EBUSY, text)
    if last in (".", ".."):
        raise os_error(errno.EINVAL, text)
    return text


def check_digest(argument: str, digest: str | None) -> str | None:
    """A SHA-256 in hex, in lower case."""
    if digest is None:
        return None
    if not isinstance(digest, str) or not _SHA256.match(digest):
        raise InvalidArgument(argument, "must be 64 hexadecimal digits")
    return digest.lower()


def check_mode(mode: int | None) -> int | None:
    """Permission bits."""
    if mode is None:
        return None
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o7777:
        raise InvalidArgument("mode", f"must be permission bits from 0 to 0o7777, not {mode!r}")
    return mode


def check_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Changes that can be tried.

    Raises:
        InvalidArgument: A value cannot be used, or one path occurs twice.
        OSError: A path can name nothing that the change could apply to.
    """
    checked = tuple(changes)
    seen: set[str] = set()
    for change in checked:
        _check(change)
        _check_real(change)
        names = [_plain(path) for path in _paths(change)]
        for path, name in zip(_paths(change), names, strict=True):
            if name in seen:
                raise InvalidArgument("changes", f"name {path!r} more than once")
        if isinstance(change, Move) and change.path == change.dst:
            raise InvalidArgument("changes", f"name {change.path!r} more than once")
        seen.update(names)
    return checked


def _plain(path: str) -> str:
    """The path without what means nothing; ``..`` stays, since it may stand behind a symbolic link."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _paths(change: Change) -> Iterator[str]:
    yield change.path
    if isinstance(change, Move):
        yield change.dst


def _check_real(change: Change) -> None:
    """A path that has to be real can be compared only when it is absolute and plain.

    Raises:
        InvalidArgument: It is not.
    """
    if not getattr(change, "real", False):
        return
    for path in _paths(change):
        parts = path.split("/")
        if parts[0] or any(part in ("", ".", "..") for part in parts[1:]):
            raise InvalidArgument("real", f"needs an absolute path without '.', '..' and empty parts, not {path!r}")


def _check(change: Change) -> None:
    match change:
        case Write():
            _check_write(change)
        case Remove():
            entry_path("path", change.path)
            check_digest("if_sha256", change.if_sha256)
        case Move():
            entry_path("path", change.path)
            entry_path("dst", change.dst)
            check_digest("if_sha256", change.if_sha256)
        case MakeDir():
            entry_path("path", change.path)
        case Symlink():
            entry_path("path", change.path)
            checked_path("target", change.target)
        case Expect():
            entry_path("path", change.path)
            check_digest("sha256", change.sha256)
        case _:
            raise InvalidArgument("changes", f"hold a {type(change).__name__}, which is no change")


def _check_write(change: Write) -> None:
    file_path("path", change.path)
    check_mode(change.mode)
    if change.owner is not None and not all(type(one) is int and one >= 0 for one in change.owner):
        raise InvalidArgument("owner", f"must be numbers of a user and a group, not {change.owner!r}")
    check_digest("if_sha256", change.if_sha256)
    check_digest("sha256", change.sha256)
    _check_data(change.data)
    if change.sha256 is not None and not isinstance(change.data, bytes | bytearray | memoryview):
        raise InvalidArgument("sha256", "is for data in memory; that of other data is computed as it is sent")
    if change.hardlinks not in get_args(HardLinks):
        raise InvalidArgument("hardlinks", f"must be one of {get_args(HardLinks)}")
    if change.if_absent and change.if_sha256:
        raise InvalidArgument("if_absent", "contradicts if_sha256")
    if change.if_bytes is not None and not change.if_sha256:
        raise InvalidArgument("if_bytes", "needs if_sha256")


def _check_data(data: StdinLike) -> None:
    if data is None:
        raise InvalidArgument("data", "is None; empty bytes make an empty file")
    source_of(data, "data")


def conditional(change: Change) -> bool:
    """Whether it depends on what a file holds, or that there is none, and changes it then."""
    if isinstance(change, MakeDir | Symlink | Expect):
        return False
    return bool(change.if_sha256 or getattr(change, "if_absent", False))
