"""Everything that the emulator knows while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.emulators._faults import Faults, Log
from tests.emulators._http import KINDS, Refusal

from ._sandboxes import Sandbox, destroy, pids_of

if TYPE_CHECKING:
    from ._switches import Switches


@dataclass(slots=True)
class State:
    """One organization."""

    root: str
    key: str
    switches: Switches
    url: str = ""
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    log: Log = field(default_factory=Log)
    notify: Callable[..., Awaitable[Any]] | None = None
    runners: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2048, "run"))

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of faults that it knows."""
        return KINDS | {"replay"}

    def find(self, id_or_name: str) -> Sandbox:
        """A sandbox.

        Raises:
            Refusal: There is none.
        """
        found = self.sandboxes.get(id_or_name) or next(
            (box for box in self.sandboxes.values() if box.name == id_or_name), None
        )
        if found is None:
            raise Refusal(404, "SANDBOX_NOT_FOUND", f"Sandbox with ID or name {id_or_name} not found")
        if found.state == "starting" and time.time() >= found.ready_at:
            found.state = "started"
        return found

    def running(self, identity: str) -> Sandbox:
        """A sandbox that takes requests.

        Raises:
            Refusal: There is none, or it is not started.
        """
        box = self.find(identity)
        if box.state != "started":
            raise Refusal(400, "BAD_REQUEST", "no IP address found. Is the Sandbox started?")
        box.last_activity = time.time()
        return box

    def json(self, box: Sandbox) -> dict[str, Any]:
        """What the control plane answers about it."""
        return box.to_json(f"{self.url}/toolbox")

    async def announce(self, box: Sandbox, old: str) -> None:
        """Tell listening clients about a change of state."""
        if self.notify is not None and old != box.state:
            event = {"sandbox": {"id": box.id, "state": box.state}, "oldState": old, "newState": box.state}
            await self.notify("sandbox.state.updated", event)

    def take_away(self, identity: str, state: str) -> None:
        """End a sandbox's processes; destroyed ones are forgotten."""
        box = self.sandboxes[identity]
        if state == "destroyed":
            del self.sandboxes[identity]
            destroy(box)
        else:
            box.state = state
            box.kill_all()

    async def watch(self) -> None:
        """Stop idle sandboxes and destroy those whose time is over."""
        while True:
            await asyncio.sleep(min(1.0, self.switches.minute_seconds / 10))
            minute, now = self.switches.minute_seconds, time.time()
            for box in list(self.sandboxes.values()):
                if box.ttl and now > box.created + box.ttl * minute:
                    await self._end(box, "destroyed")
                elif box.idle(now, minute):
                    await self._end(box, "destroyed" if box.auto_delete == 0 else "stopped")

    async def _end(self, box: Sandbox, state: str) -> None:
        old = box.state
        await asyncio.to_thread(self.take_away, box.id, state)
        await self.announce(box, old)

    def describe(self, sandbox: str) -> dict[str, Any]:
        """Everything that a test may ask."""
        chosen = [box for box in self.sandboxes.values() if sandbox in ("", box.id)]
        return {
            "sandboxes": {
                box.id: {**self.json(box), "root": box.root, "home": box.home, "pids": pids_of(box.id)}
                for box in chosen
            },
        }


STATE: web.AppKey[State] = web.AppKey("state", State)
