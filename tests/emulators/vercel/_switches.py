"""Oddities of the vendor, each a named switch with the source it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.emulators._switches import SwitchSet

SDK_VERSION = "0.10.0"
"""Release of `vercel-sandbox` that this emulator was read from and is tested with."""


@dataclass(frozen=True, slots=True)
class Switches(SwitchSet):
    """What this emulator imitates.

    Sources: *SDK* is release 0.10.0 and its documents, *API* the service's published reference, *issue* a public
    report, *open* a question that only the hosted service can answer: both answers can be chosen.
    """

    isolated: bool = True
    """Each sandbox has a process table of its own, where the emulator runs as root. The files stay this machine's."""
    account: str = ""
    """User of this machine that commands and files of sandboxes belong to, where the emulator is root, while `sudo` is
    root. Empty: the user that the emulator runs as. Image: an account of its own, uid 1000, with sudo."""
    log_decode: Literal["chunk", "incremental"] = "chunk"
    """Output is JSON text. chunk: each piece that was read from the pipe is decoded by itself, so that a character cut
    by its edge becomes U+FFFD. Issues vercel-py 128 and vercel-labs/agent-eval 176: a text-only backend that decodes
    chunk by chunk. incremental: only bytes that are no UTF-8 are lost."""
    log_chunk_bytes: int = 32768
    """Largest piece that is read from an output pipe at once. Open; 32 KiB is the buffer of Go's io.Copy."""
    wait_for_pipe_end: bool = True
    """A command is over when nobody holds its output pipes. SDK documents: output streams are to be released promptly.
    False: when its process has ended."""
    kill_scope: Literal["process", "group"] = "process"
    """What a signal reaches. Open."""
    kill_ended: Literal["refused", "accepted"] = "refused"
    """Answer to a signal for a command that is over: 404, or nothing happens. API, kill a command: it must still be
    running; the status is open."""
    signal_exit: Literal["128+n", "-1"] = "128+n"
    """Exit code of a command that died of a signal. SDK's own live test: not 0; the number is open."""
    overwrite: Literal["truncate", "replace"] = "truncate"
    """What an upload does to a file that is there: the same inode is written, or another takes its name. Open."""
    upload_mode: Literal["open", "chmod"] = "open"
    """open: the mode of an entry is given to open(2), so the umask applies and a file that is there keeps its own.
    chmod: it is set when the content has arrived, and every file gets it exactly. Open; a new file asked to be 0600 is
    0600 (SDK's own live test)."""
    stopped: Literal["410", "409", "bare 410"] = "410"
    """Answer to a request for a session that has stopped: 410 or 409 with `sandbox_stopped`, or a 410 without a code.
    SDK recovery: any of them means stopped."""
    destroyed: Literal["404", "410"] = "404"
    """Answer to a request for a session whose sandbox was destroyed: `not_found`, or as of a stopped one. Open."""
    stopped_stream: Literal["sandbox_stream_closed", "sandbox_stopped"] = "sandbox_stream_closed"
    """Code of the record that ends an output stream when its sandbox stops. API, stream command logs: the first is the
    only one; SDK log_stream: it may also mean that only the connection was lost, and the SDK asks again."""
    dispatch_seconds: float = 0.0
    """A command starts so long after the service took its request, whether its client is still there or not. Open."""
    persistent_default: bool = True
    """A sandbox whose client does not say is persistent: stopping it makes a snapshot. SDK documents."""
    requests_per_window: int = 0
    """More requests than this in a window answer 429 with Retry-After; 0 is no limit. API: rate limits; their numbers
    depend on the plan."""
    window_seconds: float = 60.0
    """Length of a window of the rate limit."""
    max_sandboxes: int = 0
    """More running sandboxes than this answer 429; 0 is no limit. Documents: 10 on the smallest plan; the answer is
    open."""
    start_seconds: float = 0.0
    """A sandbox is `pending` for so long; 0 answers `running` at once."""
    stop_seconds: float = 0.0
    """A sandbox is `stopping` for so long; meanwhile requests answer 422 `sandbox_stopping`. SDK recovery."""
    default_limit_seconds: float = 300.0
    """Execution time limit where the client names none. Documents: 5 minutes."""
    max_limit_seconds: float = 2700.0
    """Longest execution time limit, also by extension. Documents: 45 minutes on the smallest plan."""
    max_body_bytes: int = 1_000_000
    """Longest JSON body. SDK process_stdin: "the API's 1 MB limit"."""
    stdin_offsets: bool = True
    """False: an older sandbox, which ignores offsets and tells no `bytesWritten`. API: write to command stdin."""
    stdin_seconds: float = 30.0
    """A write to stdin that the command does not read answers 504 after this. API: write to command stdin."""
