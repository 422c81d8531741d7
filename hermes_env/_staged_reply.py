"""Reading the replies of staged scripts: text with noise around it, lines marked by a nonce. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import TransportError
from ._kill_script import KillReport

if TYPE_CHECKING:
    from ._launch import Stream


@dataclass(frozen=True, slots=True)
class Report:
    """What a script said about a command.

    Attributes:
        word: ``dup``, ``running``, ``fenced``, ``lost``, or ``status``.
        status: For ``status``, the exit code; None when the command did not run to its end.
        reason: For ``status`` without exit code, why: ``open``, ``unlink``, ``stopped``, ``dead`` and so on.
        sizes: Bytes of stdout and stderr.
        output: Both streams, when the report carries them.
        held: Streams that background processes hold open.
        sums: For each stream the SHA-256 of its blocks, when the report was asked for them.
    """

    word: str
    status: int | None = None
    reason: str = ""
    sizes: tuple[int, int] = (0, 0)
    output: tuple[bytes, bytes] | None = None
    held: tuple[Stream, ...] = ()
    sums: tuple[list[str], list[str]] | None = None


def as_text(reply: str | bytes | None) -> str:
    """The reply as text; all that we look for is ASCII."""
    if reply is None:
        return ""
    return reply if isinstance(reply, str) else bytes(reply).decode("latin-1")


def sections(reply: str | bytes | None, nonce: str) -> list[tuple[list[str], str]]:
    """Lines marked by the nonce as words, each with the text up to the next one."""
    parts = re.split(rf"(?m)^{nonce} ([^\r\n]*)\r?$", as_text(reply))
    return [(parts[at].split(), parts[at + 1]) for at in range(1, len(parts) - 1, 2)]


def words(reply: str | bytes | None, nonce: str) -> list[str]:
    """The words of the first marked line; empty when there is none."""
    found = sections(reply, nonce)
    return found[0][0] if found else []


def parse_report(reply: str | bytes | None, nonce: str, encoder: str) -> Report | None:
    """What a reply says about a command; None when it says nothing, or was cut."""
    found = sections(reply, nonce)
    if not found or not found[0][0]:
        return None
    (word, *rest), _ = found[0]
    if word != "status":
        return Report(word)
    if found[-1][0] != ["end"] or len(rest) < 3 or not (rest[0] + rest[1]).isdigit():
        return None
    sizes = (int(rest[0]), int(rest[1]))
    bodies = {marked[0]: body for marked, body in found[1:-1] if marked}
    output = None
    if {"out", "err"} <= bodies.keys():
        output = _both(bodies["out"], bodies["err"], sizes, encoder)
    held: tuple[Stream, ...] = tuple(name for name in ("stdout", "stderr") if name in rest[3:])
    sums = None
    if {"outsum", "errsum"} <= bodies.keys():
        sums = _digests(bodies["outsum"]), _digests(bodies["errsum"])
    if rest[2].isdigit():
        return Report(word, int(rest[2]), "", sizes, output, held, sums)
    return Report(word, None, rest[2], sizes, output, held, sums)


def _digests(body: str) -> list[str]:
    """The first words of lines that begin with a SHA-256."""
    return re.findall(r"(?m)^([0-9a-f]{64})\b", body)


def _both(out: str, err: str, sizes: tuple[int, int], encoder: str) -> tuple[bytes, bytes] | None:
    """Both streams; None when one arrived damaged: it is then read back."""
    try:
        return decode(out, sizes[0], encoder), decode(err, sizes[1], encoder)
    except TransportError:
        return None


def parse_piece(reply: str | bytes | None, nonce: str, size: int, encoder: str) -> bytes:
    """The bytes of a piece of output.

    Raises:
        TransportError: The reply was cut or damaged.
    """
    found = sections(reply, nonce)
    if len(found) != 2 or found[0][0] != ["piece"] or found[1][0] != ["end"]:
        raise TransportError("a reply of the backend was cut")
    return decode(found[0][1], size, encoder)


def parse_news(
    reply: str | bytes | None, nonce: str, encoder: str, sent: tuple[int, int], pieces: tuple[int, int]
) -> tuple[bytes, bytes]:
    """Both streams of a running command, without their first `sent` bytes.

    Args:
        reply: What the script printed.
        nonce: Of the script.
        encoder: Of the output.
        sent: Bytes known of each stream; the reply starts at the piece that holds the last of them.
        pieces: Bytes of a piece, and the number of pieces asked for.

    Raises:
        TransportError: The reply was cut or damaged.
    """
    found = sections(reply, nonce)
    if [marked[:1] for marked, _ in found] != [["status"], ["out"], ["err"], ["end"]]:
        raise TransportError("a reply of the backend was cut")
    sizes = found[0][0][1:3]
    piece, count = pieces
    news = []
    for known, size, (_, body) in zip(sent, sizes, found[1:3], strict=True):
        start = known // piece * piece
        wanted = max(0, min(count * piece, int(size) - start))
        news.append(decode(body, wanted, encoder)[known - start :])
    return news[0], news[1]


def decode(text: str, size: int, encoder: str) -> bytes:
    """Undo the encoding; a file that has grown since its size was taken is cut to that size.

    Raises:
        TransportError: Other characters than those of the encoding, or fewer bytes than the script counted.
    """
    compact = "".join(text.split())
    try:
        data = bytes.fromhex(compact) if encoder == "od" else base64.b64decode(compact, validate=True)
    except (ValueError, binascii.Error) as error:
        raise TransportError("the backend damaged encoded output") from error
    if len(data) < size:
        raise TransportError(f"the backend lost output: {len(data)} of {size} bytes arrived")
    return data[:size]


def parse_kill(reply: str | bytes | None, nonce: str) -> KillReport:
    """What the kill script did, over all its rounds; anything but a complete reply is an unconfirmed kill."""
    text = as_text(reply)
    rounds = [(int(a), int(b)) for a, b in re.findall(r"(?m)^killed (\d+) left (\d+)\r?$", text)]
    done = ["done"] in [marked for marked, _ in sections(text, nonce)]
    if not rounds or not done:
        return KillReport(sum(killed for killed, _ in rounds), confirmed=False)
    return KillReport(sum(killed for killed, _ in rounds), confirmed=rounds[-1][1] == 0)
