"""The one module that uses paramiko: makes authenticated connections to checked hosts."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import paramiko

from hermes_env import BackendUnavailable

from ._hosts import HostKey
from ._sockets import through_command, tune

if TYPE_CHECKING:
    from ._target import Target

_LOG = "hermes_env.paramiko"
# Refused sessions and lost connections are handled here, and are no errors to be shown.
logging.getLogger(_LOG).setLevel(logging.CRITICAL)

_WINDOW = 4 << 20
"""Bytes the server may send ahead of us: faster than paramiko's 2 MiB, and than 16 MiB, on loopback."""
_PACKET = 1 << 17
"""Largest packet that we take: 128 KiB measured fastest for downloads."""
_REKEY_BYTES = 1 << 40
"""A key exchange that the client starts can deadlock paramiko's one thread (paramiko#822): the server starts them."""
_FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
_WEAK = ("cbc", "md5", "sha1-96")
"""Parts of names of algorithms that are never offered."""
_SETTLE = 0.05
"""Seconds for a dying connection to be seen as dead: its channels are closed first."""
_CHANNEL_REQUEST = 98  # RFC 4254, section 9
_KEY_CLASSES = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)
_ERRORS = (paramiko.SSHException, OSError, EOFError)


class _Transport(paramiko.Transport):
    """A transport that drops what a thread still wants to send for a channel that was closed meanwhile.

    Paramiko prepares a message under the channel's lock and sends it after letting go of that. When the server closes
    the channel in between, the message follows our own CLOSE: OpenSSH and dropbear then end the whole connection, and
    when a new channel has got the number, a command gets another one's bytes.
    """

    def _send_message(self, data: paramiko.Message) -> None:
        """Send a message; every one for a channel comes here in its final order, one at a time."""
        channel = getattr(_sending, "channel", None)
        # The transport below, on the way through a jump host, carries what this one sends: it must not drop a byte.
        if channel is None or channel.get_transport() is not self or not channel.closed:
            super()._send_message(data)  # type: ignore[misc]  # private, so the stubs leave it out


_sending = threading.local()


@contextlib.contextmanager
def _sending_for(channel: paramiko.Channel) -> Iterator[None]:
    """What this thread sends now is for this channel."""
    _sending.channel = channel
    try:
        yield
    finally:
        _sending.channel = None


class SessionRefused(Exception):
    """The server does not open one more session now."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An authenticated transport, and what has to be closed with it."""

    transport: paramiko.Transport
    closers: contextlib.ExitStack

    def close(self) -> None:
        """End it and what carries it. Idempotent."""
        self.closers.close()

    def is_alive(self) -> bool:
        """Whether it was not lost, as far as is known here."""
        return self.transport.is_active()

    @property
    def mixes_up_sessions(self) -> bool:
        """Whether the server is dropbear: it loses sessions that are opened while others end (seen with 2022.83)."""
        return "dropbear" in self.transport.remote_version

    def open_session(self, timeout: float) -> paramiko.Channel:
        """Open a session channel.

        Raises:
            SessionRefused: The server is at its limit (``MaxSessions``).
            ConnectionError: The connection is gone.
        """
        begun = time.monotonic()
        try:
            return self.transport.open_session(_WINDOW, _PACKET, timeout)
        except _ERRORS as error:
            if self.transport.is_active() and time.monotonic() - begun < timeout:
                raise SessionRefused from error
            raise ConnectionError("the SSH connection was lost") from error


def request_exec(channel: paramiko.Channel, command: bytes) -> None:
    """Ask the server to run a command, without waiting for its answer; `is_refused` tells when that has come.

    Paramiko's own call waits, which is one more round trip for each command.
    """
    message = paramiko.Message()
    message.add_byte(bytes([_CHANNEL_REQUEST]))
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(True)
    message.add_string(command)
    transport: Any = channel.get_transport()
    try:
        with _sending_for(channel):
            transport._send_user_message(message)  # noqa: SLF001 - no public call asks without waiting
    except _ERRORS as error:
        raise ConnectionError("the SSH connection was lost") from error


def is_refused(channel: paramiko.Channel) -> bool:
    """Whether the server has said that it does not run the command: then paramiko closes the channel from here."""
    if not channel.closed or channel.eof_received or channel.exit_status != -1:
        return False
    return is_active(channel)


