"""A slow and obvious model of a workspace: names, what they name, and what each tool makes of them."""

from __future__ import annotations

import copy
import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.tools._reference import RefHunk, cut, find_in_order, patched

NEW_MODE = 0o644
"""Of a new file, by the usual umask."""


@dataclass(eq=False)
class File:
    """The bytes that one or more names share."""

    data: bytes
    mode: int = NEW_MODE


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    text: str


Node = File | Link
Seen = tuple[str, bytes | str, int] | None
"""What stands at a name, as a value: kind, content and mode; None for nothing."""


class Refused(Exception):
    """The tool must refuse; one of these codes says why."""

    def __init__(self, *codes: str) -> None:
        super().__init__(*codes)
        self.codes = codes


@dataclass
class Done:
    """One applied edit, for undo."""

    touched: dict[str, tuple[Seen, Seen]]
    made: list[str]
    undone: bool = False


@dataclass
class Tree:
    """A workspace. Names are relative and plain; the directory itself is the empty name."""

    nodes: dict[str, Node] = field(default_factory=dict)
    dirs: set[str] = field(default_factory=lambda: {""})

    def seen(self, name: str) -> Seen:
        """What stands at a name itself."""
        node = self.nodes.get(name)
        if isinstance(node, Link):
            return "link", node.text, 0
        return None if node is None else ("file", node.data, node.mode)

    def value(self) -> dict[str, object]:
        """The tree as a value; names of one file have one number."""
        groups: dict[int, str] = {}
        found: dict[str, object] = {name: "directory" for name in self.dirs if name}
        for name in sorted(self.nodes):
            group = groups.setdefault(id(self.nodes[name]), name)
            found[name] = (self.seen(name), group)
        return found

    def place(self, path: str) -> str:
        """The name itself, with the links on the way to it followed; raises when it cannot be there."""
        directory, _, last = path.rpartition("/")
        real = ""
        for part in directory.split("/") if directory else []:
            step = f"{real}/{part}" if real else part
            node = self.nodes.get(step)
            if isinstance(node, Link):
                step = self.follow(step)
            elif isinstance(node, File):
                raise Refused("not_found", "path_invalid")
            if step in self.nodes:
                raise Refused("not_found", "path_invalid")
            real = step
        return f"{real}/{last}" if real else last

    def follow(self, name: str) -> str:
        """Where a name leads in the end; raises for links that go round. They lead to names beside or below them."""
        for _ in range(40):
            node = self.nodes.get(name)
            if not isinstance(node, Link):
                return name
            name = os.path.join(os.path.dirname(name), node.text)
        raise Refused("not_regular")

    def resolve(self, path: str) -> str:
        """The file that a path leads to, or would; raises for what is none."""
        place = self.place(path)
        real = self.follow(place)
        if real in self.dirs:
            raise Refused("is_directory")
        if real != place and real not in self.nodes:
            raise Refused("not_regular")
        return real

    def existing(self, path: str) -> str:
        """The regular file that a path leads to."""
        real = self.resolve(path)
        if real not in self.nodes:
            raise Refused("not_found")
        return real

    def file(self, name: str) -> File:
        """The file at a real name."""
        node = self.nodes[name]
        assert isinstance(node, File)
        return node

    def names_of(self, node: Node) -> list[str]:
        """Every name of a file."""
        return [name for name, other in self.nodes.items() if other is node]

    def parents(self, name: str) -> list[str]:
        """Make the directories above a name; those that were missing, outermost first."""
        parts = name.split("/")[:-1]
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        made = [directory for directory in above if directory not in self.dirs]
        self.dirs.update(made)
        return made

    def put(self, name: str, data: bytes, mode: int) -> None:
        """Give a name bytes: a file with other names keeps them."""
        node = self.nodes.get(name)
        if isinstance(node, File) and len(self.names_of(node)) > 1:
            node.data, node.mode = data, mode
        else:
            self.nodes[name] = File(data, mode)


