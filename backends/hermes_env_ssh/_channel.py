"""One command on an SSH channel: all streams moved together, its end told apart from the loss of the link."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_env import BackendUnavailable

from ._connect import end_input, is_active, receive, send
from ._remote import NO_PROCESS, StreamFilter

if TYPE_CHECKING:
    import paramiko

    from hermes_env import Emit, Stream

    from ._pool import Session

_READ = 1 << 18
"""Bytes per read: 256 KiB measured fastest."""
_JOINABLE = 1 << 14
"""Bytes of stdin up to which they share a packet with what goes ahead of them."""
_DRAIN = 0.5
"""Seconds to wait for end-of-file after the last marks: a background child may hold the streams for ever."""
_SILENCE = 30.0
"""Seconds to wait for the marks, or the server's close, when only the status has come: a busy server sends it first."""
_WANT = (NO_PROCESS, "Resource temporarily unavailable")
"""What is said where an account has used up its processes: by the session itself, and by OpenSSH."""


class _Notify(threading.Event):
    """An event that also wakes the pump. Paramiko clears it when a buffer is empty; the pump looks for itself."""

    def __init__(self, wake: threading.Event) -> None:
        super().__init__()
        self._wake = wake

    def set(self) -> None:
        super().set()
        self._wake.set()


class _Output:
    """One output stream of a channel."""

    def __init__(self, channel: paramiko.Channel, name: Stream, nonce: str) -> None:
        self._channel, self._name = channel, name
        self._ready = channel.recv_ready if name == "stdout" else channel.recv_stderr_ready
        self.filter = StreamFilter(nonce)

    def drain(self, emit: Emit) -> bool:
        """Pass on what has arrived; whether there was anything."""
        moved = False
        while self._ready():
            moved = True
            data = self.filter.feed(receive(self._channel, self._name, _READ))
            if data:
                emit(self._name, data)
        return moved

    def finish(self, emit: Emit) -> None:
        """Pass on what was held back."""
        if rest := self.filter.flush():
            emit(self._name, rest)


