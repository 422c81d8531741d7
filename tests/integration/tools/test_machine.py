"""Random sessions of edits on a real tree, next to a slow and obvious model of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes_env import TransportError, open_environment
from hermes_env.tools import EditOutcome, FilePolicy, FileTools
from tests.unit.tools._reference import RefHunk, cut, join
from tests.unit.tools._settings import EXAMPLES

from ._model import NEW_MODE, Done, File, Link, Model, Refused, Tree, apply, digest, is_as, on_disk, restore

NAMES = ("a", "b", "c", "d/a", "d/b", "d/e/a", "x y", "caf\udce9")
_LINES = (b"", b"a", b"b", b"  a", b"a  ", b"caf\xe9", "—".encode(), b"\x1b[1m", b"*** End Patch", b"-x", b"@@")
_ENDS = (b"\n", b"\n", b"\r\n", b"\r")

names = st.sampled_from(NAMES)
lines = st.lists(st.tuples(st.sampled_from(_LINES), st.sampled_from(_ENDS)), max_size=6)
contents = st.builds(
    lambda bom, body, end: bom + join(body) + end,
    st.sampled_from([b"", b"", b"\xef\xbb\xbf"]),
    lines,
    st.sampled_from([b"", b"", b"end", b"\x00\xff"]),
)
added = st.lists(st.sampled_from(["new", "", "  new", "+x", "*** End of File"]), max_size=2)
modes = st.sampled_from([0o644, 0o600, 0o755, 0o640])
Operation = tuple[str, str, str, Any]


class Session(RuleBasedStateMachine):
    """One agent, one workspace, and somebody else who works there too."""

    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.home = Path(tempfile.mkdtemp(prefix="hermes-machine-", dir=base))
        self.root = self.home / "work"
        self.root.mkdir()
        self.env = open_environment("local", cwd=str(self.root))
        self.tools = FileTools(
            self.env,
            FilePolicy(workspace=str(self.root)),
            confirm=lambda _event, _reasons: True,
            store_dir=str(self.home / "store"),
            state_dir=str(self.home / "state"),
        )
        self.model = Model()

    def teardown(self) -> None:
        """Leave nothing."""
        self.env.close()
        shutil.rmtree(self.home)

    # -- what must always hold ------------------------------------------------------------------------------------

    @invariant()
    def the_trees_are_equal(self) -> None:
        """Bytes, modes, links and shared names are those of the model, and nothing else lies about."""
        assert on_disk(self.root) == self.model.tree.value()
        assert not list((self.home / "state").glob("*"))

    def judge(self, act: Callable[[], EditOutcome], expect: Callable[[], bool]) -> None:
        """Do it, and compare what is told with what the model says."""
        changed, codes = False, tuple[str, ...]()
        try:
            changed = expect()
        except Refused as refusal:
            codes = refusal.codes
        outcome = act()
        if codes:
            assert outcome.status == "refused" and outcome.error is not None, (outcome, codes)
            assert outcome.error.code in codes, (outcome.error, codes)
        else:
            assert outcome.ok, outcome
            assert outcome.status == ("applied" if changed else "unchanged"), outcome

    # -- the tools ------------------------------------------------------------------------------------------------

    @rule(path=names, data=contents, if_right=st.sampled_from([None, None, True, False]), dry=st.booleans())
    def write_file(self, path: str, data: bytes, if_right: bool | None, dry: bool) -> None:
        """A file gets new bytes unless it changed since it was read, or has another digest than told."""
        node = self.model.tree.nodes.get(path)
        told = None if if_right is None else digest(node.data if if_right and isinstance(node, File) else b"other")

        def expect() -> bool:
            tree = self.model.begin()
            real = tree.resolve(path)
            old = tree.file(real) if real in tree.nodes else None
            if told is not None and (old is None or digest(old.data) != told):
                raise Refused("stale")
            if old is not None and old.data == data:
                return False
            if old is not None and told is None and self.model.read.get(real, digest(old.data)) != digest(old.data):
                raise Refused("stale")
            made = tree.parents(real)
            tree.put(real, data, NEW_MODE if old is None else old.mode)
            return dry or self.model.finish(tree, [real], made)

        self.judge(lambda: self.tools.write_file(path, data, if_sha256=told, dry_run=dry), expect)

    @rule(path=names, pick=st.data())
    def str_replace(self, path: str, pick: st.DataObject) -> None:
        """A piece of a file that is there once is replaced, byte for byte."""
        try:
            data = self.model.tree.file(self.model.tree.existing(path)).data
        except Refused:
            data = b"nothing"
        pieces = [content for content, _ in cut(data) if content.isascii() and content] or [b"nowhere"]
        old = pick.draw(st.sampled_from(pieces))
        new = pick.draw(st.sampled_from([b"", b"N", b"$1\\n"]))

        def expect() -> bool:
            tree = self.model.begin()
            real = tree.existing(path)
            file = tree.file(real)
            if old == new:
                raise Refused("invalid_argument")
            count = sum(file.data.startswith(old, start) for start in range(len(file.data)))
            if count != 1:
                raise Refused("ambiguous_match" if count else "context_not_found")
            tree.put(real, file.data.replace(old, new), file.mode)
            return self.model.finish(tree, [real], [])

        self.judge(lambda: self.tools.str_replace(path, old.decode(), new.decode()), expect)

    @rule(path=names)
    def read(self, path: str) -> None:
        """A read tells the digest of the bytes, and is remembered."""
        outcome = self.tools.read_file(path)
        real, codes = "", tuple[str, ...]()
        try:
            real = self.model.tree.existing(path)
        except Refused as refusal:
            codes = refusal.codes
        if codes:
            # A directory is listed; a link to nothing and a name that is free are told.
            assert outcome.kind == "directory" or (outcome.error and outcome.error.code in codes), outcome
            return
        assert outcome.sha256 == digest(self.model.tree.file(real).data)
        self.model.read[real] = outcome.sha256

    @rule(pick=st.data(), overwrite=st.booleans(), lost=st.integers(0, 9), dry=st.integers(0, 4))
    def apply_patch(self, pick: st.DataObject, overwrite: bool, lost: int, dry: int) -> None:
        """Several operations are applied as a whole or not at all, also when an answer is lost on the way."""
        operations = self.draw_operations(pick)
        text = "".join(["*** Begin Patch\n", *(written for *_, (written, _) in operations), "*** End Patch\n"])

        def expect() -> bool:
            tree, touched, made = self.model.begin(), list[str](), list[str]()
            for kind, path, target, (_, content) in operations:
                touched += apply(tree, kind, path, target, content, made, overwrite=overwrite)
            if dry == 0:
                return any(tree.seen(name) != self.model.tree.seen(name) for name in touched)
            return self.model.finish(tree, touched, made)

        def act() -> EditOutcome:
            return self.tools.apply_patch(text, overwrite=overwrite, dry_run=dry == 0)

        self.judge(lambda: self.losing(lost, act), expect)

    def losing(self, kth: int, act: Callable[[], EditOutcome]) -> EditOutcome:
        """Lose the answer to the commit that changes files, for some numbers."""
        if kth > 1:
            return act()
        files: Any = self.env.files
        commit = files.commit

        def lost(changes: Any, **given: Any) -> Any:
            done = commit(changes, **given)
            if not any(str(getattr(change, "path", "")).endswith(".journal") for change in changes):
                raise TransportError("the link was lost")
            return done

        files.commit = lost
        try:
            return act()
        finally:
            del files.commit

    def draw_operations(self, pick: st.DataObject) -> list[Operation]:
        """One to three operations on different files."""
        used: set[object] = set()
        operations: list[Operation] = []
        for _ in range(pick.draw(st.integers(1, 3))):
            kind = pick.draw(st.sampled_from(["add", "delete", "update", "move", "edit and move"]))
            path, target = pick.draw(names), pick.draw(names)
            concerned = {what for name in (path, target) for what in self.concerned(name)}
            if path == target or not used.isdisjoint(concerned):
                continue
            used |= concerned
            operations.append((kind, path, target, self.draw_text(pick, kind, path, target)))
        return operations or [("delete", "none", "", ("*** Delete File: none\n", None))]

    def concerned(self, name: str) -> set[object]:
        """Everything that an operation on a name may touch: it, what it leads to, and what shares its bytes."""
        tree = self.model.tree
        found: set[object] = {name}
        try:
            place = tree.place(name)
            found |= {place, tree.follow(place)}
        except Refused:
            pass
        files = {id(tree.nodes[one]) for one in found if isinstance(one, str) and one in tree.nodes}
        # A new file is in nobody's way if no other operation works above or below it.
        ways = {one.split("/")[0] for one in found if isinstance(one, str) and "/" in one}
        return found | files | {("way", way) for way in ways}

    def draw_text(self, pick: st.DataObject, kind: str, path: str, target: str) -> tuple[str, Any]:
        """An operation as patch text, and its content for the model."""
        if kind == "delete":
            return f"*** Delete File: {path}\n", None
        if kind == "add":
            new = pick.draw(added)
            return f"*** Add File: {path}\n" + "".join(f"+{line}\n" for line in new), new
        head = f"*** Update File: {path}\n" + ("" if kind == "update" else f"*** Move to: {target}\n")
        if kind == "move":
            return head, []
        hunks = self.draw_hunks(pick, path)
        body = "".join(
            "@@\n" + "".join(f"{sign}{os.fsdecode(content)}\n" for sign, content in hunk.lines) for hunk in hunks
        )
        return head + body, hunks

    def draw_hunks(self, pick: st.DataObject, path: str) -> list[RefHunk]:
        """A hunk cut out of a file."""
        try:
            data = self.model.tree.file(self.model.tree.existing(path)).data
        except Refused:
            data = b"a\n"
        have = [content for content, _ in cut(data.removeprefix(b"\xef\xbb\xbf"))] or [b"a"]
        start = pick.draw(st.integers(0, len(have) - 1))
        block = have[start : start + pick.draw(st.integers(1, 3))]
        signs = [pick.draw(st.sampled_from([" ", "-"])) for _ in block]
        more = [("+", line.encode()) for line in pick.draw(added)] or [("+", b"more")]
        return [RefHunk((*zip(signs, block, strict=True), *more))]

    @precondition(lambda self: any(not edit.undone for edit in self.model.edits))
    @rule(which=st.integers(0, 3))
    def undo(self, which: int) -> None:
        """An edit is undone if its files are as it left them, and not otherwise."""
        applied = [entry for entry in self.tools.history() if entry.status == "applied"]
        index = max(len(self.model.edits) - 1 - which, 0)
        edit, entry = self.model.edits[index], applied[index]
        assert len(applied) == len(self.model.edits)

        def expect() -> bool:
            tree = self.model.begin()
            changed = [name for name, (_, after) in edit.touched.items() if not is_as(tree.seen(name), after)]
            if changed or any(self.blocked(tree, name) for name in edit.touched):
                raise Refused("stale", "is_directory", "not_regular", "not_found", "path_invalid", "path_outside_root")
            made: list[str] = []
            for name, (before, _) in edit.touched.items():
                restore(tree, name, before, made)
            if not self.model.finish(tree, list(edit.touched), made):
                return False
            self.remove_made(edit)
            return True

        self.judge(lambda: self.tools.undo(entry.edit_id), expect)

    @staticmethod
    def blocked(tree: Tree, name: str) -> bool:
        """Whether something stands in the way to a name."""
        try:
            return tree.place(name) != name or name in tree.dirs
        except Refused:
            return True

    def remove_made(self, edit: Done) -> None:
        """Directories that the edit made go, as long as they are empty."""
        tree = self.model.tree
        for directory in reversed(edit.made):
            inside = f"{directory}/"
            if any(name.startswith(inside) for name in (*tree.nodes, *tree.dirs)):
                return
            tree.dirs.discard(directory)

    # -- somebody else --------------------------------------------------------------------------------------------

    @rule(name=names, data=contents, mode=modes)
    def somebody_writes(self, name: str, data: bytes, mode: int) -> None:
        """A file is written without the tools."""
        tree = self.model.tree
        if self.blocked(tree, name) or isinstance(tree.nodes.get(name), Link):
            return
        tree.parents(name)
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        node = tree.nodes.setdefault(name, File(data, mode))
        assert isinstance(node, File)
        node.data, node.mode = data, mode

    @rule(name=names, other=names, hard=st.booleans())
    def somebody_links(self, name: str, other: str, hard: bool) -> None:
        """A free name becomes a second name of a file, or a link to a name beside it, which may lead nowhere."""
        tree = self.model.tree
        if self.blocked(tree, name) or name in tree.nodes or os.path.dirname(name) not in tree.dirs:
            return
        if hard and isinstance(tree.nodes.get(other), File):
            os.link(self.root / other, self.root / name)
            tree.nodes[name] = tree.nodes[other]
        elif not hard and name > other:
            # Links lead backwards in the alphabet: no loops.
            text = os.path.relpath(other, os.path.dirname(name) or ".")
            if ".." not in text:
                (self.root / name).symlink_to(text)
                tree.nodes[name] = Link(text)

    @rule(name=names)
    def somebody_removes(self, name: str) -> None:
        """A name goes away."""
        if name in self.model.tree.nodes:
            (self.root / name).unlink()
            del self.model.tree.nodes[name]


# A session takes its time: shrinking one to the end would take the run's.
PHASES = (Phase.explicit, Phase.generate) if EXAMPLES > 200 else tuple(Phase)
Session.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=12,
    deadline=None,
    database=None,
    # The same sessions in every run that somebody waits for; more examples are other ones, by the seed.
    derandomize=EXAMPLES <= 200,
    suppress_health_check=list(HealthCheck),
    phases=PHASES,
)
TestSessions = Session.TestCase
