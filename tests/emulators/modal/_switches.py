"""Oddities of the vendor, each a named switch with the source it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.emulators._switches import SwitchSet

SDK_VERSION = "1.6.4"
"""Release of the SDK that this emulator was read from and is tested with."""


@dataclass(frozen=True, slots=True)
class Switches(SwitchSet):
    """What this emulator imitates. *SDK* is release 1.6.4; *open* is what only the hosted service can show."""

    isolated: bool = True
    """Each sandbox has a root and a process table of its own, where the emulator runs as root and the kernel lets it.
    The files of this machine are its image; /tmp, /run and /dev/shm are empty."""
    max_argv_bytes: int = 131072
    """Arguments of more UTF-8 bytes are refused. SDK sandbox/_common: "by probing in production, the limit is 131072
    bytes"; the SDK's own limit counts 65,536 characters."""
    max_stdin_bytes: int = 16 << 20
    """A write with more bytes is refused. SDK io_streams: the largest buffer that `drain` sends in one message."""
    stdin_counted: Literal["handed", "answered"] = "handed"
    """When a byte of stdin counts as written: when the pipe has taken it, or when the whole write is done. The second
    is a fault: what a cut-off write had handed over comes twice, and the SDK sees nothing of it. Open."""
    stdin_ahead: int = 0
    """Bytes of stdin that the worker takes before the pipe does: a write is answered though nobody reads it. Open."""
    output_part: int = 64 << 10
    """Most bytes of output in one message. Open; the SDK takes any size but 0."""
    wait_for_pipe_end: bool = True
    """A stream of a command ends when nobody holds its pipe, not when the command ends. Open."""
    timeout_status: Literal["minus_one", "killed"] = "minus_one"
    """What `wait` and `poll` answer of a command that was killed at its timeout: code -1, or signal 9. SDK
    container_process: -1 when its own deadline comes first; a review of the vendor's other SDKs saw 137 come first."""
    eof_after_exit: Literal["conflict", "taken"] = "conflict"
    """What an end of stdin meets that comes after the command ended. Open."""
    start_failure: Literal["invalid", "code"] = "invalid"
    """A command that cannot be started: the call is refused as INVALID_ARGUMENT, or it "ran" with 127 or 126. Open."""
    jwt_seconds: float = 3600.0
    """Life of a worker's token. SDK: refreshed when the worker says UNAUTHENTICATED and less than 30 s are left."""
    auth_seconds: float = 1200.0
    """Life of the control plane's token. SDK auth_token_manager: refreshed at 50 to 60 % of it."""
    idempotent: bool = True
    """A call of the control plane that comes again with its ``x-idempotency-key`` is answered as before. SDK
    grpc_utils sends the key with every attempt; what the service does with it is open."""
    schedule_seconds: float = 0.0
    """The worker of a new sandbox refuses connections for so long. SDK task_command_router_client: "in rare cases the
    sandbox may take a long time to start"."""
    page: int = 50
    """Sandboxes in one answer of a listing; the SDK asks on until an answer is empty."""
    max_sandboxes: int = 0
    """More running sandboxes than this are refused as RESOURCE_EXHAUSTED; 0 is no limit."""
    workdir: str = "/root"
    """Directory of commands where neither sandbox nor command names one. Open; the SDK's images are debian's root."""
