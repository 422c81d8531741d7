"""Writers that meet: nobody's verified bytes get lost, and who lost learns why."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hermes_env import FileChanged, open_environment

from .conftest import Place, ShellEnvironment, tools

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


@pytest.mark.parametrize("old", [None, b"old"])
def test_the_loser_of_two_writers_is_told_so(home: Path, applets: str, old: bytes | None) -> None:
    """A file that another writer replaced right after the rename is "changed", not damaged; his bytes stay."""
    if old is not None:
        (home / "file").write_bytes(old)
    races = 'busybox mv "$@"; for last; do :; done; echo other >"$last.x"; busybox mv -f "$last.x" "$last"'
    with (
        tools(applets, mv=races) as path,
        ShellEnvironment(cwd=str(home), path=path) as env,
        pytest.raises(FileChanged, match="file: another writer replaced it"),
    ):
        env.files.write_bytes("file", b"new bytes " * 100)
    assert (home / "file").read_bytes() == b"other\n"
    assert os.listdir(home) == ["file"]


def test_the_loser_of_two_native_writers_is_told_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native writer tells it in the same way."""
    rename = os.rename

    def race(src: bytes, dst: bytes) -> None:
        rename(src, dst)
        (home / "x").write_bytes(b"other")
        rename(home / "x", dst)

    with open_environment("local", cwd=str(home)) as env:
        monkeypatch.setattr(os, "rename", race)
        with pytest.raises(FileChanged, match="file: another writer replaced it"):
            env.files.write_bytes("file", b"new bytes")
    assert (home / "file").read_bytes() == b"other"
