"""What file operations take and give back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hermes_env._launch import StdinLike

Kind = Literal["file", "directory", "symlink", "fifo", "socket", "block", "char"]
HardLinks = Literal["keep", "break", "refuse"]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A finished and, where the environment has any hasher, verified write."""

    path: str
    """The caller's path."""
    size: int
    """Bytes written."""
    sha256: str
    """Hex digest of the caller's bytes."""
    verified: bool
    """A program in the environment found size and digest of the written file equal to those of the caller's bytes."""
    verified_by: str | None
    """What computed it: ``sha256sum``, ``openssl``, ``shasum``, ``sha256``, ``python3``, ``cksum`` or ``native``."""
    created: bool
    """The file did not exist before."""
    atomic: bool
    """The new file replaced the old one in one step; False when it was written in place, its bytes backed up first."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is no file, folder or link, and was not copied."""

    path: str
    """Relative to the folder that was copied."""
    kind: Kind


@dataclass(frozen=True, slots=True)
class TransferResult:
    """A finished copy of a file or folder."""

    path: str
    """The target as the caller named it."""
    files: int
    """Regular files that were sent."""
    size: int
    """Bytes of those."""
    unchanged: int
    """Regular files that were not sent, since the target had the same bytes by their digest."""
    directories: int
    """Folders that were made."""
    links: int
    """Symbolic links that were made."""
    skipped: tuple[Skipped, ...]
    """FIFOs, sockets and devices: they are never copied."""
    verified: bool
    """The digest of every file that was sent is that of the original, by a reading apart from the sending."""
    verified_by: str | None
    """What computed it in the environment; see `WriteResult.verified_by`."""


@dataclass(frozen=True, slots=True)
class FileStat:
    """One file as the environment sees it."""

    path: str
    """The caller's path; in a listing, the directory's path and the name."""
    kind: Kind
    size: int
    """Bytes."""
    mode: int
    """Permission bits, 0 to 0o7777."""
    uid: int
    gid: int
    mtime: float | None
    """Seconds since 1970, whole ones where the environment's tools tell no more; None where no tool tells it."""
    nlink: int
    """Number of hard links."""
    target: str | None = None
    """Text of a symbolic link that was not followed; None for everything else."""

    @property
    def name(self) -> str:
        """Last component of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A change for `Files.commit`: give a file these bytes."""

    path: str
    data: StdinLike = field(repr=False)
    mode: int | None = None
    """Permission bits; None keeps those of an existing file, and leaves a new one to the umask."""
    make_parents: bool = False
    if_sha256: str | None = None
    """Only when the file holds bytes of this digest."""
    if_absent: bool = False
    """Only when nothing has this name."""
    hardlinks: HardLinks = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """A change for `Files.commit`: remove a file, a symbolic link (never its target) or a directory."""

    path: str
    recursive: bool = False
    """Remove a directory with all that is in it; otherwise it must be empty."""
    if_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change for `Files.commit`: give a file or directory another name."""

    path: str
    dst: str
    overwrite: bool = False
    """Replace what has the name `dst`; otherwise that is refused."""
    if_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeDir:
    """A change for `Files.commit`: make a directory."""

    path: str
    parents: bool = False
    """Make missing parents too, and accept a directory that exists."""


Change = Write | Remove | Move | MakeDir
