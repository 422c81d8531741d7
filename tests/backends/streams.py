"""A backend whose SDK runs whole commands with streamed stdin and output, and cannot end one that runs.

Output arrives in exact chunks, stdin goes in chunks with an explicit end, and there is no call that kills. Losing
the connection does not end a command either. The commands really run, on this machine.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from hermes_env import BackendOptions, BaseEnvironment, Capabilities, Channel, EndMarks, Launch, StdinMode

from .faults import Faults, SdkError

if TYPE_CHECKING:
    from hermes_env._launch import Stream

MAX_COMMAND = 65_536
"""Characters of a command line that the service takes."""
_CHUNK = 1 << 16
_DRAIN = 0.1
"""Seconds without output after the end marks, when a child in the background holds a stream."""


class StreamSdk:
    """The SDK and the service behind it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.faults = Faults()
        self._commands: list[RunningCommand] = []

    def close(self) -> None:
        """The client goes; what it started runs on."""
        for command in self._commands:
            command.forget()

    def exec(self, argv: Sequence[str], env: Mapping[str, str]) -> RunningCommand:
        """Start a command."""
        subject = " ".join(argv)
        if len(subject) > MAX_COMMAND:
            raise SdkError("the command line is too long")
        return self.faults.apply("exec", subject, lambda: self._exec(argv, env))

    def _exec(self, argv: Sequence[str], env: Mapping[str, str]) -> RunningCommand:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": self.root, **env},
            start_new_session=True,
        )
        command = RunningCommand(self.faults, process)
        self._commands.append(command)
        return command


class RunningCommand:
    """The SDK's handle to a command."""

    def __init__(self, faults: Faults, process: subprocess.Popen[bytes]) -> None:
        self._faults = faults
        self._process = process
        self._gone = threading.Event()
        self._writing = threading.Lock()
        """A descriptor that is closed under a writer may be given to another file at once."""

    def write(self, data: bytes) -> None:
        """Send a chunk of stdin."""
        self._faults.apply("write", "", lambda: self._write(data))

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        with self._writing:
            if self._process.stdin.closed:
                raise SdkError("410 the client has let go of the command")
            while view:
                view = view[self._process.stdin.write(view) or 0 :]

    def write_eof(self) -> None:
        """End stdin."""
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.close()

    def read(self, stream: Stream) -> bytes:
        """The next chunk of a stream; empty at its end."""
        return self._faults.apply("read", stream, lambda: self._read(stream))

    def _read(self, stream: Stream) -> bytes:
        file = self._process.stdout if stream == "stdout" else self._process.stderr
        assert file is not None
        data: bytes = file.read(_CHUNK)
        return data

    def wait(self) -> int:
        """The exit code, negative for death by a signal."""
        return self._faults.apply("wait", "", self._process.wait)

    def forget(self) -> None:
        """The client lets go of the handle; the service reaps the command whenever it ends."""
        if self._gone.is_set():
            return
        self._gone.set()
        thread = threading.Thread(target=self._reap)
        self._faults.threads.append(thread)
        thread.start()

    def _reap(self) -> None:
        self.write_eof()
        self._process.wait()
        for file in (self._process.stdout, self._process.stderr):
            if file is not None:
                file.close()


class StreamChannel:
    """The framework's view of a `RunningCommand`, whose script writes end marks."""

    def __init__(self, command: RunningCommand, marks: EndMarks) -> None:
        self._command, self._marks = command, marks
        self._output: queue.Queue[tuple[Stream, bytes] | Exception] = queue.Queue(64)
        self._open: set[Stream] = {"stdout", "stderr"}
        self._aborted = threading.Event()
        self.held: tuple[Stream, ...] = ()
        for stream in self._open:
            threading.Thread(target=self._receive, args=(stream,), daemon=True).start()

    def _receive(self, stream: Stream) -> None:
        try:
            while (data := self._command.read(stream)) and not self._aborted.is_set():
                self._put((stream, data))
            self._put((stream, b""))
        except (SdkError, ValueError, OSError) as error:
            self._put(ConnectionError(str(error)))

    def _put(self, item: tuple[Stream, bytes] | Exception) -> None:
        while not self._aborted.is_set():
            try:
                self._output.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def write(self, data: bytes | memoryview) -> None:
        """Send stdin."""
        try:
            self._command.write(bytes(data))
        except SdkError as error:
            raise ConnectionError(str(error)) from error

    def close_stdin(self) -> None:
        """End stdin."""
        self._command.write_eof()

    def read(self) -> tuple[Stream, bytes] | None:
        """The next chunk of either stream; a child in the background does not hold it up when the rest has come."""
        while self._open:
            try:
                item = self._output.get(timeout=None if self._marks.status is None else _DRAIN)
            except queue.Empty:
                self.held = tuple(self._open)
                break
            if isinstance(item, Exception):
                raise item
            stream, data = item
            if not data:
                self._open.discard(stream)
            elif own := self._marks.feed(stream, data):
                return stream, own
        return next(self._marks.rest(), None)

    def exit_status(self) -> int:
        """The exit code; that of the end marks when a stream is held, as the service then waits for its end."""
        if self.held and self._marks.status is not None:
            return self._marks.status
        try:
            code = self._command.wait()
        except SdkError as error:
            raise ConnectionError(str(error)) from error
        return code if code >= 0 else 128 - code

    def abort(self) -> None:
        """Let go of the command; it runs on if it still runs."""
        if not self._aborted.is_set():
            self._aborted.set()
            self._drain()
            self._command.forget()

    def _drain(self) -> None:
        """Make room for the word that ends a blocked `read`."""
        while not self._output.empty():
            self._output.get_nowait()
        self._output.put(ConnectionError("aborted"))


class StreamOptions(BackendOptions):
    """Options of the test backend."""

    root: str


class StreamEnvironment(BaseEnvironment):
    """Runs commands through `StreamSdk`."""

    Options = StreamOptions
    options: StreamOptions
    stdin_mode: ClassVar[StdinMode] = StdinMode.PAYLOAD
    carries_env: ClassVar[bool] = True
    capabilities = Capabilities(
        separate_stderr=True,
        exact_stdout=True,
        streaming=True,
        half_close=True,
        kill_scope="command",
        max_script_bytes=MAX_COMMAND - 1000,
        live_stdin=True,
    )

    def _open(self) -> None:
        self.sdk = StreamSdk(self.options.root)

    def _close(self) -> None:
        self.sdk.close()

    def _launch(self, launch: Launch) -> Channel:
        try:
            marks = EndMarks()
            return StreamChannel(self.sdk.exec(marks.argv(launch), launch.env), marks)
        except SdkError as error:
            raise ConnectionError(str(error)) from error
