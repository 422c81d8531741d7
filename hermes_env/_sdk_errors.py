"""Errors of an SDK become ours at one place of a backend, so that nobody has to know the SDK's classes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ._errors import HermesEnvError


@contextlib.contextmanager
def sdk_errors(what: str, translate: Callable[[Exception, str], HermesEnvError | None]) -> Iterator[None]:
    """Raise our error for what an SDK raises inside. For backends.

    Args:
        what: What is being done, for the message.
        translate: Our error for one of the SDK's; None for any other, which passes as it is, as ours do.

    Raises:
        HermesEnvError: What `translate` gave.
    """
    try:
        yield
    except HermesEnvError:
        raise
    except Exception as error:
        ours = translate(error, what)
        if ours is None:
            raise
        raise ours from error
