"""Faults on the way in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from hermes_env import Channel, ExecResult, Launch, StdinSource

from ._broken import Broken, BrokenProcess, BrokenStart, Emit, Spoiled, mutant


class _Lossy(Spoiled):
    def sent(self, data: bytes) -> bytes:
        return data.decode("utf-8", "replace").encode()


@mutant(
    "stdin decoded with replacement characters",
    "test_every_content_arrives_on_stdin",
    "test_any_bytes_arrive_on_stdin",
    "test_every_size_arrives_on_stdin",
)
class LossyStdin(Broken):
    channel = _Lossy


class _Crlf(Spoiled):
    def sent(self, data: bytes) -> bytes:
        return data.replace(b"\r\n", b"\n")


@mutant("stdin with its line ends made uniform", "test_every_content_arrives_on_stdin")
class UniformLineEnds(Broken):
    channel = _Crlf


class _NoFinalNewline(Spoiled):
    def sent(self, data: bytes) -> bytes:
        return data.removesuffix(b"\n")


@mutant("the final newline of stdin stripped", "test_every_content_arrives_on_stdin")
class StripsStdinNewline(Broken):
    channel = _NoFinalNewline


class _Cut(Spoiled):
    def sent(self, data: bytes) -> bytes:
        return data[: 128 << 10]


@mutant("stdin cut at 128 KiB", "test_every_size_arrives_on_stdin")
class CutStdin(Broken):
    channel = _Cut


class _HeadC(Spoiled):
    def sent(self, data: bytes) -> bytes:
        return data[: len(data) // 4096 * 4096] if len(data) > 4096 else data


@mutant("stdin framed in whole blocks: the last partial one is lost", "test_every_size_arrives_on_stdin")
class BlockFraming(Broken):
    channel = _HeadC


class _NeverCloses(Spoiled):
    def close_stdin(self) -> None:
        return

    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        if stdin is not None and len(stdin) <= 4096:
            self.inner.write(bytes(stdin))
            stdin = None
        super().pump(stdin, emit, tick)


@mutant(
    "end-of-file never delivered",
    "test_absent_stdin_is_at_its_end",
    "test_empty_stdin_is_at_its_end",
)
class NoEndOfFile(Broken):
    channel = _NeverCloses

    def _launch(self, launch: Launch) -> Channel:
        return super()._launch(replace(launch, stdin=launch.stdin or StdinSource(0, iter(()))))


@mutant(
    "stdin bound to the last command of a script only",
    "test_the_whole_script_reads_stdin",
    "test_a_script_with_odd_ends_reads_stdin",
)
class LastCommandRedirect(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        stdin = settings.get("stdin")
        if not isinstance(cmd, str) or not isinstance(stdin, bytes):
            return super().exec(cmd, **settings)
        with tempfile.NamedTemporaryFile() as file:
            file.write(stdin)
            file.flush()
            return super().exec(f"{cmd} <{file.name}", **{**settings, "stdin": None})


@mutant("a command sent to the background and waited for: it reads /dev/null", "test_every_content_arrives_on_stdin")
class BackgroundAndWait(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        return super().exec(f"({cmd}\n) & wait $!" if isinstance(cmd, str) else cmd, **settings)


@mutant("stdin only for scripts, not for argv", "test_a_literal_argv_reads_stdin")
class ArgvWithoutStdin(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        if not isinstance(cmd, str):
            settings.pop("stdin", None)
        return super().exec(cmd, **settings)


@mutant("a file given as stdin read from its start", "test_a_file_as_stdin_is_read_from_where_it_stands")
class RewindsFiles(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        if hasattr(settings.get("stdin"), "seek"):
            settings["stdin"].seek(0)
        return super().exec(cmd, **settings)


def _until_empty(chunks: Any) -> Iterator[bytes]:
    for chunk in chunks:
        if not chunk:
            return
        yield chunk


@mutant("an empty chunk taken for the end", "test_an_iterable_as_stdin_is_carried_in_order")
class EmptyChunkEnds(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        stdin = settings.get("stdin")
        if stdin is not None and not isinstance(stdin, bytes) and not hasattr(stdin, "read"):
            settings["stdin"] = _until_empty(stdin)
        return super().exec(cmd, **settings)


def _quiet(chunks: Any) -> Iterator[bytes]:
    with contextlib.suppress(ZeroDivisionError):
        yield from chunks


@mutant(
    "an error of the caller's iterable taken for the end",
    "test_an_iterable_that_raises_never_looks_like_an_end",
)
class SwallowsStdinErrors(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        stdin = settings.get("stdin")
        if stdin is not None and not isinstance(stdin, bytes) and not hasattr(stdin, "read"):
            settings["stdin"] = _quiet(stdin)
        return super().exec(cmd, **settings)


class _BrokenPipe(Spoiled):
    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        super().pump(stdin, emit, tick)
        if stdin is not None and len(stdin) > 1 << 20:
            raise ConnectionError("the command did not read its stdin")


@mutant("unread stdin taken for a lost link", "test_stdin_that_nobody_reads_does_no_harm")
class UnreadIsAnError(Broken):
    channel = _BrokenPipe


class _WritesFirst(Spoiled):
    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        if stdin is not None:
            self.inner.write(bytes(stdin))
            self.inner.close_stdin()
        super().pump(None, emit, tick)


@mutant("all of stdin written before any output is read", "test_input_and_output_flow_at_the_same_time")
class WritesBeforeReading(Broken):
    channel = _WritesFirst


@mutant("the caller's own stdin inherited", "test_the_callers_stdin_is_left_alone")
class InheritsStdin(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        if settings.get("stdin") is None and cmd == "cat":
            done = subprocess.run(["timeout", "1", "cat"], stdout=subprocess.PIPE, check=False)
            return ExecResult(0, done.stdout, b"", len(done.stdout), 0, 0.1, "finished")
        return super().exec(cmd, **settings)


@mutant("text encoded by guess", "test_text_as_stdin_is_refused")
class EncodesText(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        if isinstance(settings.get("stdin"), str):
            settings["stdin"] = settings["stdin"].encode()
        return super().exec(cmd, **settings)


class _Hoards(Spoiled):
    hoard = b""

    def write(self, data: bytes) -> None:
        self.hoard += data

    def close_stdin(self) -> None:
        with contextlib.suppress(OSError):
            self.inner.write(self.hoard)
        self.inner.close_stdin()


@mutant("live stdin held back until it is closed", "test_live_stdin_is_a_conversation")
class HoardsLiveStdin(Broken):
    channel = _Hoards


class _NoNul(Spoiled):
    def sent(self, data: bytes) -> bytes:
        return data.replace(b"\0", b"")


@mutant(
    "NULs dropped on a text channel",
    "test_live_stdin_carries_every_byte",
    "test_every_content_arrives_on_stdin",
)
class DropsNuls(Broken):
    channel = _NoNul


class _DeafProcess(BrokenProcess):
    def write(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.inner.write(data)


@mutant("writes to a dead command succeed", "test_live_stdin_of_a_command_that_ended_is_a_broken_pipe")
class WritesIntoTheVoid(BrokenStart):
    process = _DeafProcess


class _StuckProcess(BrokenProcess):
    def kill(self) -> None:
        time.sleep(3600)


@mutant("a kill that waits for the writer", "test_a_kill_frees_a_blocked_stdin")
class KillWaitsForStdin(BrokenStart):
    process = _StuckProcess


@mutant(
    "stdin in an argument of the command",
    "test_stdin_is_in_no_argument_list",
    "test_every_size_arrives_on_stdin",
    "test_every_content_arrives_on_stdin",
)
class StdinInArgv(BrokenStart):
    def start(self, cmd: Any, **settings: Any) -> Any:
        new, rest = _embed(cmd, settings)
        return super().start(new, **rest)

    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        new, rest = _embed(cmd, settings)
        return super().exec(new, **rest)


def _embed(cmd: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    stdin = settings.get("stdin")
    if not isinstance(cmd, str) or not isinstance(stdin, bytes):
        return cmd, settings
    if len(stdin) > 100_000:
        raise OSError(7, os.strerror(7))
    text = stdin.decode("utf-8", "surrogateescape").replace("\0", "")
    return ["sh", "-c", f'printf %s "$1" | {{ {cmd}\n}}', "sh", text], {**settings, "stdin": None}


@mutant(
    "stdin staged in a file that everybody can read and nobody removes",
    "test_a_stdin_that_is_a_file_is_private_and_has_no_name",
    "test_no_file_keeps_stdin",
)
class StagesInTheOpen(Broken):
    def _stage(self, settings: dict[str, Any]) -> str | None:
        stdin = settings.get("stdin")
        if not isinstance(stdin, bytes) or not stdin:
            return None
        fd, path = tempfile.mkstemp(prefix="hermes-mutant-")
        os.write(fd, stdin)
        os.fchmod(fd, 0o644)
        os.close(fd)
        settings["stdin"] = None
        self._staged.append(path)
        return path

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._staged: list[str] = []

    def _close(self) -> None:
        super()._close()
        for path in self._staged:
            os.unlink(path)

    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        path = self._stage(settings) if isinstance(cmd, str) else None
        return super().exec(f"{{ {cmd}\n}} <{path}" if path else cmd, **settings)
