"""One environment as a workspace backend of pydantic-ai."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai import workspaces
from pydantic_ai.workspaces import CommandResult, FileEntry, WorkspaceRef, WorkspaceUnavailableError

from hermes_env import BackendUnavailable, CommandCancelled, CommandTimeout, EnvironmentGone, OutcomeUnknown, aio

if TYPE_CHECKING:
    from hermes_env import ExecResult
    from hermes_env.files import FileStat, Surveyed


PROVIDER = "hermes_env"
"""Of the refs that are ours; their id is a ref of `hermes_env`, or a directory."""
_PREVIEW = 1 << 16
"""Bytes of each stream that an error about too much output carries."""


class HermesWorkspaceBackend:
    """One environment: commands and files. It is opened, or what `ref` names is attached to, by the first operation.

    Where the backend can be attached to, the ref names the environment. Elsewhere (`local`) it names the
    directory, which is then what the workspace is: it must exist, and is gone when it does not.
    """

    def __init__(self, backend: str, options: Mapping[str, Any] | None = None, ref: WorkspaceRef | None = None) -> None:
        self._backend, self._options, self.ref = backend, dict(options or {}), ref
        self._opening = asyncio.Lock()
        self._env: aio.Environment | None = None
        self._directory = ""

    async def destroy(self) -> None:
        """End an environment that this object made; one that it attached to is only let go."""
        if self._env is not None:
            await self._env.close()

    async def release(self) -> None:
        """Leave the environment as it is; its running commands are killed. A later operation attaches to it again."""
        async with self._opening:
            env, self._env, self._directory = self._env, None, ""
        if env is not None:
            await (env.detach() if env.capabilities.reattach else env.close())

    async def _open(self) -> aio.Environment:
        async with self._opening:
            if self._env is None:
                self._env = env = await self._made()
                if self.ref is None and env.capabilities.reattach:
                    self.ref = WorkspaceRef(provider=PROVIDER, id=env.ref)
            if not self._directory:
                here = await _look(self._env, ".")
                if here.stat is None or here.real is None:
                    raise WorkspaceUnavailableError(f"the directory of {self.ref} is gone")
                self.ref = self.ref or WorkspaceRef(provider=PROVIDER, id=self._options.get("cwd") or here.real)
                self._directory = here.real
            return self._env

    async def _made(self) -> aio.Environment:
        if self.ref is not None and "://" in self.ref.id:
            return await aio.attach(self.ref.id, **self._options)
        settings = self._options if self.ref is None else {**self._options, "cwd": self.ref.id}
        return await aio.open_environment(self._backend, **settings)

    @contextlib.asynccontextmanager
    async def _environment(self) -> AsyncIterator[aio.Environment]:
        """The environment; what says that it is gone becomes the runtime's error for that."""
        try:
            env = await self._open()
        except (BackendUnavailable, EnvironmentGone) as error:
            raise WorkspaceUnavailableError(str(error)) from error
        try:
            yield env
        except (BackendUnavailable, CommandCancelled, EnvironmentGone, FileNotFoundError, OutcomeUnknown) as error:
            await self._check(env, error)
            raise

    async def _check(self, env: aio.Environment, cause: Exception | None = None) -> None:
        """Raise when the environment or its directory is gone."""
        with contextlib.suppress(BackendUnavailable, EnvironmentGone):
            if await env.alive() and (await _look(env, self._directory)).stat:
                return
        raise WorkspaceUnavailableError(f"{self.ref} is gone") from cause

    async def working_dir(self) -> str:
        """Where commands start, symbolic links resolved."""
        async with self._environment() as env:
            await self._check(env)
        return self._directory

    async def run(
        self,
        command: workspaces.WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline of the command, which kills it
    ) -> CommandResult:
        """Run an argv, or with `shell` a POSIX sh script; stdin is at its end."""
        if isinstance(command, str) is not shell:
            raise TypeError("text needs shell=True, an argv sequence shell=False")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError(f"timeout: must be positive and finite, not {timeout!r}")
        async with self._environment() as here:
            try:
                done = await here.exec(command, cwd=self._directory, env=env, timeout=timeout)
            except CommandTimeout as error:
                raise workspaces.WorkspaceTimeoutError(str(error), **_texts(error.result)) from error
            if not done.ok or here.capabilities.isolation in ("none", "host"):
                await self._check(here)
        if done.truncated:
            kept = max(len(done.stdout), len(done.stderr))
            told = f"output over {kept} bytes: write it to a file and read that"
            raise workspaces.WorkspaceOutputLimitError(told, limit=kept, **_texts(done, _PREVIEW))
        return CommandResult(exit_code=done.exit_code, **_texts(done))

    async def read_bytes(self, path: str) -> bytes:
        """The bytes of a file, checked."""
        async with self._environment() as env:
            return await env.files.read_bytes(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Give a file exactly these bytes, checked; missing directories are made."""
        async with self._environment() as env:
            await env.files.write_bytes(path, data, make_parents=True)

    async def stat(self, path: str) -> FileEntry:
        """One entry, symbolic links followed."""
        async with self._environment() as env:
            found = await env.files.stat(path)
        return _entry(path, found)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """The entries of a directory, links followed."""
        async with self._environment() as env:
            found = await env.files.list_dir(path)
            links = [each.path for each in found if each.kind == "symlink"]
            targets = (await env.files.survey(links, most=0)).files if links else {}
        return [_entry(each.path, targets[each.path].stat if each.path in targets else each) for each in found]

    async def make_dir(self, path: str) -> None:
        """Make a directory and its parents."""
        async with self._environment() as env:
            await env.files.make_dir(path, parents=True)

    async def remove(self, path: str) -> None:
        """Remove a file, a link or a tree; never the working directory or one above it."""
        async with self._environment() as env:
            found = await _look(env, path)
            if not found.link and found.real and f"{self._directory}/".startswith(posixpath.join(found.real, "")):
                raise ValueError(f"{path} is the working directory or above it")
            await env.files.remove(path, recursive=True)

    async def exists(self, path: str) -> bool:
        """Whether something has this name."""
        async with self._environment() as env:
            return await env.files.exists(path)


async def _look(env: aio.Environment, path: str) -> Surveyed:
    return (await env.files.survey([path], most=0)).files[path]


def _texts(done: ExecResult, most: int | None = None) -> dict[str, str]:
    streams = {"stdout": done.stdout, "stderr": done.stderr}
    return {name: data[:most].decode("utf-8", "replace") for name, data in streams.items()}


def _entry(path: str, found: FileStat | None) -> FileEntry:
    """One entry; a link that leads nowhere is no directory and has no size."""
    kind, size = (found.kind, found.size) if found is not None else (None, None)
    name = posixpath.basename(path.rstrip("/"))
    return FileEntry(name=name, path=path, is_dir=kind == "directory", size=size if kind == "file" else None)