def is_active(channel: paramiko.Channel) -> bool:
    """Whether the connection of a closed channel lives."""
    transport = channel.get_transport()
    transport.join(_SETTLE)
    return transport.is_active()


def send(channel: paramiko.Channel, data: bytes | memoryview) -> int:
    """Send a part of the data, once the server's window has room; how much it was.

    Raises:
        BrokenPipeError: The channel or the connection is closed.
    """
    try:
        with _sending_for(channel):
            sent: int = channel.send(cast("bytes", data))
    except _ERRORS as error:
        raise BrokenPipeError("the channel is closed") from error
    if sent == 0:
        raise BrokenPipeError("the channel is closed")
    return sent


def end_input(channel: paramiko.Channel) -> None:
    """Send end-of-file, unless nobody is there any more."""
    with contextlib.suppress(*_ERRORS), _sending_for(channel):
        channel.shutdown_write()


def receive(channel: paramiko.Channel, stream: str, size: int) -> bytes:
    """Take what has come on an output stream; the server learns that there is room again."""
    take = channel.recv if stream == "stdout" else channel.recv_stderr
    try:
        with _sending_for(channel):
            return take(size)
    except _ERRORS as error:
        raise ConnectionError("the SSH connection was lost") from error


def close_channel(channel: paramiko.Channel) -> None:
    """Close it, unless the connection is gone."""
    with contextlib.suppress(*_ERRORS):
        channel.close()


def connect(target: Target) -> Connection:
    """Connect, check the host key, log in.

    Raises:
        BackendUnavailable: ``unreachable``, ``denied`` or ``no_credentials``; nothing is left open.
    """
    with contextlib.ExitStack() as undo:
        with _mapped(target):
            sock = _dial(target, undo)
            transport = _Transport(sock)
            undo.callback(_end, transport)
            _prepare(transport, target)
            transport.start_client(timeout=target.connect_timeout)
            key = transport.get_remote_server_key()
        target.known.check(HostKey(key.get_name(), key.get_base64()))
        _Login(transport, target).run()
        return Connection(transport, undo.pop_all())


@contextlib.contextmanager
def _mapped(target: Target) -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        problem = f"{type(error).__name__}: {error}".rstrip(": ")
        raise BackendUnavailable(f"cannot connect to {target.name}: {problem}", reason="unreachable") from error


# -- the way there ------------------------------------------------------------------------------------------------


def _dial(target: Target, undo: contextlib.ExitStack) -> Any:
    """A socket, or what stands in for one, to the target."""
    if target.jumps:
        *before, last = target.jumps
        hop = connect(_through(last, tuple(before)))
        undo.callback(hop.close)
        return hop.transport.open_channel(
            "direct-tcpip",
            (target.host, target.port),
            ("127.0.0.1", 0),
            timeout=target.connect_timeout,
        )
    if target.proxy_command is not None:
        return through_command(target.proxy_command, undo)
    sock = socket.create_connection((target.host, target.port), target.connect_timeout)
    undo.callback(sock.close)
    tune(sock, interval=target.alive_interval, count=target.alive_count)
    return sock


def _through(target: Target, jumps: tuple[Target, ...]) -> Target:
    import dataclasses

    return dataclasses.replace(target, jumps=jumps) if jumps else target


def _end(transport: paramiko.Transport) -> None:
    transport.close()
    # Paramiko does not wait for its thread, which would still hold the socket.
    transport.join(5.0)


def _prepare(transport: paramiko.Transport, target: Target) -> None:
    """Choose algorithms: nothing weak, fast ciphers first, and the kinds of host key that are known here."""
    transport.set_log_channel(_LOG)
    transport.packetizer.REKEY_BYTES = _REKEY_BYTES
    transport.banner_timeout = transport.auth_timeout = target.connect_timeout
    options = transport.get_security_options()
    options.ciphers = _first(_FAST_CIPHERS, _strong(options.ciphers))
    options.digests = _strong(options.digests)
    known = target.known.kinds()
    rsa = ("rsa-sha2-512", "rsa-sha2-256") if "ssh-rsa" in known else ()
    options.key_types = _first((*known, *rsa), options.key_types)


def _strong(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not any(weak in name for weak in _WEAK))


