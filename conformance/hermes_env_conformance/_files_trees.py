"""Chapter files, folders: copied into an environment and out of it, with all that belongs to them and nothing else."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ._check import equal, holds, same_bytes
from ._corpus import NASTY_NAMES
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab

_MODES = {"private": 0o600, "shared": 0o664, "program": 0o755, "locked": 0o444}


class FileTreeLaws:
    """Folders in and out."""

    @law(variant=True)
    def test_a_folder_is_sent_whole(self, lab: Lab) -> None:
        """Every file of a folder, whatever its name, is there byte for byte by the word of a command."""
        with here() as folder:
            for name, data in _contents().items():
                (folder / name).write_bytes(data)
            result = lab.env.files.upload(folder, lab.path("there"), durable=False)
        equal("files in the result", len(NASTY_NAMES), result.files)
        seen = lab.env.exec(["sh", "-c", 'cd "$0" && cat -- "$@"', lab.path("there"), *_contents()]).stdout
        same_bytes("the contents, one after the other", b"".join(_contents().values()), seen)
        count = lab.sh('for f in there/* there/.*; do [ ! -f "$f" ] || echo; done | wc -l').stdout
        equal("number of files there", len(NASTY_NAMES), int(count))

    @law(variant=True)
    def test_a_folder_is_fetched_whole(self, lab: Lab) -> None:
        """Every file of a folder that commands made, whatever its name, is here byte for byte."""
        lab.sh("mkdir there")
        for name, data in _contents().items():
            lab.env.exec(["sh", "-c", 'cat >"$1"', "sh", lab.path(f"there/{name}")], stdin=data, check=True)
        with here() as folder:
            lab.env.files.download(lab.path("there"), folder / "back", durable=False)
            equal("names here", sorted(_contents()), sorted(os.listdir(folder / "back")))
            for name, data in _contents().items():
                same_bytes(repr(name), data, (folder / "back" / name).read_bytes())

    @law()
    def test_links_of_a_folder_stay_links(self, lab: Lab) -> None:
        """Symbolic links are copied as what they say, also those that lead nowhere or outside, in and out."""
        links = {"to-folder": "sub", "nowhere": "no such", "outside": "/etc/passwd"}
        with here() as folder:
            (folder / "source/sub").mkdir(parents=True)
            for name, target in links.items():
                (folder / "source" / name).symlink_to(target)
            lab.env.files.upload(folder / "source", lab.path("there"))
            for name, target in links.items():
                same_bytes(f"{name} there", f"{target}\n".encode(), lab.sh(f"readlink there/{name}").stdout)
            lab.env.files.download(lab.path("there"), folder / "back")
            kept = [path for path in (folder / "back").iterdir() if path.is_symlink()]
            equal("links here", links, {path.name: os.readlink(path) for path in kept})

    @law()
    def test_modes_and_empty_folders_are_kept(self, lab: Lab) -> None:
        """Files and folders have the same permissions on the other side; a folder with nothing in it is there too."""
        with here() as folder:
            (folder / "source/empty").mkdir(parents=True)
            (folder / "source/empty").chmod(0o711)
            for name, mode in _MODES.items():
                (folder / "source" / name).write_bytes(b"x")
                (folder / "source" / name).chmod(mode)
            lab.env.files.upload(folder / "source", lab.path("there"))
            expected = {**_MODES, "empty": 0o711}
            seen = {one.name: one.mode for one in lab.env.files.list_dir(lab.path("there"))}
            equal("modes there", expected, seen)
            lab.env.files.download(lab.path("there"), folder / "back")
            here_now = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder / "back").iterdir()}
            equal("modes here", expected, here_now)

    @law()
    def test_what_cannot_be_copied_is_named(self, lab: Lab) -> None:
        """A FIFO in a folder is left out of the copy without waiting for it, and the result names it."""
        lab.sh("mkdir there there/sub; mkfifo there/sub/fifo; echo x >there/sub/file")
        with here() as folder:
            with lab.soon("the copy of a folder with a FIFO in it"):
                result = lab.env.files.download(lab.path("there"), folder / "back")
            equal("skipped", [("sub/fifo", "fifo")], [(one.path, one.kind) for one in result.skipped])
            equal("names here", ["file"], os.listdir(folder / "back/sub"))

    @law()
    def test_what_is_there_is_not_sent_again(self, lab: Lab) -> None:
        """A second copy sends only files whose bytes differ, also when size and time are the same."""
        tools = lab.env.exec("for t in openssl sha256sum shasum python3 cksum; do command -v $t; done").stdout
        lab.skip_unless(tools, "nothing in the environment computes digests")
        with here() as folder:
            for name in ("one", "two"):
                (folder / name).write_bytes(b"old")
            lab.env.files.upload(folder, lab.path("there"))
            lab.sh("touch -r there/one stamp; printf new >there/one; touch -r stamp there/one")
            again = lab.env.files.upload(folder, lab.path("there"))
        equal("files sent, files left alone", (1, 1), (again.files, again.unchanged))
        lab.expect_file("the file that differed", lab.path("there/one"), b"old")

    @law()
    def test_a_download_stays_in_its_folder(self, lab: Lab) -> None:
        """Where a link of this machine stands in the place of a folder, nothing is written through it."""
        lab.sh("mkdir there there/sub; echo x >there/sub/file")
        with here() as folder:
            (folder / "outside").mkdir()
            (folder / "back").mkdir()
            (folder / "back/sub").symlink_to(folder / "outside")
            with pytest.raises(OSError) as caught:  # noqa: PT011 - the path is checked
                lab.env.files.download(lab.path("there"), folder / "back")
            equal("path in the error", str(folder / "back/sub"), caught.value.filename)
            holds(not os.listdir(folder / "outside"), "a file was written through the link")


@contextmanager
def here() -> Iterator[Path]:
    """A folder of this machine for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="hermes-conformance-") as name:
        yield Path(name)


def _contents() -> dict[str, bytes]:
    """A file of every name; no two are alike."""
    return {name: name.encode("utf-8", "surrogateescape") * (index % 5) for index, name in enumerate(NASTY_NAMES)}
