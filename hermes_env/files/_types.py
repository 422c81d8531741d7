"""What file operations take and give back."""

from __future__ import annotations

from collections.abc import Mapping
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
    owner: tuple[int, int] | None = None
    """Numbers of the user and group that the file shall belong to, where that can be done; where not, set-user-ID and
    set-group-ID bits are left out of `mode`. None keeps those of an existing file."""
    make_parents: bool = False
    if_sha256: str | None = None
    """Only when the file holds bytes of this digest."""
    if_bytes: bytes | None = field(default=None, repr=False)
    """The bytes with the digest `if_sha256`, where the caller has them: files of this machine are compared with them,
    which takes half the time of hashing."""
    if_absent: bool = False
    """Only when nothing has this name."""
    sha256: str | None = None
    """Digest of `data` where that is bytes in memory and the caller has hashed them already: it is not computed again,
    and nothing else is taken for a good copy of them."""
    hardlinks: HardLinks = "keep"
    allow_in_place: bool = True
    """Write over the old bytes where the file cannot be replaced in one step: one with several names, a mounted one,
    one whose owner cannot be kept. False raises `NotReplaceable` instead: who has no other copy of the old bytes cannot
    put them back when the writer is killed between."""
    real: bool = False
    """Only when no symbolic link is on the way to the file, nor in its place: what a survey found is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """A change for `Files.commit`: remove a file, a symbolic link (never its target) or a directory."""

    path: str
    recursive: bool = False
    """Remove a directory with all that is in it; otherwise it must be empty."""
    if_sha256: str | None = None
    real: bool = False
    """Only when no symbolic link is on the way to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change for `Files.commit`: give a file or directory another name."""

    path: str
    dst: str
    overwrite: bool = False
    """Replace what has the name `dst`; otherwise that is refused."""
    if_sha256: str | None = None
    real: bool = False
    """Only when no symbolic link is on the way to either name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeDir:
    """A change for `Files.commit`: make a directory."""

    path: str
    parents: bool = False
    """Make missing parents too, and accept a directory that exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symlink:
    """A change for `Files.commit`: make a symbolic link where nothing is."""

    path: str
    target: str
    """Its text, as it is written into the link; nothing need be there."""
    real: bool = False
    """Only when no symbolic link is on the way to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """A condition for `Files.commit`: nothing is changed unless this file is as told. It changes nothing itself."""

    path: str
    sha256: str | None
    """Digest of the bytes of a regular file; None: nothing has this name."""


Change = Write | Remove | Move | MakeDir | Symlink | Expect


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one path names, links followed."""

    path: str
    """The caller's path."""
    real: str | None = None
    """Absolute, every symbolic link resolved; of what is missing, with the directories that exist resolved. None when
    it cannot be told."""
    place: str | None = None
    """The name itself, absolute, with only its directory resolved: where a symbolic link stands."""
    link: bool = False
    """The name itself is a symbolic link."""
    target: str | None = None
    """Text of that link; None also where no tool tells it."""
    missing: tuple[str, ...] = ()
    """Directories that would have to be made for it, outermost first; real paths."""
    stat: FileStat | None = None
    """State of what it leads to; None when there is nothing."""
    identity: tuple[int, int] | None = None
    """Device and inode; the device is 0 where no tool tells it."""
    data: bytes | None = field(default=None, repr=False)
    """The bytes, checked by their digest; None for what is no readable regular file, and when not asked for."""
    sha256: str | None = None
    """Digest of the bytes of a readable regular file."""
    error: Exception | None = None
    """Why there are neither bytes nor digest: an `OSError` with errno, `FileChanged`, or `TransportError`."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a set of paths names."""

    files: Mapping[str, Surveyed]
    """By the caller's path."""
    home: str
    """Home directory of the user that commands run as; empty when there is none."""
    uid: int
    """That user."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What was found of temporary files of commits."""

    removed: tuple[str, ...]
    busy: tuple[str, ...]
    """Those whose writer lives, or may live."""
