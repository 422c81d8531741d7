"""Reads the OpenSSH client configuration: what its files say of one host.

Paramiko's reader knows no ``Include``. This one knows the sections (``Host``, ``Match``), ``Include`` at any place and
the directives that the backend uses; it ignores the others, as they concern what the backend never does.
"""

from __future__ import annotations

import getpass
import glob
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from hermes_env import InvalidArgument

from ._hosts import matches_any

USER_FILE = "~/.ssh/config"
SYSTEM_FILE = "/etc/ssh/ssh_config"

_USED = frozenset(
    {
        "connecttimeout",
        "globalknownhostsfile",
        "hashknownhosts",
        "hostkeyalias",
        "hostname",
        "identitiesonly",
        "identityagent",
        "identityfile",
        "port",
        "proxycommand",
        "proxyjump",
        "revokedhostkeys",
        "serveralivecountmax",
        "serveraliveinterval",
        "stricthostkeychecking",
        "user",
        "userknownhostsfile",
    }
)
_WHOLE_LINE = frozenset({"proxycommand"})
"""Directives whose value is the rest of the line, quotes included."""
_OTHER_WAY = {"proxyjump": "proxycommand", "proxycommand": "proxyjump"}
_MAX_DEPTH = 16  # OpenSSH's READCONF_MAX_DEPTH
_MATCH_SECONDS = 30.0
"""Seconds for a command of ``Match exec``."""


class HostConfig:
    """What the configuration says of one host: for each directive the first value that applies."""

    def __init__(self, host: str, user: str | None, files: Sequence[str]) -> None:
        """Read the files.

        Args:
            host: The host as the caller named it.
            user: Account, if the caller named one.
            files: Paths; those that do not exist are skipped.

        Raises:
            InvalidArgument: A line cannot be understood; names file and line.
        """
        self.host, self._user = host, user
        self._values: dict[str, list[str]] = {}
        self._final = self._wants_final = False
        self._read_all(files)
        if self._wants_final:
            # ``Match final`` is evaluated once everything else is known.
            self._final = True
            self._read_all(files)

    def get(self, directive: str) -> str | None:
        """The value of a directive of one word; None when there is none."""
        values = self._values.get(directive)
        return values[0] if values else None

    def words(self, directive: str) -> list[str]:
        """All words of a directive; of ``IdentityFile`` those of all lines that apply."""
        return list(self._values.get(directive, ()))

    @property
    def host_name(self) -> str:
        """What to connect to."""
        name = self.get("hostname")
        return self.host if name is None else _expand(name, {"h": self.host})

    @property
    def user(self) -> str:
        """The account to log in to."""
        return self._user or self.get("user") or _local_user()

    @property
    def tokens(self) -> dict[str, str]:
        """What ``%h`` and the like stand for."""
        return {
            "h": self.host_name,
            "n": self.host,
            "p": self.get("port") or "22",
            "r": self.user,
            "u": _local_user(),
            "d": os.path.expanduser("~"),
            "i": str(os.getuid()),
            "k": self.get("hostkeyalias") or self.host,
            "l": socket.gethostname(),
            "L": socket.gethostname().partition(".")[0],
        }

    # -- reading --------------------------------------------------------------------------------------------------

    def _read_all(self, files: Sequence[str]) -> None:
        for path in files:
            expanded = os.path.expanduser(path)
            base = "/etc/ssh" if expanded.startswith("/etc/ssh/") else os.path.expanduser("~/.ssh")
            if os.path.exists(expanded):
                self._read(expanded, base, active=True, depth=0)

    def _read(self, path: str, base: str, *, active: bool, depth: int) -> None:
        """Read one file; `active` says whether the section applies in which it is included."""
        if depth > _MAX_DEPTH:
            raise InvalidArgument("config", f"{path}: included more than {_MAX_DEPTH} files deep")
        applies = active
        for number, key, value in _lines(path):
            where = f"{path} line {number}"
            if key == "host":
                applies = active and matches_any(self.host, _split(value, where))
            elif key == "match":
                words = _split(value, where)
                applies = active and self._matches(words, where)
            elif key == "include":
                for name in _split(value, where):
                    for found in sorted(glob.glob(os.path.join(base, os.path.expanduser(name)))):
                        self._read(found, base, active=applies, depth=depth + 1)
            elif applies and key in _USED:
                self._set(key, [value] if key in _WHOLE_LINE else _split(value, where), where)

    def _set(self, key: str, words: list[str], where: str) -> None:
        if not words:
            raise InvalidArgument("config", f"{where}: {key} has no value")
        if key == "identityfile":
            known = self._values.setdefault(key, [])
            known.extend(word for word in words if word not in known)
        elif _OTHER_WAY.get(key) not in self._values:
            # Of ProxyJump and ProxyCommand the first one counts.
            self._values.setdefault(key, words)

    # -- Match ----------------------------------------------------------------------------------------------------

    def _matches(self, words: list[str], where: str) -> bool:
        rest = iter(words)
        held = True
        for word in rest:
            wanted = not word.startswith("!")
            criterion, _, value = word.lstrip("!").partition("=")
            held = self._holds(criterion.lower(), value, rest, where, needed=held) == wanted and held
        return held

    def _holds(self, criterion: str, value: str, rest: Iterator[str], where: str, *, needed: bool) -> bool:
        """Whether a criterion holds; a program is run only if that is `needed`."""
        if criterion == "all":
            return True
        if criterion in ("final", "canonical"):
            self._wants_final = self._wants_final or criterion == "final"
            return self._final and criterion == "final"
        value = value or next(rest, "")
        if criterion == "exec":
            return needed and _succeeds(_expand(value, self.tokens))
        subjects = {
            "host": lambda: self.host_name,
            "originalhost": lambda: self.host,
            "user": lambda: self.user,
            "localuser": _local_user,
        }
        if criterion not in subjects or not value:
            raise InvalidArgument("config", f"{where}: `Match {criterion}` is not supported")
        return matches_any(subjects[criterion](), value.split(","))


