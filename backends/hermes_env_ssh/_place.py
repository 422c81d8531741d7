"""Accounts on hosts in words: ``[user@]host[:port]``, as OpenSSH takes them for jump hosts and in its URIs."""

from __future__ import annotations

import re
from typing import NamedTuple

from hermes_env import InvalidArgument

_FORM = re.compile(r"(?:(?P<user>.+)@)?(?:\[(?P<address>[^]]+)\](?::(?P<port>\d+))?|(?P<bare>[^][@/]+))", re.ASCII)


class Place(NamedTuple):
    """An account on a host; what is None was not said."""

    user: str | None
    host: str
    port: int | None

    def __str__(self) -> str:
        account = "" if self.user is None else f"{self.user}@"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{account}{host}" if self.port is None else f"{account}{host}:{self.port}"


def parse_place(argument: str, text: str) -> Place:
    """Read it; an IPv6 address with a port is in brackets.

    Raises:
        InvalidArgument: It has another form, or a password in it, which the message does not show.
    """
    if ":" in text.rpartition("@")[0]:
        raise InvalidArgument(argument, "has a password in it: leave it out and give the option `password`")
    found = _FORM.fullmatch(text)
    if found is None:
        raise InvalidArgument(argument, f"{text!r} is not [user@]host[:port]")
    host, port = found["address"], found["port"]
    if host is None:
        host, port = found["bare"], None
        if host.count(":") == 1:
            host, _, port = host.partition(":")
    if not host or (port is not None and not _is_port(port)):
        raise InvalidArgument(argument, f"{text!r} is not [user@]host[:port]")
    return Place(found["user"], host, None if port is None else int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= 65535
