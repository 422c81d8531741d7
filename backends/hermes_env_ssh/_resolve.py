"""Puts options and client configuration together."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from ._hosts import KnownHosts, known_name
from ._target import Target

if TYPE_CHECKING:
    from ._options import SshOptions


def resolve(options: SshOptions) -> Target:
    """What to connect to."""
    port = options.port or 22
    files = options.known_hosts or ["~/.ssh/known_hosts"]
    files = [files] if isinstance(files, str) else files
    keys = _tuple(options.key_file)
    return Target(
        host=options.host,
        port=port,
        user=options.user or getpass.getuser(),
        known=KnownHosts(
            known_name(options.host, port),
            tuple(os.path.expanduser(f) for f in files),
            options.host_keys == "accept-new",
        ),
        key_files=keys,
        keys_required=bool(keys),
        passphrase=options.passphrase,
        password=options.password,
    )


def _tuple(value: str | list[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
