"""Sandboxes for deepagents: every backend as a `BaseSandbox`.

::

    with open_environment("docker", image="…") as env:
        agent = create_deep_agent(..., backend=HermesSandbox(env))

deepagents derives reading, listing, searching and editing from commands: they need ``python3`` and ``grep`` in the
environment. `upload_files` and `download_files` carry exact bytes and need neither; `write` goes through the former.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from hermes_env import BaseEnvironment, CommandTimeout, ExecResult, InvalidArgument, aio

from . import runtime

with runtime("deepagents"):
    from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
    from deepagents.backends.sandbox import BaseSandbox

__all__ = ["HermesSandbox"]

TIMED_OUT = 124
"""Exit code of a command that was killed when its time ran out, as `timeout` has it."""

_ERRORS: dict[type[Exception], str] = {
    FileNotFoundError: "file_not_found",
    PermissionError: "permission_denied",
    IsADirectoryError: "is_directory",
    NotADirectoryError: "invalid_path",
    InvalidArgument: "invalid_path",
}
"""The codes that deepagents has for what a model can put right itself."""


class HermesSandbox(BaseSandbox):
    """An open environment. Whoever opened it closes it."""

    def __init__(self, env: BaseEnvironment) -> None:
        """Use `env`; its `timeout` is that of every command without one of its own."""
        self.env = env
        self._id = env.ref if env.capabilities.reattach else f"{env.backend_name}-{uuid4().hex[:12]}"

    @property
    def id(self) -> str:
        """What `hermes_env.attach` takes, where the backend can be attached to."""
        return self._id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a POSIX sh script; both streams in the order in which it wrote. A `timeout` of 0 is none."""
        try:
            return _response(self.env.exec(command, merge_stderr=True, timeout=_seconds(timeout)))
        except CommandTimeout as error:
            return _out_of_time(error)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:  # noqa: ASYNC109
        """The same, awaitable. Cancelling the task kills the command."""
        here = aio.Environment(self.env)
        try:
            return _response(await here.exec(command, merge_stderr=True, timeout=_seconds(timeout)))
        except CommandTimeout as error:
            return _out_of_time(error)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Give each file exactly these bytes, checked. Missing directories are made."""
        return [FileUploadResponse(path=path, error=self._upload(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """The exact bytes of each file, checked."""
        return [self._download(path) for path in paths]

    def _upload(self, path: str, data: bytes) -> str | None:
        try:
            self.env.files.write_bytes(_absolute(path), data, make_parents=True)
        except (OSError, InvalidArgument) as error:
            return _code(error)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self.env.files.read_bytes(_absolute(path)))
        except (OSError, InvalidArgument) as error:
            return FileDownloadResponse(path=path, error=_code(error))


def _seconds(timeout: int | None) -> float | None:
    return float("inf") if timeout == 0 else timeout


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise InvalidArgument("path", f"must be absolute, not {path!r}")
    return path


def _code(error: Exception) -> str:
    return next((code for kind, code in _ERRORS.items() if isinstance(error, kind)), str(error))


def _response(done: ExecResult) -> ExecuteResponse:
    output = done.stdout.decode("utf-8", "replace")
    return ExecuteResponse(output=output, exit_code=done.exit_code, truncated=done.truncated)


def _out_of_time(error: CommandTimeout) -> ExecuteResponse:
    """A response too, with what the command wrote until then."""
    told = _response(error.result)
    return replace(told, output=f"{told.output}\n{error}", exit_code=TIMED_OUT)
