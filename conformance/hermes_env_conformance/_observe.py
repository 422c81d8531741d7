"""What an environment really can do, found by trying, whatever it declares."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar

from hermes_env import BaseEnvironment, HermesEnvError, Unsupported

_T = TypeVar("_T")
_WAIT = 20.0
_ALL = bytes(range(256))
_ALL_ESCAPED = "".join(f"\\{byte:03o}" for byte in range(256))


@dataclass(frozen=True, slots=True)
class Observed:
    """Facts and powers as they were found; None is not found out."""

    separate_stderr: bool | None = None
    exact_stdout: bool | None = None
    streaming: bool | None = None
    half_close: bool | None = None
    live_stdin: bool | None = None
    users: bool | None = None
    same_kernel: bool | None = None
    """It runs on the kernel of this machine (boot id)."""
    same_processes: bool | None = None
    """It shares this machine's process table (process namespace)."""
    user: str | None = None
    system: str | None = None

    def as_dict(self) -> dict[str, bool | str | None]:
        """For reports."""
        return asdict(self)


def observe(env: BaseEnvironment) -> Observed:
    """Try every fact and power once."""
    kernel, processes = _attempt(partial(_same_host, env)) or (None, None)
    return Observed(
        separate_stderr=_attempt(partial(_separate, env)),
        exact_stdout=_attempt(lambda: env.exec(f"printf '{_ALL_ESCAPED}'").stdout == _ALL),
        streaming=_attempt(partial(_streams, env)),
        half_close=_attempt(lambda: env.exec("cat; echo .", stdin=iter([b"x"]), timeout=_WAIT).stdout == b"x.\n"),
        live_stdin=_attempt(partial(_live, env)),
        users=_attempt(partial(_users, env)),
        same_kernel=kernel,
        same_processes=processes,
        user=_attempt(lambda: env.exec("id").text.strip()[:100]),
        system=_attempt(lambda: env.exec("uname -srm").text.strip()[:100]),
    )


def _attempt(probe: Callable[[], _T]) -> _T | None:
    try:
        return probe()
    except (HermesEnvError, OSError, ValueError):
        return None


def _separate(env: BaseEnvironment) -> bool:
    result = env.exec("echo out; echo err >&2")
    return (result.stdout, result.stderr) == (b"out\n", b"err\n")


def _streams(env: BaseEnvironment) -> bool:
    """Whether a word of a command that does not end by itself can be read."""
    process = env.start("echo ready; exec sleep 600", timeout=_WAIT)
    try:
        return next(iter(process), (None, b""))[1].startswith(b"ready") and process.state == "dispatched"
    finally:
        process.kill()


def _live(env: BaseEnvironment) -> bool:
    try:
        process = env.start("read word; echo got $word", live_stdin=True, timeout=_WAIT)
    except Unsupported:
        return False
    process.write(b"it\n")
    process.close_stdin()
    return process.wait(_WAIT).stdout == b"got it\n"


def _users(env: BaseEnvironment) -> bool:
    name = env.exec("id -un").text.strip()
    try:
        return env.exec("id -un", user=name).text.strip() == name
    except Unsupported:
        return False


def _same_host(env: BaseEnvironment) -> tuple[bool, bool]:
    script = "cat /proc/sys/kernel/random/boot_id; readlink /proc/self/ns/pid"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    there = env.exec(script).text.split()
    return (boot in there[:1], there == [boot, os.readlink("/proc/self/ns/pid")])
