"""Entry point of the command line: works also where typer and rich are missing, and says what to install."""

from __future__ import annotations

import sys

_NEEDED = frozenset({"typer", "rich"})


def main() -> int:
    """Run the command line on ``sys.argv``; returns the exit code."""
    try:
        from ._app import run

        return run(sys.argv[1:])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        install = "pip install 'hermes-env[cli]'"
        sys.stderr.write(f"hermes-env: error: the command line needs {missing}, which is not installed: {install}\n")
        return 3


if __name__ == "__main__":
    sys.exit(main())
