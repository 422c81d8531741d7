"""Environments for agent runtimes: one module for each, imported only when it is asked for.

Each gives a runtime the interface that it expects, over the public names of `hermes_env`; none carries bytes itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["runtime"]


@contextmanager
def runtime(extra: str) -> Iterator[None]:
    """Around the imports of a runtime: a missing package is one error that says what to install.

    Raises:
        ImportError: A module is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        problem = f"no module named {error.name!r}: pip install 'hermes-env[{extra}]'"
        raise ImportError(problem, name=error.name) from error
