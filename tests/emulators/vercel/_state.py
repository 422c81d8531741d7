"""Everything that the emulator knows while it runs."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.emulators._faults import Faults, Log
from tests.emulators._http import KINDS, Refusal
from tests.emulators._spawning import spawner

from ._answers import not_found
from ._sandboxes import Sandbox, Session, now_ms

if TYPE_CHECKING:
    from ._switches import Switches


@dataclass(slots=True)
class State:
    """One project of one team."""

    root: str
    token: str
    team: str
    project: str
    switches: Switches
    tokens: tuple[str, ...] = ()
    """Other tokens that are accepted."""
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    owners: dict[str, Sandbox] = field(default_factory=dict)
    """Sandboxes by the ids of their sessions."""
    gone: set[str] = field(default_factory=set)
    """Ids of sessions whose sandboxes were destroyed."""
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    log: Log = field(default_factory=Log)
    arrivals: deque[float] = field(default_factory=deque)
    loop: asyncio.AbstractEventLoop | None = None
    spawners: ThreadPoolExecutor = field(default_factory=spawner)

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of faults that it knows."""
        return KINDS | {"stream_closed"}

    def find(self, name: str) -> Sandbox:
        """A sandbox.

        Raises:
            Refusal: There is none.
        """
        if name not in self.sandboxes:
            raise not_found(f"sandbox {name}")
        return self.sandboxes[name]

    def session(self, identity: str) -> tuple[Sandbox, Session]:
        """A session and its sandbox.

        Raises:
            Refusal: There is none.
        """
        owner = self.owners.get(identity)
        if owner is None and identity in self.gone and self.switches.destroyed == "410":
            raise self.stopped()
        if owner is None:
            raise not_found(f"session {identity}")
        return owner, next(session for session in owner.sessions if session.id == identity)

    def running(self, identity: str) -> tuple[Sandbox, Session]:
        """A session that takes requests.

        Raises:
            Refusal: There is none, or it does not run.
        """
        owner, session = self.session(identity)
        if session.status == "stopping":
            raise Refusal(422, "sandbox_stopping", "sandbox is stopping")
        if session.status != "running":
            raise self.stopped()
        return owner, session

    def stopped(self) -> Refusal:
        """What a request to a stopped session answers."""
        style = self.switches.stopped
        code = "" if style == "bare 410" else "sandbox_stopped"
        return Refusal(409 if style == "409" else 410, code, "sandbox is stopped")

    def admit(self) -> None:
        """Count a request against the rate limit.

        Raises:
            Refusal: There were too many.
        """
        limit, window, now = self.switches.requests_per_window, self.switches.window_seconds, time.monotonic()
        if not limit:
            self.arrivals.clear()
            return
        while self.arrivals and self.arrivals[0] <= now - window:
            self.arrivals.popleft()
        if len(self.arrivals) >= limit:
            after = max(1, math.ceil(self.arrivals[0] + window - now))
            raise Refusal(429, "rate_limited", "too many requests", retry_after=after)
        self.arrivals.append(now)

    async def linger(self, switch: str) -> None:
        """Wait for the seconds of a switch; one that is set back meanwhile ends the wait."""
        began = time.monotonic()
        while time.monotonic() < began + getattr(self.switches, switch):  # noqa: ASYNC110  # no event tells of a switch
            await asyncio.sleep(0.01)

    async def boot(self, sandbox: Sandbox) -> None:
        """Start the current session of a sandbox."""
        session = sandbox.session
        self.owners[session.id] = sandbox
        await asyncio.to_thread(session.boot, isolated=self.switches.isolated)
        session.started = sandbox.updated = now_ms()
        if session.status != "pending":  # it was stopped meanwhile
            await asyncio.to_thread(session.power_off)
        elif self.switches.start_seconds:
            asyncio.get_running_loop().call_later(self.switches.start_seconds, _ready, session)
        else:
            session.status = "running"

    async def stop(self, sandbox: Sandbox, status: str = "stopped") -> None:
        """Stop the current session; a persistent sandbox keeps its files in a snapshot."""
        session = sandbox.session
        if not session.alive or session.status == "stopping":
            return
        session.status = "stopping"
        await self.linger("stop_seconds")
        session.status, session.stopped, sandbox.updated = status, now_ms(), now_ms()
        session.halt(self.stopped())
        await asyncio.to_thread(session.power_off)
        if sandbox.persistent:
            if status == "stopped":
                self.take_snapshot(sandbox)
        else:
            await asyncio.to_thread(sandbox.wipe)

    def take_snapshot(self, sandbox: Sandbox) -> dict[str, Any]:
        """Note a snapshot of a sandbox; its files stay where they are."""
        identity, now = f"snap_{secrets.token_hex(12)}", now_ms()
        self.snapshots[identity] = {
            "id": identity,
            "sourceSessionId": sandbox.session.id,
            "region": sandbox.machine()["region"],
            "status": "created",
            "sizeBytes": 0,
            "createdAt": now,
            "updatedAt": now,
            "expiresAt": now + 30 * 24 * 3600 * 1000,
            "creationMethod": "automatic",
        }
        sandbox.snapshot = identity
        return self.snapshots[identity]

    async def resume(self, sandbox: Sandbox) -> bool:
        """Give a stopped sandbox a new session; whether that was needed.

        Raises:
            Refusal: Its snapshot was deleted.
        """
        if sandbox.session.alive:
            return False
        if sandbox.snapshot is not None and sandbox.snapshot not in self.snapshots:
            raise Refusal(410, "snapshot_not_found", f"snapshot {sandbox.snapshot} not found")
        sandbox.open_session()
        await self.boot(sandbox)
        return True

    async def destroy(self, sandbox: Sandbox) -> None:
        """Stop a sandbox and forget it."""
        sandbox.persistent = False
        self.sandboxes.pop(sandbox.name, None)
        await self.stop(sandbox)
        if sandbox.session.alive:  # somebody else is stopping it, slowly
            sandbox.session.halt(self.stopped())
            await asyncio.to_thread(sandbox.session.power_off)
        for session in sandbox.sessions:
            self.owners.pop(session.id, None)
            self.gone.add(session.id)
        await asyncio.to_thread(sandbox.wipe)

    def take_away(self, identity: str, state: str) -> None:
        """The provider destroys a sandbox, or stops it (``stopped``, ``failed``, ``aborted``). Blocks."""
        sandbox = self.sandboxes[identity]
        work = self.destroy(sandbox) if state == "destroyed" else self.stop(sandbox, state)
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def watch(self) -> None:
        """Stop sandboxes whose time is over."""
        while True:
            await asyncio.sleep(0.1)
            for sandbox in list(self.sandboxes.values()):
                if sandbox.session.status == "running" and now_ms() > sandbox.session.ends_at:
                    await self.stop(sandbox)

    def describe(self, sandbox: str) -> dict[str, Any]:
        """Everything that a test may ask."""
        chosen = [box for box in self.sandboxes.values() if sandbox in ("", box.name)]
        return {"sandboxes": {box.name: _describe(box) for box in chosen}, "snapshots": self.snapshots}


def _describe(box: Sandbox) -> dict[str, Any]:
    session = box.session
    return {
        **box.to_json(),
        "root": box.root,
        "home": box.home,
        "request": box.settings,
        "session": box.session_json(session),
        "commands": [command.to_json() for command in session.commands.values()],
        "pids": session.pids() if session.alive else [],
    }


def _ready(session: Session) -> None:
    if session.status == "pending":
        session.status = "running"


STATE: web.AppKey[State] = web.AppKey("state", State)
