"""The program that the SDK calls inside a sandbox for `Sandbox.filesystem`.

Run by itself: ``modal-sandbox-fs-tools JSON``. The commands are those that the SDK builds, and errors have the shape
that it reads (SDK _utils/sandbox_fs_utils): one object of JSON on stderr and an exit code that is not 0. `Watch` is not
supported.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import stat
import sys
from typing import Any

_MOST = 5 << 30
"""Larger files are not read (SDK sandbox/_filesystem: up to 5 GiB)."""
_PART = 1 << 20


class Failure(Exception):
    """What the SDK is told."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read_file(path: str) -> None:
    """Its bytes go to stdout."""
    if os.path.isdir(path):
        raise IsADirectoryError
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > _MOST:
            raise Failure("FileTooLarge", "file is too large to read")
        shutil.copyfileobj(file, sys.stdout.buffer, _PART)
    sys.stdout.flush()


def write_file(path: str) -> None:
    """Its bytes come from stdin; it is truncated in place, and its parents are made."""
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, _PART)


def facts(path: str) -> dict[str, Any]:
    """What a listing says of a path; a link is not followed."""
    seen = os.lstat(path)
    kind = "symlink" if stat.S_ISLNK(seen.st_mode) else "directory" if stat.S_ISDIR(seen.st_mode) else "file"
    return {
        "name": os.path.basename(path),
        "path": path,
        "type": kind,
        "size": seen.st_size,
        "mode": seen.st_mode,
        "permissions": f"{stat.S_IMODE(seen.st_mode):04o}",
        "owner": _named(pwd.getpwuid, seen.st_uid),
        "group": _named(grp.getgrgid, seen.st_gid),
        "modified_time": seen.st_mtime,
        **({"symlink_target": os.readlink(path)} if kind == "symlink" else {}),
    }


def _named(look_up: Any, number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


def list_files(path: str) -> None:
    """The entries of a directory."""
    print(json.dumps([facts(os.path.join(path, name)) for name in sorted(os.listdir(path))]))


def show(path: str) -> None:
    """One path."""
    print(json.dumps(facts(path)))


def make_directory(path: str, *, parents: bool) -> None:
    """A directory; with `parents` one that is there is fine."""
    if not parents:
        try:
            os.mkdir(path)
        except FileExistsError:
            raise Failure("PathAlreadyExists", "path already exists") from None
        return
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        raise Failure("PathAlreadyExists", "path already exists") from None


def remove(path: str, *, recursive: bool) -> None:
    """A file, an empty directory, or with `recursive` a whole one."""
    if os.path.isdir(path) and not os.path.islink(path):
        if recursive:
            shutil.rmtree(path)
            return
        if os.listdir(path):
            raise Failure("DirectoryNotEmpty", "directory is not empty")
        os.rmdir(path)
        return
    os.unlink(path)


def run(command: dict[str, dict[str, Any]]) -> None:
    """Carry out a command."""
    ((name, given),) = command.items()
    path = given["path"]
    if name == "ReadFile":
        read_file(path)
    elif name == "WriteFile":
        write_file(path)
    elif name == "ListFiles":
        list_files(path)
    elif name == "Stat":
        show(path)
    elif name == "MakeDirectory":
        make_directory(path, parents=given["parents"])
    elif name == "Remove":
        remove(path, recursive=given["recursive"])
    else:
        raise Failure("NotSupported", f"{name} is not emulated")


def main(text: str) -> int:
    """Carry out a command and tell how it went."""
    kinds: dict[type[OSError], str] = {
        FileNotFoundError: "NotFound",
        IsADirectoryError: "IsDirectory",
        NotADirectoryError: "NotDirectory",
        PermissionError: "PermissionDenied",
        FileExistsError: "AlreadyExists",
    }
    try:
        run(json.loads(text))
    except Failure as failure:
        kind, message, detail = failure.kind, str(failure), ""
    except OSError as error:
        kind, detail = kinds.get(type(error), "Other"), str(error)
        message = error.strerror or kind
    else:
        return 0
    print(json.dumps({"error_kind": kind, "message": message, "detail": detail}), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