class SshChannel:
    """The streams and the end of one remote command."""

    def __init__(self, session: Session, launch_nonce: str) -> None:
        self.session = session
        self._channel = channel = session.channel
        channel.settimeout(None)
        self._order = f"{launch_nonce}\n".encode()
        self._wake = threading.Event()
        self._aborted = False
        self._drain_until: float | None = None
        self.held: tuple[Stream, ...] = ()
        self.started = threading.Event()
        """The marked shell is there, or never will be."""
        self._outputs = (_Output(channel, "stdout", session.nonce), _Output(channel, "stderr", session.nonce))
        channel.in_buffer.set_event(_Notify(self._wake))
        channel.in_stderr_buffer.set_event(_Notify(self._wake))
        channel.status_event = _Notify(self._wake)

    # -- stdin ----------------------------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes; blocks until the server's window has room."""
        order = self._take_order()
        view = memoryview(order + bytes(data) if order else data)
        while view:
            view = view[send(self._channel, view) :]

    def _take_order(self) -> bytes:
        """What goes ahead of the first bytes, once."""
        order, self._order = self._order, b""
        return order

    def close_stdin(self) -> None:
        """Let the command see end-of-file."""
        end_input(self._channel)

    def _feed(self, stdin: memoryview) -> None:
        """Send what the server's window takes at once; a thread of its own sends the rest."""
        rest = stdin
        if len(rest) <= _JOINABLE:
            rest = memoryview(self._take_order() + bytes(rest))
        else:
            self.write(b"")
        while rest and self._channel.send_ready():
            rest = rest[send(self._channel, rest) :]
        if rest:
            threading.Thread(target=self._feed_all, args=(rest,), name="hermes-env-ssh-stdin", daemon=True).start()
        else:
            self.close_stdin()

    def _feed_all(self, rest: memoryview) -> None:
        try:
            self.write(rest)
            self.close_stdin()
        except OSError:
            # The command closed its stdin, or the output side shows that the link is gone.
            return

    # -- output ---------------------------------------------------------------------------------------------------

    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        """Move all streams until the command has ended and all that it wrote has come."""
        try:
            if stdin is not None:
                self._feed(stdin)
        except BrokenPipeError:
            # A closed stdin is the command's right.
            pass
        self.session.sent()
        while True:
            self._wake.clear()
            # Looked at before the buffers: whatever comes before the end is then in them.
            over = self._channel.closed
            self._drain_all(emit)
            if self._is_done(over=over):
                break
            self._wake.wait(self._patience(tick()))
        self._finish(emit)

    def read(self) -> tuple[Stream, bytes] | None:
        """Not used: the framework pumps this channel."""
        raise NotImplementedError

    def _known(self) -> bool:
        return self._marked() or self._channel.exit_status != -1

    def _marked(self) -> bool:
        return all(output.filter.status is not None for output in self._outputs)

    def _drain_all(self, emit: Emit) -> None:
        was_marked = self._marked()
        moved = [output.drain(emit) for output in self._outputs]
        if any(moved):
            self.session.link.guard.heard()
            if not was_marked:
                self._drain_until = None
        if not self.started.is_set() and any(output.filter.started for output in self._outputs):
            self._say_started()

    def _is_done(self, *, over: bool) -> bool:
        if self._aborted:
            raise ConnectionError("the channel was given up")
        if over:
            # The server closes the channel when it is through with it; to be faster than that ends some servers.
            return True
        if self._drain_until is None and self._known():
            self._drain_until = time.monotonic() + (_DRAIN if self._marked() else _SILENCE)
        if self._drain_until is None or time.monotonic() < self._drain_until:
            return False
        if not self._marked():
            raise ConnectionError("the command has ended, but the end of its output did not come")
        if not self._channel.eof_received:
            self.held = ("stdout", "stderr")
        return True

    def _patience(self, wait: float | None) -> float | None:
        if self._drain_until is None:
            return wait
        left = max(0.0, self._drain_until - time.monotonic())
        return left if wait is None else min(wait, left)

    def _finish(self, emit: Emit) -> None:
        for output in self._outputs:
            output.finish(emit)
        self._say_started()

    def _say_started(self) -> None:
        self.started.set()
        self.session.started()

    # -- end ------------------------------------------------------------------------------------------------------

    def exit_status(self) -> int:
        """The status in the last marks; without them, what the server says."""
        for output in self._outputs:
            if output.filter.status is not None and self._marked():
                return output.filter.status
        if self._is_lost():
            raise ConnectionError("the SSH connection was lost")
        if not any(output.filter.started for output in self._outputs):
            raise self._refused()
        status = self._channel.exit_status
        # The server reports a death by signal in a message that paramiko does not hand on. The shell that carries
        # a command outlives every signal but KILL.
        return status if status >= 0 else 128 + 9

    def _is_lost(self) -> bool:
        if self._channel.exit_status != -1:
            return False
        return not self._channel.eof_received or not is_active(self._channel)

    def _refused(self) -> BackendUnavailable:
        noise = b" / ".join(output.filter.noise.strip() for output in self._outputs)
        said = noise.strip(b" /").decode("utf-8", "replace")[:300] or "nothing"
        status = self._channel.exit_status
        problem = f"the account's login shell did not run the command (status {status}; it said: {said})"
        if any(words in said for words in _WANT):
            return BackendUnavailable(f"{problem}: nothing ran; it has no process left", reason="capacity")
        hint = "nothing ran; its login scripts must not read stdin, and it must be able to run /bin/sh"
        return BackendUnavailable(f"{problem}: {hint}", reason="denied")

    def abort(self) -> None:
        """Let go of the channel."""
        if self._aborted:
            return
        self._aborted = True
        self._wake.set()
        self.started.set()
        self.session.release()
