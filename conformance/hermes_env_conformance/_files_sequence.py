"""Chapter files, any sequence of calls: a model of paths, bytes and modes beside the real files."""

from __future__ import annotations

import posixpath
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from hermes_env import Write

from ._check import LawBroken, difference, equal, holds
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab

_PATHS = ("a", "d", "d/a", "d/e/f", "two words", "caf\u00e9")
_SHOW = r"""
find . ! -name . | LC_ALL=C sort | while IFS= read -r p; do
  m=$(ls -ldn "$p"); m=${m%%[!-a-zA-Z]*}
  if [ -d "$p" ]; then printf '%s %s\n' "$m" "$p"; else
    printf '%s %s\n' "$m" "$p"; od -An -v -tx1 "$p" | tr -d ' \n'; echo; fi
done
"""
_ENOUGH = 0.4
"""Share of a law's time after which failures are shrunk from memory, without the environment."""


@dataclass
class Model:
    """What must be there: files with bytes and mode, and directories."""

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    dirs: set[str] = field(default_factory=lambda: {""})

    def has(self, path: str) -> bool:
        """Whether something has the name."""
        return path in self.files or path in self.dirs

    def empty(self, path: str) -> bool:
        """Whether nothing is under a directory."""
        return not any(name.startswith(f"{path}/") for name in (*self.files, *self.dirs))

    def parent_is_dir(self, path: str) -> bool:
        """Whether the name can be made."""
        return posixpath.dirname(path) in self.dirs

    def can_make_parents(self, path: str) -> bool:
        """Whether no file is in the way of the directories above."""
        return not any(above in self.files for above in _above(path))

    def make_parents(self, path: str) -> None:
        """The directories above."""
        self.dirs.update(_above(path))

    def make_dir(self, path: str) -> None:
        """A directory and those above."""
        self.dirs.update((*_above(path), path))


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


class FileSequenceLaws:
    """Sequences of calls that nobody thought of."""

    @law()
    def test_any_sequence_of_file_calls_is_as_modelled(self, lab: Lab) -> None:
        """After any sequence of writes, moves and removals every path has the bytes and the mode that it should."""
        memory = Memory(time.monotonic() + _ENOUGH * lab.deadline)
        settings = lab.examples(6, 12, 100, shrink=True, steps=lab.scale(8, 12, 30))
        # Its annotation says a class; any factory will do, as the name of the parameter tells.
        run_state_machine_as_test(partial(FileMachine, lab, memory), settings=settings)  # type: ignore[arg-type]


@dataclass
class Memory:
    """Sequences that failed, and the moment from which only these are looked up."""

    until: float
    failed: dict[tuple[object, ...], str] = field(default_factory=dict)
    count: int = 0


_path = st.sampled_from(_PATHS)
_data = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"\r\n", b"\0" * 5000, bytes(range(256)) * 20]))


