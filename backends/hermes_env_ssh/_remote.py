"""POSIX sh text for the far side: what starts one command, and the guard that ends commands. Pure.

Every word here goes through the account's login shell, whatever that is: inside single quotes fish changes a doubled
backslash, and csh a newline or an exclamation mark, so none of these occurs.
"""

from __future__ import annotations

import secrets

from hermes_env import FORKLESS_KILL, KILL_SCRIPT, LAUNCHER_PARTS

LINK_VARIABLE = "HERMES_ENV_LINK"
"""Environment variable that marks every process of a connection, for the guard: the connection's id, and that of the
session after a dot."""

BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Linux' name for one run of one kernel."""

_WAITING = (
    # Login scripts that read stdin take a part of what is meant for us: then nothing runs.
    'IFS=" " read -r _h_h _h_k _h_n&&IFS= read -r _h_f&&[ "$_h_h" = hermes-env ]||exit 125;'
    # The next shell has the mark in its environment from birth, so that no kill can come too early.
    'HERMES_ENV_LINK=$_h_k;export HERMES_ENV_LINK;exec /bin/sh -c "$_h_f" sh "$_h_n"'
)
"""Waits for a greeting: what the session is called, and the text of `_FRAMED`.

The names are ours: another one could be a variable that the login environment exports to the command.
"""

COMMAND_LINE = f"exec /bin/sh -c '{_WAITING}' sh".encode()
"""What every command is for the login shell, and all that the process list shows of it there."""

_PREPARES, _RECEIVES = LAUNCHER_PARTS

NO_PROCESS = "no process could be started"
"""What a session says that got so far, and cannot carry a command."""

_FRAMED = (
    # A signal for the whole group is for the command; a trap, unlike an ignored signal, is not inherited.
    "trap : 1 2 3 13 15;"
    # The shell's own words about a killed command are not the command's output.
    "exec 9>&2 2>/dev/null;"
    # Many shells end when they cannot start the next one.
    f'trap "echo {NO_PROCESS}>&9" 0;'
    f"(trap - 0;{_PREPARES}"
    'printf "\\032%s+\\n" "$1";printf "\\032%s+\\n" "$1">&9;exec 2>&9 9>&-;'
    # Up to here a session comes before it has a command, and what fails up to here is not the command's.
    f'IFS= read -r _h_m||exit 125;set -- "$_h_m";unset _h_m;{_RECEIVES});_h_r=$?;trap - 0;'
    # ksh93 and yash number signals from 256 and 384.
    "[ $_h_r -gt 383 ]&&_h_r=$((_h_r-256));[ $_h_r -gt 255 ]&&_h_r=$((_h_r-128));"
    'printf "\\032%s-%s\\n" "$1" $_h_r;printf "\\032%s-%s\\n" "$1" $_h_r>&9;exit $_h_r'
)
"""Runs the framework's launcher between marks with the nonce ``$1`` on both streams; the last ones carry its status.

What login scripts print comes before the first mark, and what background children print after the last one. All that
does not depend on the command is done before it comes: a process to be started takes a millisecond.
"""


def greeting(nonce: str, tag: str) -> bytes:
    """What makes a session ready for a command: the nonce of its marks, and the value of `LINK_VARIABLE` in it."""
    return f"hermes-env {tag} {nonce}\n{_FRAMED}\n".encode("ascii")


def is_launcher(script: str) -> bool:
    """Whether a session that is ready runs this script."""
    return script == _PREPARES + _RECEIVES


GUARD_COMMAND = b"exec /bin/sh -c 'IFS= read -r x;eval \"$x\"' sh"


CANNOT = b"cannot"
"""What the guard says of a kill for which it could start no process."""


