"""A folder of an environment, by POSIX sh scripts: a fixed number of round trips however many files it has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn, cast

from hermes_env._codec import encode_lossless
from hermes_env._errors import (
    CommandCancelled,
    CommandTimeout,
    HermesEnvError,
    OutcomeUnknown,
    TransportError,
    VerificationError,
)

from . import _stats
from ._frames import FrameReader, Header, records
from ._oserror import named_error
from ._script_tree import GET_SCRIPT, LOOK_SCRIPT, PUT_SCRIPT, SUMS_SCRIPT, WALK_SCRIPT
from ._script_write import SWEEP_SCRIPT
from ._tree import Algorithm, Entry, Order, Sink, changed, within
from ._wire import ending, local_name, new_nonce, run_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hermes_env._base import BaseEnvironment
    from hermes_env._launch import StdinLike, Stream

_BUNDLE = 64 << 20
"""Bytes of contents in one round trip: the environment holds them twice for that time."""
_ALONE = 4 << 20
"""Bytes from which a file travels alone, and is not held twice."""
_CLEANING = 10.0
"""Seconds for removing what a killed script left."""
_LISTING = 1 << 27
"""Bytes of answers that are taken: an environment that never stops must not fill this machine's memory."""
_MANGLED = re.compile(rb"[^\x20-\x5b\x5d-\x7e]")
_PIECE = 1 << 16


class ScriptTree:
    """A folder of an environment."""

    def __init__(self, env: BaseEnvironment, path: str) -> None:
        self.path = path
        self.algorithm: Algorithm = "none"
        self.tool = "none"
        self._env = env
        self._folder = local_name(path.rstrip("/") or "/")

    # -- looking --------------------------------------------------------------------------------------------------

    def walk(self) -> list[Entry]:
        """Everything in the folder."""
        return self._listing(WALK_SCRIPT, None)

    def look(self, entries: Sequence[Entry]) -> dict[str, Entry]:
        """Those of the names that are there."""
        names = _joined(wire_name(entry.name) for entry in entries)
        return {entry.name: entry for entry in self._listing(LOOK_SCRIPT, names)}

    def _listing(self, script: str, stdin: Iterable[bytes] | None) -> list[Entry]:
        *found, last = self._ask(script, [], stdin)
        self.tool = last[1]
        if self.tool != "none":
            self.algorithm = "cksum" if self.tool == "cksum" else "sha256"
        return [_entry(*fields[1:4]) for fields in found]

    def sums(self, files: Sequence[Entry], algorithm: Algorithm) -> dict[str, str]:
        """Digests of files, by a program of the environment."""
        size = sum(entry.size for entry in files)
        names = _joined(wire_name(entry.name) for entry in files)
        *found, _ = self._ask(SUMS_SCRIPT, [str(size)], names)
        sums = {name: digest for _, name, digest, by in found if (by == "cksum") == (algorithm == "cksum")}
        for entry in files:
            if not sums.get(entry.name):
                raise TransportError(f"{within(self.path, entry.name)}: the environment computed no {algorithm} of it")
        return sums

    def _ask(
        self, script: str, args: Sequence[str], stdin: Iterable[bytes] | None, *, changes: bool = False
    ) -> list[tuple[str, ...]]:
        """Run a script that answers in records; the last one says that it went well."""
        output, nonce = bytearray(), new_nonce()

        def take(stream: Stream, data: bytes) -> None:
            if stream == "stdout":
                output.extend(data)
            if len(output) > _LISTING:
                raise TransportError(f"{self.path}: the environment tells of more than {_LISTING} bytes of names")

        result = run_script(
            self._env,
            script,
            [nonce, self._folder, *args],
            stdin=cast("StdinLike | None", stdin),
            output_limit=4096,
            on_output=take,
        )
        found = records(bytes(output), nonce)
        if not found or found[-1][0] not in ("ok", "fail"):
            problem = f"{self.path}: the script ended without saying how ({ending(result)})"
            raise OutcomeUnknown(problem, result) if changes else TransportError(problem)
        if found[-1][0] == "fail":
            self._fail(*found[-1][1:4])
        return found

    def _fail(self, code: str, name: str, note: str) -> NoReturn:
        path = within(self.path, _plain(name))
        if code in ("verify", "cut"):
            size, digest, *_ = [*note.split(), "-", "-"]
            raise VerificationError(
                path,
                "other bytes arrived than were sent",
                actual_size=int(size) if size.isdigit() else None,
                actual_digest=None if digest == "-" else digest,
            )
        raise named_error(code, path, note.strip().replace("\n", " "))

    # -- giving ---------------------------------------------------------------------------------------------------

    def fetch(self, files: Sequence[Entry], sink: Sink) -> None:
        """Give files to a sink, all in one round trip."""
        if not files:
            return
        arrival = _Arrival(self.path, files, sink)
        result = run_script(
            self._env,
            GET_SCRIPT,
            [arrival.nonce, self._folder],
            stdin=cast("StdinLike", _joined(b"%d\n%s" % (e.size, wire_name(e.name)) for e in files)),
            output_limit=4096,
            on_output=arrival.take,
        )
        arrival.close()
        if arrival.failure:
            self._fail(*arrival.failure)
        if not arrival.complete:
            raise TransportError(f"{self.path}: the output ended before the files did ({ending(result)})")

    # -- taking ---------------------------------------------------------------------------------------------------

    def store(self, order: Order, read: Callable[[Entry], Iterator[bytes]]) -> str:
        """Carry out an order; returns what verified it."""
        tool = self.tool
        head = [*(_folder_lines(entry) for entry in order.folders), *(_link_lines(entry) for entry in order.links)]
        tail = [b"M %04o\n%s\n" % (entry.mode, wire_name(entry.name)) for entry in order.modes]
        groups = list(_groups(order.files))
        # What comes after a file that travels alone, or without any file, needs a run of its own.
        if (tail and _is_alone(groups[-1])) if groups else (head or tail or order.make_root):
            groups.append([])
        for group in groups:
            last = group is groups[-1]
            found = self._put(order, _Bundle(order, head, group, tail if last else [], read))
            tool = "none" if found == "none" else tool
            head = []
        return tool

    def _put(self, order: Order, bundle: _Bundle) -> str:
        parents, sync = "1" if order.make_parents else "", "1" if order.durable else ""
        args = [f"{order.root_mode:04o}", parents, sync, "1" if bundle.alone else "", str(bundle.size)]
        try:
            *_, last = self._ask(PUT_SCRIPT, args, bundle.stream(), changes=True)
        except (CommandTimeout, CommandCancelled):
            self._clean()
            raise
        except HermesEnvError:
            if bundle.failure is None:
                raise
            raise bundle.failure from None
        return last[1]

    def _clean(self) -> None:
        """A script that was killed left its temporary files; where this fails too, a later write sweeps them."""
        try:
            args = [new_nonce(), "-", "0", "0", "0", f"{self._folder}/x"]
            run_script(self._env, SWEEP_SCRIPT, args, timeout=_CLEANING)
        except HermesEnvError:
            return


