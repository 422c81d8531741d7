"""The journal of one edit: all that is needed to put its files back, as bytes with a head of one JSON line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

_MAGIC: Final = b"hermes-env edit 1\n"


class DamagedJournal(ValueError):
    """These bytes are no journal, or not all of one."""


@dataclass(frozen=True, slots=True)
class Before:
    """A file, or a symbolic link, as it was."""

    sha256: str | None
    mode: int | None = None
    link: str | None = None
    """The text of a symbolic link; such a thing has no bytes."""


@dataclass(frozen=True, slots=True)
class Touched:
    """One place that an edit changes."""

    path: str
    """Real path inside the environment."""
    shown: str
    """As the caller wrote it."""
    before: Before | None
    """None: nothing was there."""
    after_sha256: str | None
    """None: nothing will be there."""
    after_mode: int | None = None
    after_link: str | None = None
    old: bytes = b""
    torn: bytes | None = None
    """The new bytes of a file that is written in place, by which a half-written one is known."""


@dataclass(frozen=True, slots=True)
class Journal:
    """One edit."""

    edit_id: str
    time: float
    """Seconds since 1970, by the clock of the client."""
    owner: dict[str, str]
    """Labels of the client's process."""
    files: tuple[Touched, ...]
    made: tuple[str, ...] = ()
    """Directories that it makes, outermost first."""
    tool: str = ""

    def encode(self) -> bytes:
        """The journal as bytes."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes]:
        """The same in pieces, so that old contents need not be copied."""
        head = {
            "id": self.edit_id,
            "time": self.time,
            "owner": self.owner,
            "made": self.made,
            "tool": self.tool,
            "files": [_head(touched) for touched in self.files],
        }
        bodies = [part for touched in self.files for part in (touched.old, touched.torn or b"")]
        return [_MAGIC, json.dumps(head).encode(), b"\n", *bodies]


def _head(touched: Touched) -> dict[str, Any]:
    return {
        "path": touched.path,
        "shown": touched.shown,
        "before": None if touched.before is None else asdict(touched.before),
        "after_sha256": touched.after_sha256,
        "after_mode": touched.after_mode,
        "after_link": touched.after_link,
        "old": len(touched.old),
        "torn": None if touched.torn is None else len(touched.torn),
    }


def decode(data: bytes) -> Journal:
    """Read a journal.

    Raises:
        DamagedJournal: Something is wrong with it.
    """
    if not data.startswith(_MAGIC):
        raise DamagedJournal("this is no journal of an edit")
    end = data.find(b"\n", len(_MAGIC))
    try:
        head = json.loads(data[len(_MAGIC) : end])
        return _journal(head, data, end + 1)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedJournal(f"the journal is damaged: {error}") from error


def _journal(head: dict[str, Any], data: bytes, position: int) -> Journal:
    files = []
    for one in head["files"]:
        old = data[position : position + one["old"]]
        position += one["old"]
        torn = None if one["torn"] is None else data[position : position + one["torn"]]
        position += one["torn"] or 0
        before = None if one["before"] is None else Before(**one["before"])
        files.append(
            Touched(
                one["path"],
                one["shown"],
                before,
                one["after_sha256"],
                one["after_mode"],
                one["after_link"],
                old,
                torn,
            )
        )
    if position != len(data):
        raise DamagedJournal("the journal has not the length that its head tells")
    return Journal(head["id"], head["time"], head["owner"], tuple(files), tuple(head["made"]), head["tool"])
