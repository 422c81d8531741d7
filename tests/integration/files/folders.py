"""A folder of this machine with odd names, and everything that can be told of one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

NAMES = [
    b"plain",
    b"two words",
    b" lead and trail ",
    b"-dash",
    b"--",
    b"~",
    b"$HOME",
    b"*",
    b"?[a]",
    b"back\\slash",
    b"tail\\",
    b"\\0101",
    b"new\nline",
    b"end\n",
    b"\n",
    b"quo'te\"`",
    b"...",
    b".hidden",
    b"..two",
    b"%s%n",
    b"a;b|c&d",
    b"\xff\xfe\x80\x01\x7f",
    "naïve ☃".encode(),
    b"tab\tcr\r",
    bytes(byte for byte in range(1, 128) if byte != 0x2F),
    bytes(range(128, 256)),
]


def state(root: Path) -> dict[bytes, tuple[str, int, bytes]]:
    """Everything below a folder as the system sees it: kind, mode (not of links), content or target."""
    found = {}
    for base, folders, files in os.walk(os.fsencode(root)):
        for name in [*folders, *files]:
            path = os.path.join(base, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, os.fsencode(root))
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[relative] = ("link", 0, os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[relative] = ("folder", mode, b"")
            else:
                found[relative] = ("file", mode, Path(os.fsdecode(path)).read_bytes())
    return found


def make(root: Path) -> None:
    """A folder with everything in it that a copy must keep."""
    (root / "sub/deeper").mkdir(parents=True)
    (root / "empty").mkdir(mode=0o700)
    (root / "sub/*").mkdir()
    for index, name in enumerate(NAMES):
        (root / "sub/*" / os.fsdecode(name)).write_bytes(bytes([index]) * index + name)
    (root / "zero").write_bytes(b"")
    (root / "every").write_bytes(bytes(range(256)) * 5000)
    (root / "run").write_bytes(b"#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "sub/secret").write_bytes(b"\0\r\n\xff")
    (root / "sub/secret").chmod(0o600)
    (root / "sub/read-only").write_bytes(b"r")
    (root / "sub/read-only").chmod(0o444)
    (root / "sub/deeper").chmod(0o555)
    for link, target in (("to-file", "zero"), ("to-folder", "sub"), ("nowhere", "-no\n\\such"), ("up", "../../..")):
        (root / link).symlink_to(target)
    (root / "sub/absolute").symlink_to("/etc/passwd")
