"""Parsing of what scripts print, cut at every place."""

from __future__ import annotations

import pytest

from hermes_env.files._frames import FrameReader, Header, records

NONCE = "0123456789abcdef"
MARK = f"\n{NONCE}".encode()


def record(*fields: bytes) -> bytes:
    """A record as the scripts print it."""
    return MARK + b"{" + b"".join(b"\0" + field for field in fields) + b"\0}" + MARK[1:] + b"\n"


def frame(content: bytes, digest: str = "aa") -> bytes:
    """A content as the scripts print it."""
    return MARK + f" R {len(content)} tool\n".encode() + content + MARK + f" T {digest}\n".encode()


def read(output: bytes, step: int) -> list[tuple[object, ...]]:
    """What a reader reports when it is fed `step` bytes at a time."""
    seen: list[tuple[object, ...]] = []

    def body(data: bytes) -> None:
        if seen and seen[-1][0] == "body":
            data = seen.pop()[1] + data  # type: ignore[operator]
        seen.append(("body", data))

    reader = FrameReader(
        NONCE,
        begin=lambda header: seen.append(("begin", header)),
        body=body,
        end=lambda digest: seen.append(("end", digest)),
        record=lambda fields: seen.append(("record", fields)),
    )
    for start in range(0, len(output), step):
        reader.feed(output[start : start + step])
    reader.close()
    return seen


@pytest.mark.parametrize("step", [1, 2, 3, 7, 30, 10_000])
def test_frames_and_records(step: int) -> None:
    """Contents that look like marks, empty ones and records come out exactly, noise around them does not."""
    tricky = MARK + b" T bb\n" + record(b"ok") + b"\0\xff"
    output = b"motd\n" + frame(tricky) + b"noise\n" + record(b"fail", b"a\nb", b"") + frame(b"") + record(b"ok")
    assert read(output, step) == [
        ("begin", Header(len(tricky), "tool")),
        ("body", tricky),
        ("end", "aa"),
        ("record", ("fail", "a\nb", "")),
        ("begin", Header(0, "tool")),
        ("end", "aa"),
        ("record", ("ok",)),
    ]


@pytest.mark.parametrize("step", [1, 5, 10_000])
def test_short_content(step: int) -> None:
    """A content that is shorter than announced ends with None, and is never complete."""
    output = frame(b"x" * 100).replace(b" R 100 ", b" R 300 ")
    seen = read(output, step)
    assert seen[0] == ("begin", Header(300, "tool"))
    assert seen[-1] == ("end", None)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_lost_output(cut: int) -> None:
    """Output that breaks off never completes a content."""
    assert ("end", "aa") not in read(frame(b"x" * 100)[:-cut], 9)


def test_records_in_noise() -> None:
    """Only whole records count; fields keep every byte but NUL."""
    output = b"x" + record(b"ok", b"\xff\n{}") + b"y" + record(b"fail")[:-3]
    assert records(output, NONCE) == [("ok", "\udcff\n{}")]
    assert records(b"nothing", NONCE) == []


def test_a_record_without_an_end_is_noise() -> None:
    """What never ends fills no memory, and what comes after it is still read."""
    output = MARK + b"{" + b"x" * 300_000 + MARK + b" " + b"y" * 300_000 + frame(b"content")
    assert read(output, 1000)[-1] == ("end", "aa")
