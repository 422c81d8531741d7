"""Options of the local backend."""

from __future__ import annotations

from hermes_env import BackendOptions


class LocalOptions(BackendOptions):
    """How much of this machine's environment the commands get."""

    inherit_env: bool = False
    """Hand on every variable of the calling process, secrets included."""
