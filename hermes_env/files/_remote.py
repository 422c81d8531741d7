"""File operations by POSIX sh scripts: they work wherever a command runs."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_env._blocks import BLOCK, BlockCheck
from hermes_env._codec import encode_lossless
from hermes_env._errors import (
    CommandCancelled,
    CommandTimeout,
    FileChanged,
    HermesEnvError,
    OutcomeUnknown,
    TransportError,
)

from . import _stats
from ._bridge import bridged
from ._digest import Tally
from ._frames import records
from ._oserror import named_error
from ._script_read import LIST_SCRIPT, READ_SCRIPT, STAT_SCRIPT, SUM_SCRIPT
from ._script_survey import SURVEY_SCRIPT
from ._script_write import FIND_SCRIPT, SWEEP_SCRIPT
from ._survey import SurveyRun
from ._transfer import Offer, Part, Transfer
from ._tree_remote import ScriptTree
from ._types import Survey, Swept
from ._wire import ending, local_name, new_nonce, run_script
from ._write_request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes_env._base import BaseEnvironment
    from hermes_env._result import ExecResult

    from ._types import Change, FileStat, Surveyed, WriteResult

_TRIES = 3
"""Times that a file is read again when it was replaced while it was read."""
_CLEANING = 10.0
"""Seconds for removing what a killed write left."""
_ARGUMENTS = 60_000
"""Bytes of paths in one script run: Linux takes 2 MiB of arguments in all, other carriers less."""


class ScriptEngine:
    """Carries out file operations over `BaseEnvironment.run_script`, one round trip each."""

    def __init__(self, env: BaseEnvironment) -> None:
        self._env = env
        self._has_sha256 = False
        """A SHA-256 tool was seen at work: no CRC has to be computed besides."""

    # -- writing --------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], *, durable: bool) -> tuple[WriteResult | None, ...]:
        """Apply all changes or none, in one round trip."""
        request = WriteRequest(changes, new_nonce(), with_cksum=not self._has_sha256, durable=durable)
        try:
            result = run_script(self._env, request.script, request.args, stdin=request.stdin())
        except (CommandTimeout, CommandCancelled):
            self._clean(request)
            raise
        found = records(result.stdout, request.nonce)
        if not found:
            raise OutcomeUnknown(f"the write script ended without saying how ({ending(result)})", result)
        results = request.results(found[-1])
        self._learn(result.verified_by for result in results if result is not None)
        return results

    def _clean(self, request: WriteRequest) -> None:
        """A script that was killed left its temporary files; where this fails too, a later write sweeps them."""
        try:
            run_script(self._env, SWEEP_SCRIPT, request.sweep_args(), timeout=_CLEANING)
        except HermesEnvError:
            return

    def _learn(self, tools: Iterator[str | None] | Sequence[str | None]) -> None:
        if any(tool not in (None, "none", "cksum") for tool in tools):
            self._has_sha256 = True

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int, limit: int | None) -> bytes:
        """A file or a part of it; read again when it was replaced meanwhile."""
        for _ in range(_TRIES - 1):
            try:
                return self._read_once(path, offset, limit)
            except FileChanged:
                continue
        return self._read_once(path, offset, limit)

    def _read_once(self, path: str, offset: int, limit: int | None) -> bytes:
        sink = io.BytesIO()
        self._read_into(Part(path, offset, limit), sink.write)
        return sink.getvalue()

    def chunks(self, path: str) -> Iterator[bytes]:
        """A file as it arrives."""
        return bridged(lambda put: self._read_into(Part(path, 0, None), put))

    def read_many(self, paths: Sequence[str], *, missing_ok: bool) -> dict[str, bytes]:
        """Files in one round trip, or a few when the paths are very long."""
        contents: dict[str, bytes] = {}
        for group in _groups(paths):
            contents.update(self._read_group(group, missing_ok=missing_ok))
        return contents

    def _read_group(self, paths: Sequence[str], *, missing_ok: bool) -> dict[str, bytes]:
        sinks = [io.BytesIO() for _ in paths]
        transfer = Transfer([Part(path, 0, None) for path in paths], [s.write for s in sinks])
        self._transfer(transfer)
        for index, error in transfer.errors.items():
            if isinstance(error, FileChanged):
                sinks[index] = io.BytesIO(self.read(paths[index], 0, None))
            elif not (missing_ok and isinstance(error, FileNotFoundError | NotADirectoryError)):
                raise error
        gone = {index for index, error in transfer.errors.items() if not isinstance(error, FileChanged)}
        return {path: sinks[index].getvalue() for index, path in enumerate(paths) if index not in gone}

    def _read_into(self, part: Part, sink: Callable[[bytes], object], *, printed: bool = False) -> None:
        downloads = None if printed else self._env._downloads()  # noqa: SLF001 - one framework
        transfer = Transfer([part], [sink], smallest_offer=downloads and downloads.smallest)
        self._transfer(transfer)
        for error in transfer.errors.values():
            raise error
        for offer in transfer.offers.values():
            assert downloads is not None
            self._download(part.path, offer, downloads.fetch(offer.path), sink)

    def _download(self, path: str, offer: Offer, chunks: Iterator[bytes], sink: Callable[[bytes], object]) -> None:
        """What the download brings, and what it does not bring as it should be, printed by a command."""
        check = BlockCheck(offer.size, offer.sums, sink)
        check.feed_all(chunks)
        done = check.done
        if done == offer.size:
            return
        rest = BlockCheck(offer.size - done, offer.sums[done // BLOCK :], sink)
        self._read_into(Part(path, done, rest_size := offer.size - done), rest.feed, printed=True)
        if rest.done < rest_size:
            raise FileChanged(path, "changed while it was read")

    def _transfer(self, transfer: Transfer) -> None:
        """Run the read script; every part ends up whole or with an error."""
        result = run_script(self._env, READ_SCRIPT, transfer.args(), output_limit=4096, on_output=transfer.on_output)
        transfer.finish(result)
        self._learn(transfer.tools)

    def sha256(self, path: str) -> str:
        """The digest by a tool inside; where there is none, of the bytes as read."""
        _, digest, by = self._ask(SUM_SCRIPT, path)
        if by not in ("none", "cksum"):
            self._has_sha256 = True
            return digest
        tally = Tally()
        for chunk in self.chunks(path):
            tally.update(chunk)
        return tally.sha256

    # -- surveys --------------------------------------------------------------------------------------------------

    def survey(self, paths: Sequence[str], most: int | None) -> Survey:
        """Paths in one round trip, or a few when they are very long."""
        found: dict[str, Surveyed] = {}
        home, uid = "", 0
        for group in _groups(paths):
            run = self._survey_group(group, most)
            home, uid = run.home, run.uid
            found.update((entry.path, entry) for entry in run.found)
        return Survey({path: self._hashed(entry, most) for path, entry in found.items()}, home, uid)

    def _survey_group(self, paths: Sequence[str], most: int | None) -> SurveyRun:
        for attempt in range(_TRIES):
            run = SurveyRun(paths, most)
            result = run_script(self._env, SURVEY_SCRIPT, run.args(), output_limit=4096, on_output=run.on_output)
            run.finish(result)
            changed = any(isinstance(entry.error, FileChanged) for entry in run.found)
            if not changed or attempt == _TRIES - 1:
                break
        self._learn(run.tools)
        return run

    def _hashed(self, entry: Surveyed, most: int | None) -> Surveyed:
        """Where nothing in the environment computes SHA-256, the bytes are read and hashed here."""
        regular = entry.stat is not None and entry.stat.kind == "file"
        if most is not None or not regular or entry.sha256 or entry.error:
            return entry
        return replace(entry, sha256=self.sha256(entry.path))

    def sweep(self, directories: Sequence[str], *, below: bool, backups: bool) -> Swept:
        """Remove what dead writers left."""
        nonce = new_nonce()
        flags = ["t" if below else "d", "b" if backups else "-"]
        args = [nonce, "-", "0", "0", "0", *flags, *(local_name(path) for path in directories)]
        output = bytearray()
        result = run_script(
            self._env,
            FIND_SCRIPT,
            args,
            output_limit=4096,
            on_output=lambda stream, data: output.extend(data) if stream == "stdout" else None,
        )
        found = records(bytes(output), nonce)
        if not found or found[-1][0] != "ok":
            raise TransportError(f"the sweep ended without saying how ({ending(result)})")
        return Swept(
            tuple(record[1] for record in found if record[0] == "removed"),
            tuple(record[1] for record in found if record[0] == "busy"),
        )

    # -- names ----------------------------------------------------------------------------------------------------

    def stat(self, path: str, *, follow: bool) -> FileStat:
        """One file."""
        _, line, target = self._ask(STAT_SCRIPT, path, "-L" if follow else "")
        return _stats.parse(line, path, target)

    def list_dir(self, path: str) -> list[FileStat]:
        """One directory."""
        listing = bytearray()
        nonce = new_nonce()
        result = run_script(
            self._env,
            LIST_SCRIPT,
            [nonce, local_name(path)],
            output_limit=4096,
            on_output=lambda stream, data: listing.extend(data) if stream == "stdout" else None,
        )
        *entries, last = records(bytes(listing), nonce) or [("",)]
        if last[0] != "ok":
            raise self._failure(last, path, result)
        base = path.rstrip("/")
        found = [_stats.parse(line, f"{base}/{name}", target) for _, line, name, target in entries]
        return sorted(found, key=lambda entry: os.fsencode(entry.name))

    def tree(self, path: str) -> ScriptTree:
        """A folder, to be copied from or to."""
        return ScriptTree(self._env, path)

    # -- one question, one record ---------------------------------------------------------------------------------

    def _ask(self, script: str, path: str, *args: str) -> tuple[str, ...]:
        nonce = new_nonce()
        result = run_script(self._env, script, [nonce, local_name(path), *args])
        found = records(result.stdout, nonce)
        if found and found[-1][0] == "ok":
            return found[-1]
        raise self._failure(found[-1] if found else ("",), path, result)

    @staticmethod
    def _failure(record: tuple[str, ...], path: str, result: ExecResult) -> Exception:
        if record[0] == "fail":
            return named_error(record[1], path, record[3])
        return TransportError(f"{path}: the script ended without saying how ({ending(result)})")


def _groups(paths: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    size = 0
    for path in paths:
        size += len(encode_lossless(path)) + 8
        if group and size > _ARGUMENTS:
            yield group
            group, size = [], len(encode_lossless(path)) + 8
        group.append(path)
    if group:
        yield group