def _first(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    front = tuple(dict.fromkeys(name for name in wanted if name in names))
    return front + tuple(name for name in names if name not in front)


# -- logging in ---------------------------------------------------------------------------------------------------


class _Login:
    """Tries what there is, keys first, until the server is content."""

    def __init__(self, transport: paramiko.Transport, target: Target) -> None:
        self._transport, self._target = transport, target
        self._tried: list[str] = []
        self._problems: list[str] = []

    def run(self) -> None:
        """Log in.

        Raises:
            BackendUnavailable: ``denied``, or ``no_credentials`` when there was nothing to try.
        """
        with contextlib.ExitStack() as agent:
            for what, attempt in self._attempts(agent):
                self._tried.append(what)
                if self._succeeds(attempt):
                    return
        raise self._failure()

    def _succeeds(self, attempt: Callable[[], object]) -> bool:
        try:
            attempt()
        except paramiko.AuthenticationException:
            return self._transport.is_authenticated()
        except _ERRORS as error:
            self._problems.append(f"{type(error).__name__}: {error}")
            if not self._transport.is_active():
                raise self._failure() from error
        return self._transport.is_authenticated()

    def _failure(self) -> BackendUnavailable:
        what = "; ".join(self._tried + self._problems)
        if not self._tried:
            hint = "give key_file or password, or start an agent"
            problem = f"no key or password to log in to {self._target.name} with ({what or hint})"
            return BackendUnavailable(problem, reason="no_credentials")
        return BackendUnavailable(f"{self._target.name} does not let us in; tried: {what}", reason="denied")

    def _attempts(self, agent: contextlib.ExitStack) -> Iterator[tuple[str, Callable[[], object]]]:
        transport, user = self._transport, self._target.user
        for name, key in (*self._agent_keys(agent), *self._file_keys()):
            yield name, partial(transport.auth_publickey, user, key)
        password = _reveal(self._target.password)
        if password is not None:
            yield "password", lambda: transport.auth_password(user, password, fallback=False)
            yield (
                "keyboard-interactive",
                lambda: transport.auth_interactive(
                    user, lambda _title, _text, fields: ["" if echo else password for _, echo in fields]
                ),
            )

    def _agent_keys(self, undo: contextlib.ExitStack) -> Iterator[tuple[str, paramiko.PKey]]:
        path = self._target.agent_socket
        if not path:
            return
        try:
            agent = _open_agent(path, undo)
        except _ERRORS as error:
            self._problems.append(f"agent {path}: {error}")
            return
        listed = set(self._public_keys()) if self._target.agent_listed_only else None
        for key in agent.get_keys():
            if listed is None or key.get_base64() in listed:
                yield f"agent key {key.get_name()}", key

    def _public_keys(self) -> Iterator[str]:
        for path in self._target.key_files:
            with contextlib.suppress(OSError, IndexError), open(f"{path}.pub") as file:
                yield file.read().split()[1]

    def _file_keys(self) -> Iterator[tuple[str, paramiko.PKey]]:
        for path in self._target.key_files:
            if not self._target.keys_required and not os.path.exists(path):
                continue
            try:
                yield f"key {path}", self._load(path)
            except (*_ERRORS, ValueError) as error:
                problem = getattr(error, "strerror", None) or str(error)
                self._problems.append(f"key {path}: {problem}")

    def _load(self, path: str) -> paramiko.PKey:
        try:
            key = _parse_key(path, None)
        except paramiko.PasswordRequiredException:
            passphrase = _reveal(self._target.passphrase)
            if passphrase is None:
                raise
            key = _parse_key(path, passphrase)
        if os.path.exists(f"{path}-cert.pub"):
            key.load_certificate(f"{path}-cert.pub")
        return key


def _open_agent(path: str, undo: contextlib.ExitStack) -> Any:
    """The agent at a socket; paramiko's own class knows only the one in SSH_AUTH_SOCK."""
    sock = undo.enter_context(socket.socket(socket.AF_UNIX))
    sock.connect(path)
    agent: Any = paramiko.agent.AgentSSH()
    agent._connect(sock)  # noqa: SLF001 - the only way to say which socket
    return agent


def _parse_key(path: str, passphrase: str | None) -> paramiko.PKey:
    for kind in _KEY_CLASSES:
        try:
            return kind.from_private_key_file(path, passphrase)
        except paramiko.PasswordRequiredException:
            raise
        except paramiko.SSHException:
            continue
    raise paramiko.SSHException("is not a private key that can be read with this passphrase")


def _reveal(secret: Any) -> str | None:
    if secret is None:
        return None
    return str(secret()) if callable(secret) else str(secret.get_secret_value())
