"""Faults in what is written and read."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hermes_env import FileChanged, Files, VerificationError, WriteResult

from ._broken import Broken, mutant


def whole(data: Any) -> bytes:
    """All content in memory."""
    if hasattr(data, "read"):
        return bytes(data.read())
    return bytes(data) if isinstance(data, bytes | bytearray | memoryview) else b"".join(data)


def plainly(path: str, data: bytes) -> WriteResult:
    """The write that everybody writes first."""
    created = not os.path.exists(path)
    with open(path, "wb") as file:
        file.write(data)
    digest = hashlib.sha256(data).hexdigest()
    return WriteResult(path, len(data), digest, True, "native", created, False)


class _Lossy(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return super().write_bytes(path, whole(data).decode("utf-8", "replace").encode(), **settings)

    def read_bytes(self, path: str, **settings: Any) -> bytes:
        return super().read_bytes(path, **settings).decode("utf-8", "replace").encode()


@mutant(
    "write, read and verification through the same lossy decoding",
    "test_every_content_is_written",
    "test_every_content_is_read",
    "test_every_size_is_written",
    "test_every_size_is_read",
    "test_any_bytes_are_written_and_read",
)
class SharesTheTransform(Broken):
    files_class = _Lossy


class _Cut(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        data = whole(data)
        told = hashlib.sha256(data).hexdigest()
        return replace(plainly(path, data[: 128 << 10]), size=len(data), sha256=told)


@mutant("a file cut at 128 KiB and told as whole", "test_every_size_is_written", "test_files_and_iterables_are_written")
class CutsFiles(Broken):
    files_class = _Cut


class _AnyNewline(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        return super().read_bytes(path, **settings).replace(b"\r\n", b"\n")


@mutant("files read as text with uniform line ends", "test_every_content_is_read")
class ReadsText(Broken):
    files_class = _AnyNewline


class _Capped(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        return super().read_bytes(path, **settings)[: 16 << 20]


@mutant("files read through a limited output", "test_a_read_knows_no_output_limit")
class ReadsThroughOutput(Broken):
    files_class = _Capped


class _Claims(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return replace(super().write_bytes(path, data, **settings), size=0, created=True)


@mutant("a write that makes up what it reports", "test_a_write_says_what_is_true")
class MakesUpWriteResult(Broken):
    files_class = _Claims


class _Unverified(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return replace(super().write_bytes(path, data, **settings), verified=False, verified_by=None)


@mutant("no verification although hashers are there", "test_a_write_is_verified_where_that_is_possible")
class NeverVerifies(Broken):
    files_class = _Unverified


class _FirstChunk(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        if not isinstance(data, bytes) and not hasattr(data, "read"):
            data = next(iter(data), b"")
        return super().write_bytes(path, data, **settings)


@mutant("only the first chunk of an iterable written", "test_files_and_iterables_are_written")
class WritesFirstChunk(Broken):
    files_class = _FirstChunk


class _InPlace(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        digest, size, created = hashlib.sha256(), 0, not os.path.exists(path)
        with open(path, "wb", buffering=0) as file:
            for chunk in [data] if isinstance(data, bytes) else data:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        return WriteResult(path, size, digest.hexdigest(), True, "native", created, False)


@mutant(
    "written in place: the old bytes are gone at once",
    "test_old_bytes_stay_until_all_have_arrived",
    "test_a_write_that_fails_leaves_no_trace",
)
class WritesInPlace(Broken):
    files_class = _InPlace


class _CopiesOver(Files):
    turns = threading.Lock()

    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        if os.path.islink(path) or not os.path.isfile(path) or os.stat(path).st_nlink > 1 or settings:
            return super().write_bytes(path, data, **settings)
        beside = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}")
        done = super().write_bytes(beside, data)
        with self.turns:
            shutil.copyfile(beside, path)
        os.unlink(beside)
        return replace(done, path=path, created=False)


@mutant("collected beside the file, then copied over it", "test_what_is_open_keeps_its_bytes")
class CopiesOver(Broken):
    files_class = _CopiesOver


class _KeepsTime(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        then = os.stat(path).st_mtime if os.path.exists(path) else None
        done = super().write_bytes(path, data, **settings)
        if then is not None:
            os.utime(path, (then, then))
        return done


@mutant("the time of the old file kept with its mode and owner", "test_what_was_written_is_new")
class KeepsOldTime(Broken):
    files_class = _KeepsTime


class _FromArchive(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        done = super().write_bytes(path, data, **settings)
        os.utime(path, (0, 0))
        return done


@mutant("written by an archive whose entries have no time", "test_what_was_written_is_new")
class WritesFromArchive(Broken):
    files_class = _FromArchive


class _LeavesTemp(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        with open(f"{path}.tmp", "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
        with open(f"{path}.tmp", "rb") as file:
            return super().write_bytes(path, file.read(), **settings)


@mutant(
    "a temporary file left behind",
    "test_a_write_leaves_one_file",
    "test_a_write_that_fails_leaves_no_trace",
)
class LeavesTemporaryFile(Broken):
    files_class = _LeavesTemp


class _OneTempName(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        data = whole(data)
        with open(f"{path}.tmp", "wb", buffering=0) as file:
            for start in range(0, len(data), 10_000):
                file.write(data[start : start + 10_000])
                time.sleep(0.002)
        if os.path.exists(f"{path}.tmp"):
            os.rename(f"{path}.tmp", path)
        return WriteResult(path, len(data), "", True, "native", False, True)


@mutant("one temporary name for all writers", "test_writers_at_the_same_time_never_mix")
class SharesTemporaryName(Broken):
    files_class = _OneTempName


class _Unconditional(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        settings.pop("if_sha256", None)
        return super().write_bytes(path, data, **settings)


@mutant("a condition ignored", "test_a_condition_guards_a_write")
class IgnoresCondition(Broken):
    files_class = _Unconditional


class _NoOffset(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        settings.pop("offset", None)
        return super().read_bytes(path, **settings)


@mutant("the offset of a read ignored", "test_a_part_of_a_file_is_read")
class IgnoresOffset(Broken):
    files_class = _NoOffset


class _LosesTail(Files):
    def read_chunks(self, path: str) -> Iterator[bytes]:
        for chunk in super().read_chunks(path):
            yield chunk[:4096]


@mutant("chunks cut to what one read gives", "test_chunks_are_the_file")
class CutsChunks(Broken):
    files_class = _LosesTail


class _ManyQuiet(Files):
    def read_many(self, paths: Any, **settings: Any) -> dict[str, bytes]:
        return super().read_many(paths, missing_ok=True)


@mutant("missing files left out of a batch without a word", "test_many_files_are_read_together")
class SkipsMissingFiles(Broken):
    files_class = _ManyQuiet


class _TextDigest(Files):
    def sha256(self, path: str) -> str:
        with open(path, encoding="utf-8", errors="replace") as file:
            return hashlib.sha256(file.read().encode()).hexdigest()


@mutant("a digest of the text, not of the bytes", "test_a_digest_is_right")
class DigestsText(Broken):
    files_class = _TextDigest


class _TrustsSize(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        return super().read_bytes(path, **settings)[: os.stat(path).st_size]


@mutant("the size of a file trusted", "test_a_file_without_a_size_is_read")
class TrustsSize(Broken):
    files_class = _TrustsSize


class _NoGrowth(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        before = os.path.getsize(path)
        data = super().read_bytes(path, **settings)
        time.sleep(0.05)
        if os.path.getsize(path) != before:
            raise FileChanged(path, "it changed while it was read")
        return data


@mutant("a file that grows refused", "test_a_growing_file_is_read")
class RefusesGrowth(Broken):
    files_class = _NoGrowth


class _OpensAnything(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        with open(path, "rb") as file:
            return file.read(1 << 20)


@mutant("FIFOs and devices opened", "test_what_is_no_file_is_not_read")
class OpensAnything(Broken):
    files_class = _OpensAnything


class _WorldReadable(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        temp = f"{path}.{os.getpid()}.tmp"
        with open(temp, "wb", buffering=0) as file:
            file.writelines([data] if isinstance(data, bytes) else data)
        os.rename(temp, path)
        return WriteResult(path, 0, "", True, "native", False, True)


@mutant("a temporary file that everybody can read", "test_a_file_that_is_being_written_is_private")
class PublicTemporaryFile(Broken):
    files_class = _WorldReadable


class _InArgv(Files):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.env = env

    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        data = whole(data)
        text = data.decode("utf-8", "surrogateescape").replace("\0", "")
        done = self.env.exec(["sh", "-c", 'printf %s "$1" >"$2"; sleep 0.3', "sh", text, path], timeout=9)
        if not done.ok:
            raise VerificationError(path, "it was not written")
        return WriteResult(path, len(data), "", True, "native", False, False)


@mutant(
    "file content in an argument",
    "test_file_content_is_in_no_argument_list",
    "test_every_size_is_written",
)
class FilesInArgv(Broken):
    files_class = _InArgv


class _ParentsAlways(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return super().write_bytes(path, data, **{**settings, "make_parents": True})


@mutant("directories made without being asked", "test_any_sequence_of_file_calls_is_as_modelled")
class MakesParentsAlways(Broken):
    files_class = _ParentsAlways


class _OfAnother(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        result = super().write_bytes(path, data, **settings)
        if not result.created:
            return result
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345)
        else:
            os.chmod(path, 0o400)
        return result


@mutant("new files of another user than the one that commands run as", "test_what_is_new_belongs_to_the_commands_user")
class WritesAsAnother(Broken):
    files_class = _OfAnother
