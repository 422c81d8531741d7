"""``python -m hermes_env`` is the command line."""

import sys

from ._cli.__main__ import main

sys.exit(main())
