"""Folders that are copied from and to what fails, lies or is damaged: nothing is written that should not be."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_env import CommandTimeout, FileChanged, TransportError, VerificationError

from .conftest import NOBODY, USERS, Place, ShellEnvironment, make_place
from .folders import NAMES, state


def test_a_cut_upload_goes_on(scripted: Place, source: Path) -> None:
    """A copy that broke off leaves whole files only, no temporary ones, and the next one sends the rest."""
    (source / "large").write_bytes(os.urandom(12 << 20))
    (source / "z").write_bytes(b"last")
    cut = threading.Event()

    def stop(count: int) -> None:
        if count > 8 << 20:
            cut.set()
            raise RuntimeError("cut")

    with pytest.raises(RuntimeError, match="cut"):
        scripted.files.upload(source, "there", progress=stop)
    assert cut.is_set()
    assert scripted.left_over() == []
    assert not (scripted.dir / "there/large").exists()
    result = scripted.files.upload(source, "there")
    assert (result.unchanged, result.files, result.size) == (len(NAMES) + 6, 1, 12 << 20)
    assert state(scripted.dir / "there") == state(source)


def test_rights_that_are_missing_are_told(home: Path, source: Path, tmp_path: Path, request: Any) -> None:
    """What may not be written or read there is an error with the caller's path, and nothing is left."""
    if len(USERS) == 1:
        pytest.skip("needs root, to act as somebody else")
    with make_place("sh-nobody", home, request) as place:
        (place.dir / "closed").mkdir(mode=0o755)
        (place.dir / "open/sub").mkdir(parents=True)
        (place.dir / "open/sub/secret").write_bytes(b"x")
        (place.dir / "open/sub/secret").chmod(0)
        place.own(place.dir / "open")
        for target in ("closed", "closed/new"):
            with pytest.raises(PermissionError) as caught:
                place.files.upload(source, target)
            assert caught.value.filename == target
        with pytest.raises(PermissionError) as denied:
            place.files.download("open", tmp_path / "back")
        assert denied.value.filename == "open/sub/secret"
        (place.dir / "open/sub").chmod(0o700)
        with pytest.raises(PermissionError) as entered:
            place.files.download("open", tmp_path / "back")
        assert entered.value.filename == "open/sub"
        assert place.left_over() == [] and not (tmp_path / "back").exists()
        result = place.files.upload(source, "open/new")
        assert (place.dir / "open/new/every").stat().st_uid == (place.dir / "open/new").stat().st_uid == NOBODY
        assert result.verified and state(place.dir / "open/new") == state(source)


class Rewrites(ShellEnvironment):
    """An environment whose answers are edited on the way."""

    edit: Any = staticmethod(lambda data: data)

    def run_script(self, script: str, args: Any = (), **settings: Any) -> Any:
        """Run it, and change what comes out."""
        given = settings.get("on_output")
        if given is None:
            return super().run_script(script, args, **settings)
        whole = bytearray()
        settings["on_output"] = lambda stream, data: whole.extend(data) if stream == "stdout" else None
        result = super().run_script(script, args, **settings)
        given("stdout", self.edit(bytes(whole)))
        return result


@pytest.fixture
def hostile(home: Path) -> Any:
    """An environment to be made hostile, with a folder in it."""
    (home / "source/sub").mkdir(parents=True)
    (home / "source/sub/file").write_bytes(b"evil")
    (home / "source/link").symlink_to("sub")
    with Rewrites(cwd=str(home)) as env:
        yield env


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"sub/file", b"../escape"),
        (b"sub/file", b"sub/../../escape"),
        (b"sub/file", b"/tmp/escape"),
        (b"sub/file", b"sub//file"),
        (b"sub/file", b"sub/."),
        (b"sub/file", b"link/file"),
        (b"sub/file", b"other/file"),
        (b"sub/file", b"link"),
        (b"sub/file", b"sub/file/"),
        (b"\0sub\0", b"\0..\0"),
    ],
)
def test_hostile_names_write_nothing(hostile: Rewrites, tmp_path: Path, old: bytes, new: bytes) -> None:
    """Names that lead out of the folder, twice the same, or below a link, are refused before anything is made."""
    hostile.edit = lambda data: data.replace(old, new)
    with pytest.raises(TransportError):
        hostile.files.download("source", tmp_path / "target")
    assert os.listdir(tmp_path) == []


