"""Everything that the emulator knows while it runs."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import string
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from grpclib import GRPCError, Status

from tests.emulators._faults import Faults, Log
from tests.emulators._processes import by_mark

from ._place import MARK
from ._sandbox import Result, Sandbox
from ._tokens import Mint
from ._worker import Worker

if TYPE_CHECKING:
    from modal_proto import api_pb2

    from ._switches import Switches

T = TypeVar("T")
_ENDINGS = ("drop_before", "drop_during", "drop_after", "abort", "abort_request", "sandbox_gone", "worker_gone")
_HOLDS = ("hold_before", "hold_inside", "hold_after")
KINDS = frozenset(("delay", "status", "throttle", "slow", *_ENDINGS, *_HOLDS))
"""Kinds of faults that this emulator knows."""
_RESULTS = {
    "terminated": Result.GENERIC_STATUS_TERMINATED,
    "timeout": Result.GENERIC_STATUS_TIMEOUT,
    "idle_timeout": Result.GENERIC_STATUS_IDLE_TIMEOUT,
    "internal_failure": Result.GENERIC_STATUS_INTERNAL_FAILURE,
}


def identity(prefix: str, length: int = 22) -> str:
    """An id as the vendor makes them; 22 characters after ``sb-`` say that a sandbox is of the first version."""
    letters = string.ascii_letters + string.digits
    return f"{prefix}-{''.join(secrets.choice(letters) for _ in range(length))}"


@dataclass(slots=True)
class State:
    """One workspace."""

    root: str
    switches: Switches
    token_id: str = field(default_factory=lambda: f"ak-{secrets.token_hex(11)}")
    token_secret: str = field(default_factory=lambda: f"as-{secrets.token_hex(11)}")
    mint: Mint = field(default_factory=Mint)
    """Of the tokens for workers."""
    short: Mint = field(default_factory=Mint)
    """Of the control plane's short-lived tokens."""
    faults: Faults = field(default_factory=Faults)
    log: Log = field(default_factory=Log)
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    apps: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    answers: dict[tuple[str, str], asyncio.Future[Any]] = field(default_factory=dict)
    """What calls of the control plane were answered, by name and idempotency key."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _work: set[asyncio.Future[Any]] = field(default_factory=set)
    _created: float = 0.0

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of faults that it knows."""
        return KINDS

    def keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that goes on whatever becomes of the call that began it."""
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()

    def find(self, sandbox: str) -> Sandbox:
        """A sandbox.

        Raises:
            GRPCError: There is none.
        """
        box = self.sandboxes.get(sandbox)
        if box is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox} not found")
        return box

    def secrets_of(self, ids: Iterable[str]) -> dict[str, str]:
        """The variables of these secrets."""
        env: dict[str, str] = {}
        for one in ids:
            if one not in self.secrets:
                raise GRPCError(Status.NOT_FOUND, f"Secret {one} not found")
            env.update(self.secrets[one][1])
        return env

    async def create(
        self, app: str, given: api_pb2.Sandbox, tags: dict[str, str], env: dict[str, str], *, is_second: bool
    ) -> Sandbox:
        """Make a sandbox.

        Raises:
            GRPCError: The name is taken, a volume is unknown, or there are too many.
        """
        running = [box for box in self.sandboxes.values() if box.result is None]
        if self.switches.max_sandboxes and len(running) >= self.switches.max_sandboxes:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "the workspace has too many sandboxes")
        if given.name and any(box.name == given.name for box in running):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox with name {given.name} already exists")
        one = identity("sb", 26 if is_second else 22)
        # Listings go on before the time of the last one: no two may have the same.
        self._created = max(time.time(), self._created + 1e-5)
        box = Sandbox(
            id=one,
            task_id=identity("ta", 25) + "V" if is_second else identity("ta"),
            app_id=app,
            definition=given,
            tags=tags,
            env=env,
            directory=os.path.join(self.root, one),
            created=self._created,
            switches=self.switches,
        )
        volumes = [(self._volume(mount.volume_id), mount.mount_path, mount.read_only) for mount in given.volume_mounts]
        await box.begin(volumes)
        box.worker = Worker(self, box)
        await box.worker.listen(self.switches.schedule_seconds)
        self.sandboxes[one] = box
        return box

    def _volume(self, one: str) -> str:
        if one not in self.volumes:
            raise GRPCError(Status.NOT_FOUND, f"Volume {one} not found")
        place = os.path.join(self.root, one)
        os.makedirs(place, exist_ok=True)
        return place

    async def lose(self, sandbox: str, what: str) -> None:
        """The provider takes something away.

        Args:
            sandbox: Whose.
            what: ``worker``; or how the sandbox ends, ``terminated`` or another of `_RESULTS`, or ``forgotten``: the
                control plane does not know it any more either.
        """
        box = self.find(sandbox)
        if what in ("worker", "worker_gone"):
            await box.lose_worker()
        else:
            status = _RESULTS.get(what, Result.GENERIC_STATUS_TERMINATED)
            await box.end(Result(status=status))
        if what == "forgotten":
            del self.sandboxes[sandbox]

    def take_away(self, sandbox: str, state: str) -> None:
        """The same, from another thread."""
        asyncio.run_coroutine_threadsafe(self.lose(sandbox, state), self.loop).result()

    async def watch(self) -> None:
        """End sandboxes whose time is over."""
        while True:
            await asyncio.sleep(0.1)
            for box in list(self.sandboxes.values()):
                if box.result is None and (result := box.expired()) is not None:
                    await box.end(result)

    def describe(self, sandbox: str) -> dict[str, Any]:
        """Everything that a test may ask."""
        chosen = [box for box in self.sandboxes.values() if sandbox in ("", box.id)]
        pids = by_mark(MARK)
        return {"sandboxes": {box.id: box.describe(pids.get(box.id, [])) for box in chosen}}

    async def close(self) -> None:
        """End every sandbox."""
        for box in self.sandboxes.values():
            await box.end(Result(status=Result.GENERIC_STATUS_TERMINATED))
        shutil.rmtree(self.root, ignore_errors=True)
