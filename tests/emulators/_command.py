"""The command line that every emulator has."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ._guard import guard
from ._switches import SwitchSet

if TYPE_CHECKING:
    from ._client import EmulatorClient

S = TypeVar("S", bound=SwitchSet)


def run(arguments: list[str], emulator: type[EmulatorClient], switches: S, serve: Callable[..., None]) -> int:
    """Run a command against an emulator, or serve until stdin ends.

    Args:
        arguments: Without the program's name.
        emulator: What starts it; its `program` is the program that is running now.
        switches: The defaults.
        serve: Called in the server process with switches, user, and the descriptor that waits for its address.
    """
    own, command = _split(arguments)
    if own[:1] == ["--guard"]:
        return guard(emulator.program, own[1:])
    usage = f"python {os.path.relpath(emulator.program)} [--switch NAME=VALUE] [--user NAME] [-- CMD...]"
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("--switch", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--user", help="user that the server and the commands run as; needs root")
    parser.add_argument("--server", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(own)
    chosen = dict(_switch(text) for text in given.switch)
    try:
        changed = switches.changed(chosen)
    except ValueError as error:
        parser.error(str(error))
    if given.server is not None:
        serve(changed, user=given.user, ready=given.server)
    with emulator(user=given.user, **chosen) as running:
        if command:
            return subprocess.run(command, env={**os.environ, **running.environ}, check=False).returncode
        for name, value in running.environ.items():
            print(f"export {name}={value}", flush=True)
        sys.stdin.read()
    return 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    index = arguments.index("--")
    return arguments[:index], arguments[index + 1 :]


def _switch(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
