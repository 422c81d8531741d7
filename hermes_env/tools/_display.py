"""Bytes as text that a person or a model can read: clean UTF-8, and nothing lost."""

from __future__ import annotations

import re
from typing import Final

from hermes_env._codec import decode_lossless

_ESCAPED: Final = re.compile("[\udc80-\udcff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def show_bytes(data: bytes) -> str:
    r"""Return one line as clean text.

    A line with bytes that are not UTF-8 shows them as ``\xNN`` and doubles its backslashes; every
    other line is itself. Whoever shows it says which lines are shown so (``is_escaped``), and then
    nothing is lost.
    """
    if data.isascii():
        return data.decode("ascii")
    text = decode_lossless(data)
    if not _ESCAPED.search(text):
        return text
    return _ESCAPED.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text.replace("\\", "\\\\"))


def is_escaped(data: bytes) -> bool:
    """Tell whether ``show_bytes`` shows this line with escapes."""
    return not data.isascii() and _ESCAPED.search(decode_lossless(data)) is not None


def clean(text: str) -> str:
    r"""Return lossless text without surrogates: ``\xNN`` for bytes, ``\uNNNN`` for others."""
    if not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
