"""Faults on the way out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ._broken import Broken, BrokenProcess, BrokenStart, Emit, Spoiled, mutant

if TYPE_CHECKING:
    from hermes_env import ExecResult


class _Decoded(Spoiled):
    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        emit(stream, data.decode("utf-8", "replace").encode())


@mutant(
    "output decoded chunk by chunk",
    "test_every_content_comes_back",
    "test_every_size_comes_back",
    "test_every_content_comes_back_on_stderr",
    "test_text_is_lossless",
    "test_no_character_is_cut",
    "test_a_flood_on_both_streams_is_whole",
)
class DecodesChunks(Broken):
    channel = _Decoded


class _NoNul(Spoiled):
    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        emit(stream, data.replace(b"\0", b""))


@mutant("NULs of the output dropped", "test_every_content_comes_back", "test_arguments_keep_their_boundaries")
class DropsOutputNuls(Broken):
    channel = _NoNul


class _Cut(Spoiled):
    total = 0

    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        emit(stream, data[: max(0, (128 << 10) - self.total)])
        self.total += len(data)


@mutant(
    "output cut at 128 KiB without a word",
    "test_every_size_comes_back",
    "test_a_digest_of_much_output_is_right",
    "test_on_output_sees_every_byte",
)
class CutsOutput(Broken):
    channel = _Cut


class _Merged(Spoiled):
    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        emit("stdout", data)


@mutant(
    "stderr merged into stdout",
    "test_the_streams_are_kept_apart",
    "test_what_is_declared_is_true",
    holds="test_exit_codes_come_back",
)
class MergesStderr(Broken):
    channel = _Merged


class _Stripped(Spoiled):
    last = b""

    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        if stream == "stdout":
            data, self.last = self.last + data, b""
            if data.endswith(b"\n"):
                data, self.last = data[:-1], b"\n"
        emit(stream, data)


@mutant(
    "the last newline of the output stripped",
    "test_the_end_of_output_is_exact",
    holds="test_exit_codes_come_back",
)
class StripsOutputNewline(Broken):
    channel = _Stripped


class _Banner(Spoiled):
    told = False

    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        emit(stream, data)

    def ended(self, emit: Emit) -> None:
        emit("stderr", b"Welcome to this host\n")


@mutant("a banner of the login shell in the output", "test_silence_is_silence", holds="test_exit_codes_come_back")
class ShowsBanner(Broken):
    channel = _Banner


@mutant("merged streams one after the other", "test_merged_streams_keep_their_order")
class MergesAtTheEnd(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        merge = settings.pop("merge_stderr", False)
        result = super().exec(cmd, **settings)
        if not merge:
            return result
        both = result.stdout + result.stderr
        return replace(result, stdout=both, stderr=b"", stdout_total=len(both), stderr_total=0)


@mutant(
    "the output limit drops the start and does not say so",
    "test_output_over_the_limit_keeps_both_ends_and_says_so",
)
class SilentLimit(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        limit = settings.pop("output_limit", 16 << 20)
        result = super().exec(cmd, **settings)
        if len(result.stdout) <= limit:
            return result
        kept = result.stdout[len(result.stdout) - limit :]
        return replace(result, stdout=kept, stdout_total=len(kept))


@mutant("one byte too few at the output limit", "test_output_at_the_limit_is_whole")
class LimitOffByOne(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        settings["output_limit"] = max(0, settings.get("output_limit", 16 << 20) - 1)
        return super().exec(cmd, **settings)


class _OneThenTheOther(Spoiled):
    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        import os

        if stdin is not None:
            super().pump(stdin, emit, tick)
            return
        for fd, stream in list(self.inner.streams.items()):
            while data := os.read(fd, 1 << 16):
                emit(stream, data)


@mutant("stdout read to its end before stderr", "test_a_flood_on_both_streams_is_whole")
class ReadsOneStreamFirst(Broken):
    channel = _OneThenTheOther


@mutant("a callback that gets only what the result keeps", "test_on_output_sees_every_byte")
class CallbackAfterLimit(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        callback = settings.pop("on_output", None)
        result = super().exec(cmd, **settings)
        if callback is not None:
            callback("stdout", result.stdout)
            callback("stderr", result.stderr)
        return result


@mutant("an error of the callback swallowed", "test_an_on_output_that_raises_ends_the_command")
class SwallowsCallbackErrors(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        callback = settings.get("on_output")
        if callback is not None:

            def quiet(stream: Any, data: bytes) -> None:
                with contextlib.suppress(Exception):
                    callback(stream, data)

            settings["on_output"] = quiet
        return super().exec(cmd, **settings)


class _AtTheEnd(Spoiled):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.held_back: list[tuple[str, bytes]] = []

    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        self.held_back.append((stream, data))

    def ended(self, emit: Emit) -> None:
        for stream, data in self.held_back:
            emit(stream, data)


@mutant(
    "all output at the end although streaming is declared",
    "test_output_arrives_while_the_command_runs",
    "test_what_is_declared_is_true",
)
class OutputAtTheEnd(Broken):
    channel = _AtTheEnd


class _Forgetful(BrokenProcess):
    def __iter__(self) -> Any:
        chunks = iter(self.inner)
        next(chunks, None)
        return chunks


@mutant("iteration that loses the first chunk", "test_iterating_gives_all_output")
class IterationLosesFirst(BrokenStart):
    process = _Forgetful


class _Terminal(Spoiled):
    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        emit(stream, data.replace(b"\n", b"\r\n"))


@mutant(
    "a terminal on the data path: LF becomes CRLF",
    "test_output_is_no_terminal",
    "test_the_end_of_output_is_exact",
    holds="test_exit_codes_come_back",
)
class UsesTerminal(Broken):
    channel = _Terminal


class _WaitsForEnd(Spoiled):
    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        import os

        super().pump(stdin, emit, tick)
        for fd in self.inner.streams:
            with contextlib.suppress(OSError):
                while data := os.read(fd, 1 << 16):
                    emit(self.inner.streams[fd], data)


@mutant(
    "output read to its end although a child holds it",
    "test_a_background_child_does_not_hold_the_result",
)
class WaitsForChildren(Broken):
    channel = _WaitsForEnd


class _Suspicious(Spoiled):
    """Takes the words of an engine for the engine's own."""

    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        if not data.startswith(b"OCI runtime"):
            emit(stream, data)


@mutant("output that reads like an engine's error taken for one", "test_words_of_an_engine_are_output")
class TakesOutputForErrors(Broken):
    channel = _Suspicious
