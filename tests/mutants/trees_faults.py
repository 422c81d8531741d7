"""Faults in copies of folders."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_env import Files
from hermes_env.files import TransferResult

from ._broken import Broken, mutant


class _Prepares(Files):
    """Sends a changed copy of the folder."""

    def prepare(self, source: Path, changed: Path) -> None:
        raise NotImplementedError

    def upload(self, local: Any, remote: str, **settings: Any) -> TransferResult:
        if not os.path.isdir(local):
            return super().upload(local, remote, **settings)
        with tempfile.TemporaryDirectory() as folder:
            changed = Path(folder) / "changed"
            self.prepare(Path(local), changed)
            return super().upload(changed, remote, **settings)


class _Renames(_Prepares):
    def prepare(self, source: Path, changed: Path) -> None:
        changed.mkdir()
        for path in source.iterdir():
            shutil.copy2(path, changed / (path.name.strip() or "_"), follow_symlinks=False)


@mutant("names of a folder's files trimmed", "test_a_folder_is_sent_whole")
class TrimsNames(Broken):
    files_class = _Renames


class _FollowsTree(_Prepares):
    def prepare(self, source: Path, changed: Path) -> None:
        shutil.copytree(source, changed, symlinks=False, ignore_dangling_symlinks=True)


@mutant("links of a folder followed", "test_links_of_a_folder_stay_links")
class FollowsLinksInFolders(Broken):
    files_class = _FollowsTree


class _NoModes(_Prepares):
    def prepare(self, source: Path, changed: Path) -> None:
        shutil.copytree(source, changed, symlinks=True, copy_function=shutil.copyfile)


@mutant("modes of a folder's files left to the umask", "test_modes_and_empty_folders_are_kept")
class LosesModes(Broken):
    files_class = _NoModes


class _LineEnds(Files):
    def download(self, remote: str, local: Any, **settings: Any) -> TransferResult:
        result = super().download(remote, local, **settings)
        for path in (path for path in Path(local).rglob("*") if path.is_file()):
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        return result


@mutant("line ends of fetched files translated", "test_a_folder_is_fetched_whole")
class TranslatesFetched(Broken):
    files_class = _LineEnds


class _Silent(Files):
    def download(self, remote: str, local: Any, **settings: Any) -> TransferResult:
        return replace(super().download(remote, local, **settings), skipped=())


@mutant("what was left out not named", "test_what_cannot_be_copied_is_named")
class HidesSkipped(Broken):
    files_class = _Silent


class _TrustsTimes(Files):
    def upload(self, local: Any, remote: str, **settings: Any) -> TransferResult:
        result = TransferResult(remote, 0, 0, len(os.listdir(local)), 0, 0, (), True, "native")
        if os.path.isdir(remote):
            names = [name for name in os.listdir(local) if not _same_size(Path(local), Path(remote), name)]
            return result if not names else super().upload(local, remote, **settings)
        return super().upload(local, remote, **settings)


def _same_size(one: Path, other: Path, name: str) -> bool:
    return (other / name).exists() and (one / name).stat().st_size == (other / name).stat().st_size


@mutant("files of the same size taken for the same", "test_what_is_there_is_not_sent_again")
class TrustsSizes(Broken):
    files_class = _TrustsTimes


class _Anywhere(Files):
    def download(self, remote: str, local: Any, **settings: Any) -> TransferResult:
        shutil.copytree(remote, local, symlinks=True, dirs_exist_ok=True)
        return TransferResult(str(local), 1, 1, 0, 0, 0, (), True, "native")


@mutant("a download that follows links of this machine", "test_a_download_stays_in_its_folder")
class WritesThroughLinks(Broken):
    files_class = _Anywhere
