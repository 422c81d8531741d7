"""Sandboxes for inspect_ai: every backend as a `SandboxEnvironment` provider.

inspect_ai finds this module through its entry point group. ``sandbox="hermes-docker"`` is the backend `docker` with its
defaults, and so for every backend that is installed; ``SandboxEnvironmentSpec("hermes_env", SandboxConfig(...))`` takes
options. The name of a TOML or JSON file with the fields of `SandboxConfig` works where inspect_ai takes text.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import tomllib
from pathlib import Path
from typing import Any, Literal, overload

from pydantic import BaseModel, ConfigDict, Field

from hermes_env import BackendUnavailable, EnvironmentGone, InvalidArgument, aio, list_backends, reap

from . import runtime

with runtime("inspect"):
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentConfigType,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        sandboxenv,
    )

__all__ = ["HermesSandbox", "SandboxConfig"]


class SandboxConfig(BaseModel):
    """How the environment of each sample is opened; the fields are the arguments of `hermes_env.open_environment`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str | None = None
    """None is the one in the provider's name, and `local` for ``hermes_env``."""
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    timeout: float | None = None
    options: dict[str, Any] = Field(default_factory=dict, repr=False)

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


class HermesSandbox(SandboxEnvironment):
    """The sandbox of one sample. It belongs to the asyncio loop in which the sample runs.

    Where an environment shares its files with others (`local`, `ssh`), each sample works in a directory of its own,
    unless `cwd` is given; that directory goes with the sample.
    """

    backend = "local"

    def __init__(self, env: aio.Environment, directory: str | None) -> None:
        super().__init__()
        self.env = env
        self._directory = directory
        self._names: set[str] | None = None

    # -- life -----------------------------------------------------------------------------------------------------

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Open an environment; `config` is a `SandboxConfig` or the name of a file with its fields."""
        given = _load(config)
        settings = {"cwd": given.cwd, "env": given.env, "timeout": given.timeout, **given.options}
        env = await aio.open_environment(given.backend or cls.backend, **settings)
        try:
            shared = given.cwd is None and env.capabilities.isolation in ("none", "host")
            return {"default": cls(env, await _make_directory(env) if shared else None)}
        except BaseException:
            await env.close()
            raise

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Close every environment of the sample, and remove the directory that was made for it."""
        for sandbox in environments.values():
            await sandbox.as_type(HermesSandbox).close()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:  # noqa: A002 - the name is inspect_ai's
        """Remove what killed programs of this machine left at the backend's provider; `id` is not used."""
        await asyncio.to_thread(reap, cls.backend)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """A `SandboxConfig` from a log or a command line."""
        return SandboxConfig(**config)

    async def close(self) -> None:
        """Close the environment, and remove the directory that was made for the sample."""
        try:
            if self._directory is not None:
                await self.env.files.remove(self._directory, recursive=True)
        finally:
            await self.env.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - the name is inspect_ai's
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,  # noqa: ASYNC109 - the deadline of the command, which kills it
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command. It is never run a second time: `timeout_retry` is not used, nor is `concurrency`."""
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        user = await self._user(user)
        stdin = input.encode("utf-8", "surrogateescape") if isinstance(input, str) else input
        where = self._path(cwd or "")
        try:
            done = await self.env.exec(
                cmd, stdin=stdin, cwd=where or None, env=env, user=user, timeout=timeout, output_limit=limit
            )
        except (BackendUnavailable, EnvironmentGone) as error:
            raise SandboxUnavailableError(str(error)) from error
        except InvalidArgument as error:
            raise (SandboxUserUnsupportedError(str(error)) if error.argument == "user" else error) from error
        stdout, stderr = (data.decode("utf-8", "replace") for data in (done.stdout, done.stderr))
        if done.truncated:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout or stderr)
        if done.exit_code == _NOT_EXECUTABLE and "denied" in stderr:
            raise PermissionError(stderr.strip())
        return ExecResult(done.ok, done.exit_code, stdout, stderr)

    async def _user(self, user: str | None) -> str | None:
        """The user to ask the backend for; one that commands run as anyway is always possible."""
        if user is None or self.env.capabilities.users:
            return user
        if self._names is None:
            self._names = set((await self.env.exec("id -u; id -un")).text.split())
        if user not in self._names:
            raise SandboxUserUnsupportedError(f"commands run as {' or '.join(sorted(self._names))}, never as {user!r}")
        return None

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Give a file exactly these bytes, checked; missing directories are made."""
        data = contents.encode("utf-8", "surrogateescape") if isinstance(contents, str) else contents
        await self.env.files.write_bytes(self._path(file), data, make_parents=True)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """The bytes of a file, checked, or its text; line endings stay as they are."""
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        data = await self.env.files.read_bytes(self._path(file), limit=limit + 1)
        if len(data) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return data.decode("utf-8") if text else data

    def _path(self, path: str) -> str:
        return path if self._directory is None else posixpath.join(self._directory, path)


_NOT_EXECUTABLE = 126
"""Exit code of a POSIX shell for a program that is there and cannot be run."""


def _load(config: SandboxEnvironmentConfigType | None) -> SandboxConfig:
    if isinstance(config, str):
        text = Path(config).read_text(encoding="utf-8")
        return SandboxConfig(**(tomllib.loads(text) if config.endswith(".toml") else json.loads(text)))
    return SandboxConfig() if config is None else SandboxConfig.model_validate(config)


async def _make_directory(env: aio.Environment) -> str:
    made = await env.exec("umask 077 && mktemp -d", check=True)
    return made.text.removesuffix("\n")


sandboxenv(name="hermes_env")(HermesSandbox)
for _info in list_backends():
    _kind = type(f"HermesSandbox_{_info.name}", (HermesSandbox,), {"backend": _info.name, "__module__": __name__})
    sandboxenv(name=f"hermes-{_info.name}")(_kind)
