"""A slow and obvious model of hunks: lists of lines, every place tried."""

from __future__ import annotations

from dataclasses import dataclass

Line = tuple[bytes, bytes]


def cut(data: bytes) -> list[Line]:
    """Cut bytes into (content, terminator), one byte at a time."""
    lines: list[Line] = []
    content = b""
    position = 0
    while position < len(data):
        if data[position : position + 2] == b"\r\n":
            end = b"\r\n"
        elif data[position : position + 1] in (b"\r", b"\n"):
            end = data[position : position + 1]
        else:
            content += data[position : position + 1]
            position += 1
            continue
        lines.append((content, end))
        content = b""
        position += len(end)
    if content:
        lines.append((content, b""))
    return lines


def join(lines: list[Line]) -> bytes:
    """Put lines together again."""
    return b"".join(content + end for content, end in lines)


def places(lines: list[bytes], block: list[bytes], start: int) -> list[int]:
    """Return every index from ``start`` on at which ``block`` is."""
    return [i for i in range(start, len(lines) - len(block) + 1) if lines[i : i + len(block)] == block]


@dataclass(frozen=True)
class RefHunk:
    """A hunk as (kind, content) pairs."""

    lines: tuple[tuple[str, bytes], ...]

    @property
    def old(self) -> list[bytes]:
        """Context and removed lines."""
        return [content for kind, content in self.lines if kind != "+"]


def find_in_order(contents: list[bytes], hunks: list[RefHunk]) -> list[int] | str:
    """Return the place of each hunk, or how it fails; exact, then without blanks at ends."""
    cursor = 0
    found: list[int] = []
    for hunk in hunks:
        for blanks in (b"", b" \t"):
            have = [line.rstrip(blanks) if blanks else line for line in contents]
            want = [line.rstrip(blanks) if blanks else line for line in hunk.old]
            hits = places(have, want, cursor)
            if hits:
                break
        if len(hits) > 1:
            return "ambiguous_match"
        if not hits:
            return "elsewhere"
        found.append(hits[0])
        cursor = hits[0] + len(hunk.old)
    return found


def patched(data: bytes, hunks: list[RefHunk], starts: list[int]) -> bytes:
    """Apply placed hunks to the lines of a file, by the rules for terminators."""
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    lines = cut(data[len(bom) :])
    eol = next((end for _, end in lines if end), b"\n")
    out: list[Line] = []
    position = 0
    for hunk, start in zip(hunks, starts, strict=True):
        out += lines[position:start]
        position = start
        for kind, content in hunk.lines:
            if kind == "+":
                out.append((content, eol))
                continue
            if kind == " ":
                out.append(lines[position])
            position += 1
    out += lines[position:]
    closed = [(content, end or eol) for content, end in out[:-1]] + out[-1:]
    return bom + join(closed)
