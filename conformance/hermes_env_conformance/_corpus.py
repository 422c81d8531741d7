r"""The bytes that laws send: one table of contents, one of sizes, all from ASCII escapes.

A content is ASCII text in which ``\ooo`` is the byte with that octal value. Python decodes it here, and the
environment's own ``printf`` decodes it there, so a wrong encoding on the way in can never be undone by the same wrong
decoding on the way out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Profile = Literal["quick", "default", "full"]
PROFILES: tuple[Profile, ...] = ("quick", "default", "full")

KIB = 1 << 10
MIB = 1 << 20

_ESCAPE = re.compile(r"\\([0-3][0-7]{2})|(.)", re.DOTALL)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ")


@dataclass(frozen=True, slots=True)
class Content:
    """One kind of bytes that some transport has damaged."""

    name: str
    escapes: str
    r"""ASCII text; ``\ooo`` is a byte."""

    @property
    def data(self) -> bytes:
        """The bytes, decoded on this side."""
        return b"".join(
            bytes([int(octal, 8)]) if octal else plain.encode("ascii") for octal, plain in _ESCAPE.findall(self.escapes)
        )

    @property
    def printf(self) -> str:
        """A single-quoted ``printf`` format that makes the same bytes on the other side."""
        words = [
            f"\\{octal}" if octal else plain if plain in _PLAIN else f"\\{ord(plain):03o}"
            for octal, plain in _ESCAPE.findall(self.escapes)
        ]
        return f"'{''.join(words)}'"

    def fill(self, size: int) -> bytes:
        """The bytes repeated up to exactly `size` bytes."""
        data = self.data
        return (data * (size // len(data) + 1))[:size]


@dataclass(frozen=True, slots=True)
class Case:
    """One content at one size."""

    content: Content
    size: int | None = None
    """Bytes; None is the content once."""

    @property
    def name(self) -> str:
        """For messages."""
        return self.content.name if self.size is None else f"{self.content.name}, {self.size} bytes"

    @property
    def data(self) -> bytes:
        """The bytes that have to arrive."""
        return self.content.data if self.size is None else self.content.fill(self.size)


_ALL = "".join(f"\\{byte:03o}" for byte in range(256))

PATTERN = Content("all 256 values and one more", _ALL + "x")
"""257 bytes: a prime length, so that a lost or doubled block of any usual size shifts what follows."""

CONTENTS: tuple[Content, ...] = (
    Content("every byte value", _ALL),
    Content("every byte value downwards", "".join(f"\\{byte:03o}" for byte in range(255, -1, -1))),
    Content("one NUL", r"\000"),
    Content("NUL runs", r"a\000\000\000\000b\000\012\000\000c\000"),
    Content("one newline", r"\012"),
    Content("newlines at the end", r"text\012\012\012"),
    Content("no final newline", r"one\012two"),
    Content("newline first", r"\012\012text"),
    Content("CRLF", r"one\015\012two\015\012"),
    Content("lone CR", r"one\015two\015"),
    Content("mixed line ends", r"a\015\012b\012c\015d\012\015e\015\015\012f"),
    Content("UTF-8", r"caf\303\251 \342\230\225 \360\237\230\200\012"),
    Content("invalid UTF-8", r"\377\376\300\257\355\240\200\370\210\200\200\200"),
    Content("cut UTF-8", r"ok \342\230\225 cut \360\237\230"),
    Content("Latin-1", r"na\357ve caf\351\012plain line\012"),
    Content("UTF-8 BOM", r"\357\273\277const a = 1\012"),
    Content("UTF-16 with BOM", r"\377\376h\000i\000\012\000"),
    Content("Unicode line ends", r"a\342\200\250b\342\200\251c\302\205d\012"),
    Content("replacement character itself", r"real \357\277\275 text\012"),
    Content("shell metacharacters", r"""$(id) `id` ${HOME} $'x' "q" 'q' \\n \ ; & | < > * ? [a] {a,b} ~ ! # %s %d"""),
    Content("backslashes", r"C:\134path\134new\134table \134 \134\134 \134\015\012"),
    Content("here-document look-alikes", r"EOF\012HERMES_EOF\012'EOF'\012_\012}\012cat <<EOF\012EOF\012done\012"),
    Content("a comment at the end", r"cat # trailing comment"),
    Content("escape sequences", r"\033[31mred\033[0m \033]0;title\007 \033P\033\134 \b\010 \177"),
    Content("XON, XOFF, ^C, ^D, ^Z", r"a\021b\023c\003d\004e\032f\034g"),
    Content("our own words", r"HERMES_ENV_COMMAND=0\012killed 1 left 0\012missing notdir denied\012hermes-env\012"),
    Content("frames look-alikes", r"10\0120123456789\0120\0125\012abc"),
    Content("base64 look-alike", r"aGVsbG8=\012====\012"),
    Content("long line without end", "x" * 5000),
    Content("leading and trailing blanks", r"  \011 text \011  "),
    Content("a dash", "-n -e --"),
)

