"""What the environment offers for a download, and blocks that are checked."""

from __future__ import annotations

import hashlib

import pytest

from hermes_env._blocks import BLOCK, BlockCheck
from hermes_env.files._transfer import Offer, Part, Transfer


def told(transfer: Transfer, *records: tuple[str, ...]) -> None:
    """Records of the script arrive."""
    nonce = transfer.nonce
    for fields in records:
        transfer.on_output("stdout", f"\n{nonce}{{\0{chr(0).join(fields)}\0}}{nonce}\n".encode())


def test_an_offer_ends_its_part() -> None:
    """Digests of a file that was printed after all do not count for the next."""
    got: list[bytes] = []
    transfer = Transfer([Part("a", 0, None), Part("b", 0, None)], [got.append] * 2, smallest_offer=1)
    told(transfer, ("block", "11"))
    digest = hashlib.sha256(b"x").hexdigest()
    transfer.on_output("stdout", f"\n{transfer.nonce} R 1 sha256sum\nx\n{transfer.nonce} T {digest}\n".encode())
    told(transfer, ("block", "22"), ("block", "33"), ("place", "/b", "7", "openssl"), ("ok",))
    assert (got, transfer.errors, transfer.offers) == ([b"x"], {}, {1: Offer("/b", 7, ("22", "33"))})


@pytest.mark.parametrize("path", ["", "b", "/b\n", "/a b", "/\N{LATIN SMALL LETTER U WITH DIAERESIS}", "file:///b"])
def test_paths_that_the_script_never_offers(path: str) -> None:
    """An environment cannot make the SDK see other paths than plain absolute ones."""
    transfer = Transfer([Part("b", 0, None)], [list[bytes]().append], smallest_offer=1)
    told(transfer, ("block", "22"), ("place", path, "7", "openssl"))
    assert transfer.offers == {}


@pytest.mark.parametrize("step", [1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_blocks_are_given_on_when_they_are_right(step: int) -> None:
    """Chunks of any size; a block that is another one ends it, and so does the end of the file."""
    data = bytes(range(256)) * ((2 * BLOCK >> 8) + 1)
    sums = [hashlib.sha256(data[at : at + BLOCK]).hexdigest() for at in range(0, len(data), BLOCK)]
    for told_sums, done in ((sums, len(data)), ([sums[0], "0"], BLOCK), (sums[:2], 2 * BLOCK), ([], 0)):
        got: list[bytes] = []
        check = BlockCheck(len(data), told_sums, got.append)
        check.feed_all(data[at : at + step] for at in range(0, len(data) + step, step))
        assert check.done == done
        assert b"".join(got) == data[:done]
        assert not check.feed(b"more") and b"".join(got) == data[:done]
