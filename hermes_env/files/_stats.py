"""Text of `stat` and `ls` turned into `FileStat`. Pure."""

from __future__ import annotations

import stat

from ._types import FileStat, Kind

_KINDS: dict[int, Kind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block",
    stat.S_IFCHR: "char",
}
_LETTERS: dict[str, Kind] = {
    "-": "file",
    "d": "directory",
    "l": "symlink",
    "p": "fifo",
    "s": "socket",
    "b": "block",
    "c": "char",
}


def kind_of(mode: int) -> Kind:
    """Kind by `st_mode`."""
    return _KINDS.get(stat.S_IFMT(mode), "file")


def mode_of(letters: str) -> int:
    """Permission bits of a mode as `ls` prints it, for example ``-rwsr-x--t``."""
    mode = 0
    for index, letter in enumerate(letters[1:10]):
        bit = 0o400 >> index
        if letter in "rwxst":
            mode |= bit
        if letter in "sS":
            mode |= 0o4000 if index == 2 else 0o2000
        if letter in "tT":
            mode |= 0o1000
    return mode


def parse(line: str, path: str, target: str) -> FileStat:
    """A line of the stat script: ``s`` and what `stat` printed, or ``l`` and fields of `ls`."""
    source, *words = line.split()
    if source == "s":
        raw, size, uid, gid, mtime, nlink = words
        bits = int(raw, 16)
        kind, mode = kind_of(bits), stat.S_IMODE(bits)
        return FileStat(
            path,
            kind,
            int(size),
            mode,
            int(uid),
            int(gid),
            float(mtime),
            int(nlink),
            target if kind == "symlink" else None,
        )
    letters, nlink, uid, gid, size, *rest = words
    kind = _LETTERS.get(letters[0], "file")
    return FileStat(
        path,
        kind,
        # For a device `ls` prints its numbers there, "8," and "0".
        int(size) if size.isdigit() else 0,
        mode_of(letters),
        int(uid),
        int(gid),
        float(rest[0]) if rest else None,
        int(nlink),
        target if kind == "symlink" else None,
    )
