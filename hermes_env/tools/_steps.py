"""From the final states of files to the changes of one commit and the journal entries that undo them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hermes_env.files import Change, Expect, HardLinks, MakeDir, Move, Remove, Symlink, Write
from hermes_env.tools._journal import Before, Touched
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._splice import reversed_splices

if TYPE_CHECKING:
    from hermes_env.files import Surveyed
    from hermes_env.tools._overlay import Snapshot
    from hermes_env.tools._result import FileChange
    from hermes_env.tools._splice import Splice


@dataclass(slots=True)
class Steps:
    """What one edit does to the file system."""

    changes: list[Change] = field(default_factory=list)
    touched: list[Touched] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """Directories that it makes, outermost first."""

    @property
    def lone(self) -> bool:
        """One rename does it all, so that nothing can be left half done."""
        only = self.touched[0] if len(self.touched) == 1 else None
        return (
            only is not None
            and len(self.changes) == 1
            and not self.made
            and only.torn is None
            and isinstance(self.changes[0], Write)
        )

    def write_in_place(self, path: str) -> None:
        """Let the file at a real path, which turned out not to be replaceable, be written in place."""
        for index, change in enumerate(self.changes):
            if isinstance(change, Write) and change.path == path:
                assert isinstance(change.data, bytes)
                self.changes[index] = replace(change, allow_in_place=True)
                self.touched = [
                    replace(touched, torn=change.data) if touched.path == path else touched for touched in self.touched
                ]

    @property
    def expected(self) -> list[Change]:
        """Conditions that hold when all is done."""
        return [
            Expect(path=touched.path, sha256=touched.after_sha256)
            for touched in self.touched
            if touched.after_link is None
        ]

    @property
    def directories(self) -> list[str]:
        """Where it works."""
        return list(dict.fromkeys(touched.path.rpartition("/")[0] or "/" for touched in self.touched))


class Stepper:
    """Builds the steps."""

    def __init__(
        self,
        found: Mapping[str, Surveyed],
        *,
        hardlinks: HardLinks = "keep",
    ) -> None:
        self._found = found
        self._hardlinks = hardlinks
        self._steps = Steps()

    def build(self, changes: Sequence[FileChange]) -> Steps:
        """The steps of some changes.

        Raises:
            EditError: A change cannot be made in one transaction.
        """
        for change in changes:
            if change.link:
                self._link(change)
            elif change.kind == "delete":
                self._delete(change)
            elif change.kind == "move":
                self._move(change)
            else:
                self._write(change)
        return self._steps

    def _real(self, path: str) -> str:
        real = self._found[path].real
        assert real is not None
        return real

    def _place(self, path: str) -> str:
        place = self._found[path].place or self._found[path].real
        assert place is not None
        return place

    def _write(self, change: FileChange) -> None:
        assert change.after is not None
        self._put(change, self._real(change.path), change.before)

    def _put(self, change: FileChange, real: str, old: Snapshot | None) -> None:
        shown, after, mode = change.path, change.after, change.mode
        assert after is not None
        found = self._found[shown]
        self._make(found)
        in_place = self._in_place(found)
        keeps = old is not None and mode == old.mode
        self._steps.changes.append(
            Write(
                path=real,
                data=after,
                mode=None if keeps else mode,
                owner=change.owner,
                make_parents=bool(found.missing),
                if_sha256=None if old is None else old.sha256,
                if_bytes=None if old is None else old.data,
                if_absent=old is None,
                sha256=change.after_sha256,
                hardlinks=self._hardlinks,
                allow_in_place=in_place,
                real=True,
            )
        )
        torn = after if in_place else None
        back = _back(change) if old is change.before else None
        self._touch(real, shown, old, change.after_sha256, mode, torn=torn, back=back)

    def _in_place(self, found: Surveyed) -> bool:
        return self._hardlinks == "keep" and found.stat is not None and found.stat.nlink > 1

    def _make(self, found: Surveyed) -> None:
        for directory in found.missing:
            if directory not in self._steps.made:
                self._steps.made.append(directory)

    def _touch(
        self,
        real: str,
        shown: str,
        old: Snapshot | None,
        after: str | None,
        mode: int | None = None,
        *,
        torn: bytes | None = None,
        back: tuple[Splice, ...] | None = None,
    ) -> None:
        before = None if old is None else Before(old.sha256, old.mode, None, old.owner)
        data = b"" if old is None else old.data
        self._steps.touched.append(Touched(real, shown, before, after, mode, old=data, torn=torn, back=back))

    def _delete(self, change: FileChange) -> None:
        assert change.before is not None
        real = self._real(change.path)
        self._steps.changes.append(Remove(path=real, if_sha256=change.before.sha256, real=True))
        self._touch(real, change.path, change.before, None)

    def _touch_link(self, place: str, shown: str, before: str | None, after: str | None) -> None:
        was = None if before is None else Before(None, None, before)
        self._steps.touched.append(Touched(place, shown, was, None, after_link=after))

    def _move(self, change: FileChange) -> None:
        assert change.source is not None and change.before is not None
        source, target = self._real(change.source), self._real(change.path)
        old = change.before
        if change.content_changed or change.replaced is not None or change.mode != old.mode:
            assert change.after is not None
            self._put(change, target, change.replaced)
            self._steps.changes.append(Remove(path=source, if_sha256=old.sha256, real=True))
        else:
            self._rename(change.path, source, target, old)
            self._touch(target, change.path, None, old.sha256, old.mode)
        self._touch(source, change.source, old, None)

    def _rename(self, shown: str, source: str, target: str, old: Snapshot) -> None:
        self._make_parents(shown)
        same = self._found[shown].identity == old.identity and old.identity is not None
        self._steps.changes.append(Move(path=source, dst=target, if_sha256=old.sha256, overwrite=same, real=True))

    def _make_parents(self, shown: str) -> None:
        found = self._found[shown]
        new = [directory for directory in found.missing if directory not in self._steps.made]
        self._make(found)
        self._steps.changes[:0] = [MakeDir(path=directory, parents=True) for directory in new]

    def _link(self, change: FileChange) -> None:
        """A symbolic link itself is made, removed or moved."""
        shown, place = change.path, self._place(change.path)
        if not change.target:
            raise EditError(Problem("not_regular", f"nothing in the environment tells where {shown} leads", shown))
        if change.kind == "update":
            message = f"{shown} is a symbolic link: remove it in one patch and put something there in another"
            raise EditError(Problem("not_regular", message, shown))
        if change.kind == "delete":
            self._steps.changes.append(Remove(path=place, real=True))
            self._touch_link(place, shown, change.target, None)
        elif change.kind == "move":
            self._move_link(change, change.target)
        else:
            self._make_parents(shown)
            self._steps.changes.append(Symlink(path=place, target=change.target, real=True))
            self._touch_link(place, shown, None, change.target)

    def _move_link(self, change: FileChange, text: str) -> None:
        assert change.source is not None
        source, target = self._place(change.source), self._place(change.path)
        if change.replaced is not None:
            message = f"{change.path} exists; a symbolic link is moved only to a free name"
            raise EditError(Problem("already_exists", message, change.path))
        self._make_parents(change.path)
        self._steps.changes.append(Move(path=source, dst=target, real=True))
        self._touch_link(source, change.source, text, None)
        self._touch_link(target, change.path, None, text)


def _back(change: FileChange) -> tuple[Splice, ...] | None:
    if change.before is None or change.splices is None:
        return None
    return reversed_splices(change.before.data, change.splices)
