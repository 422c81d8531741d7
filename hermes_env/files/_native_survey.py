"""What a path of this machine names, links followed."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from hermes_env._codec import decode_lossless
from hermes_env._errors import FileChanged

from ._digest import Tally
from ._native_io import digest_of, naming
from ._native_paths import lexists
from ._oserror import os_error
from ._stats import kind_of
from ._types import FileStat, Surveyed

if TYPE_CHECKING:
    from collections.abc import Callable


def file_stat(name: bytes, path: str, *, follow: bool) -> FileStat:
    state = os.stat(name, follow_symlinks=follow)
    link = stat.S_ISLNK(state.st_mode)
    return FileStat(
        path,
        kind_of(state.st_mode),
        state.st_size,
        stat.S_IMODE(state.st_mode),
        state.st_uid,
        state.st_gid,
        state.st_mtime,
        state.st_nlink,
        decode_lossless(os.readlink(name)) if link else None,
    )


def surveyed(name: bytes, path: str, most: int | None, read: Callable[[str], bytes]) -> Surveyed:
    """Look at one path; `read` gives the checked bytes of a caller's path."""
    target = _text(name)
    link = target is not None
    place = _place(name)
    try:
        with naming(path):
            state = os.stat(name)
    except OSError as error:
        real, missing, why = _absent(name, path)
        return Surveyed(path, real=real, place=place, link=link, target=target, missing=missing, error=why or error)
    found = file_stat(name, path, follow=True)
    real = decode_lossless(os.path.realpath(name))
    identity = (state.st_dev, state.st_ino)
    data, digest, problem = _content(name, path, state, most, read)
    return Surveyed(path, real, place, link, target, (), found, identity, data, digest, problem)


def _text(name: bytes) -> str | None:
    """What the symbolic link of this name says; None for everything else."""
    try:
        return decode_lossless(os.readlink(name))
    except OSError:
        return None


def _place(name: bytes) -> str | None:
    """The name itself, its directory resolved."""
    if os.path.basename(name) in (b"", b".", b".."):
        return None
    directory = os.path.dirname(name)
    if not os.path.isdir(directory):
        return None
    return decode_lossless(os.path.join(os.path.realpath(directory), os.path.basename(name)))


def _absent(name: bytes, path: str) -> tuple[str | None, tuple[str, ...], OSError | None]:
    """Where something missing would be, directories to make for it, and why that cannot be told."""
    for _ in range(40):
        if not os.path.islink(name):
            break
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    else:
        return None, (), os_error(errno.ELOOP, path)
    rest = [os.path.basename(name)]
    directory = os.path.dirname(name)
    while directory and not os.path.isdir(directory):
        if (code := _in_the_way(directory)) is not None:
            return None, (), os_error(code, path)
        last = os.path.basename(directory)
        if last in (b".", b".."):
            return None, (), os_error(errno.ENOENT, path)
        if last:
            rest.insert(0, last)
        directory = os.path.dirname(directory)
    if not os.access(directory or b".", os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return None, (), os_error(errno.EACCES, path)
    base = os.path.realpath(directory or b".")
    made = [os.path.join(base, *rest[:count]) for count in range(1, len(rest))]
    return decode_lossless(os.path.join(base, *rest)), tuple(map(decode_lossless, made)), None


def _in_the_way(name: bytes) -> int | None:
    """Errno of what stands where a directory would have to be, such as a link that leads nowhere; None for nothing."""
    try:
        if not lexists(name):
            return None
        os.stat(name)
    except OSError as error:
        return error.errno
    return errno.ENOTDIR


def _content(
    name: bytes, path: str, state: os.stat_result, most: int | None, read: Callable[[str], bytes]
) -> tuple[bytes | None, str | None, Exception | None]:
    if not stat.S_ISREG(state.st_mode):
        return None, None, None
    try:
        if most is None:
            with naming(path):
                return None, digest_of(name)[0], None
        if state.st_size > most:
            raise os_error(errno.EFBIG, path, f"has {state.st_size} bytes")
        data = read(path)
    except (OSError, FileChanged) as error:
        return None, None, error
    tally = Tally()
    tally.update(data)
    return data, tally.sha256, None
