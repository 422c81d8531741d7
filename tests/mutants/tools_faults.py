"""Faults below the tools that agents call: what files tell of themselves, and what a batch does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hermes_env import Files, FileStat, WriteResult
from hermes_env.files import Change, Move, Remove, Survey, Symlink, Write

from ._broken import Broken, mutant


class _Uniform(Files):
    def commit(self, changes: Sequence[Change], **settings: Any) -> tuple[WriteResult | None, ...]:
        made = [self._lf(change) for change in changes]
        return super().commit(made, **settings)

    @staticmethod
    def _lf(change: Change) -> Change:
        if not isinstance(change, Write) or not isinstance(change.data, bytes):
            return change
        return replace(change, data=change.data.replace(b"\r\n", b"\n"))


@mutant("line ends made uniform in batches", "test_a_patch_changes_what_it_says")
class UniformBatches(Broken):
    files_class = _Uniform


class _Careless(Files):
    def commit(self, changes: Sequence[Change], **settings: Any) -> tuple[WriteResult | None, ...]:
        bare = [replace(c, if_bytes=None) if isinstance(c, Write) else c for c in changes]
        made = [replace(c, if_sha256=None) if isinstance(c, Write | Remove | Move) else c for c in bare]
        return super().commit(made, **settings)


@mutant("conditions of batches ignored", "test_a_change_meanwhile_is_not_lost")
class IgnoresConditions(Broken):
    files_class = _Careless


class _OneMode(Files):
    def commit(self, changes: Sequence[Change], **settings: Any) -> tuple[WriteResult | None, ...]:
        made = [replace(c, mode=None) if isinstance(c, Write) else c for c in changes]
        return super().commit(made, **settings)


@mutant("modes of batches ignored", "test_an_edit_is_undone")
class IgnoresModes(Broken):
    files_class = _OneMode


class _Textual(Files):
    def survey(self, paths: Sequence[str], *, most: int | None = None) -> Survey:
        found = super().survey(paths, most=most)
        files = {path: replace(one, real=os.path.abspath(path), link=False) for path, one in found.files.items()}
        return replace(found, files=files)


@mutant("real paths told by their text", "test_an_edit_stays_in_the_workspace")
class TrustsText(Broken):
    files_class = _Textual


class _Forgetful(Files):
    def list_dir(self, path: str) -> list[FileStat]:
        return [entry for entry in super().list_dir(path) if not entry.name.endswith(".journal")]


@mutant("files left out of listings", "test_a_broken_edit_is_recovered")
class HidesJournals(Broken):
    files_class = _Forgetful


class _Decoded(Files):
    def survey(self, paths: Sequence[str], *, most: int | None = None) -> Survey:
        found = super().survey(paths, most=most)
        files = {
            path: one if one.data is None else replace(one, data=one.data.decode("utf-8", "replace").encode())
            for path, one in found.files.items()
        }
        return replace(found, files=files)


@mutant("surveys through a lossy decoding", "test_a_read_tells_what_the_file_is", "test_a_patch_changes_what_it_says")
class SurveysText(Broken):
    files_class = _Decoded


class _Straight(Files):
    def commit(self, changes: Sequence[Change], **settings: Any) -> tuple[WriteResult | None, ...]:
        made = [
            replace(c, target=os.path.abspath(os.path.join(os.path.dirname(c.path), c.target)))
            if isinstance(c, Symlink)
            else c
            for c in changes
        ]
        return super().commit(made, **settings)


@mutant("links made with another text", "test_links_are_moved_deleted_and_made_again")
class RewritesLinks(Broken):
    files_class = _Straight


class _OneByOne(Files):
    def survey(self, paths: Sequence[str], *, most: int | None = None) -> Survey:
        surveys = [super(_OneByOne, self).survey([path], most=most) for path in paths]
        files = {path: found for survey in surveys for path, found in survey.files.items()}
        return replace(surveys[0], files=files)


@mutant("paths surveyed one by one", "test_twenty_files_take_four_round_trips")
class SurveysOneByOne(Broken):
    files_class = _OneByOne
