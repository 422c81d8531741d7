"""POSIX sh text that writes bytes to a private file when command text is the only channel. Pure.

No here-document: 20 of 25 shells write its body to a named temporary file first, skip the command when they cannot,
and go on with status 0. Words of a builtin have none of that. No program may be needed to decode either: a missing
one would leave an empty file. The one emitter body below is right in every shell for its own builtin: ``printf %b``,
``print`` where printf is no builtin, ``echo`` where there is no print.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ._staged_script import COMMON, SIZE, service

LONGEST = 5
"""Characters that one byte takes at most: a backslash and four octal digits."""
_BLOCK = 4096
_PLAIN = frozenset(b'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 !"#$%&()*+,-./:;<=>?@[]^_`{|}~')
_ESCAPES = {byte: f"\\0{byte:03o}" for byte in range(256) if byte not in _PLAIN} | {0x0A: "\\n", 0x5C: "\\\\"}

_APPEND = r"""
umask 077; _h_n=$1 _h_f=$2
case ${KSH_VERSION-} in
  *LEGACY*|*MIRBSD*|*PD*) _h_p() { print -n -- "$1"; };;
  *) case $(command -v printf) in
    printf) _h_p() { printf %b "$1"; };;
    *) if (print -n -- x) >/dev/null 2>&1; then _h_p() { print -n -- "$1"; }; else _h_p() { echo "$1\c"; }; fi;;
  esac;;
esac
_h_size "$_h_f"
if [ -f "$_h_f" ] && [ "$_h_s" -eq "$4" ]; then _h_say at "$_h_s"; exit 0; fi
[ "$_h_s" -eq "$3" ] || { _h_say expected "$3" at "$_h_s"; exit 0; }
if [ "$3" -eq 0 ]; then set -C; { _h_p "$5"; } >"$_h_f" || _h_say failed
else { _h_p "$5"; } >>"$_h_f" || _h_say failed; fi 2>/dev/null
set +C
_h_size "$_h_f"
_h_say at "$_h_s"
"""

_REMOVE = r"""
_h_n=$1
rm -f -- "$2"
[ -e "$2" ] || _h_say ok
"""


def encode(data: bytes | memoryview) -> str:
    """The word from which every emitter makes exactly these bytes: ASCII, no control characters, no quote.

    A dash is escaped where it comes first, so that no emitter takes the word for an option.
    """
    text = bytes(data).decode("latin-1").translate(_ESCAPES)
    return f"\\0055{text[1:]}" if text.startswith("-") else text


def split(chunks: Iterable[bytes | memoryview], budget: int) -> Iterator[tuple[int, str]]:
    """Words of at most `budget` characters, each with the number of bytes it stands for."""
    size, parts, length = 0, list[str](), 0
    for block in _blocks(chunks, max(1, min(_BLOCK, budget // LONGEST))):
        word = encode(block)
        if length + len(word) > budget:
            yield size, "".join(parts)
            size, parts, length = 0, [], 0
        size += len(block)
        parts.append(word)
        length += len(word)
    if size:
        yield size, "".join(parts)


def _blocks(chunks: Iterable[bytes | memoryview], size: int) -> Iterator[memoryview]:
    for chunk in chunks:
        view = memoryview(chunk)
        for start in range(0, len(view), size):
            yield view[start : start + size]


def append_text(nonce: str, path: str, offset: int, size: int, word: str) -> str:
    """Write `size` bytes at `offset`, where the file must end; sent twice, the second one changes nothing."""
    script = COMMON + SIZE + _APPEND
    return service(script, nonce, path, str(offset), str(offset + size), word)


def overhead(path: str) -> int:
    """Characters of `append_text` besides the word."""
    return len(append_text("0" * 32, path, 10**12, 10**12, "")) + 64


def remove_text(nonce: str, path: str) -> str:
    """Remove a file."""
    return service(COMMON + _REMOVE, nonce, path)
