"""Oddities of the vendor, each a named switch with the source it was read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.emulators._switches import SwitchSet

SDK_VERSION = "0.226.1"
"""Release of the SDK that this emulator was read from and is tested with."""


@dataclass(frozen=True, slots=True)
class Switches(SwitchSet):
    """What this emulator imitates. Sources: *SDK* is release 0.226.1, *daemon* the public release v0.190.0."""

    isolated: bool = True
    """Each sandbox has a process table of its own, where the kernel lets us make one. The files stay this machine's."""
    shell: Literal["zsh", "bash", "dash"] = "zsh"
    """Shell that reads the command from its stdin. SDK: "run by the first available of zsh, bash or sh"; daemon:
    the first of them that /etc/shells lists; the default snapshot has zsh."""
    output_as_text: bool = True
    """Output is one JSON string: each invalid UTF-8 byte becomes one U+FFFD. Daemon: Go's encoding/json."""
    keep_output_on_timeout: bool = False
    """False: a command over its time answers 408 without output. Daemon process/execute; issue 5144 (live)."""
    wait_for_pipe_end: bool = True
    """The answer waits until nobody holds the output pipe. Daemon: Go's Cmd.Wait with a buffer as stdout."""
    upload_mode: int = 0o666
    """Mode of a new uploaded file before the umask. Daemon fs/upload: os.Create."""
    trim_upload_paths: bool = True
    """White space around an upload's path is cut off. Daemon fs/upload."""
    fixed_boundary: bool = True
    """Downloads use one constant multipart boundary, whatever the content. Daemon fs/download."""
    errors: Literal["coded", "bare"] = "coded"
    """coded: envelope with code and source (0.2xx). bare: no source, and an empty body for file errors (0.190)."""
    start_seconds: float = 0.0
    """A sandbox is ``starting`` for so long after it was made or started; 0 answers ``started`` at once."""
    minute_seconds: float = 60.0
    """Length of a minute for the auto-stop interval and the lifetime, so that tests need not wait."""
    default_auto_stop: int = 15
    """Minutes until an idle sandbox is stopped when the client names none. Docs: v0 sandbox management."""
    max_sandboxes: int = 0
    """More sandboxes than this are refused by 403; 0 is no limit. Docs: resource tiers."""
