"""Run as ``python tests/emulators/daytona``."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from tests.emulators.daytona._main import main

sys.exit(main(sys.argv[1:]))
