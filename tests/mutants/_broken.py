"""What the broken environments are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hermes_env_local import LocalEnvironment

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment, Channel, ExecResult, Files, Launch, Process

_Env = TypeVar("_Env", bound="type[BaseEnvironment]")
Emit = Callable[[Any, bytes], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken environment, and what must come of it."""

    name: str
    kind: str
    """What is wrong with it."""
    path: str
    """``module:Class``."""
    breaks: tuple[str, ...]
    """Laws that must fail."""
    holds: str
    """A law that must hold all the same: the mutant has one fault, it is no ruin."""
    rooted: bool
    """Derives from a backend of the tests, which works in a directory that it is given."""


MUTANTS: list[Mutant] = []


def mutant(kind: str, *breaks: str, holds: str = "test_the_streams_are_kept_apart") -> Callable[[_Env], _Env]:
    """Enter a broken environment into the list."""

    def enter(cls: _Env) -> _Env:
        MUTANTS.append(
            Mutant(
                cls.__name__,
                kind,
                f"{cls.__module__}:{cls.__name__}",
                breaks,
                holds,
                rooted=not issubclass(cls, LocalEnvironment),
            )
        )
        return cls

    return enter


class Spoiled:
    """A channel whose stdin and output pass through a fault."""

    def __init__(self, inner: Channel) -> None:
        self.inner: Any = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def sent(self, data: bytes) -> bytes:
        """What becomes of stdin."""
        return data

    def came(self, stream: str, data: bytes, emit: Emit) -> None:
        """What becomes of output."""
        emit(stream, data)

    def ended(self, emit: Emit) -> None:
        """What comes after the last output."""

    def write(self, data: bytes) -> None:
        """Live stdin, or stdin from a thread."""
        self.inner.write(self.sent(bytes(data)))

    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        """All streams, on the calling thread."""
        spoiled = None if stdin is None else memoryview(self.sent(bytes(stdin)))
        self.inner.pump(spoiled, lambda stream, data: self.came(stream, bytes(data), emit), tick)
        self.ended(emit)


class Broken(LocalEnvironment):
    """The local environment, to be broken."""

    channel: type[Spoiled] = Spoiled
    files_class: type[Files] | None = None

    def _launch(self, launch: Launch) -> Channel:
        channel = super()._launch(launch)
        return channel if self.channel is Spoiled else cast("Channel", self.channel(channel))

    def _make_files(self) -> Files:
        return super()._make_files() if self.files_class is None else self.files_class(self)


class BrokenProcess:
    """A process whose caller sees something else."""

    def __init__(self, inner: Process) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __iter__(self) -> Any:
        return iter(self.inner)

    def wait(self, timeout: float | None = None) -> ExecResult:
        """The result."""
        return self.inner.wait(timeout)


class BrokenStart(Broken):
    """Every started process is handed out broken."""

    process: type[BrokenProcess] = BrokenProcess

    def start(self, cmd: Any, **settings: Any) -> Any:
        """A process in disguise."""
        return self.process(super().start(cmd, **settings))