_QUICK_CONTENTS = frozenset(
    {
        "every byte value",
        "one NUL",
        "newlines at the end",
        "no final newline",
        "mixed line ends",
        "invalid UTF-8",
        "cut UTF-8",
        "shell metacharacters",
        "here-document look-alikes",
        "our own words",
    }
)
_QUICK_SIZES = (0, 1, 4096, 65537, 131072, 160 * KIB, MIB + 1)
_DEFAULT_SIZES = (
    *(0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 131071, 131072, 131073, 160 * KIB),
    *(MIB - 1, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 8 * MIB, 16 * MIB + 1),
)
"""Around a page, a pipe, Linux' cap on one argument (131,072 bytes), 2 MiB (SSH windows) and our output limit."""
_FULL_SIZES = (*_DEFAULT_SIZES, 50 * MIB)
"""28 MiB is where one Kubernetes client broke."""


def contents(profile: Profile) -> tuple[Content, ...]:
    """The contents of a profile."""
    if profile == "quick":
        return tuple(content for content in CONTENTS if content.name in _QUICK_CONTENTS)
    return CONTENTS


def sizes(profile: Profile) -> tuple[int, ...]:
    """The sizes of a profile, in bytes."""
    return {"quick": _QUICK_SIZES, "default": _DEFAULT_SIZES, "full": _FULL_SIZES}[profile]


def content_cases(profile: Profile) -> list[Case]:
    """Every content once; in `full` also at every size up to 2 MiB."""
    cases = [Case(content) for content in contents(profile)]
    if profile == "full":
        cases += [Case(content, size) for content in CONTENTS for size in _FULL_SIZES if 1 < size <= 2 * MIB]
    return cases


def size_cases(profile: Profile) -> list[Case]:
    """Every size of one content that holds all byte values."""
    return [Case(PATTERN, size) for size in sizes(profile)]


NASTY_NAMES: tuple[str, ...] = (
    "plain",
    "two words",
    "  blanks around  ",
    "(parens) [brackets] {braces}",
    'it\'s "quoted"',
    "semi;colon & pipe|",
    "$HOME $(id) `id`",
    "~",
    "*",
    "-rf",
    "--",
    "new\nline",
    "tab\tand\\backslash",
    "trailing newline\n",
    "#comment",
    "a=b",
    "...",
    "é ☕ 😀",
    "latin-1 caf\udce9",
    "x" * 200,
)
"""File and directory names; U+DCxx stands for the undecodable byte 0xXX."""

NASTY_VALUES: tuple[str, ...] = (
    "",
    " ",
    "two  words ",
    "line one\nline two",
    "ends with newlines\n\n",
    "\n",
    "\r\n",
    "a'b\"c",
    "$HOME $(id) `id` ${x:-y}",
    "\\n \\0 \\\\ %s %d %%",
    "*",
    "-n",
    "--",
    "~",
    ";&|<>()",
    "é ☕ 😀",
    "caf\udce9 \udcff",
    "\x01\x02\x1b[0m\x7f",
    "=",
    "'",
    "x" * 5000,
)
"""Arguments and environment values."""
