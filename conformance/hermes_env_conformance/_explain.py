"""What one law is for: its statement, why it is there, and what is known to break it."""

from __future__ import annotations

import difflib
import functools
import json
import sys
import tomllib
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._law import Law

WHY = {
    "stdin": "A tool that loses, changes or invents a byte of stdin writes a damaged file or runs a wrong program, "
    "and nobody notices: the exit code is still 0. Most wrappers pass text, join it to a command or cut it at a limit.",
    "output": "Programs decide by what a command printed. Decoding, merged streams, cut buffers and banners change "
    "that without an error.",
    "process": "What runs must be what was asked for, where it was asked for, once, and end when it is told to. "
    "Quoting, retries and kills of the shell alone are the usual ways to fail.",
    "files": "A file that is half written, written elsewhere or read through a text layer is worse than an error.",
    "tools": "An edit that an agent asks for must change what it names and nothing else, all of it or none, and say "
    "so. Editors that decode, normalise or write file by file damage what nobody looked at.",
    "sessions": "Agents expect that cd and export last. What is restored must be what was left, or nothing may run.",
    "secrecy": "Argument lists, logs, error messages and temporary files are read by everyone on a machine.",
    "cancellation": "What goes wrong goes wrong in the middle. A command that was given up must not run later, run "
    "twice, or leave its input where others find it.",
    "lifecycle": "Environments are opened by the thousand. What one leaves behind, or disturbs, the next one meets.",
    "aio": "The awaitable names must be the same promises. Cancelling a task is the usual way to end a command there.",
}
"""Why there is such a chapter."""


@functools.cache
def reasons() -> dict[str, str]:
    """Why there is each law."""
    text = resources.files(__package__).joinpath("why.toml").read_text(encoding="utf-8")
    return {name: reason for chapter in tomllib.loads(text).values() for name, reason in chapter.items()}


def known_faults() -> dict[str, list[tuple[str, str]]]:
    """For each law the broken environments that are known to fail it: name and kind of fault."""
    text = resources.files(__package__).joinpath("known_faults.json").read_text(encoding="utf-8")
    found: dict[str, list[tuple[str, str]]] = {}
    for name, fault in json.loads(text).items():
        for law in fault["laws"]:
            found.setdefault(law, []).append((name, fault["kind"]))
    return found


def explain(law: Law) -> str:
    """The explanation as lines of text."""
    faults = known_faults().get(law.name, [])
    lines = [law.name, f"  the law   {law.statement}", f"  why       {reasons()[law.name]}"]
    lines += [f"  chapter   {law.chapter}: {WHY[law.chapter]}"]
    lines += [f"  needs     {need}" for need in law.needs]
    lines += [f"  about     {covered}" for covered in law.covers]
    lines += ["  variants  run it too"] if law.variant else []
    lines += ["  what breaks it:"]
    lines += [f"    - {kind} ({name})" for name, kind in faults]
    return "\n".join(lines)


def explain_law(name: str) -> int:
    """Print what a law is for and what breaks it; 0, or 2 when there is no such law."""
    from ._suite import LAWS

    if name not in LAWS:
        close = difflib.get_close_matches(name, LAWS, 3)
        sys.stderr.write(f"usage: there is no law {name!r}; close: {', '.join(close)}\n")
        return 2
    sys.stdout.write(explain(LAWS[name]) + "\n")
    return 0
