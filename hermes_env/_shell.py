"""POSIX sh text that starts a command: quoting, the launcher, the prelude and stdin framing. Pure.

What works in which shell was measured on 25 of them; the choices below are those that all share. Scripts are ASCII:
JSON and HTTP transports replace what is not UTF-8, and some shells misread it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ._codec import encode_lossless

GUARD_STATUS = 125
"""Exit status of our own refusals; only believed together with the guard's nonce on stderr."""

FORGET = "unset -f command read printf cd head dd tee wc 2>/dev/null;"
"""Functions that a service exports by the names of what our scripts use; bash by the name sh would take them."""

LAUNCHER_PARTS = (
    FORGET + '_h_n=$(printf "\\nx");_h_n=${_h_n%x};',
    (
        '_h_s=;_h_t=;_h_c=0;while IFS= read -r _h_l||exit 125;do case $_h_l in "$1")'
        "break;;esac;_h_t=$_h_t$_h_l$_h_n;_h_c=$((_h_c+1));case $_h_c in *00)_h_s=$_h_s$_h_t;_h_t=;;esac;done;shift;"
        'eval "unset _h_n _h_l _h_s _h_t _h_c$_h_n$_h_s$_h_t"'
    ),
)
"""`LAUNCHER` in two: what can be done before the command is known, which starts a process, and the rest."""

LAUNCHER = "".join(LAUNCHER_PARTS)
"""Reads a script from stdin up to a line that equals ``$1``, leaves the rest of stdin alone, and runs the script.

``read`` never reads ahead on a pipe, so the payload that follows is untouched. A stream cut before the nonce runs
nothing. Constant text: whatever travels stays out of every argv.
"""


def quote(text: str) -> str:
    """One single-quoted sh word that expands to exactly this ASCII text."""
    return "'" + text.replace("'", "'\\''") + "'"


def assign(name: str, text: str) -> str:
    """ASCII sh text that gives a variable exactly this text, whatever bytes it stands for."""
    if text.isascii():
        return f"{name}={quote(text)}"
    # $(...) strips trailing newlines: a final _ keeps them, and is then cut off.
    return f"{name}=$(printf '%b_' '{_percent_b(encode_lossless(text))}'); {name}=${{{name}%_}}"


def _percent_b(data: bytes) -> str:
    """Escapes for ``printf %b``: octal for everything that is not plain."""
    plain = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ./:,=+-@^~")
    return "".join(chr(byte) if byte in plain else f"\\0{byte:03o}" for byte in data)


def assign_args(args: Sequence[str]) -> str:
    """Lines that make these the positional parameters."""
    lines = []
    words = []
    for index, arg in enumerate(args, 1):
        if arg.isascii():
            words.append(quote(arg))
        else:
            lines.append(assign(f"_a{index}", arg))
            words.append(f'"$_a{index}"')
    lines.append("set -- " + " ".join(words) if words else "set --")
    if len(lines) > 1:
        lines.append("unset " + " ".join(line.partition("=")[0] for line in lines[:-1]))
    return "\n".join(lines)


def exports(env: Mapping[str, str]) -> str:
    """Lines that export these variables; values of any bytes but NUL."""
    return "".join(f"{assign(name, value)}\nexport {name}\n" for name, value in env.items())


ENTER = (
    FORGET
    + 'unset CDPATH;if cd -- "$2" 2>/dev/null;then :;else if [ ! -e "$2" ];then w=missing;elif [ ! -d "$2" ];then '
    'w=notdir;else w=denied;fi;printf "%s %s\\n" "$1" "$w">&2;exit 125;fi;shift 2;'
)
"""Enters the directory ``$2`` and drops two arguments.

A directory that cannot be entered is reported by the nonce ``$1`` on stderr and status 125; nothing more runs.
"""


def run(*, merge_stderr: bool) -> str:
    """Become the command in ``$@``."""
    return 'exec "$@" 2>&1' if merge_stderr else 'exec "$@"'


def run_framed(size: int | None, nonce: str, *, merge_stderr: bool) -> str:
    """Run the command in ``$@`` with end-of-file after `size` bytes, or after the last frame when that is None.

    For transports where closing stdin does not reach the command. ``head -c`` may read ahead on a pipe in busybox
    and toybox, which is harmless: nothing follows a payload of known size. Without the tools for it nothing runs.
    """
    if size == 0:
        return f"{run(merge_stderr=merge_stderr)} </dev/null"
    if size is not None:
        return _need("head", nonce) + f"head -c {size}|" + ('"$@" 2>&1' if merge_stderr else '"$@"')
    return f"{_need('dd tee wc', nonce)}{_UNFRAME}|{{ {_READER};(shift;{run(merge_stderr=merge_stderr)});{_END};}}"


def _need(tools: str, nonce: str) -> str:
    """Refuses to run the command when one of the tools is missing, naming it."""
    return (
        f"for _h_t in {tools};do command -v $_h_t>/dev/null 2>&1||"
        f'{{ printf "%s lacks %s\\n" {nonce} $_h_t>&2;exit {GUARD_STATUS};}};done;unset _h_t;'
    )


_UNFRAME = (
    "{ /bin/sh -c 'echo $PPID' </dev/null;"
    'while IFS= read -r n&&[ "$n" -gt 0 ];do while [ "$n" -gt 0 ];do b=$n;[ "$b" -le 65536 ]||b=65536;'
    'g=$(dd bs="$b" count=1 2>/dev/null|tee /dev/fd/3|wc -c);g=$((g));[ "$g" -gt 0 ]||exit 1;n=$((n-g));'
    "done;done;} 3>&1"
)
"""Turns frames (a decimal length line and that many bytes, ended by ``0``) into their contents.

``dd`` with a block no larger than what is left never reads ahead, and ``wc`` tells how short its one read was. Its own
process id comes first.
"""

_READER = 'set -- "$(read -r p;echo "$p")" "$@"'
"""Puts that process id before the command: a variable could be one of the caller's."""

_END = 'set -- "$1" "$?";kill -s PIPE "$1" 2>/dev/null;exit "$2"'
"""Ends what waits for the next frame when the command has ended; no shell tells of a death by SIGPIPE."""


def refuse_yash(texts: Iterable[str], nonce: str) -> str:
    """A line that refuses yash, which turns text that is not ASCII into other text, silently; empty where it can."""
    if all(text.isascii() for text in texts):
        return ""
    return f'if [ -n "${{YASH_VERSION-}}" ];then printf "%s yash\\n" {nonce}>&2;exit {GUARD_STATUS};fi\n'


def prelude(script: str, args: Sequence[str], env: Mapping[str, str], nonce: str) -> bytes:
    """What goes ahead of the payload on the stdin of `LAUNCHER`: variables, arguments, the script, the nonce line."""
    guard = refuse_yash((*args, *env.values()), nonce)
    body = f"{guard}{exports(env)}{assign_args(args)}\n{script}"
    return f"{body}\n{nonce}\n".encode("ascii")


def frame(data: bytes | memoryview) -> bytes:
    """One frame for `run_framed`; empty data is the end mark."""
    return b"%d\n" % len(data) + bytes(data)


def frames(chunks: Iterable[bytes | memoryview]) -> Iterable[bytes]:
    """Chunks as frames, with the end mark."""
    for chunk in chunks:
        yield frame(chunk) if chunk else b""
    yield b"0\n"
