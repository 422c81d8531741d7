"""Numbers of a container's user and group, from its own files of accounts; nothing inside has to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_env import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

_ID = 2
"""Field of the number in a line of either file."""
_GROUP = 3
"""Field of the first group in a line of ``/etc/passwd``."""


def owner_ids(owner: str, text_of: Callable[[str], str]) -> tuple[int, int]:
    """User and group that ``user`` or ``user:group`` stand for, each a name or a number.

    Args:
        owner: As in an image's ``User``.
        text_of: Gives the text of ``/etc/passwd`` and ``/etc/group``.

    Raises:
        InvalidArgument: The container does not know the name.
    """
    user, _, group = owner.partition(":")
    account = _line(text_of("/etc/passwd"), user)
    if account is None and user in ("root", "0"):
        account = ["root", "x", "0", "0"]
    uid = _number(user, account)
    own = int(account[_GROUP]) if account else 0
    gid = _number(group, _line(text_of("/etc/group"), group)) if group else own
    if uid is None or gid is None:
        raise InvalidArgument("user", f"the container does not know {owner!r}")
    return uid, gid


def _number(name: str, line: list[str] | None) -> int | None:
    if line is not None:
        return int(line[_ID])
    return int(name) if name.isdigit() else None


def _line(text: str, name: str) -> list[str] | None:
    """The fields of the line about a name or number."""
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > _GROUP and fields[_ID].isdigit() and name in (fields[0], fields[_ID]):
            return fields
    return None