class Model:
    """What `FileTools` promises, one edit after the other."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.read: dict[str, str] = {}
        """Digests that the tools remember, by real name."""
        self.edits: list[Done] = []

    def begin(self) -> Tree:
        """A copy to try an edit on; names of one file stay so."""
        return copy.deepcopy(self.tree)

    def finish(self, after: Tree, names: list[str], made: list[str]) -> bool:
        """Take an edit over; False when nothing has changed."""
        touched = {name: (self.tree.seen(name), after.seen(name)) for name in names}
        if all(before == now for before, now in touched.values()):
            return False
        self.tree = after
        for name, (_, now) in touched.items():
            self.read.pop(name, None)
            if now is not None and now[0] == "file":
                self.read[name] = digest(now[1])
        self.edits.append(Done(touched, made))
        return True


def digest(data: bytes | str) -> str:
    """Hex SHA-256."""
    assert isinstance(data, bytes)
    return hashlib.sha256(data).hexdigest()


def hunked(data: bytes, hunks: list[RefHunk]) -> bytes:
    """A file after hunks that were cut out of it."""
    contents = [content for content, _ in cut(data.removeprefix(b"\xef\xbb\xbf"))]
    if any(not b"".join(hunk.old).strip(b" \t") for hunk in hunks):
        raise Refused("ambiguous_match")
    found = find_in_order(contents, hunks)
    if isinstance(found, str):
        raise (
            Refused("ambiguous_match")
            if found == "ambiguous_match"
            else Refused("context_not_found", "already_applied")
        )
    return patched(data, hunks, found)


def on_disk(root: Path) -> dict[str, object]:
    """The real tree as `Tree.value` tells the model's."""
    found: dict[str, object] = {}
    groups: dict[int, str] = {}
    for path in sorted(root.rglob("*"), key=lambda path: str(path.relative_to(root))):
        name, state = str(path.relative_to(root)), path.lstat()
        if stat.S_ISDIR(state.st_mode):
            found[name] = "directory"
            continue
        link = stat.S_ISLNK(state.st_mode)
        seen = ("link", os.readlink(path), 0) if link else ("file", path.read_bytes(), stat.S_IMODE(state.st_mode))
        found[name] = (seen, groups.setdefault(state.st_ino, name))
    return found


def is_as(now: Seen, after: Seen) -> bool:
    """Whether a name is as an edit left it: by bytes or text, not by mode."""
    return (None if now is None else now[:2]) == (None if after is None else after[:2])


def restore(tree: Tree, name: str, before: Seen, made: list[str]) -> None:
    """Put a name back as it was."""
    if before is None:
        tree.nodes.pop(name, None)
        return
    made += tree.parents(name)
    if isinstance(before[1], str):
        tree.nodes[name] = Link(before[1])
    else:
        tree.put(name, before[1], before[2])


def apply(
    tree: Tree, kind: str, path: str, target: str, content: Any, made: list[str], *, overwrite: bool
) -> list[str]:
    """One operation on the model; gives the names it touches."""
    if kind == "add":
        return _add(tree, path, b"".join(line.encode() + b"\n" for line in content), made, overwrite=overwrite)
    place = tree.place(path)
    if kind != "update" and isinstance(tree.nodes.get(place), Link):
        if kind == "edit and move":
            raise Refused("not_regular")
        return _take_link(tree, kind, place, target, made, overwrite=overwrite)
    real = tree.existing(path)
    file = tree.file(real)
    if kind == "delete":
        del tree.nodes[real]
        return [real]
    data = hunked(file.data, content) if content else file.data
    if kind == "update" or _is_same(tree, file, target):
        tree.put(real, data, file.mode)
        return [real]
    return [real, _move(tree, real, target, data, made, overwrite=overwrite)]


def _is_same(tree: Tree, file: File, target: str) -> bool:
    try:
        return tree.nodes.get(tree.resolve(target)) is file
    except Refused:
        return False


def _add(tree: Tree, path: str, data: bytes, made: list[str], *, overwrite: bool) -> list[str]:
    real = tree.resolve(path)
    if real in tree.nodes:
        if not overwrite:
            raise Refused("already_applied" if tree.file(real).data == data else "already_exists")
        tree.put(real, data, tree.file(real).mode)
    else:
        made += tree.parents(real)
        tree.nodes[real] = File(data)
    return [real]


def _move(tree: Tree, real: str, target: str, data: bytes, made: list[str], *, overwrite: bool) -> str:
    """A file goes to another name, with its mode."""
    goal = tree.resolve(target)
    file = tree.file(real)
    if goal in tree.nodes and not overwrite:
        raise Refused("already_exists")
    if goal in tree.nodes:
        tree.put(goal, data, file.mode)
    else:
        made += tree.parents(goal)
        tree.nodes[goal] = file if data == file.data else File(data, file.mode)
    del tree.nodes[real]
    return goal


def _take_link(tree: Tree, kind: str, place: str, target: str, made: list[str], *, overwrite: bool) -> list[str]:
    """A link is deleted or moved as such."""
    node = tree.nodes[place]
    if kind == "delete":
        del tree.nodes[place]
        return [place]
    goal = tree.resolve(target)
    if goal in tree.nodes:
        raise Refused("already_exists")
    made += tree.parents(goal)
    del tree.nodes[place]
    tree.nodes[goal] = node
    return [place, goal]
