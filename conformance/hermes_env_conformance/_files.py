"""Chapter files, contents: what is written is there, what is there is read, and nothing half-way."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_env import FileChanged, VerificationError

from ._check import equal, holds, same_bytes
from ._corpus import MIB, PATTERN, Case
from ._lab import UNTIL_GO
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab


class FileContentLaws:
    """Bytes into files and out of them."""

    @law(variant=True)
    def test_every_content_is_written(self, lab: Lab) -> None:
        """Every kind of content is in the file byte for byte, by the word of another program."""
        for case in lab.content_cases():
            result = lab.env.files.write_bytes(lab.path("file"), case.data)
            lab.expect_file(case.name, lab.path("file"), case.data, avoid=result.verified_by)

    @law(variant=True)
    def test_every_size_is_written(self, lab: Lab) -> None:
        """Every size is in the file byte for byte, by the word of another program."""
        for case in lab.size_cases():
            result = lab.env.files.write_bytes(lab.path("file"), case.data)
            lab.expect_file(case.name, lab.path("file"), case.data, avoid=result.verified_by)

    @law(variant=True)
    def test_every_content_is_read(self, lab: Lab) -> None:
        """Every kind of content that a command made is read byte for byte."""
        for case in lab.content_cases():
            same_bytes(case.name, case.data, lab.env.files.read_bytes(lab.make("file", case)))

    @law(variant=True)
    def test_every_size_is_read(self, lab: Lab) -> None:
        """Every size that a command made is read byte for byte."""
        for case in lab.size_cases():
            same_bytes(case.name, case.data, lab.env.files.read_bytes(lab.make("file", case)))

    @law()
    def test_any_bytes_are_written_and_read(self, lab: Lab) -> None:
        """Bytes that nobody thought of are written and read as well."""

        @lab.examples(5, 25, 300)
        @given(st.binary(max_size=3000))
        def arrive(data: bytes) -> None:
            result = lab.env.files.write_bytes(lab.path("file"), data)
            lab.expect_file("random bytes", lab.path("file"), data, avoid=result.verified_by)
            same_bytes("what was read", data, lab.env.files.read_bytes(lab.path("file")))

        arrive()

    @law(variant=True)
    def test_a_write_says_what_is_true(self, lab: Lab) -> None:
        """The result of a write has the caller's path, size and digest, and whether there was a file before."""
        path = lab.path("file")
        for data, created in ((PATTERN.fill(70_000), True), (b"", False), (b"x", False)):
            result = lab.env.files.write_bytes(path, data)
            expected = (path, len(data), hashlib.sha256(data).hexdigest(), created)
            seen = (result.path, result.size, result.sha256, result.created)
            equal("path, size, sha256, created", expected, seen)

    @law(variant=True)
    def test_a_write_is_verified_where_that_is_possible(self, lab: Lab) -> None:
        """Where any hasher runs, a write says that it was verified, and by what; else it says that it was not."""
        tools = lab.env.exec("for t in openssl sha256sum shasum python3 cksum; do command -v $t; done").stdout
        result = lab.env.files.write_bytes(lab.path("file"), b"data")
        equal("verified", bool(tools), result.verified)
        equal("whether verified_by names something", bool(tools), bool(result.verified_by))

    @law()
    def test_files_and_iterables_are_written(self, lab: Lab) -> None:
        """A binary file is written from its position, an iterable chunk after chunk."""
        data, path = PATTERN.fill(2 * MIB + 5), lab.path("file")
        file = io.BytesIO(data)
        file.seek(7)
        lab.env.files.write_bytes(path, file)
        lab.expect_file("the rest of a binary file", path, data[7:])
        chunks = [data[:1], b"", data[1:300_000], data[300_000:]]
        result = lab.env.files.write_bytes(path, iter(chunks))
        lab.expect_file("an iterable", path, data)
        equal("size in the result", len(data), result.size)

    @law()
    def test_old_bytes_stay_until_all_have_arrived(self, lab: Lab) -> None:
        """While new content still arrives, the file has its old bytes."""
        path = lab.path("file")
        lab.sh("printf old >file")
        seen: list[bytes] = []

        def slow() -> Iterator[bytes]:
            yield b"new" * 100_000
            seen.append(lab.sh("cat file").stdout)
            yield b"end"

        lab.env.files.write_bytes(path, slow())
        equal("bytes while the content arrived", [b"old"], seen)
        lab.expect_file("bytes afterwards", path, b"new" * 100_000 + b"end")

    @law()
    def test_what_is_open_keeps_its_bytes(self, lab: Lab) -> None:
        """A program that has the file open goes on reading its old bytes after a write that says it was `atomic`."""
        path = lab.path("file")
        lab.sh("printf 'old bytes' >file")
        reader = lab.env.start(f"exec 3<file; : >open; {UNTIL_GO}; cat <&3", cwd=lab.root)
        lab.until_exists("open")
        written = lab.env.files.write_bytes(path, b"other bytes, and more of them")
        lab.sh(": >go")
        seen = reader.wait(lab.patience).stdout
        lab.skip_unless(written.atomic, "the write says that it was made in place")
        same_bytes("what the program read", b"old bytes", seen)

    @law()
    def test_a_write_that_fails_leaves_no_trace(self, lab: Lab) -> None:
        """When the caller's content raises half-way, the old bytes are there, and nothing else is."""

        def broken() -> Iterator[bytes]:
            yield b"new" * 100_000
            raise ZeroDivisionError

        lab.sh("mkdir box; printf old >box/old")
        for name in ("old", "new"):
            with pytest.raises(ZeroDivisionError):
                lab.env.files.write_bytes(lab.path(f"box/{name}"), broken())
        same_bytes("names in the directory", b".\n..\nold\n", lab.sh("ls -a box").stdout)
        same_bytes("the old file", b"old", lab.sh("cat box/old").stdout)

    @law()
    def test_a_write_leaves_one_file(self, lab: Lab) -> None:
        """After a write the directory holds the file and nothing else."""
        lab.sh("mkdir box")
        for data in (b"", b"one", PATTERN.fill(MIB), iter([b"a", b"b"])):
            lab.env.files.write_bytes(lab.path("box/file"), data)
        same_bytes("names in the directory", b".\n..\nfile\n", lab.sh("ls -a box").stdout)

    @law()
    def test_writers_at_the_same_time_never_mix(self, lab: Lab) -> None:
        """When several write one file at once, it ends whole as one of them wrote it; who lost is told or was first."""
        path, count = lab.path("file"), lab.scale(3, 6, 16)
        contents = [b"%d" % index * (200_000 + index) for index in range(count)]
        succeeded: list[bytes] = []

        def write(data: bytes) -> None:
            with contextlib.suppress(VerificationError, FileChanged):
                lab.env.files.write_bytes(path, data)
                succeeded.append(data)

        lab.together([partial(write, data) for data in contents])
        holds(succeeded, "nobody succeeded")
        holds(lab.sh("cat file").stdout in succeeded, "the file is none of the contents that were said to be written")

    @law()
    def test_a_condition_guards_a_write(self, lab: Lab) -> None:
        """With `if_sha256` only a file that still holds those bytes is written."""
        path, old = lab.path("file"), b"old"
        lab.sh("printf old >file")
        with pytest.raises(FileChanged):
            lab.env.files.write_bytes(path, b"new", if_sha256=hashlib.sha256(b"other").hexdigest())
        lab.expect_file("after a refusal", path, old)
        lab.env.files.write_bytes(path, b"new", if_sha256=hashlib.sha256(old).hexdigest())
        lab.expect_file("after a write", path, b"new")

    # -- reading --------------------------------------------------------------------------------------------------

    @law()
    def test_a_part_of_a_file_is_read(self, lab: Lab) -> None:
        """`offset` and `limit` give exactly that part, up to the end and never over it."""
        case = Case(PATTERN, 100_000)
        path = lab.make("file", case)
        for offset, limit in ((0, 0), (0, 1), (1, 4096), (65_535, 2), (99_999, 10), (100_000, 5), (200_000, None)):
            expected = case.data[offset:] if limit is None else case.data[offset : offset + limit]
            actual = lab.env.files.read_bytes(path, offset=offset, limit=limit)
            same_bytes(f"offset {offset}, limit {limit}", expected, actual)

    @law()
    def test_chunks_are_the_file(self, lab: Lab) -> None:
        """`read_chunks` gives every byte in order, in more than one piece when the file is large."""
        for size in (0, 1, 5 * MIB + 3):
            path = lab.make("file", Case(PATTERN, size))
            same_bytes(f"{size} bytes", PATTERN.fill(size), b"".join(lab.env.files.read_chunks(path)))

    @law()
    def test_a_read_knows_no_output_limit(self, lab: Lab) -> None:
        """A file larger than the limit on a command's output is read whole."""
        case = Case(PATTERN, 17 * MIB + 1)
        same_bytes(case.name, case.data, lab.env.files.read_bytes(lab.make("file", case)))

    @law()
    def test_many_files_are_read_together(self, lab: Lab) -> None:
        """`read_many` gives the bytes of each file by the name that the caller used."""
        contents = {lab.path(f"file{index}"): case.data for index, case in enumerate(lab.content_cases())}
        for path, data in contents.items():
            lab.sh(f"cat >{path}", stdin=data)
        equal("which were read", contents, lab.env.files.read_many(list(contents)))
        missing = [*contents, lab.path("missing")]
        with pytest.raises(FileNotFoundError):
            lab.env.files.read_many(missing)
        equal("with missing_ok", contents, lab.env.files.read_many(missing, missing_ok=True))

    @law()
    def test_a_digest_is_right(self, lab: Lab) -> None:
        """`sha256` is the digest of the very bytes, also of an empty file."""
        for size in (0, 1, MIB + 1):
            path = lab.make("file", Case(PATTERN, size))
            expected = hashlib.sha256(PATTERN.fill(size)).hexdigest()
            equal(f"sha256 of {size} bytes", expected, lab.env.files.sha256(path))

    @law()
    def test_a_file_without_a_size_is_read(self, lab: Lab) -> None:
        """Files of the kernel, which claim to be empty, are read as a command reads them."""
        expected = lab.env.exec(["cat", "/proc/version"]).stdout
        lab.skip_unless(expected, "the environment has no /proc/version")
        same_bytes("/proc/version", expected, lab.env.files.read_bytes("/proc/version"))

    @law()
    def test_a_growing_file_is_read(self, lab: Lab) -> None:
        """A log that grows while it is read gives a part of it from its start, whole lines or not."""
        script = ": >log; i=0; while [ ! -e stop ]; do i=$((i+1)); printf '%08d ' $i; done >>log"
        process = lab.env.start(script, cwd=lab.root)
        lab.until(lambda: lab.env.exec(["test", "-s", lab.path("log")]).ok, "the log has begun")
        reads = [lab.env.files.read_bytes(lab.path("log")) for _ in range(5)]
        lab.sh(": >stop")
        process.wait(lab.patience)
        final = lab.env.files.read_bytes(lab.path("log"))
        for data in reads:
            holds(data and final.startswith(data), "what was read is no beginning of the log")

    @law()
    def test_what_is_no_file_is_not_read(self, lab: Lab) -> None:
        """Missing files, directories, FIFOs and devices are refused with errno and path, without waiting for them."""
        lab.sh("mkdir dir; mkfifo fifo; : >file")
        for name, codes in (
            ("missing", {errno.ENOENT}),
            ("dir", {errno.EISDIR}),
            ("file/below", {errno.ENOTDIR}),
            ("fifo", None),
            ("/dev/zero", None),
        ):
            path = name if name.startswith("/") else lab.path(name)
            with lab.soon(f"the refusal of {name}"), pytest.raises(OSError) as caught:  # noqa: PT011 - errno is checked
                lab.env.files.read_bytes(path)
            equal(f"{name}: path in the error", path, caught.value.filename)
            holds(codes is None or caught.value.errno in codes, f"{name}: {caught.value!r}")
