"""Writers that meet: nobody's verified bytes get lost, and who lost learns why."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from hermes_env import FileChanged

if TYPE_CHECKING:
    from .conftest import Place

ROUNDS = 12


def _race(place: Place, contents: dict[str, bytes]) -> list[BaseException | bytes]:
    """Write under several names at once; for each writer its bytes, or what was raised."""
    start = threading.Barrier(len(contents))
    outcomes: list[BaseException | bytes] = []

    def write(name: str, data: bytes) -> None:
        start.wait()
        try:
            place.files.write_bytes(name, data, durable=False)
        except Exception as error:
            outcomes.append(error)
        else:
            outcomes.append(data)

    threads = [threading.Thread(target=write, args=item) for item in contents.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.mark.shells
def test_writers_of_hard_linked_names(place: Place) -> None:
    """Two writers of one file under two names leave the whole bytes of one who was told that they arrived."""
    for _ in range(ROUNDS if place.native else 4):
        file = place.put("f", b"old" * 30_000)
        os.link(file, place.dir / "g")
        outcomes = _race(place, {"f": b"A" * 90_000, "g": b"B" * 90_000})
        winners = [outcome for outcome in outcomes if isinstance(outcome, bytes)]
        losers = [outcome for outcome in outcomes if not isinstance(outcome, bytes)]
        assert all(isinstance(error, FileChanged) for error in losers), losers
        assert place.cat("f") in winners
        assert place.cat("g") == place.cat("f")
        assert place.left_over() == []
        file.unlink()
        (place.dir / "g").unlink()


def test_native_writer_waits_for_another_process(place: Place) -> None:
    """A write into a hard-linked file begins when a program that has locked the file lets go of it."""
    if not place.native:
        pytest.skip("scripts lock where there is a tool for it")
    import fcntl

    file = place.put("f", b"old")
    os.link(file, place.dir / "g")
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writer = threading.Thread(target=place.files.write_bytes, args=("f", b"new"))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        assert place.cat("g") == b"old"
    writer.join()
    assert place.cat("g") == b"new"
