"""Options of the backend `example`."""

from __future__ import annotations

from pydantic import Field

from hermes_env import BackendOptions


class ExampleOptions(BackendOptions):
    """What `open_environment("example", ...)` takes; other names are refused."""

    niceness: int = Field(default=10, ge=0, le=19)
    """How far commands stand back; 19 is the limit of nice(1)."""
