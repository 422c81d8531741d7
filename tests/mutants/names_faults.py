"""Faults in names, modes, links and directories."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from typing import Any

from hermes_env import Files, FileStat, WriteResult

from ._broken import Broken, mutant
from .files_faults import plainly, whole


class _Expands(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return super().write_bytes(os.path.expandvars(path.strip()), data, **settings)


@mutant("names trimmed and expanded", "test_every_name_works")
class ExpandsNames(Broken):
    files_class = _Expands


class _Callers(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return super().write_bytes(os.path.abspath(path), data, make_parents=True, **settings)


@mutant("relative paths resolved where the caller is", "test_relative_paths_start_at_the_directory")
class CallersPaths(Broken):
    files_class = _Callers


class _Replaced(Files):
    """Everything by a new file and a rename."""

    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        data = whole(data)
        temp = f"{path}.tmp"
        plainly(temp, data)
        os.chmod(temp, 0o644)
        os.replace(temp, path)
        return WriteResult(path, len(data), "", True, "native", False, True)


@mutant(
    "mode, owner, links and special files lost to a rename",
    "test_a_mode_is_kept_or_set",
    "test_an_owner_is_kept",
    "test_a_link_stays_a_link",
    "test_hard_links_are_kept_broken_or_refused",
    "test_what_is_no_file_is_not_written",
)
class ReplacesAnything(Broken):
    files_class = _Replaced


class _LinksLost(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        if os.path.islink(path):
            os.unlink(path)
        return super().write_bytes(path, data, **settings)


@mutant("a symbolic link replaced by a file", "test_a_link_stays_a_link", "test_a_link_to_nothing_is_decided")
class ReplacesLinks(Broken):
    files_class = _LinksLost


class _HardLinksLost(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return super().write_bytes(path, data, **{**settings, "hardlinks": "break"})


@mutant("a hard link broken", "test_hard_links_are_kept_broken_or_refused")
class BreaksHardLinks(Broken):
    files_class = _HardLinksLost


class _ModeLost(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        result = super().write_bytes(path, data, **settings)
        os.chmod(path, 0o600)
        return result


@mutant("every file made private", "test_a_mode_is_kept_or_set", "test_a_new_file_follows_the_umask")
class MakesPrivate(Broken):
    files_class = _ModeLost


class _OwnerLost(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        result = super().write_bytes(path, data, **settings)
        os.chown(path, os.getuid(), os.getgid())
        return result


@mutant("the owner lost", "test_an_owner_is_kept")
class TakesOwnership(Broken):
    files_class = _OwnerLost


class _Tee(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        data = whole(data)
        if os.path.exists(path) and not os.path.isfile(path):
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                os.close(fd)
            return WriteResult(path, len(data), "", True, "native", False, False)
        return super().write_bytes(path, data, **settings)


@mutant("tee instead of a checked write: its failure is not seen", "test_what_is_no_file_is_not_written")
class WritesByTee(Broken):
    files_class = _Tee


class _Parents(Files):
    def write_bytes(self, path: str, data: Any, **settings: Any) -> WriteResult:
        return super().write_bytes(path, data, **{**settings, "make_parents": True})


@mutant("missing directories made unasked", "test_missing_parents_are_made_only_on_request")
class AlwaysMakesParents(Broken):
    files_class = _Parents


class _FollowsAll(Files):
    def stat(self, path: str, *, follow: bool = True) -> FileStat:
        return super().stat(path, follow=True)


@mutant("links followed although asked not to", "test_a_status_is_true")
class FollowsLinks(Broken):
    files_class = _FollowsAll


class _NoHidden(Files):
    def list_dir(self, path: str) -> list[FileStat]:
        return [one for one in super().list_dir(path) if not one.name.startswith(".")]


@mutant("hidden files left out", "test_a_listing_is_complete")
class HidesDotFiles(Broken):
    files_class = _NoHidden


class _Lexists(Files):
    def exists(self, path: str) -> bool:
        return os.path.lexists(path)


@mutant("a link to nothing exists", "test_existence_is_told")
class LinkExists(Broken):
    files_class = _Lexists


class _ExistOk(Files):
    def make_dir(self, path: str, *, parents: bool = False) -> None:
        super().make_dir(path, parents=True)


@mutant("mkdir that never complains", "test_directories_are_made")
class MakeDirNeverFails(Broken):
    files_class = _ExistOk


class _RemovesAll(Files):
    def remove(self, path: str, *, recursive: bool = False) -> None:
        super().remove(path, recursive=True)


@mutant("rm -rf for everything", "test_removal_takes_what_was_named")
class RemovesRecursively(Broken):
    files_class = _RemovesAll


class _MovesOver(Files):
    def move(self, src: str, dst: str, *, overwrite: bool = False) -> None:
        shutil.move(src, dst)


@mutant("mv: into directories and over files", "test_a_move_is_a_new_name")
class MovesLikeMv(Broken):
    files_class = _MovesOver


class _OneByOne(Files):
    def commit(self, changes: Any, **settings: Any) -> Any:
        return tuple(super(_OneByOne, self).commit([one], **settings)[0] for one in changes)


@mutant("changes made one by one", "test_changes_are_made_together_or_not_at_all")
class CommitsOneByOne(Broken):
    files_class = _OneByOne


class _InnerPaths(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        try:
            return super().read_bytes(path, **settings)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, f"/tmp/inner/{os.getpid()}") from None


@mutant(
    "errors that name an inner path",
    "test_errors_name_the_callers_path",
    "test_what_is_no_file_is_not_read",
)
class NamesInnerPaths(Broken):
    files_class = _InnerPaths


class _Sanitises(Files):
    def read_bytes(self, path: str, **settings: Any) -> bytes:
        try:
            return super().read_bytes(path.replace("\0", "") or ".", **settings)
        except ValueError:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path) from None


@mutant("impossible paths repaired", "test_paths_that_cannot_be_are_refused")
class RepairsPaths(Broken):
    files_class = _Sanitises
