"""A channel to a process of this machine: one poll loop on the calling thread, no helper threads."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from ._codec import encode_lossless
from ._errors import BackendUnavailable, PayloadTooLarge
from ._kill_local import kill_tree
from ._validate import MAX_ARGUMENT

if TYPE_CHECKING:
    from ._kill_script import KillReport
    from ._launch import Emit, Stream
    from ._watchdog import Watchdog

_READ = 1 << 18
"""Bytes per read: 256 KiB measured fastest together with a 1 MiB pipe."""
_BIG_PIPE = 1 << 20
"""Linux' default bound for F_SETPIPE_SZ without privileges (pipe-max-size)."""
_DRAIN = 0.1
"""Seconds to wait for end-of-file after the process ended: a background child may hold its streams for ever."""


class PopenChannel:
    """The streams, the end and the tree of one local process, which leads its own session."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        command_id: str,
        env: Mapping[str, str],
        cwd: str | None,
        with_stdin: bool,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._id = command_id
        self._watchdog = watchdog
        self._lock = threading.RLock()  # Held by whoever signals or reaps: no signal reaches a reused process id.
        self._status: int | None = None
        self._wake: int | None = None
        self._pumping: int | None = None
        self._write_lock = threading.Lock()
        self._process = _spawn(argv, env=env, cwd=cwd, with_stdin=with_stdin)
        self.pid = self._process.pid
        if watchdog is not None:
            watchdog.add(self.pid, command_id)
        self.stdin = _fileno(self._process.stdin)
        self.streams: dict[int, Stream] = {}
        assert self._process.stdout is not None and self._process.stderr is not None
        self.streams[self._process.stdout.fileno()] = "stdout"
        self.streams[self._process.stderr.fileno()] = "stderr"
        self.pidfd = self._open_pidfd()
        self.held: tuple[Stream, ...] = ()

    def _open_pidfd(self) -> int | None:
        try:
            return os.pidfd_open(self.pid)
        except OSError:
            # A host that ignores SIGCHLD has already lost the child; its exit status is not known.
            return None

    # -- stdin, from a writer thread or from `Process.write` ------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes; blocks until the pipe takes them or the command ends."""
        with self._write_lock:
            fd = self.stdin
            if fd is None:
                raise BrokenPipeError(errno.EPIPE, "stdin is closed")
            if self._wake is None:
                self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                os.set_blocking(fd, False)
            self._write_all(fd, self._wake, memoryview(data))

    @staticmethod
    def _write_all(fd: int, wake: int, view: memoryview) -> None:
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        poller.register(wake, select.POLLIN)
        while view:
            ready = dict(poller.poll())
            if wake in ready:
                raise BrokenPipeError(errno.EPIPE, "the command has ended")
            view = view[_write_some(fd, view) :]

    def close_stdin(self) -> None:
        """Let the command see end-of-file, after a write that is under way.

        A descriptor that is closed under a writer may be given to a file of somebody else at once.
        """
        with self._write_lock, self._lock:
            self.stdin = None
            if self._process.stdin is not None:
                self._process.stdin.close()

    # -- output ---------------------------------------------------------------------------------------------------

    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        """Move all streams until the process has ended and its streams are closed, or held by others."""
        self._pumping = threading.get_ident()
        poller = select.poll()
        for fd in self.streams:
            poller.register(fd, select.POLLIN)
        if self.pidfd is not None:
            poller.register(self.pidfd, select.POLLIN)
        if stdin is not None and self.stdin is not None:
            _enlarge(self.stdin, len(stdin))
            os.set_blocking(self.stdin, False)
            poller.register(self.stdin, select.POLLOUT)
        _Loop(self, poller, stdin, emit, tick).run()

    def read(self) -> tuple[Stream, bytes] | None:
        """Not used: the framework pumps this channel."""
        raise NotImplementedError

    # -- end ------------------------------------------------------------------------------------------------------

    def exit_status(self) -> int:
        """Reap the process: its exit code, or 128 + n for death by signal n."""
        with self._lock:
            if self._status is None:
                self._status = self._reap()
            return self._status

    def _reap(self) -> int:
        if self._watchdog is not None:
            self._watchdog.discard(self.pid, self._id)
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError as error:
            self._process.returncode = 0
            problem = "the exit status was taken by someone else (is SIGCHLD ignored in this process?)"
            raise ConnectionError(problem) from error
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code
        return code if code >= 0 else 128 - code

    def kill(self, grace: float) -> KillReport | None:
        """End the whole tree; None when the process was already reaped."""
        if self._reaped():
            return None
        return kill_tree(self._id, self.pid, grace=grace, lock=self._lock, reaped=self._reaped)

    def _reaped(self) -> bool:
        return self._process.returncode is not None

    def abort(self) -> None:
        """Close every descriptor; a command that still runs is killed."""
        if self._pumping not in (None, threading.get_ident()):
            # Its thread still polls the descriptors; it closes them itself when it sees the end.
            self.kill(0)
            return
        if self._wake is not None:
            os.eventfd_write(self._wake, 1)
        with self._write_lock, self._lock:
            if not self._reaped():
                self.kill(0)
                self._reap_quietly()
            self.stdin = None
            for file in (self._process.stdin, self._process.stdout, self._process.stderr):
                if file is not None:
                    file.close()
            for fd in (self.pidfd, self._wake):
                if fd is not None:
                    os.close(fd)
            self.pidfd = self._wake = None

    def _reap_quietly(self) -> None:
        try:
            self.exit_status()
        except ConnectionError:
            return


