"""What `hermes-env patch`, `edit`, `history`, `undo` and `recover` do and print."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from hermes_env._codec import decode_lossless, encode_lossless
from hermes_env._errors import InvalidArgument
from hermes_env.tools import EditEvent, FilePolicy, FileTools

from . import _failure
from ._settings import settle
from ._streams import chunks, write_all

if TYPE_CHECKING:
    from hermes_env.tools import EditOutcome, HistoryEntry, Recovery

Color = Literal["auto", "always", "never"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_COLORS = (("+++", "1"), ("---", "1"), ("@@", "36"), ("+", "32"), ("-", "31"))


@contextmanager
def tools(
    name: str, option: list[str] | None, options_file: str | None, workspace: str | None, *, yes: bool = False
) -> Iterator[FileTools]:
    """Tools on an environment that is open for the time of a block.

    Raises:
        InvalidArgument: There is no such directory.
    """
    settings = settle(name, option or (), options_file)
    with settings.open() as env:
        found = env.exec(["sh", "-c", 'cd -P -- "$1" && pwd -P', "sh", workspace or "."])
        if not found.ok:
            raise InvalidArgument("--workspace", f"is no directory inside: {found.stderr_text.strip()}")
        root = decode_lossless(found.stdout).removesuffix("\n")
        yield FileTools(env, FilePolicy(workspace=root), confirm=_agree if yes else None, note="hermes-env")


def _agree(event: EditEvent, reasons: tuple[str, ...]) -> bool:
    del event, reasons
    return True


def text_of(given: str | None, file: str | None, what: str) -> str | None:
    """A text from the command line, or from a file of this machine (``-`` is stdin).

    Raises:
        InvalidArgument: Both are given.
        OSError: The file cannot be read.
    """
    if given is not None and file is not None:
        raise InvalidArgument(f"--{what}-file", f"contradicts --{what}")
    if file is None:
        return None if given is None else decode_lossless(os.fsencode(given))
    return read_text(file)


def read_text(file: str) -> str:
    """Lossless text of a file of this machine; ``-`` is stdin."""
    if file == "-":
        return decode_lossless(b"".join(chunks()))
    with open(file, "rb") as opened:
        return decode_lossless(opened.read())


def tell(outcome: EditOutcome, *, as_json: bool, color: Color) -> int:
    """Print an outcome: its diff on stdout, one sentence and every warning and error on stderr."""
    if as_json:
        _out(outcome.model_dump_json(indent=2) + "\n")
        return 0 if outcome.ok else _failure.FAILED
    _out(_painted(outcome.diff, color))
    for warning in outcome.warnings:
        _failure.say(f"warning: {warning}")
    for report in outcome.reports:
        _failure.say(report)
    for error in outcome.errors:
        where = "".join(
            f"{part}: "
            for part in (
                error.path,
                f"hunk {error.hunk}" if error.hunk else None,
                f"patch line {error.patch_line}" if error.patch_line else None,
            )
            if part
        )
        _failure.say(f"error: {where}{error.message} [{error.code}]")
        for line in error.candidates:
            _failure.say(f"  line {line.line}: {line.text}")
    _failure.say(_sentence(outcome))
    return 0 if outcome.ok else _failure.FAILED


def _sentence(outcome: EditOutcome) -> str:
    if outcome.error is not None and outcome.error.code == "confirmation_required":
        return "nothing was changed; say --yes to confirm"
    if outcome.status == "applied":
        count = len(outcome.changed_files)
        done = "would change" if outcome.dry_run else "changed"
        edit = "" if outcome.dry_run else f", edit {outcome.edit_id}"
        return f"{done} {count} file{'' if count == 1 else 's'}{edit}"
    texts = {
        "unchanged": "nothing had to be changed",
        "refused": "nothing was changed",
        "rolled_back": "the edit failed, and everything is as it was",
        "rollback_failed": f"the edit failed; look at {', '.join(outcome.left_changed)}, or run hermes-env recover",
    }
    return texts[outcome.status]


def _painted(diff: str, color: Color) -> str:
    """A diff for a terminal: what could move the cursor or turn text around is shown as an escape."""
    terminal = sys.stdout.isatty()
    wanted = color == "always" or (color == "auto" and terminal and "NO_COLOR" not in os.environ)
    if not wanted and not terminal:
        return diff
    lines = [_CONTROL.sub(_escaped, line) for line in diff.split("\n")]
    return "\n".join(map(_paint, lines) if wanted else lines)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _paint(line: str) -> str:
    style = next((style for start, style in _COLORS if line.startswith(start)), None)
    return line if style is None else f"\x1b[{style}m{line}\x1b[0m"


def tell_history(entries: list[HistoryEntry], *, as_json: bool) -> int:
    """Print the record, oldest first: JSON lines, or one line per attempt."""
    for entry in entries:
        if as_json:
            _out(json.dumps(asdict(entry)) + "\n")
            continue
        names = ", ".join(file.path for file in entry.files)
        why = "" if entry.error is None else f"  {entry.error.get('code')}: {entry.error.get('message')}"
        line = f"{entry.time}  {entry.edit_id}  {entry.tool:<12} {entry.status:<12} {names}{why}"
        _out(_CONTROL.sub(_escaped, line.replace("\n", " ")) + "\n")
    return 0


def tell_recovery(recovery: Recovery, *, dry_run: bool = False) -> int:
    """Print what was recovered, or what would be."""
    for edit in recovery.edits:
        paths = ", ".join(edit.paths)
        left = f"; changed by others since: {', '.join(edit.left)}" if edit.left else ""
        said = f" ({edit.message})" if edit.message else ""
        _out(_CONTROL.sub(_escaped, f"{edit.edit_id}  {edit.done}  {paths}{left}{said}") + "\n")
    swept = "nothing was changed" if dry_run else f"{len(recovery.swept)} temporary files removed"
    _failure.say(f"{len(recovery.edits)} broken edits found, {swept}")
    return 0 if recovery.clean else _failure.FAILED


def _out(text: str) -> None:
    write_all(1, encode_lossless(text))
