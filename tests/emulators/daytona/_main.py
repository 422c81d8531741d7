"""Command line of the emulator."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from ._guard import guard
from ._server import serve
from ._switches import Switches
from .client import Emulator

_USAGE = "python tests/emulators/daytona [--switch NAME=VALUE] [--user NAME] [-- CMD...]"


def main(arguments: list[str]) -> int:
    """Run a command against an emulator, or serve until stdin ends."""
    own, _, command = _split(arguments)
    if own[:1] == ["--guard"]:
        return guard(own[1:])
    parser = argparse.ArgumentParser(usage=_USAGE, description=__doc__)
    parser.add_argument("--switch", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--user", help="user that the server and the commands run as; needs root")
    parser.add_argument("--server", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(own)
    switches = dict(_switch(text) for text in given.switch)
    if given.server is not None:
        serve(Switches().changed(switches), user=given.user, ready=given.server)
    with Emulator(user=given.user, **switches) as emulator:
        if command:
            return subprocess.run(command, env={**os.environ, **emulator.environ}, check=False).returncode
        for name, value in emulator.environ.items():
            print(f"export {name}={value}", flush=True)
        sys.stdin.read()
    return 0


def _split(arguments: list[str]) -> tuple[list[str], str, list[str]]:
    if "--" not in arguments:
        return arguments, "", []
    index = arguments.index("--")
    return arguments[:index], "--", arguments[index + 1 :]


def _switch(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
