"""Run as ``python tests/emulators/modal``."""

import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from tests.emulators._command import run
from tests.emulators.modal._switches import Switches
from tests.emulators.modal.client import Emulator


def serve(*arguments: Any, **options: Any) -> None:
    """The server, whose libraries only its own process loads."""
    from tests.emulators.modal._server import serve as really

    really(*arguments, **options)


sys.exit(run(sys.argv[1:], Emulator, Switches(), serve))