def guard_script(link_id: str) -> bytes:
    """One line that makes the remote shell the guard of a connection.

    It answers ``p WORD`` with ``WORD pong BOOT_ID``, ends the tree of a session for ``k TAG TENTHS`` and reports
    ``TAG`` with the report of the kill script, leaves at ``q``, and at end-of-file, which means that the client is
    gone, ends every command of the connection: at once and again, since a command may just be starting.

    The shell that reads starts no process, for a command may have used up all that its user can have: many shells end
    when they cannot start one. A second shell beside it starts those of the kill script, which is the faster way;
    ``K TAG`` has the first one kill without.
    """
    sweep = f"set -- {link_id}. 0 {LINK_VARIABLE};"
    cannot = f"trap 'echo \"$i {CANNOT.decode()}\">&8' 0"
    return (
        f"k=$(printf %b '{_as_escapes(KILL_SCRIPT)}');K=$(printf %b '{_as_escapes(FORKLESS_KILL)}');"
        f"b=;IFS= read -r b 2>/dev/null <{BOOT_ID};trap '' 13;exec 8>&1;{{ "
        f'kill_here() {{ set -- "$1" 0 {LINK_VARIABLE} "$1";eval "$K";}};'
        "while IFS=' ' read -r q i g;do case $q in "
        'p) echo "$i pong $b">&8;;'
        'k) echo "$i $g" 2>/dev/null||kill_here "$i" 2>/dev/null >&8;;'
        'K) kill_here "$i" 2>/dev/null >&8;;'
        "q) exit 0;;esac;done;"
        f'echo "all 0";{sweep}exec >/dev/null 2>&1;eval "$K";for w in 1 3;do sleep $w;{sweep}eval "$K";done;'
        "}|{ "
        f"{cannot};while IFS=' ' read -r i g;do if [ $i = all ];then "
        f'for w in 0 1 3;do sleep $w;({sweep}eval "$k") >/dev/null 2>&1;done;else '
        f'({cannot};set -- "$i" "$g" {LINK_VARIABLE} "$i";eval "$k";trap - 0)</dev/null 2>/dev/null >&8& fi;done;'
        "trap - 0;}\n"
    ).encode("ascii")


def _as_escapes(script: str) -> str:
    """For ``printf %b`` inside single quotes."""
    return script.replace("\\", "\\\\").replace("'", "\\047").replace("\n", "\\n")


class StreamFilter:
    """Takes the marks and the noise before them out of one stream."""

    def __init__(self, nonce: str) -> None:
        self._start = f"\x1a{nonce}+\n".encode()
        self._end = f"\x1a{nonce}-".encode()
        self._held = b""
        self.started = False
        self.status: int | None = None
        """Exit status that the last mark carried; all that the command itself wrote has come before."""

    @property
    def noise(self) -> bytes:
        """What came instead of the first mark."""
        return b"" if self.started else self._held

    def feed(self, data: bytes) -> bytes:
        """The command's own bytes in this piece of the stream, after those held back from the last one."""
        data = self._held + data if self._held else data
        self._held = b""
        if not self.started:
            noise, mark, data = data.partition(self._start)
            if not mark:
                self._held = noise[-_NOISE:]
                return b""
            self.started = True
        return data if self.status is not None else self._until_end(data)

    def _until_end(self, data: bytes) -> bytes:
        at = data.find(self._end)
        if at >= 0:
            status, newline, rest = data[at + len(self._end) :].partition(b"\n")
            if not newline and len(status) <= 3:
                self._held = data[at:]
                return data[:at]
            if status.isdigit() and len(status) <= 3:
                self.status = int(status)
                return data[:at] + rest
            return data[: at + 1] + self._until_end(data[at + 1 :])
        at = data.rfind(b"\x1a", max(0, len(data) - len(self._end)))
        if at >= 0 and self._end.startswith(data[at:]):
            self._held = data[at:]
            return data[:at]
        return data

    def flush(self) -> bytes:
        """What was held back, at the end of the stream."""
        held, self._held = (self._held, b"") if self.started else (b"", self._held)
        return held


_NOISE = 1 << 16
"""Bytes of noise kept: more than any mark, and enough for a message."""


def new_link_id() -> str:
    """A random mark for one connection."""
    return secrets.token_hex(16)
