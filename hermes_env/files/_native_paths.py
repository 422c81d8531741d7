"""Paths of this machine: links followed to the file they name, directories made, owner and mode carried over."""

from __future__ import annotations

import errno
import os
import stat
import threading

from ._oserror import os_error

MAX_LINKS = 40
"""Symbolic links that Linux follows in one path."""
_umask_lock = threading.Lock()


def resolve(path: bytes) -> bytes:
    """The name of the file itself, behind all symbolic links at the end of the path.

    Raises:
        OSError: ELOOP over 40 links; what else the system says.
    """
    for _ in range(MAX_LINKS + 1):
        if path.endswith(b"/"):
            path += b"."
        try:
            state = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            # The parent says later why: there it can still be made.
            return path
        if not stat.S_ISLNK(state.st_mode):
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def lexists(path: bytes) -> bool:
    """Whether something has this name."""
    return lstat_or_none(path) is not None


def lstat_or_none(path: bytes) -> os.stat_result | None:
    """State of what has this name; None when nothing has it."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def entry_of(path: bytes) -> tuple[int, int, bytes]:
    """Which entry of which directory a path names, however it is spelled; the directory must exist."""
    directory, name = os.path.split(path)
    state = os.stat(directory or b".")
    return state.st_dev, state.st_ino, name


def make_parents(directory: bytes) -> list[bytes]:
    """Make a directory and its parents; those that were made, deepest first."""
    missing = []
    while directory and not lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory.rstrip(b"/"))
    made: list[bytes] = []
    try:
        for name in reversed(missing):
            os.mkdir(name)
            made.insert(0, name)
    except OSError:
        remove_dirs(made)
        raise
    return made


def remove_dirs(directories: list[bytes]) -> None:
    """Take back what `make_parents` made, as far as it is empty."""
    for directory in directories:
        try:
            os.rmdir(directory)
        except OSError:
            return


def umask() -> int:
    """The process's umask, read without changing it where Linux shows it."""
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    with _umask_lock:
        mask = os.umask(0o077)
        os.umask(mask)
    return mask


def require_writable(path: bytes, caller_path: str) -> None:
    """Raise unless this file may be written: replacing it by a rename would not ask.

    Raises:
        OSError: EROFS or EACCES.
    """
    if os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    raise os_error(errno.EROFS if read_only else errno.EACCES, caller_path)


def take_over(fd: int, path: bytes, old: os.stat_result) -> bool:
    """Give the open new file the owner and extended attributes of the old one; False when that cannot be done."""
    return give(fd, old.st_uid, old.st_gid) and _copy_attributes(fd, path)


def give(fd: int, uid: int, gid: int) -> bool:
    """Give an open file to a user and a group, or to the group alone; False when it does not belong to both then."""
    for user in (uid, -1):
        state = os.fstat(fd)
        if (state.st_uid, state.st_gid) == (uid, gid):
            break
        try:
            os.fchown(fd, user, gid)
        except OSError:
            continue
    state = os.fstat(fd)
    return (state.st_uid, state.st_gid) == (uid, gid)


def _copy_attributes(fd: int, path: bytes) -> bool:
    """Extended attributes, access control lists among them. Labels of security modules are the system's own."""
    try:
        names = [name for name in os.listxattr(path) if not name.startswith("security.")]
    except OSError as error:
        return error.errno == errno.ENOTSUP
    try:
        for name in names:
            os.setxattr(fd, name, os.getxattr(path, name))
    except OSError:
        return False
    return True


def sync_directory(directory: bytes) -> None:
    """Ask the system to bring names in a directory to the disk; file systems that cannot are left alone."""
    try:
        fd = os.open(directory or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EBADF):
            raise
    finally:
        os.close(fd)