class _Bundle:
    """What one run of the script is given."""

    def __init__(
        self,
        order: Order,
        head: Sequence[bytes],
        files: Sequence[Entry],
        tail: Sequence[bytes],
        read: Callable[[Entry], Iterator[bytes]],
    ) -> None:
        self.alone = _is_alone(files)
        self.size = sum(entry.size for entry in files)
        self.failure: Exception | None = None
        self._order, self._head, self._files, self._tail, self._read = order, head, files, tail, read

    def stream(self) -> Iterator[bytes]:
        """The stdin of the script, in pieces that are not tiny."""
        return _gathered(self._lines())

    def _lines(self) -> Iterator[bytes]:
        try:
            yield from self._head
            for entry in self._files:
                yield self._file_lines(entry)
                yield from self._read(entry)
            if not self.alone:
                yield from self._tail
                yield b"E\n"
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread; the script takes it for a cut
            self.failure = error

    def _file_lines(self, entry: Entry) -> bytes:
        algorithm = self._order.algorithm
        digest = self._order.sum_of(entry, algorithm) or "-"
        sha, crc = ("-", digest) if algorithm == "cksum" else (digest, "-")
        line = f"F {entry.size} {entry.mode:04o} {sha} {crc}\n".encode("ascii")
        return line + wire_name(entry.name) + b"\n"


class _Arrival:
    """Files as they come."""

    def __init__(self, path: str, files: Sequence[Entry], sink: Sink) -> None:
        self.nonce = new_nonce()
        self.complete = False
        self.failure: tuple[str, ...] = ()
        self._path, self._files, self._sink = path, files, sink
        self._index = 0
        reader = FrameReader(self.nonce, begin=self._begin, body=sink.body, end=self._end, record=self._record)
        self._reader = reader
        self.close = reader.close

    def take(self, stream: Stream, data: bytes) -> None:
        """Output of the script."""
        if stream == "stdout":
            self._reader.feed(data)

    def _begin(self, header: Header) -> None:
        if self._index >= len(self._files) or header.size != self._files[self._index].size:
            raise TransportError(f"{self.path_now}: the environment sent a file that nobody asked for")
        self._sink.begin(self._files[self._index])

    @property
    def path_now(self) -> str:
        """What is arriving."""
        return within(self._path, self._files[min(self._index, len(self._files) - 1)].name)

    def _end(self, told: str | None) -> None:
        if told is None:
            raise changed(self._path, self._files[self._index])
        self._sink.end()
        self._index += 1

    def _record(self, fields: tuple[str, ...]) -> None:
        if fields[0] == "ok":
            self.complete = self._index == len(self._files)
        elif fields[0] == "fail":
            self.failure = fields[1:4]


def wire_name(name: str) -> bytes:
    """A name as the scripts read it: one line of printable ASCII."""
    raw = encode_lossless(name) or b"."
    return _MANGLED.sub(lambda found: b"\\0%03o" % found.group()[0], raw)


def _plain(name: str) -> str:
    return "" if name in (".", "./", "./.") else name.removeprefix("./").rstrip("/")


def _entry(line: str, name: str, target: str) -> Entry:
    try:
        state = _stats.parse(line, name, target)
    except (ValueError, IndexError):
        raise TransportError(f"{name!r}: the environment told its state in no known form") from None
    return Entry("" if name == "." else name, state.kind, state.size, state.mode, state.target)


def _folder_lines(entry: Entry) -> bytes:
    return b"D %04o\n%s\n" % (entry.mode, wire_name(entry.name))


def _link_lines(entry: Entry) -> bytes:
    return b"L\n%s\n%s\n" % (wire_name(entry.name), wire_name(entry.target or ""))


def _is_alone(files: Sequence[Entry]) -> bool:
    return len(files) == 1 and files[0].size >= _ALONE


def _groups(files: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Small files together, then the large ones alone."""
    group: list[Entry] = []
    size = 0
    for entry in files:
        if entry.size >= _ALONE:
            continue
        if group and size + entry.size > _BUNDLE:
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry.size
    if group:
        yield group
    yield from ([entry] for entry in files if entry.size >= _ALONE)


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    return _gathered(line + b"\n" for line in lines)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of some size: each one costs a system call."""
    held = bytearray()
    for piece in pieces:
        if len(piece) >= _PIECE:
            if held:
                yield bytes(held)
                held.clear()
            yield piece
            continue
        held += piece
        if len(held) >= _PIECE:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)
