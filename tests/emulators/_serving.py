"""What every emulator's server process does first and last."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import tempfile
from typing import Any


def prepare(name: str, user: str | None) -> str:
    """Make the directory of an emulator and become the user that it runs as."""
    root = tempfile.mkdtemp(prefix=f"{name}-emulator-")
    os.chmod(root, 0o755)
    os.umask(0o022)
    if user is not None:
        _become(user, root)
    return root


def _become(user: str, root: str) -> None:
    entry = pwd.getpwnam(user)
    os.chown(root, entry.pw_uid, entry.pw_gid)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def announce(ready: int, facts: dict[str, Any]) -> None:
    """Write one line of JSON to the descriptor that waits for it."""
    with os.fdopen(ready, "w") as file:
        file.write(json.dumps(facts) + "\n")


def told_to_end() -> asyncio.Event:
    """Set when a signal asks this process to end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    return ended