def test_bytes_that_do_not_fit_the_digest_stay_out(hostile: Rewrites, tmp_path: Path) -> None:
    """Content that was changed on the way does not get its name, and what is there stays."""
    (tmp_path / "target/sub").mkdir(parents=True)
    (tmp_path / "target/sub/file").write_bytes(b"old!")
    hostile.edit = lambda data: data.replace(b"evil", b"evi1")
    with pytest.raises(FileChanged, match="sub/file"):
        hostile.files.download("source", tmp_path / "target")
    assert state(tmp_path / "target/sub") == {b"file": ("file", 0o644, b"old!")}


def test_a_link_that_appears_meanwhile_is_not_followed(home: Path, tmp_path: Path) -> None:
    """A local folder that becomes a link while files arrive is not entered again."""
    (home / "source").mkdir()
    for name in ("a", "b"):
        (home / "source" / name).mkdir()
        (home / "source" / name / "file").write_bytes(b"x" * 1000)
    (tmp_path / "outside").mkdir()
    target = tmp_path / "target"

    def swap(_: int) -> None:
        if (target / "b").is_dir() and not (target / "b").is_symlink():
            (target / "b").rename(target / "aside")
            (target / "b").symlink_to(tmp_path / "outside")

    with ShellEnvironment(cwd=str(home)) as env, pytest.raises(NotADirectoryError):
        env.files.download("source", target, progress=swap)
    assert os.listdir(tmp_path / "outside") == []


def test_damage_on_the_way_in_is_found(home: Path, tmp_path: Path) -> None:
    """When other bytes arrive there than were sent, the file does not get its name."""

    class Damages(ShellEnvironment):
        def run_script(self, script: str, args: Any = (), **settings: Any) -> Any:
            """Run it with other bytes on stdin."""
            if settings.get("stdin") is not None:
                settings["stdin"] = b"".join(settings["stdin"]).replace(b"sent", b"went")
            return super().run_script(script, args, **settings)

    (tmp_path / "source").mkdir()
    (tmp_path / "source/file").write_bytes(b"sent")
    with Damages(cwd=str(home)) as env, pytest.raises(VerificationError) as caught:
        env.files.upload(tmp_path / "source", "there")
    assert "there/file" in str(caught.value)
    assert os.listdir(home / "there") == []


def test_nothing_hashes(home: Path, tmp_path: Path, source: Path, applets: str) -> None:
    """Without SHA-256 a CRC proves the copy; without any hasher it is made, and the result says so."""
    for tools in ("cksum", ""):
        bare = tmp_path / f"tools{tools}"
        bare.mkdir()
        hashers = {"sha256sum", "openssl", "shasum", "sha256", "python3", "cksum"}
        for name in set(os.listdir(applets)) - hashers:
            (bare / name).symlink_to(Path(applets, name).readlink())
        if tools:
            # Busybox is often built without this one.
            (bare / tools).symlink_to(f"/usr/bin/{tools}")
        with ShellEnvironment(["busybox", "sh"], path=str(bare), cwd=str(home)) as env:
            results = [env.files.upload(source, f"there{tools}") for _ in range(2)]
            results += [env.files.download(f"there{tools}", tmp_path / f"back{tools}") for _ in range(2)]
        assert state(tmp_path / f"back{tools}") == state(source)
        assert [result.verified_by for result in results] == [tools or None] * 4
        assert [bool(result.unchanged) for result in results] == [False, bool(tools)] * 2


def test_a_killed_upload_leaves_nothing(scripted: Place, tmp_path: Path) -> None:
    """A deadline in the middle of a copy takes the temporary files with it."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/file").write_bytes(b"x" * (5 << 20))
    env = scripted.env
    given = env.run_script

    def stalls(script: str, args: Any = (), **settings: Any) -> Any:
        """The copy itself gets a deadline, and a stdin that never ends."""
        if "make_root" not in script:
            return given(script, args, **settings)
        chunks = settings.pop("stdin")

        def endless() -> Any:
            yield next(chunks)
            yield next(chunks)
            threading.Event().wait(30)

        return given(script, args, stdin=endless(), timeout=1, **settings)

    env.run_script = stalls  # type: ignore[method-assign]
    with pytest.raises(CommandTimeout):
        env.files.upload(tmp_path / "source", "there")
    assert scripted.left_over() == []
    assert subprocess.run(["ls", "-A", scripted.dir / "there"], capture_output=True, check=True).stdout == b""
