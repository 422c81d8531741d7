"""A backend whose SDK uploads files and runs command text, with the oddities of such services.

Command text arrives on the standard input of a shell, output is one merged text in which every undecodable byte has
become U+FFFD, the output of a command over its time limit is lost, uploads are made 0644 in directories made 0755,
and requests may be sent twice. The commands really run, on this machine.
"""

from __future__ import annotations

import codecs
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import ClassVar

from hermes_env import BackendOptions, Capabilities, Launch, StagedEnvironment

from .faults import Faults, SdkError


def _replace_one(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd", error.start + 1


codecs.register_error("one-for-each-byte", _replace_one)


class UploadSdk:
    """The SDK and the service behind it; files live under a directory of the test."""

    def __init__(self, options: UploadOptions) -> None:
        self.root = options.root
        program, *words = options.shell.split()
        self._shell = [shutil.which(program) or program, *words]
        self._sh = options.sh or "/bin/sh"
        self._umask = options.umask
        self._env = {
            "PATH": options.path or os.environ["PATH"],
            "TMPDIR": f"{self.root}/tmp",
            "HOME": self.root,
            **(options.variables or {}),
        }
        self.faults = Faults()
        self.chunk = 65_521
        self.damage: Callable[[Iterator[bytes]], Iterator[bytes]] = lambda chunks: chunks
        """What the way back does to downloads."""

    def upload(self, path: str, source: Iterator[bytes]) -> None:
        """Write a file in place: mode 0644, parents 0755; a failing source leaves a part of it."""
        self.faults.apply("upload", path, lambda: self._upload(path, source))

    def _upload(self, path: str, source: Iterator[bytes]) -> None:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(path, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.writelines(source)

    def download(self, path: str) -> Iterator[bytes]:
        """The content of a file in chunks, as `damage` leaves it."""
        self.faults.apply("download", path, lambda: None)
        with open(path, "rb") as file:
            yield from self.damage(iter(lambda: file.read(self.chunk), b""))

    def delete(self, path: str) -> None:
        """Remove a file.

        Raises:
            FileNotFoundError: It is not there.
        """
        self.faults.apply("delete", path, lambda: os.unlink(path))

    def execute(self, text: str, timeout: float) -> str:
        """Run command text as the script of a shell; returns merged output."""
        return self.faults.apply("execute", text, lambda: self._execute(text, timeout))

    def _execute(self, text: str, timeout: float) -> str:
        process = subprocess.Popen(
            self._shell,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.root,
            env=self._env,
            umask=self._umask,
            start_new_session=True,
        )
        script = text.replace("exec /bin/sh", f"exec {self._sh}", 1)
        try:
            output, _ = process.communicate(script.encode("utf-8", "replace"), timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise SdkError("408 timeout; the output is lost") from None
        return output.decode("utf-8", "one-for-each-byte")


class UploadOptions(BackendOptions):
    """Options of the test backend."""

    root: str
    shell: str = "bash"
    path: str | None = None
    """PATH of the service; None is that of the test."""
    sh: str | None = None
    """What the service has as ``/bin/sh``."""
    variables: dict[str, str] | None = None
    umask: int = 0o022
    time_limit: float = 3600.0


class UploadEnvironment(StagedEnvironment):
    """Runs commands through `UploadSdk`."""

    Options = UploadOptions
    options: UploadOptions
    max_reply_bytes: ClassVar[int] = 1 << 20
    capabilities = Capabilities(separate_stderr=True, exact_stdout=True, streaming=True, kill_scope="command")

    def _open(self) -> None:
        os.makedirs(f"{self.options.root}/tmp", exist_ok=True)
        self.sdk = UploadSdk(self.options)

    def _run(self, script: str, launch: Launch) -> str:
        return self.sdk.execute(script, self.options.time_limit)

    def _stage(self, path: str, chunks: Iterator[bytes]) -> None:
        self.sdk.upload(path, chunks)

    def _unstage(self, path: str) -> None:
        try:
            self.sdk.delete(path)
        except FileNotFoundError:
            return


class DownloadEnvironment(UploadEnvironment):
    """As `UploadEnvironment`, with an SDK that downloads files, too."""

    fetches: ClassVar[bool] = True
    max_reply_bytes: ClassVar[int] = 8 << 20

    def _fetch(self, path: str) -> Iterator[bytes]:
        return self.sdk.download(path)
