"""A backend whose only channel is command text, given to ``sh -c``; output is one merged text."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

from hermes_env import BackendOptions, Capabilities, HeredocEnvironment, Launch

from . import uploads  # noqa: F401 - registers the error handler
from .faults import Faults, SdkError

_ARGUMENT = 131_071


class TextOptions(BackendOptions):
    """Options of the test backend."""

    root: str
    shell: str = "sh"
    path: str | None = None
    locale: str = "C"
    variables: dict[str, str] | None = None
    sh: str | None = None
    """What the service has as ``/bin/sh``."""
    umask: int = 0o022
    limit: int | None = None
    """Characters of command text that are taken."""


class TextEnvironment(HeredocEnvironment):
    """Runs ``shell -c text`` and gives back what it printed."""

    Options = TextOptions
    options: TextOptions

    def _open(self) -> None:
        os.makedirs(f"{self.options.root}/tmp", exist_ok=True)
        program, *words = self.options.shell.split()
        self._shell = [shutil.which(program) or program, *words]
        self.faults = Faults()
        self.capabilities = Capabilities(
            separate_stderr=True,
            exact_stdout=True,
            streaming=True,
            kill_scope="command",
            max_script_bytes=self.options.limit,
        )

    def _stage(self, path: str, chunks: Iterator[bytes]) -> None:
        """As the framework does it, but for the name of the shell in scripts."""
        own = (self.options.sh or "/bin/sh").encode()
        scripts = (chunk.replace(b"/bin/sh", own) for chunk in chunks)
        super()._stage(path, scripts if path.endswith(".sh") else chunks)

    def _run(self, script: str, launch: Launch) -> str:
        return self.faults.apply("run", script, lambda: self._execute(script))

    def _execute(self, script: str) -> str:
        text = script.replace("exec /bin/sh", f"exec {self.options.sh or '/bin/sh'}", 1)
        if len(script) > (self.options.limit or _ARGUMENT):
            raise SdkError("the text is too long")
        done = subprocess.run(
            [*self._shell, "-c", text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.options.root,
            env={
                "PATH": self.options.path or os.environ["PATH"],
                "TMPDIR": f"{self.options.root}/tmp",
                "HOME": self.options.root,
                "LC_ALL": self.options.locale,
                **(self.options.variables or {}),
            },
            start_new_session=True,
            umask=self.options.umask,
            check=False,
        )
        return done.stdout.decode("utf-8", "one-for-each-byte")
