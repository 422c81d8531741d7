"""The one conversion between bytes and text: UTF-8 with surrogate escapes.

Every byte that is not part of valid UTF-8 becomes one lone surrogate (U+DC80 to U+DCFF) and back,
so ``encode_lossless(decode_lossless(data)) == data`` holds for all bytes.
"""

from __future__ import annotations


def decode_lossless(data: bytes) -> str:
    """Return ``data`` as text; bytes that are not UTF-8 become surrogate escapes. Never fails."""
    return data.decode("utf-8", "surrogateescape")


def encode_lossless(text: str) -> bytes:
    """Return the bytes of ``text``; surrogate escapes become the bytes that they stand for.

    Raises:
        UnicodeEncodeError: ``text`` has a surrogate outside U+DC80 to U+DCFF, which stands for no
            byte.
    """
    return text.encode("utf-8", "surrogateescape")
