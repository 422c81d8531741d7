"""The emulator's own HTTP controls, by which tests arm faults, change switches and ask what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

from ._faults import Fault

if TYPE_CHECKING:
    from ._faults import Faults, Log


class Controlled(Protocol):
    """What an emulator lets its controls reach."""

    faults: Faults
    log: Log
    switches: Any

    @property
    def kinds(self) -> AbstractSet[str]:
        """Kinds of faults that it knows."""

    def describe(self, sandbox: str) -> dict[str, Any]:
        """Everything that a test may ask, of one sandbox or (``""``) of all."""

    def take_away(self, identity: str, state: str) -> None:
        """The provider ends a sandbox, or puts it into another state, without being asked. Blocks."""


CONTROLLED: web.AppKey[Controlled] = web.AppKey("controlled", Controlled)


async def add_fault(request: web.Request) -> web.Response:
    """A fault to come."""
    state, fault = request.app[CONTROLLED], Fault(**await request.json())
    if fault.kind not in state.kinds:
        return web.Response(status=400, text=f"no kind of fault: {fault.kind}")
    state.faults.waiting.append(fault)
    return web.json_response({})


async def clear_faults(request: web.Request) -> web.Response:
    """No more faults, and nothing is held."""
    state = request.app[CONTROLLED]
    state.faults.waiting.clear()
    await state.faults.release()
    return web.json_response({})


async def release(request: web.Request) -> web.Response:
    """Held requests go on."""
    await request.app[CONTROLLED].faults.release()
    return web.json_response({})


async def wait_held(request: web.Request) -> web.Response:
    """Wait until requests are held."""
    query = request.query
    faults = request.app[CONTROLLED].faults
    held = await faults.wait_held(query["endpoint"], int(query["count"]), float(query["timeout"]))
    return web.json_response({"held": held})


async def set_switches(request: web.Request) -> web.Response:
    """Change switches while it runs."""
    state = request.app[CONTROLLED]
    state.switches = state.switches.changed(await request.json())
    return web.json_response(asdict(state.switches))


async def show(request: web.Request) -> web.Response:
    """The switches, the log, the counts, and the sandboxes with their processes."""
    state, sandbox = request.app[CONTROLLED], request.query.get("sandbox", "")
    common = {
        "switches": asdict(state.switches),
        "counts": state.log.counts(sandbox),
        "log": [entry for entry in state.log.entries if sandbox in ("", entry["sandbox"])],
    }
    return web.json_response({**common, **state.describe(sandbox)})


async def forget_log(request: web.Request) -> web.Response:
    """Count from nothing again."""
    request.app[CONTROLLED].log.entries.clear()
    return web.json_response({})


async def vanish(request: web.Request) -> web.Response:
    """The provider takes a sandbox away, or stops it, without being asked."""
    state = request.app[CONTROLLED]
    await asyncio.to_thread(state.take_away, request.match_info["id"], request.query.get("state", "destroyed"))
    return web.json_response({})


def routes() -> list[web.RouteDef]:
    """The paths below ``/_emulator``."""
    return [
        web.post("/_emulator/faults", add_fault),
        web.delete("/_emulator/faults", clear_faults),
        web.post("/_emulator/release", release),
        web.get("/_emulator/held", wait_held),
        web.put("/_emulator/switches", set_switches),
        web.get("/_emulator/state", show),
        web.delete("/_emulator/log", forget_log),
        web.post("/_emulator/sandboxes/{id}/vanish", vanish),
    ]
