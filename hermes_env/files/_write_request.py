"""One batch of changes as the write script takes it, and its outcome as the caller sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

from hermes_env._errors import FileChanged, InvalidArgument, RollbackFailed, Unsupported, VerificationError
from hermes_env._stdin import source_of

from ._digest import Tally
from ._oserror import named_error, not_replaceable
from ._script_write import COMMIT_SCRIPT
from ._types import Change, Expect, MakeDir, Move, Remove, Symlink, Write, WriteResult
from ._wire import local_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes_env._launch import StdinLike, StdinSource

_LENGTH_BIAS = 1_000_000_000
"""Added to the manifest's length, so that it always has ten digits and never a leading zero, which means octal."""
_HARD_LINKS = {"keep": "k", "break": "b", "refuse": "r"}


@dataclass(slots=True)
class _Content:
    """One write's bytes: what they are is known when they have been sent."""

    source: StdinSource | None
    tally: Tally
    in_memory: memoryview | None

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The bytes; those that are not in memory are counted as they go by."""
        if self.in_memory is not None:
            yield self.in_memory
        elif self.source is not None:
            yield from self.tally.passing(self.source.chunks)


class WriteRequest:
    """Arguments and stdin of one run of the write script."""

    script = COMMIT_SCRIPT

    def __init__(self, changes: Sequence[Change], nonce: str, *, with_cksum: bool, durable: bool) -> None:
        self.nonce = nonce
        self._changes = changes
        self._contents = [_content(change, with_cksum=with_cksum) for change in changes if isinstance(change, Write)]
        self._failure: Exception | None = None
        self._known = all(content.in_memory is not None for content in self._contents)
        manifest = self._manifest() if self._known else "-"
        self.args = [
            nonce,
            manifest,
            "1" if durable else "0",
            str(len(changes)),
            str(len(self._contents)),
        ]
        for change in changes:
            self.args += _words(change)

    def sweep_args(self) -> list[str]:
        """Arguments of the script that clears what a killed run left."""
        written = [local_name(change.path) for change in self._changes if isinstance(change, Write)]
        return [self.nonce, "-", "0", "0", "0", *written]

    def stdin(self) -> StdinLike | None:
        """The contents, one after the other."""
        if not self._contents:
            return None
        if self._known and len(self._contents) == 1:
            return self._contents[0].in_memory
        return cast("Iterator[bytes]", self._stream())

    def _stream(self) -> Iterator[bytes | memoryview]:
        try:
            for content in self._contents:
                yield from content.chunks()
        except Exception as error:  # noqa: BLE001 - raised by `results`, in the caller's thread
            # No manifest follows: the script takes this for a stream that was cut, and cleans up.
            self._failure = error
            return
        if not self._known:
            manifest = self._manifest()
            yield f"{manifest}{_LENGTH_BIAS + len(manifest)} {self.nonce}".encode("ascii")

    def _manifest(self) -> str:
        """Size, SHA-256 and CRC of every content."""
        tallies = (content.tally for content in self._contents)
        return "".join(f"{tally.size} {tally.sha256} {tally.cksum} " for tally in tallies)

    def results(self, record: tuple[str, ...]) -> tuple[WriteResult | None, ...]:
        """What each change came to.

        Raises:
            OSError, FileChanged, VerificationError, Unsupported, RollbackFailed: None of them was applied.
        """
        if self._failure is not None:
            raise self._failure
        if record[0] != "ok":
            self._fail(*record[1:5])
        words = record[1:]
        contents = iter(self._contents)
        found: list[WriteResult | None] = []
        for index, change in enumerate(self._changes):
            if not isinstance(change, Write):
                found.append(None)
                continue
            by, created, atomic = words[3 * index : 3 * index + 3]
            tally = next(contents).tally
            found.append(
                WriteResult(
                    path=change.path,
                    size=tally.size,
                    sha256=tally.sha256,
                    verified=by != "none",
                    verified_by=None if by == "none" else by,
                    created=created == "1",
                    atomic=atomic == "1",
                )
            )
        return tuple(found)

    def _fail(self, code: str, at: str, note: str, lost: str) -> NoReturn:
        index = max(int(at) - 1, 0)
        change = self._changes[index]
        error = self._error(code, change, index, note)
        if not lost.strip():
            raise error
        paths = tuple(self._changes[int(word) - 1].path for word in lost.split())
        raise RollbackFailed(paths) from error

    def _error(self, code: str, change: Change, index: int, note: str) -> Exception:
        path = change.path
        if isinstance(change, Move) and note == "dst":
            path, note = change.dst, ""
        if code == "twice":
            return InvalidArgument("changes", f"write {path!r} more than once: it has another name too")
        if code == "changed":
            return FileChanged(path, _not_expected(note))
        if code == "inplace":
            return not_replaceable(path)
        if code == "nohash":
            return Unsupported(f"{path}: nothing in the environment computes SHA-256 to compare")
        if code in ("verify", "cut"):
            return self._damaged(path, index, note)
        return named_error(code, path, note.strip().replace("\n", " "))

    def _damaged(self, path: str, index: int, note: str) -> VerificationError:
        place = sum(isinstance(change, Write) for change in self._changes[:index])
        tally = self._contents[place].tally
        size, digest, *_ = [*note.split(), "-", "-"]
        return VerificationError(
            path,
            "other bytes arrived than were sent",
            expected_size=tally.size,
            actual_size=int(size) if size.isdigit() else None,
            expected_digest=tally.sha256,
            actual_digest=None if digest == "-" else digest,
        )


def _content(change: Write, *, with_cksum: bool) -> _Content:
    tally = Tally(with_cksum=with_cksum, known=change.sha256)
    if isinstance(change.data, bytes | bytearray | memoryview):
        view = memoryview(change.data).cast("B")
        tally.update(view)
        return _Content(None, tally, view)
    return _Content(source_of(change.data, "data"), tally, None)


def _words(change: Change) -> tuple[str, ...]:
    """OP PATH DST COND MODE FLAGS."""
    slash = "d" if change.path.endswith("/") else ""
    exact = "x" if getattr(change, "real", False) else ""
    path = local_name(change.path.rstrip("/"))
    match change:
        case Write():
            condition = "absent" if change.if_absent else (change.if_sha256 or "").lower()
            mode = "" if change.mode is None else f"{change.mode:04o}"
            mode += "" if change.owner is None else " {}:{}".format(*change.owner)
            parents, swap = "p" if change.make_parents else "", "" if change.allow_in_place else "s"
            flags = _HARD_LINKS[change.hardlinks] + parents + swap + exact
            return ("W", path, "", condition, mode, flags)
        case Remove():
            flags = slash + ("f" if change.recursive else "") + exact
            return ("R", path, "", (change.if_sha256 or "").lower(), "", flags)
        case Move():
            flags = slash + ("o" if change.overwrite else "") + exact
            dst = local_name(change.dst.rstrip("/"))
            return ("M", path, dst, (change.if_sha256 or "").lower(), "", flags)
        case MakeDir():
            return ("D", path, "", "", "", "p" if change.parents else "")
        case Symlink():
            return ("L", path, change.target, "", "", slash + exact)
        case Expect():
            return ("E", path, "", change.sha256 or "absent", "", slash)


def _not_expected(note: str) -> str:
    if len(note) == 64:
        return f"holds other bytes than expected: its sha256 is {note}"
    return note
