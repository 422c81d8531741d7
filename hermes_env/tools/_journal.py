"""The journal of one edit: all that is needed to put its files back, as bytes with a head of one JSON line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from hermes_env.tools._splice import Splice

_MAGIC: Final = b"hermes-env edit 1\n"
_LARGE: Final = 1 << 20
"""Bytes from which on a short journal may hold less than a whole file."""


class DamagedJournal(ValueError):
    """These bytes are no journal, or not all of one."""


@dataclass(frozen=True, slots=True)
class Before:
    """A file, or a symbolic link, as it was."""

    sha256: str | None
    mode: int | None = None
    link: str | None = None
    """The text of a symbolic link; such a thing has no bytes."""
    owner: tuple[int, int] | None = None
    """Numbers of user and group."""


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
    back: tuple[Splice, ...] | None = None
    """What makes the old bytes from the new ones, where that is known; in a short journal `old` is empty then."""

    @property
    def is_link(self) -> bool:
        """A symbolic link is or was there, not a file."""
        return self.after_link is not None or (self.before is not None and self.before.link is not None)

    @property
    def shortened(self) -> bool:
        """A short journal holds `back` of this file instead of `old`: of a large one of which little is changed."""
        if self.back is None or len(self.old) < _LARGE:
            return False
        return sum(len(splice.new) for splice in self.back) * 2 < len(self.old)


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

    def parts(self, *, short: bool = False) -> list[bytes]:
        """The same in pieces, so that old contents need not be copied.

        Args:
            short: Only what undo needs, which starts from the new bytes; not enough to recover from a broken edit.
        """
        head = {
            "id": self.edit_id,
            "time": self.time,
            "owner": self.owner,
            "made": self.made,
            "tool": self.tool,
            "files": [_head(touched, short=short) for touched in self.files],
        }
        bodies = [part for touched in self.files for part in _bodies(touched, short=short)]
        return [_MAGIC, json.dumps(head).encode(), b"\n", *bodies]


def _head(touched: Touched, *, short: bool) -> dict[str, Any]:
    back = touched.back if short and touched.shortened else None
    return {
        "path": touched.path,
        "shown": touched.shown,
        "before": None if touched.before is None else asdict(touched.before),
        "after_sha256": touched.after_sha256,
        "after_mode": touched.after_mode,
        "after_link": touched.after_link,
        "old": len(touched.old) if back is None else 0,
        "torn": None if touched.torn is None or short else len(touched.torn),
        "back": None if back is None else [[splice.start, splice.end, len(splice.new)] for splice in back],
    }


def _bodies(touched: Touched, *, short: bool) -> list[bytes]:
    if short and touched.shortened:
        return [splice.new for splice in touched.back or ()]
    return [touched.old] if short else [touched.old, touched.torn or b""]


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
    bodies = _Bodies(data, position)
    files = [_touched(one, bodies) for one in head["files"]]
    if bodies.position != len(data):
        raise DamagedJournal("the journal has not the length that its head tells")
    return Journal(head["id"], head["time"], head["owner"], tuple(files), tuple(head["made"]), head["tool"])


@dataclass(slots=True)
class _Bodies:
    """The bytes behind the head, taken one piece after the other."""

    data: bytes
    position: int

    def take(self, count: int) -> bytes:
        """The next piece."""
        start, self.position = self.position, self.position + count
        return self.data[start : self.position]


def _touched(one: dict[str, Any], bodies: _Bodies) -> Touched:
    old = bodies.take(one["old"])
    torn = None if one["torn"] is None else bodies.take(one["torn"])
    spans = one.get("back")
    back = None if spans is None else _splices(spans, bodies)
    before = None if one["before"] is None else _before(one["before"])
    return Touched(
        one["path"],
        one["shown"],
        before,
        one["after_sha256"],
        one["after_mode"],
        one["after_link"],
        old,
        torn,
        back,
    )


def _before(fields: dict[str, Any]) -> Before:
    owner = fields.get("owner")
    return Before(fields["sha256"], fields["mode"], fields["link"], None if owner is None else (owner[0], owner[1]))


def _splices(spans: list[list[int]], bodies: _Bodies) -> tuple[Splice, ...]:
    ends = [number for start, end, _ in spans for number in (start, end)]
    if ends != sorted(ends) or (ends and ends[0] < 0):
        raise DamagedJournal("the replaced ranges of the journal are not in order")
    return tuple(Splice(start, end, bodies.take(count)) for start, end, count in spans)
