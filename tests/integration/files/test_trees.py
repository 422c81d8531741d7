"""Folders copied between this machine and an environment."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_env import CommandTimeout, FileChanged, TransportError, VerificationError
from hermes_env.files import Skipped

from .conftest import NOBODY, USERS, Place, ShellEnvironment, make_place

NAMES = [
    b"plain",
    b"two words",
    b" lead and trail ",
    b"-dash",
    b"--",
    b"~",
    b"$HOME",
    b"*",
    b"?[a]",
    b"back\\slash",
    b"tail\\",
    b"\\0101",
    b"new\nline",
    b"end\n",
    b"\n",
    b"quo'te\"`",
    b"...",
    b".hidden",
    b"..two",
    b"%s%n",
    b"a;b|c&d",
    b"\xff\xfe\x80\x01\x7f",
    "naïve ☃".encode(),
    b"tab\tcr\r",
    bytes(byte for byte in range(1, 128) if byte != 0x2F),
    bytes(range(128, 256)),
]


def state(root: Path) -> dict[bytes, tuple[str, int, bytes]]:
    """Everything below a folder as the system sees it: kind, mode (not of links), content or target."""
    found = {}
    for base, folders, files in os.walk(os.fsencode(root)):
        for name in [*folders, *files]:
            path = os.path.join(base, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, os.fsencode(root))
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[relative] = ("link", 0, os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[relative] = ("folder", mode, b"")
            else:
                found[relative] = ("file", mode, Path(os.fsdecode(path)).read_bytes())
    return found


def make(root: Path) -> None:
    """A folder with everything in it that a copy must keep."""
    (root / "sub/deeper").mkdir(parents=True)
    (root / "empty").mkdir(mode=0o700)
    (root / "sub/*").mkdir()
    for index, name in enumerate(NAMES):
        (root / "sub/*" / os.fsdecode(name)).write_bytes(bytes([index]) * index + name)
    (root / "zero").write_bytes(b"")
    (root / "every").write_bytes(bytes(range(256)) * 5000)
    (root / "run").write_bytes(b"#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "sub/secret").write_bytes(b"\0\r\n\xff")
    (root / "sub/secret").chmod(0o600)
    (root / "sub/read-only").write_bytes(b"r")
    (root / "sub/read-only").chmod(0o444)
    (root / "sub/deeper").chmod(0o555)
    for link, target in (("to-file", "zero"), ("to-folder", "sub"), ("nowhere", "-no\n\\such"), ("up", "../../..")):
        (root / link).symlink_to(target)
    (root / "sub/absolute").symlink_to("/etc/passwd")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of this machine."""
    root = tmp_path / "source"
    root.mkdir()
    make(root)
    return root


@pytest.mark.shells
def test_a_folder_goes_in_and_comes_back(place: Place, source: Path, tmp_path: Path) -> None:
    """Every name, byte, mode, link and empty folder arrives there, and here again; nothing is beside them."""
    up = place.files.upload(source, "there")
    assert state(place.dir / "there") == state(source)
    assert stat.S_IMODE((place.dir / "there").stat().st_mode) == stat.S_IMODE(source.stat().st_mode)
    down = place.files.download("there", tmp_path / "back")
    assert state(tmp_path / "back") == state(source)
    size = sum(len(content) for kind, _, content in state(source).values() if kind == "file")
    for result in (up, down):
        assert (result.files, result.size, result.unchanged) == (len(NAMES) + 5, size, 0)
        assert (result.directories, result.links, result.skipped) == (5, 5, ())
        assert result.verified and result.verified_by
    assert place.left_over() == []
    assert sorted(os.listdir(tmp_path)) == ["back", "source"]


