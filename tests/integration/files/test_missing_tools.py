"""Environments whose tools are missing, broken or replaced by noise."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from hermes_env import FileChanged, Unsupported, VerificationError, Write

from .conftest import ShellEnvironment, tools


def test_noise_of_login_scripts(home: Path, applets: str) -> None:
    """What shells print and set before a script runs does not reach contents, states or listings."""
    rc = home.parent / "rc"
    rc.write_text(
        "echo NOISE; printf 'no newline'; cat() { echo cat; }; printf_() { :; }; cd() { echo cd; }\n"
        "test() { false; }; alias mv=false; shopt -s expand_aliases; trap 'echo trapped' DEBUG\n"
        "ls() { echo ls; }; stat() { echo stat; }; readlink() { echo r; }; set -o pipefail; umask 022\n"
    )
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    extra = {
        "BASH_ENV": str(rc),
        "SHELLOPTS": "errexit:nounset:noclobber:noglob:xtrace",
        "CDPATH": "/tmp",
        "IFS": "/",
        "PS4": "trace> ",
    }
    with ShellEnvironment([bash], cwd=str(home), extra=extra) as env:
        content = bytes(range(256)) * 500
        assert env.files.write_bytes("file", content).verified
        assert (home / "file").read_bytes() == content
        assert env.files.read_bytes("file") == content
        assert b"".join(env.files.read_chunks("file")) == content
        assert env.files.stat("file").size == len(content)
        assert [entry.name for entry in env.files.list_dir(".")] == ["file"]
        env.files.commit([Write(path="a", data=b"1"), Write(path="b", data=iter([b"2"]))])
        assert env.files.read_many(["a", "b"]) == {"a": b"1", "b": b"2"}


NO_SHA = dict.fromkeys(("sha256sum", "openssl", "shasum", "sha256", "python3"))


def test_cksum_where_nothing_better_is(home: Path, applets: str) -> None:
    """Without a SHA-256 tool the POSIX CRC checks writes and reads, and says so; a digest condition is refused."""
    with (
        tools(applets, **NO_SHA, cksum="exec /usr/bin/cksum") as path,
        ShellEnvironment(cwd=str(home), path=path) as env,
    ):
        content = bytes(range(256)) * 999
        for data in (content, iter([content])):
            result = env.files.write_bytes("file", data)
            assert (result.verified, result.verified_by) == (True, "cksum")
        assert env.files.read_bytes("file") == content
        assert env.files.sha256("file") == hashlib.sha256(content).hexdigest()
        with pytest.raises(Unsupported, match="SHA-256"):
            env.files.write_bytes("file", b"x", if_sha256="0" * 64)
        assert (home / "file").read_bytes() == content


def test_no_hasher_is_not_success(home: Path, applets: str) -> None:
    """Where nothing computes a digest a write says `verified=False`."""
    with (
        tools(applets, **NO_SHA, cksum=None) as path,
        ShellEnvironment(cwd=str(home), path=path) as env,
    ):
        result = env.files.write_bytes("file", b"content")
        assert (result.verified, result.verified_by) == (False, None)
        assert env.files.read_bytes("file") == b"content"
        assert env.files.sha256("file") == hashlib.sha256(b"content").hexdigest()


BROKEN_TOOLS = {
    "cat drops the end": {"cat": "head -c 100"},
    "cat changes bytes": {"cat": "tr a-z A-Z"},
    "mv does nothing": {"mv": "exit 0"},
    "mv copies something else": {"mv": 'echo other >"$3"; rm "$2"'},
}


@pytest.mark.parametrize("broken", BROKEN_TOOLS)
def test_broken_tools_are_noticed(home: Path, applets: str, broken: str) -> None:
    """A tool that returns 0 and did something else never gives a successful write."""
    (home / "file").write_bytes(b"old")
    with (
        tools(applets, **BROKEN_TOOLS[broken]) as path,
        ShellEnvironment(cwd=str(home), path=path) as env,
    ):
        with pytest.raises((VerificationError, FileChanged)) as caught:
            env.files.write_bytes("file", b"new bytes " * 100)
        assert str(caught.value).startswith("file: ")
        # A file that is not the one that was renamed cannot be told from another writer's.
        assert isinstance(caught.value, FileChanged) == broken.startswith("mv copies")
    if not broken.startswith("mv copies"):
        assert (home / "file").read_bytes() == b"old"
    assert [name for name in os.listdir(home) if name.startswith(".hermes")] == []


@pytest.mark.parametrize("missing", ["stat", "cmp", "dd", "sync", "df", "readlink", "date", "tr"])
def test_missing_tools(home: Path, applets: str, missing: str) -> None:
    """Without one of the tools that not every system has, files are still written, read and described."""
    with (
        tools(applets, **{missing: None}) as path,
        ShellEnvironment(cwd=str(home), path=path) as env,
    ):
        content = bytes(range(256)) * 5000
        env.files.write_bytes("file", iter([content]))
        env.files.write_bytes("file", content, mode=0o751)
        assert (home / "file").read_bytes() == content
        assert env.files.read_bytes("file") == content
        assert (env.files.stat("file").mode, env.files.stat("file").size) == (0o751, len(content))
        assert [(entry.name, entry.kind) for entry in env.files.list_dir(".")] == [("file", "file")]
