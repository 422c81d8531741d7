"""Builtin errors with errno and the caller's path, from what a script or the system said."""

from __future__ import annotations

import errno
import os

from hermes_env._codec import encode_lossless

NAME_MAX = 255
"""Bytes of one path component that Linux file systems take."""


class NotReplaceable(OSError):
    """A file can only be written in place, and that was not allowed; nothing was changed. Its errno is EBUSY."""


def not_replaceable(path: str) -> NotReplaceable:
    """The error for the caller's path."""
    return NotReplaceable(errno.EBUSY, "cannot be replaced in one step, only be written in place", path)


def os_error(code: int, path: str, note: str = "") -> OSError:
    """The builtin error of that errno (`FileNotFoundError` and so on) for the caller's path."""
    if code in (errno.ENOENT, errno.EPERM, errno.EIO) and any(
        len(encode_lossless(part)) > NAME_MAX for part in path.split("/")
    ):
        code = errno.ENAMETOOLONG
    text = os.strerror(code)
    return OSError(code, f"{text}: {note}" if note else text, path)


def named_error(name: str, path: str, note: str = "") -> OSError:
    """The same for the symbolic name of an errno; names that this system lacks are EIO."""
    return os_error(getattr(errno, name, errno.EIO), path, note)