@pytest.mark.shells
def test_what_is_there_is_not_sent_again(place: Place, source: Path, tmp_path: Path) -> None:
    """A second copy sends what differs by its bytes, not by its time; it puts modes and links right."""
    place.files.upload(source, "there")
    place.files.download("there", tmp_path / "back")
    for root in (place.dir / "there", tmp_path / "back"):
        (root / "zero").write_bytes(b"x")
        (root / "sub/secret").write_bytes(b"\0\r\n\xfe")
        (root / "run").chmod(0o600)
        (root / "empty").chmod(0o755)
        (root / "to-file").unlink()
        (root / "to-file").symlink_to("run")
        (root / "more").write_bytes(b"stays")
    up = place.files.upload(source, "there")
    expected = state(source)
    assert (up.files, up.size, up.unchanged, up.directories, up.links) == (2, 4, len(NAMES) + 3, 0, 1)
    assert state(place.dir / "there") == {**expected, b"more": ("file", 0o644, b"stays")}
    (place.dir / "there/more").unlink()
    down = place.files.download("there", tmp_path / "back")
    assert (down.files, down.size, down.unchanged, down.directories, down.links) == (2, 4, len(NAMES) + 3, 0, 1)
    assert state(tmp_path / "back") == {**expected, b"more": ("file", 0o644, b"stays")}


def test_special_files_are_named(place: Place, tmp_path: Path) -> None:
    """FIFOs and sockets are left out and named; nobody waits for them."""
    for root in (tmp_path / "source", place.dir / "there"):
        (root / "sub").mkdir(parents=True)
        os.mkfifo(root / "sub/fifo")
        (root / "file").write_bytes(b"x")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(root / "sock"))
    expected = {Skipped("sub/fifo", "fifo"), Skipped("sock", "socket")}
    up = place.files.upload(tmp_path / "source", "copy")
    down = place.files.download("there", tmp_path / "back")
    for result, root in ((up, place.dir / "copy"), (down, tmp_path / "back")):
        assert (set(result.skipped), result.files) == (expected, 1)
        assert set(state(root)) == {b"file", b"sub"}


def test_kinds_that_collide_are_refused(place: Place, tmp_path: Path) -> None:
    """A folder and a file in each other's place are told by path before anything is sent; links give way."""
    for name, code in (("a", IsADirectoryError), ("b", NotADirectoryError), ("c", NotADirectoryError)):
        source, target = tmp_path / f"source-{name}", place.dir / f"target-{name}"
        source.mkdir()
        target.mkdir()
        (source / "0first").write_bytes(b"x")
        (source / name).mkdir() if code is NotADirectoryError else (source / name).write_bytes(b"x")
        elsewhere = place.dir / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        if name == "a":
            (target / name).mkdir()
        elif name == "b":
            (target / name).write_bytes(b"old")
        else:
            (target / name).symlink_to(elsewhere)
        with pytest.raises(code) as caught:
            place.files.upload(source, f"target-{name}")
        assert caught.value.filename == f"target-{name}/{name}"
        assert os.listdir(target) == [name]
        assert os.listdir(elsewhere) == []


def test_a_link_is_replaced_and_never_followed(place: Place, tmp_path: Path) -> None:
    """Where a file comes and a link is, the link goes; what it leads to stays as it is, on both sides."""
    for outer in (place.dir, tmp_path):
        (outer / "outside").mkdir()
        (outer / "outside/file").write_bytes(b"old")
        (outer / "source").mkdir()
        (outer / "target").mkdir()
        (outer / "source/a").write_bytes(b"new")
        (outer / "source/b").write_bytes(b"new")
        (outer / "target/a").symlink_to("../outside/file")
        (outer / "target/b").symlink_to("../outside")
    place.files.upload(tmp_path / "source", "target")
    place.files.download("source", tmp_path / "target")
    for outer in (place.dir, tmp_path):
        assert state(outer / "outside") == {b"file": ("file", 0o644, b"old")}
        assert {name: content for name, (_, _, content) in state(outer / "target").items()} == {
            b"a": b"new",
            b"b": b"new",
        }


def test_a_link_here_leads_nothing_out(place: Place, tmp_path: Path) -> None:
    """A local folder of the target that is a link is not entered, wherever it leads."""
    (place.dir / "source/sub").mkdir(parents=True)
    (place.dir / "source/sub/file").write_bytes(b"new")
    (tmp_path / "outside").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target/sub").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError) as caught:
        place.files.download("source", tmp_path / "target")
    assert caught.value.filename == str(tmp_path / "target/sub")
    assert os.listdir(tmp_path / "outside") == []


