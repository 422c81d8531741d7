"""Digests against the tools that define them."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from hermes_env.files._digest import Cksum, Tally


@pytest.mark.parametrize("data", [b"", b"a", b"hello\n" * 999, bytes(range(256)) * 300, b"\0" * 65_537])
def test_cksum_is_that_of_posix(data: bytes) -> None:
    """The CRC equals what the system's `cksum` prints, however the data is cut."""
    told = subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout.split()
    summed = Cksum()
    for start in range(0, len(data), 777):
        summed.update(data[start : start + 777])
    assert summed.value().encode() == told[0]


def test_tally_counts_what_passes() -> None:
    """Size and digests are those of all chunks together."""
    tally = Tally(with_cksum=True)
    assert list(tally.passing([b"ab", memoryview(b"c")])) == [b"ab", memoryview(b"c")]
    assert (tally.size, tally.sha256) == (3, hashlib.sha256(b"abc").hexdigest())
    assert tally.cksum == "1219131554"
    assert Tally().cksum == "-"
