"""Reading for an agent: text with what was not shown named beside it, binary files and directories as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from hermes_env._errors import CommandTimeout
from hermes_env.tools._display import clean
from hermes_env.tools._model import ErrorInfo, Record
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._text import describe
from hermes_env.tools._view import view_lines

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.files import Surveyed

MAX_ENTRIES: Final = 1000
"""Names of a directory that are shown."""
_FIFO_PIECE, _FIFO_PIECES = 1 << 16, 16
"""Bytes that a pipe of Linux holds, and how often so many are taken."""


class ReadOutcome(Record):
    """What a read showed. Never raised."""

    ok: bool
    path: str
    kind: Literal["file", "binary", "directory", "fifo", "none"] = "none"
    text: str = Field(default="", description="What is shown, and nothing else: notices stand in 'notes'.")
    notes: list[str] = Field(default=[], description="What was cut, clipped or escaped.")
    first: int = Field(default=0, ge=0, description="First line shown, from 1; 0 when none is.")
    last: int = Field(default=0, ge=0)
    total: int = Field(default=0, ge=0, description="Lines of the whole file.")
    size: int = Field(default=0, ge=0, description="Bytes of the whole file.")
    sha256: str | None = Field(default=None, description="Of the whole file, as it was read.")
    encoding: str | None = None
    bom: bool = False
    eol: str | None = None
    final_newline: bool = True
    mode: str | None = None
    error: ErrorInfo | None = None

    @classmethod
    def refused(cls, path: str, problem: Problem) -> ReadOutcome:
        """A read that showed nothing."""
        return cls(ok=False, path=clean(path), error=ErrorInfo.of(problem.at(path=path)))


def show_file(path: str, found: Surveyed, first: int, last: int | None, *, numbers: bool) -> ReadOutcome:
    """Show lines of a regular file.

    Raises:
        EditError: The range is outside the file, or the encoding cannot be shown.
    """
    assert found.data is not None
    info = describe(found.data)
    shown = ReadOutcome(
        ok=True,
        path=clean(path),
        kind="binary" if info.binary else "file",
        size=len(found.data),
        sha256=found.sha256,
        encoding=info.encoding,
        bom=info.bom,
        eol=info.eol,
        final_newline=info.final_newline,
        total=info.lines,
        mode=None if found.stat is None else f"{found.stat.mode:04o}",
    )
    if info.binary:
        return shown.model_copy(update={"notes": [f"a binary file of {len(found.data):,} bytes is not shown"]})
    view = view_lines(found.data, first, last, numbers=numbers)
    notes = list(view.notes)
    if not info.final_newline and view.last == view.total:
        notes.append("the file has no newline at its end")
    return shown.model_copy(update={"text": view.text, "first": view.first, "last": view.last, "notes": notes})


def show_directory(env: BaseEnvironment, path: str, inner: str) -> ReadOutcome:
    """Show the names in a directory; a slash marks directories, an arrow links."""
    entries = env.files.list_dir(inner)
    lines = []
    for entry in entries[:MAX_ENTRIES]:
        mark = {"directory": "/", "symlink": f" -> {entry.target}"}.get(entry.kind, "")
        lines.append(clean(entry.name + mark).replace("\n", "\\n") + "\n")
    more = len(entries) - MAX_ENTRIES
    notes = [f"{more} more names are not shown"] if more > 0 else []
    return ReadOutcome(
        ok=True, path=clean(path), kind="directory", text="".join(lines), total=len(entries), notes=notes
    )


def show_fifo(env: BaseEnvironment, path: str, inner: str, deadline: float) -> ReadOutcome:
    """Show what comes out of a FIFO within a deadline; what was taken from it is gone.

    Raises:
        EditError: Nothing came in time.
    """
    notes = ["what was read from a FIFO cannot be read again"]
    try:
        # `head` would hold back what it has until the end; dd hands on every piece as it comes.
        result = env.exec(["dd", f"if={inner}", f"bs={_FIFO_PIECE}", f"count={_FIFO_PIECES}"], timeout=deadline)
        data = result.stdout
    except CommandTimeout as error:
        data = error.result.stdout
        if not data:
            raise EditError(Problem("not_regular", f"nobody wrote into this FIFO for {deadline:g} s")) from error
        notes.append(f"reading ended after {deadline:g} s; the writer may have more")
    view = view_lines(data, numbers=False)
    return ReadOutcome(
        ok=True,
        path=clean(path),
        kind="fifo",
        text=view.text,
        notes=[*notes, *view.notes],
        size=len(data),
        first=view.first,
        last=view.last,
        total=view.total,
    )


def failed(path: str, error: Exception) -> ReadOutcome:
    """A read that the environment failed."""
    if isinstance(error, EditError):
        return ReadOutcome.refused(path, error.problem)
    return ReadOutcome.refused(path, Problem("permission_denied", str(error)))
