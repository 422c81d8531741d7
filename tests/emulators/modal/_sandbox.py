"""One sandbox: its commands, its end, and the worker that serves it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from modal_proto import api_pb2

from ._place import ENTRY, Place
from ._streams import Changes, Output, Stdin

if TYPE_CHECKING:
    from ._switches import Switches
    from ._worker import Worker

Result = api_pb2.GenericResult


@dataclass(slots=True)
class Exec:
    """A command: its streams, and how it ended."""

    name: str
    argv: list[str]
    stdin: Stdin
    stdout: Output
    stderr: Output
    status: tuple[str, int] | None = None
    timed_out: bool = False
    changes: Changes = field(default_factory=Changes)
    timer: asyncio.TimerHandle | None = None
    feeder: asyncio.Task[Any] | None = None
    """The stream of stdin that is being taken; another one takes its place."""

    def finish(self, status: tuple[str, int], *, wait_for_pipe_end: bool) -> None:
        """It has ended."""
        self.status = status
        self.stdin.reader_gone()
        if not wait_for_pipe_end:
            self.stdout.end_when_empty()
            self.stderr.end_when_empty()
        if self.timer is not None:
            self.timer.cancel()
        self.changes.tell()

    def describe(self) -> dict[str, Any]:
        """What a test may want to know; arguments are cut."""
        argv = [argument[:200] for argument in self.argv]
        return {"argv": argv, "status": self.status, "stdin": self.stdin.written, "stdout": self.stdout.size}

    def forget(self) -> None:
        """Let go of its streams."""
        self.stdin.reader_gone()
        self.stdout.forget()
        self.stderr.forget()
        self.changes.tell()


@dataclass(slots=True)
class Sandbox:
    """What the control plane and the worker know of a sandbox."""

    id: str
    task_id: str
    app_id: str
    definition: api_pb2.Sandbox
    tags: dict[str, str]
    env: dict[str, str]
    directory: str
    created: float
    switches: Switches
    worker: Worker | None = None
    execs: dict[str, Exec] = field(default_factory=dict)
    starting: dict[str, asyncio.Task[Exec]] = field(default_factory=dict)
    result: Result | None = None
    changes: Changes = field(default_factory=Changes)
    last_activity: float = field(default_factory=time.monotonic)
    begun: float = field(default_factory=time.monotonic)
    is_worker_gone: bool = False
    entry: Exec | None = None
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        self.place = Place(self.id, self.directory, self._ended)

    @property
    def name(self) -> str:
        """The name that it was given, or nothing."""
        return self.definition.name

    @property
    def state(self) -> str:
        """``running``, or the name of its result."""
        if self.result is None:
            return "worker_gone" if self.is_worker_gone else "running"
        return Result.GenericStatus.Name(self.result.status).removeprefix("GENERIC_STATUS_").lower()

    async def begin(self, volumes: list[tuple[str, str, bool]]) -> None:
        """Make its place, and run its entrypoint."""
        os.makedirs(self.directory, mode=0o755)
        blocked = self.definition.network_access.network_access_type == api_pb2.NetworkAccess.BLOCKED
        await self.place.open(volumes, isolated=self.switches.isolated, home=self.switches.workdir, network=not blocked)
        argv = list(self.definition.entrypoint_args) or ["sleep", "172800"]
        try:
            self.entry = await self.run(ENTRY, argv, {}, self.definition.workdir)
        except GRPCError:
            await self.place.end()
            raise

    @property
    def home(self) -> str:
        """The directory of commands that name none."""
        return self.switches.workdir if self.place.is_isolated else self.directory

    def environ(self) -> dict[str, str]:
        """Variables of its processes."""
        base = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root" if self.place.is_isolated else self.directory,
            "LANG": "C.UTF-8",
            "MODAL_TASK_ID": self.task_id,
        }
        return {**base, **self.env}

    async def run(
        self,
        name: str,
        argv: list[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        kept: tuple[bool, bool] = (True, True),
        merged: bool = False,
    ) -> Exec:
        """Start a command.

        Args:
            name: How it is called from now on.
            argv: Its arguments.
            env: Variables besides the sandbox's.
            cwd: Its directory, or nothing.
            kept: Whether its output is kept, of each stream.
            merged: Its stderr goes where its stdout goes.

        Raises:
            GRPCError: It could not be started.
        """
        stdin, stdin_here = os.pipe()
        stdout_here, stdout = os.pipe()
        stderr_here, stderr = os.pipe()
        devnull = os.open(os.devnull, os.O_WRONLY)
        out = stdout if kept[0] else devnull
        streams = [stdin, out, out if merged else stderr if kept[1] else devnull]
        is_late = self.switches.stdin_counted == "answered"
        pipe = Stdin(stdin_here, counts_late=is_late, ahead=self.switches.stdin_ahead)
        run = Exec(name, argv, pipe, Output(stdout_here), Output(stderr_here))
        self.execs[name] = run
        try:
            came = await self.place.start(name, argv, {**self.environ(), **env}, cwd or self.home, streams)
        except EOFError:
            self.execs.pop(name).forget()
            raise GRPCError(Status.NOT_FOUND, "task has ended") from None
        finally:
            for end in (stdin, stdout, stderr, devnull):
                os.close(end)
        if "failed" in came:
            self._not_started(run, came)
        return run

    def _not_started(self, run: Exec, came: dict[str, Any]) -> None:
        if self.switches.start_failure == "code":
            run.finish(("code", 127 if "No such file" in came["text"] else 126), wait_for_pipe_end=True)
            return
        del self.execs[run.name]
        run.forget()
        raise GRPCError(Status.INVALID_ARGUMENT, f"failed to start {came['where']}: {came['text']}")

    def _ended(self, name: str, status: tuple[str, int]) -> None:
        run = self.execs.get(name)
        if run is None or self.result is not None or self.is_worker_gone:
            return
        if run.timed_out and self.switches.timeout_status == "minus_one":
            status = ("code", -1)
        self.last_activity = time.monotonic()
        run.finish(status, wait_for_pipe_end=self.switches.wait_for_pipe_end)
        if name == ENTRY:
            code = status[1] if status[0] == "code" else 128 + status[1]
            outcome = Result.GENERIC_STATUS_SUCCESS if code == 0 else Result.GENERIC_STATUS_FAILURE
            task = asyncio.ensure_future(self.end(Result(status=outcome, exitcode=code)))
            task.add_done_callback(lambda done: done.exception())

    async def end(self, result: Result) -> None:
        """End it: whoever asks is told so before the first process is killed."""
        if self.result is not None:
            return
        self.result = result
        self.changes.tell()
        for run in self.execs.values():
            run.changes.tell()
        await self.place.end()
        for run in self.execs.values():
            if run is self.entry:
                run.finish(run.status or ("signal", 9), wait_for_pipe_end=False)
            else:
                run.forget()

    async def lose_worker(self) -> None:
        """The worker goes away with everything on it; the control plane has not noticed."""
        self.is_worker_gone = True
        if self.worker is not None:
            self.worker.vanish()
        await self.place.end()
        for run in self.execs.values():
            run.forget()

    def expired(self) -> Result | None:
        """The result of a sandbox whose time is over."""
        now, given = time.monotonic(), self.definition
        if given.timeout_secs and now > self.begun + given.timeout_secs:
            return Result(status=Result.GENERIC_STATUS_TIMEOUT)
        busy = any(run.status is None for run in self.execs.values() if run is not self.entry)
        if given.idle_timeout_secs and not busy and now > self.last_activity + given.idle_timeout_secs:
            return Result(status=Result.GENERIC_STATUS_IDLE_TIMEOUT)
        return None

    def describe(self, pids: list[int]) -> dict[str, Any]:
        """What a test may want to know; `pids` are its processes."""
        given = self.definition
        return {
            "state": self.state,
            "task_id": self.task_id,
            "name": self.name,
            "tags": self.tags,
            "app_id": self.app_id,
            "root": self.place.root if self.result is None else "",
            "home": self.home,
            "first": self.place.pid,
            "isolated": self.place.is_isolated,
            "pids": pids,
            "url": self.worker.url if self.worker else "",
            "connections": self.worker.accepted if self.worker else 0,
            "open_connections": self.worker.open if self.worker else 0,
            "cpu": given.resources.milli_cpu / 1000,
            "memory": given.resources.memory_mb,
            "gpu": given.resources.gpu_config.gpu_type,
            "image_id": given.image_id,
            "timeout": given.timeout_secs,
            "idle_timeout": given.idle_timeout_secs,
            "workdir": given.workdir,
            "regions": list(given.scheduler_placement.regions),
            "execs": {run.name: run.describe() for run in self.execs.values()},
        }