class _Loop:
    """The state of one `PopenChannel.pump`."""

    def __init__(
        self,
        channel: PopenChannel,
        poller: select.poll,
        stdin: memoryview | None,
        emit: Emit,
        tick: Callable[[], float | None],
    ) -> None:
        self.channel, self.poller, self.emit, self.tick = channel, poller, emit, tick
        self.rest = stdin
        self.open = dict(channel.streams)
        self.stdin = channel.stdin if stdin is not None else None
        self.pidfd = channel.pidfd
        self.drain_until: float | None = None
        self.owed: dict[int, int] = {}
        self.enlarged = False
        self.received = 0

    def run(self) -> None:
        while self.open or not self._ended():
            wait = self._wait()
            if self._drained():
                break
            for fd, _ in self.poller.poll(None if wait is None else max(0.0, wait) * 1000 + 0.5):
                self._serve(fd)
        self.channel.held = tuple(self.open.values())

    def _ended(self) -> bool:
        return self.pidfd is None or self.drain_until is not None

    def _drained(self) -> bool:
        """The drain time is over, and all that the process itself wrote has been read."""
        if self.drain_until is None or time.monotonic() < self.drain_until:
            return False
        return all(self.owed[fd] <= 0 for fd in self.open)

    def _wait(self) -> float | None:
        wait = self.tick()
        if self.drain_until is None:
            return wait
        left = self.drain_until - time.monotonic()
        return left if wait is None else min(wait, left)

    def _serve(self, fd: int) -> None:
        if fd in self.open:
            self._receive(fd)
        elif fd == self.stdin:
            self._send(fd)
        elif fd == self.pidfd:
            # All that the process itself wrote is in the pipes now; a background child may go on filling them.
            self.poller.unregister(fd)
            self.owed = {stream: _unread(stream) for stream in self.open}
            self.drain_until = time.monotonic() + _DRAIN

    def _receive(self, fd: int) -> None:
        data = os.read(fd, _READ)
        if not data:
            self.poller.unregister(fd)
            del self.open[fd]
            return
        self.received += len(data)
        if self.owed:
            self.owed[fd] -= len(data)
        if not self.enlarged and self.received > _BIG_PIPE:
            self.enlarged = True
            _enlarge(fd, _BIG_PIPE + 1)
        self.emit(self.channel.streams[fd], data)

    def _send(self, fd: int) -> None:
        assert self.rest is not None
        try:
            self.rest = self.rest[_write_some(fd, self.rest) :]
        except BrokenPipeError:
            self.rest = self.rest[:0]
        if not self.rest:
            self.poller.unregister(fd)
            self.stdin = None
            self.channel.close_stdin()


def _spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, with_stdin: bool
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            limit = "no file descriptor is free for a command: raise `ulimit -n`, or run fewer commands at once"
            raise BackendUnavailable(limit, reason="capacity") from error
        if error.errno == errno.E2BIG:
            raise PayloadTooLarge(_too_big(env)) from error
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            limit = "the system has no room for another process"
            raise BackendUnavailable(limit, reason="capacity") from error
        if cwd is not None and error.filename == cwd:
            raise cwd_error(error, cwd) from None
        tool = f"{argv[0]!r} cannot be started on this machine: {error.strerror}"
        raise BackendUnavailable(tool, reason="not_installed") from error


def _too_big(env: Mapping[str, str]) -> str:
    """What the system refused: Linux takes 131,071 bytes for one variable, about 2 MiB for all and the arguments."""
    for name, value in env.items():
        size = len(name) + 1 + len(encode_lossless(value))
        if size > MAX_ARGUMENT:
            return f"env[{name!r}]: {size} bytes; Linux takes {MAX_ARGUMENT} for one variable"
    return "env: variables and arguments together are over what the system takes for a program; use stdin or a file"


def cwd_error(error: OSError, cwd: str) -> OSError:
    """The builtin error for a working directory that cannot be entered, naming the argument and the caller's path."""
    return type(error)(error.errno, f"cwd: {os.strerror(error.errno or 0)}", cwd)


def _unread(fd: int) -> int:
    count = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


def _fileno(file: IO[bytes] | None) -> int | None:
    return None if file is None else file.fileno()


def _write_some(fd: int, view: memoryview) -> int:
    try:
        return os.write(fd, view[:_READ])
    except BlockingIOError:
        return 0


def _enlarge(fd: int, wanted: int) -> None:
    """A larger pipe for bulk only: 65 of them use up what one unprivileged user may own."""
    if wanted <= _BIG_PIPE:
        return
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _BIG_PIPE)
    except OSError:
        return
