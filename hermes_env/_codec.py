"""The one place where bytes become text and text becomes bytes."""

from __future__ import annotations


def decode_lossless(data: bytes) -> str:
    """Decode as UTF-8; bytes that are not UTF-8 become the surrogate escapes U+DC80 to U+DCFF."""
    return data.decode("utf-8", "surrogateescape")


def encode_lossless(text: str) -> bytes:
    """Encode to the bytes that `decode_lossless` was given.

    Raises:
        UnicodeEncodeError: The text holds a surrogate outside U+DC80 to U+DCFF.
    """
    return text.encode("utf-8", "surrogateescape")


def display(data: bytes) -> str:
    r"""A copy for people: valid Unicode, undecodable bytes shown as ``\xNN``. It cannot be turned back into bytes."""
    return data.decode("utf-8", "backslashreplace")
