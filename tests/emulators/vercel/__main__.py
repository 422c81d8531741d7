"""Run as ``python tests/emulators/vercel``."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from tests.emulators._command import run
from tests.emulators.vercel._server import serve
from tests.emulators.vercel._switches import Switches
from tests.emulators.vercel.client import Emulator

sys.exit(run(sys.argv[1:], Emulator, Switches(), serve))