def test_rights_are_not_brought_here(place: Place, tmp_path: Path) -> None:
    """Set-user-id, set-group-id and sticky bits of an environment do not arrive on this machine."""
    (place.dir / "source").mkdir()
    (place.dir / "source/tool").write_bytes(b"x")
    (place.dir / "source/tool").chmod(0o6755)
    (place.dir / "source/box").mkdir()
    (place.dir / "source/box").chmod(0o3777)
    place.files.download("source", tmp_path / "target")
    assert {name: mode for name, (_, mode, _) in state(tmp_path / "target").items()} == {b"tool": 0o755, b"box": 0o777}


def test_missing_parents(place: Place, source: Path, tmp_path: Path) -> None:
    """Parents of the folder are made when that is asked for; else the error has the caller's path."""
    with pytest.raises(FileNotFoundError) as caught:
        place.files.upload(source, "no/such/place")
    assert caught.value.filename == "no/such/place"
    place.files.upload(source, "no/such/place", make_parents=True)
    assert state(place.dir / "no/such/place") == state(source)
    with pytest.raises(FileNotFoundError) as caught:
        place.files.download("missing", tmp_path / "back")
    assert caught.value.filename == "missing"
    with pytest.raises(FileNotFoundError) as caught:
        place.files.download("no/such/place", tmp_path / "no/such")
    assert caught.value.filename == str(tmp_path / "no/such")
    (place.dir / "file").write_bytes(b"x")
    with pytest.raises(NotADirectoryError) as upload:
        place.files.upload(source, "file")
    assert upload.value.filename == "file"


def test_progress_and_expectation(place: Place, source: Path, tmp_path: Path) -> None:
    """What will be sent is told once, and progress ends there; a callback that raises ends the copy."""
    (source / "large").write_bytes(os.urandom(5 << 20))
    told: list[int] = []
    seen: list[int] = []
    result = place.files.upload(source, "there", progress=seen.append, expect=told.append)
    assert told == [result.size] and seen[-1] == result.size and seen == sorted(seen)
    seen.clear()
    down = place.files.download("there", tmp_path / "back", progress=seen.append, expect=told.append)
    assert told == [result.size, down.size] and seen[-1] == down.size == result.size and seen == sorted(seen)

    def stop(count: int) -> None:
        if count > 1 << 20:
            raise FileChanged("x", "seen enough")

    with pytest.raises(FileChanged, match="seen enough"):
        place.files.upload(source, "broken", progress=stop)
    with pytest.raises(FileChanged, match="seen enough"):
        place.files.download("there", tmp_path / "broken", progress=stop)
    assert place.left_over() == []
    assert list(tmp_path.rglob(".hermes*")) == []


def test_many_files_cost_few_round_trips(scripted: Place, tmp_path: Path) -> None:
    """Three hundred files go in by two commands and come back by four."""
    source = tmp_path / "source"
    for index in range(300):
        folder = source / str(index % 7)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(index)).write_bytes(b"%d" % index * (index % 50))
    env = scripted.env
    assert isinstance(env, ShellEnvironment)
    before = env.runs
    assert scripted.files.upload(source, "there", durable=False).files == 300
    middle = env.runs
    assert scripted.files.download("there", tmp_path / "back", durable=False).files == 300
    assert (middle - before, env.runs - middle) == (2, 4)
    assert state(tmp_path / "back") == state(scripted.dir / "there") == state(source)


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


@pytest.mark.parametrize("shell", ["zsh", "yash"])
def test_other_shells(home: Path, source: Path, tmp_path: Path, shell: str) -> None:
    """Shells that are started by the name ``sh`` carry folders as well."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "sh").symlink_to(program)
    with ShellEnvironment([str(tmp_path / "sh")], cwd=str(home)) as env:
        assert env.files.upload(source, "there", durable=False).verified
        assert env.files.download("there", tmp_path / "back", durable=False).verified
    assert state(tmp_path / "back") == state(home / "there") == state(source)


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
