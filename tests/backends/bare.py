"""Environments that lack something: a tool, a writable /tmp, or /tmp itself."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from hermes_env import BackendOptions, CommandEnvironment, Launch

TOOLS = (
    "awk base64 basename cat chgrp chmod chown cksum cmp cp cut date dd df dirname du echo env expr false find grep",
    "head id kill ln ls mkdir mktemp mkfifo mv nice nohup od openssl perl printf ps pwd python3 readlink rm rmdir",
    "sed seq setsid sha256sum shasum sleep sort stat sync tail tar tee test timeout touch tr true uname wc xargs [",
)
"""Programs that an ordinary system has and that a script may ask for."""


def farm(folder: Path, *without: str) -> str:
    """A PATH with all of them but some."""
    folder.mkdir()
    for name in " ".join(TOOLS).split():
        found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        if found is not None and name not in without:
            (folder / name).symlink_to(found)
    return str(folder)


class RootOptions(BackendOptions):
    """Options of the test backend."""

    root: str
    """Directory that is the root of every command; has /proc and a shell."""


class RootEnvironment(CommandEnvironment):
    """Runs ``launch.argv()`` in another root directory, and a mount namespace of its own with /proc."""

    Options = RootOptions
    options: RootOptions

    def _argv(self, launch: Launch) -> list[str]:
        enter = 'mount --rbind /proc "$1/proc" && exec chroot "$@"'
        return ["unshare", "-m", "/bin/sh", "-c", enter, "enter", self.options.root, *launch.argv()]

    def _environ(self, launch: Launch) -> Mapping[str, str]:
        return {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"}


OPERATIONS = {
    "exec": "a command with stdin, streams and exit code",
    "kill": "the end of a tree of processes",
    "write": "a file from an iterable",
    "read": "a file and its digest",
    "proc": "a file of /proc",
    "look": "status, listing, link targets",
    "change": "directories made, moved and removed",
    "tree": "a folder sent and fetched",
    "edit": "an edit by the tools for agents",
}
"""What is tried where something is missing."""

_NOTHING: tuple[str, ...] = ()
REFUSED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("base64", "sha256sum", "openssl", "stat", "mktemp"), _NOTHING),
    "wc": ("proc",),
    "readlink": ("look", "tree"),
    "head": ("write", "read", "proc", "tree", "edit"),
    "tail": ("write",),
    **dict.fromkeys(("awk", "cksum", "cmp", "cp", "cut", "date", "df", "find", "grep"), _NOTHING),
    **dict.fromkeys(("od", "python3", "sed", "setsid", "sleep", "sync", "touch", "tr", "xargs"), _NOTHING),
    "cat": ("write", "proc", "tree", "edit"),
    "chmod": ("write", "tree", "edit"),
    "dd": ("tree",),
    "ln": ("tree",),
    "ls": ("edit",),
    "mkdir": ("change", "tree"),
    "mv": ("write", "change", "tree", "edit"),
    "rm": ("change", "tree"),
    "rmdir": ("change",),
}
"""For each tool that is taken away: what is refused, by the tool's name. Everything else works."""
STAGED_NEEDS = ("mkdir", "rm")
"""Tools without which an environment that stages files, or has only command text, is refused when it is opened."""
FRAMED_NEEDS = {
    "head": "a known length",
    "dd": "an unknown length",
    "tee": "an unknown length",
    "wc": "an unknown length",
}
"""Where a transport cannot half-close: without the tool, stdin whose length is that is refused."""