def expand_path(path: str, tokens: Mapping[str, str]) -> str:
    """A path of the configuration: ``~``, ``${NAME}`` and ``%h`` and the like."""
    path = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), path)
    return os.path.expanduser(_expand(path, tokens))


def expand_command(command: str, tokens: Mapping[str, str]) -> str:
    """A command of the configuration with ``%h`` and the like filled in."""
    return _expand(command, tokens)


def _expand(text: str, tokens: Mapping[str, str]) -> str:
    def token(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        if found[1] not in tokens:
            raise InvalidArgument("config", f"%{found[1]} is not supported in {text!r}")
        return tokens[found[1]]

    return re.sub(r"%(.)", token, text)


def _lines(path: str) -> Iterator[tuple[int, str, str]]:
    """Line number, directive in small letters, and what follows it."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise InvalidArgument("config", f"{path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*(\w+)(?:\s*=\s*|\s+|$)(.*)$", line)
        if found is not None:
            yield number, found[1].lower(), found[2].strip()


def _local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number without a name.
        return str(os.getuid())


_WORD_PART = re.compile(
    r"""\\(?P<escaped>['"\\ ])|'(?P<single>(?:\\['"\\]|[^'])*)'|"(?P<double>(?:\\['"\\]|[^"])*)"|(?P<plain>[^ \t'"])"""
)


def _split(value: str, where: str) -> list[str]:
    """Words as OpenSSH takes them apart.

    A backslash escapes only quotes, itself and a space; ``#`` begins a comment only where a word begins.
    """
    words: list[str] = []
    at = 0
    while (at := _skip_blanks(value, at)) < len(value) and value[at] != "#":
        word = ""
        while at < len(value) and value[at] not in " \t":
            part = _WORD_PART.match(value, at)
            if part is None:
                raise InvalidArgument("config", f"{where}: a quote is not closed")
            word += _text_of(part)
            at = part.end()
        words.append(word)
    return words


def _skip_blanks(value: str, at: int) -> int:
    return at + len(value[at:]) - len(value[at:].lstrip(" \t"))


def _text_of(part: re.Match[str]) -> str:
    quoted = part["single"] if part["single"] is not None else part["double"]
    if quoted is None:
        return part["escaped"] or part["plain"]
    return re.sub(r"""\\(['"\\])""", r"\1", quoted)


def _succeeds(command: str) -> bool:
    try:
        run = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_MATCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0