class FileMachine(RuleBasedStateMachine):
    """Makes calls, keeps the model, and compares after each."""

    def __init__(self, lab: Lab, memory: Memory) -> None:
        super().__init__()
        self.lab, self.memory, self.model = lab, memory, Model()
        self.calls: list[object] = []
        self.over = bool(memory.failed) and time.monotonic() > memory.until
        memory.count += 1
        self.root = f"machine{memory.count}"
        if not self.over:
            lab.sh(f"mkdir {self.root}")

    def step(self, call: Any, valid: Callable[[], bool], act: Callable[[], object], then: Callable[[], None]) -> None:
        """Make one call; what the model does not allow must be an OSError and change nothing."""
        self.calls.append(call)
        key = tuple(self.calls)
        problem = self.memory.failed.get(key)
        if not self.over:
            try:
                self._live(valid=valid(), act=act, then=then)
                problem = None
            except (LawBroken, AssertionError) as error:
                problem = self.memory.failed[key] = str(error)
        if problem is not None:
            shown = "\n  ".join(str(one)[:200] for one in self.calls)
            raise LawBroken(f"after the calls\n  {shown}\n{problem}")

    def _live(self, *, valid: bool, act: Callable[[], object], then: Callable[[], None]) -> None:
        error: Exception | None = None
        try:
            act()
        except Exception as raised:  # noqa: BLE001 - judged below
            error = raised
        if valid:
            holds(error is None, f"the last call is allowed and raised {type(error).__name__}: {error}")
            then()
        else:
            holds(isinstance(error, OSError), f"the last call is not allowed and must raise OSError, not {error!r}")
        self.compare()

    def at(self, path: str) -> str:
        """The absolute path."""
        return self.lab.path(f"{self.root}/{path}")

    # -- rules ----------------------------------------------------------------------------------------------------

    @rule(path=_path, data=_data, mode=st.sampled_from([None, 0o600, 0o755]), parents=st.booleans())
    def write(self, *, path: str, data: bytes, mode: int | None, parents: bool) -> None:
        """Write a file; an old one keeps its mode unless another is given."""
        model, files = self.model, self.lab.env.files
        self.step(
            ("write", path, data, mode, parents),
            lambda: path not in model.dirs and (model.can_make_parents(path) if parents else model.parent_is_dir(path)),
            lambda: files.write_bytes(self.at(path), data, mode=mode, make_parents=parents),
            lambda: self._written(path, data, mode),
        )

    def _written(self, path: str, data: bytes, mode: int | None) -> None:
        self.model.make_parents(path)
        old = self.model.files.get(path)
        self.model.files[path] = (data, mode if mode is not None else old[1] if old else -1)

    @rule(path=_path, data=_data)
    def write_if_absent(self, path: str, data: bytes) -> None:
        """Write a file only if nothing has its name."""
        model, files = self.model, self.lab.env.files
        self.step(
            ("write_if_absent", path, data),
            lambda: model.parent_is_dir(path) and not model.has(path),
            lambda: files.commit([Write(path=self.at(path), data=data, if_absent=True)]),
            lambda: self._written(path, data, None),
        )

    @rule(path=_path, parents=st.booleans())
    def make_dir(self, *, path: str, parents: bool) -> None:
        """Make a directory."""
        model = self.model
        self.step(
            ("make_dir", path, parents),
            lambda: (
                path not in model.files and model.can_make_parents(path)
                if parents
                else model.parent_is_dir(path) and not model.has(path)
            ),
            lambda: self.lab.env.files.make_dir(self.at(path), parents=parents),
            lambda: model.make_dir(path),
        )

    @rule(path=_path, recursive=st.booleans())
    def remove(self, *, path: str, recursive: bool) -> None:
        """Remove a file or a directory."""
        model = self.model
        self.step(
            ("remove", path, recursive),
            lambda: path in model.files or (path in model.dirs and (recursive or model.empty(path))),
            lambda: self.lab.env.files.remove(self.at(path), recursive=recursive),
            lambda: self._forget(path),
        )

    def _forget(self, path: str) -> None:
        model = self.model
        model.files = {name: value for name, value in model.files.items() if not _under(name, path)}
        model.dirs = {name for name in model.dirs if not _under(name, path)}

    @precondition(lambda self: self.model.files)
    @rule(src=_path, dst=_path, overwrite=st.booleans())
    def move(self, *, src: str, dst: str, overwrite: bool) -> None:
        """Move a file; directories only where the model is plain."""
        model = self.model
        if src in model.dirs or dst in model.dirs or src == dst:
            return
        self.step(
            ("move", src, dst, overwrite),
            lambda: src in model.files and model.parent_is_dir(dst) and (overwrite or not model.has(dst)),
            lambda: self.lab.env.files.move(self.at(src), self.at(dst), overwrite=overwrite),
            lambda: model.files.__setitem__(dst, model.files.pop(src)),
        )

    @precondition(lambda self: self.model.files)
    @rule(path=_path)
    def read(self, path: str) -> None:
        """Read a file."""
        model, got = self.model, list[bytes]()

        def check() -> None:
            expected = model.files[path][0]
            holds(got == [expected], f"read of {path!r}: {difference(expected, got[0])}" if got else "")

        self.step(
            ("read", path),
            lambda: path in model.files,
            lambda: got.append(self.lab.env.files.read_bytes(self.at(path))),
            check,
        )

    # -- comparison -----------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Demand that another program sees what the model holds."""
        lines = iter(self.lab.sh(_SHOW, cwd=self.lab.path(self.root)).text.splitlines())
        seen: dict[str, tuple[str, bytes]] = {}
        for line in lines:
            mode, _, path = line.partition(" ")
            seen[path.removeprefix("./")] = (mode, b"" if mode[0] == "d" else bytes.fromhex(next(lines)))
        equal("names", sorted({*self.model.files, *self.model.dirs} - {""}), sorted(seen))
        for path, (data, wanted) in self.model.files.items():
            shown, actual = seen[path]
            holds(actual == data, f"{path!r}: {difference(data, actual)}")
            if wanted == -1:
                self.model.files[path] = (data, _octal(shown))
            else:
                equal(f"mode of {path!r}", stat.filemode(stat.S_IFREG | wanted), shown[:10])


def _under(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")


def _octal(shown: str) -> int:
    return sum(1 << (8 - place) for place, letter in enumerate(shown[1:10]) if letter != "-")
