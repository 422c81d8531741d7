"""A command as the caller asked for it, checked, and the launch that carries it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from . import _shell
from ._codec import encode_lossless
from ._errors import PayloadTooLarge
from ._launch import COMMAND_ID_VARIABLE, Launch, StdinSource, Stream

if TYPE_CHECKING:
    from ._capabilities import Capabilities

MAX_ARGUMENT = 120_000
"""Bytes of command text carried as arguments: Linux caps one argument at 131,072 bytes, its final NUL included."""
OUTPUT_LIMIT = 16 << 20
"""Default bytes kept of each output stream."""


@dataclass(frozen=True, slots=True)
class Command:
    """One checked request to run something."""

    program: str | tuple[str, ...]
    """A POSIX sh script, or a literal argv."""
    stdin: StdinSource | None = field(default=None, repr=False)
    memory: memoryview | None = field(default=None, repr=False)
    """The bytes of `stdin` when they are in memory already."""
    live_stdin: bool = False
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str | None = None
    timeout: float | None = None
    output_limit: int = OUTPUT_LIMIT
    merge_stderr: bool = False
    on_output: Callable[[Stream, bytes], None] | None = None
    killable: bool = True
    """False for the command that kills another one: it is only ever aborted."""
    refusal: Callable[[str, bytes], Exception] | None = None
    """Makes the error of what a guard of the command's own reported, instead of one about `cwd`."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    nonce: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    def describe(self) -> str:
        """The command for messages: never its text or arguments, which may hold secrets."""
        if isinstance(self.program, tuple):
            return f"program {self.program[0]!r} (command {self.id[:8]})"
        return f"a script of {len(self.program)} characters (command {self.id[:8]})"


@dataclass(frozen=True, slots=True)
class Carriage:
    """What a backend can carry by itself; the framework carries the rest on stdin."""

    env: bool
    cwd: bool
    raw_bytes: bool
    """Arguments of any bytes but NUL arrive as they are; otherwise only ASCII does."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch, and what the framework writes to its stdin."""

    launch: Launch
    head: bytes
    """Goes ahead of the payload."""
    frames: bool
    """The payload goes in frames: its length is not known, and closing stdin does not reach the command."""


def prepare(command: Command, carriage: Carriage, capabilities: Capabilities) -> Prepared:
    """Decide how a command travels on a backend with a stdin pipe.

    Raises:
        PayloadTooLarge: The payload is over a declared limit.
    """
    _check_stdin(command, capabilities.max_stdin_bytes)
    carriage = _without_damage(command, carriage)
    direct = _directly(command, carriage) if capabilities.half_close and carriage.env else None
    limit = min(MAX_ARGUMENT, capabilities.max_script_bytes or MAX_ARGUMENT)
    if direct is not None and _size(*direct) <= limit and _arrives(carriage, *direct):
        script, *args = direct
        return Prepared(
            _launch_of(command, carriage, script, tuple(args), _announce(command)),
            b"",
            frames=False,
        )
    return _on_stdin(command, carriage, limit, framed=not capabilities.half_close)


def _without_damage(command: Command, carriage: Carriage) -> Carriage:
    """Variables that the backend's transport would damage travel on stdin."""
    return replace(carriage, env=carriage.env and _arrives(carriage, *command.env.values()))


def _check_stdin(command: Command, limit: int | None) -> None:
    size = command.stdin.size if command.stdin else 0
    if limit is not None and size is not None and size > limit:
        raise PayloadTooLarge(f"stdin: {size} bytes is over the backend's limit of {limit} bytes")


def _directly(command: Command, carriage: Carriage) -> tuple[str, ...]:
    """Script and arguments of the command when they travel as arguments."""
    cwd = None if carriage.cwd else command.cwd
    if cwd is None and isinstance(command.program, str):
        return (f"exec 2>&1\n{command.program}" if command.merge_stderr else command.program,)
    if cwd is None:
        return (_shell.run(merge_stderr=command.merge_stderr), *_argv(command))
    return _guarded(command, cwd, _argv(command), _shell.run(merge_stderr=command.merge_stderr))


def _guarded(command: Command, cwd: str | None, argv: tuple[str, ...], run: str) -> tuple[str, ...]:
    if cwd is None:
        return (run, *argv)
    return (_shell.ENTER + run, command.nonce, cwd, *argv)


def _argv(command: Command) -> tuple[str, ...]:
    program = command.program
    return program if isinstance(program, tuple) else ("/bin/sh", "-c", program, "sh")


def _launch_of(
    command: Command,
    carriage: Carriage,
    script: str,
    args: tuple[str, ...],
    stdin: StdinSource | None,
) -> Launch:
    env = _variables(command) if carriage.env else {}
    cwd = command.cwd if carriage.cwd else None
    return Launch(script, args, env, cwd, command.user, stdin, command.id, command.timeout)


def _variables(command: Command) -> dict[str, str]:
    return {**command.env, COMMAND_ID_VARIABLE: command.id}


def _size(*texts: str) -> int:
    """Bytes that these take as arguments."""
    return sum(len(encode_lossless(text)) + 1 for text in texts)


def _arrives(carriage: Carriage, *texts: str) -> bool:
    return carriage.raw_bytes or all(text.isascii() for text in texts)


def _announce(command: Command) -> StdinSource | None:
    return StdinSource(None, iter(())) if command.live_stdin else command.stdin


def _on_stdin(command: Command, carriage: Carriage, limit: int, *, framed: bool) -> Prepared:
    """Everything but a constant launcher goes through stdin, ahead of the payload."""
    argv, lead = _lead(command, limit)
    size = _stdin_size(command)
    total = None if size is None else size + len(lead)
    frames = framed and total is None
    merge = command.merge_stderr
    run = _shell.run_framed(total, command.nonce, merge_stderr=merge) if framed else _shell.run(merge_stderr=merge)
    cwd = None if carriage.cwd else command.cwd
    script, *args = _guarded(command, cwd, argv, run)
    head = _shell.prelude(script, args, {} if carriage.env else _variables(command), command.nonce)
    launch = _launch_of(command, carriage, _shell.LAUNCHER, (command.nonce,), StdinSource(None, iter(())))
    return Prepared(launch, head + (_shell.frame(lead) if frames and lead else lead), frames)


def _lead(command: Command, limit: int) -> tuple[tuple[str, ...], bytes]:
    """The argv to launch, and what it reads first: a script too large for an argument follows on stdin."""
    argv = _argv(command)
    if isinstance(command.program, tuple) or _size(*argv) <= limit:
        return argv, b""
    nonce = command.nonce[::-1]
    lead = encode_lossless(f"{command.program}\n{nonce}\n")
    return ("/bin/sh", "-c", _shell.LAUNCHER, "sh", nonce), lead


def _stdin_size(command: Command) -> int | None:
    if command.live_stdin:
        return None
    return 0 if command.stdin is None else command.stdin.size


def payload(command: Command, *, frames: bool) -> Iterator[bytes | memoryview]:
    """What follows the head on stdin."""
    chunks = command.stdin.chunks if command.stdin is not None else iter(())
    return iter(_shell.frames(chunks)) if frames else chunks
