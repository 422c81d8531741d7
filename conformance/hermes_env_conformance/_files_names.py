"""Chapter files, names and attributes: links, modes, directories, and errors that say which file."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import FileChanged, InvalidArgument
from hermes_env.files import Change, MakeDir, Move, Remove, Write

from ._check import equal, holds, same_bytes
from ._corpus import NASTY_NAMES
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab


class FileNameLaws:
    """Names, kinds, modes, links and directories."""

    @law(variant=True)
    def test_every_name_works(self, lab: Lab) -> None:
        """Any name is written, seen by commands, listed, read, moved and removed as it is: nothing expands."""
        files = lab.env.files
        for name in NASTY_NAMES:
            path, data = lab.path(name), name.encode("utf-8", "surrogateescape")
            files.write_bytes(path, data)
            same_bytes(f"{name!r} by a command", data, lab.env.exec(["cat", path]).stdout)
            same_bytes(f"{name!r} read", data, files.read_bytes(path))
            equal(f"{name!r} listed", [name], [one.name for one in files.list_dir(lab.root)])
            files.move(path, lab.path("moved"))
            files.move(lab.path("moved"), path)
            files.remove(path)
        equal("names at the end", [], files.list_dir(lab.root))

    @law()
    def test_relative_paths_start_at_the_directory(self, lab: Lab) -> None:
        """A relative path starts at the environment's cwd, also one that looks like an option or a home."""
        top, env = f"hermes-law-{secrets.token_hex(6)}", lab.open(cwd=lab.settings.workspace)
        base = f"{lab.settings.workspace.rstrip('/')}/{top}"
        env.exec(["mkdir", "-m", "700", base], check=True)
        try:
            for name in (f"{top}/plain", f"./{top}/-dash", f"{top}/~", f"{top}/../{top}/up"):
                env.files.write_bytes(name, b"data")
                same_bytes(name, b"data", env.exec(["cat", f"{base}/../{name}"]).stdout)
                equal(f"exists {name}", True, env.files.exists(name))
        finally:
            env.exec(["rm", "-rf", base])

    @law()
    def test_a_mode_is_kept_or_set(self, lab: Lab) -> None:
        """A write keeps the mode of a file that was there, and sets the one that is asked for."""
        files, path = lab.env.files, lab.path("file")
        for mode in (0o600, 0o640, 0o644, 0o755, 0o700):
            lab.sh(f"printf old >file; chmod {mode:o} file")
            files.write_bytes(path, b"new bytes")
            equal("mode that was kept", oct(mode), oct(files.stat(path).mode))
            same_bytes("mode as `ls` shows it", _letters(mode), lab.sh("ls -l file").stdout[:10])
            files.remove(path)
        files.write_bytes(path, b"x", mode=0o640)
        same_bytes("mode that was asked for", _letters(0o640), lab.sh("ls -l file").stdout[:10])

    @law()
    def test_a_new_file_follows_the_umask(self, lab: Lab) -> None:
        """A new file has the mode that a command would have given it."""
        lab.sh(": >made-by-command")
        lab.env.files.write_bytes(lab.path("made-by-write"), b"x")
        listing = lab.sh("ls -l made-by-command made-by-write").text.splitlines()
        equal("mode", listing[0][:10], listing[1][:10])

    @law(variant=True)
    def test_what_is_new_belongs_to_the_commands_user(self, lab: Lab) -> None:
        """A new file or directory has the owner that a command would have given it, and commands can change it."""
        lab.sh(": >made-by-command; mkdir dir-by-command")
        lab.env.files.write_bytes(lab.path("made-by-write"), b"old")
        lab.env.files.make_dir(lab.path("dir-by-call"))
        listed = lab.sh("ls -dn made-by-command made-by-write dir-by-command dir-by-call").text.splitlines()
        owners = {line.split()[8]: line.split()[2] for line in listed}
        equal("owner of a file", owners["made-by-command"], owners["made-by-write"])
        equal("owner of a directory", owners["dir-by-command"], owners["dir-by-call"])
        lab.sh("printf new >made-by-write && : >dir-by-call/file")
        lab.expect_file("the file that a command changed", lab.path("made-by-write"), b"new")

    @law()
    def test_an_owner_is_kept(self, lab: Lab) -> None:
        """Where the environment may give files away, a write keeps owner and group."""
        lab.sh("printf old >file")
        lab.skip_unless(lab.env.exec(f"chown 12345:54321 {lab.path('file')}").ok, "chown is not permitted inside")
        lab.env.files.write_bytes(lab.path("file"), b"new")
        status = lab.env.files.stat(lab.path("file"))
        equal("owner and group", (12345, 54321), (status.uid, status.gid))

    @law()
    def test_what_was_written_is_new(self, lab: Lab) -> None:
        """The time of a written file is that of the write: younger than what was there, and not of the future."""
        lab.sh("printf old >old; touch -t 200001010000 old; touch -t 202001010000 before")
        for name in ("old", "new"):
            lab.env.files.write_bytes(lab.path(name), b"new")
        script = """touch after; for name in old new; do
            [ "$name" -nt before ] || echo "$name is as old as before"
            [ ! "$name" -nt after ] || echo "$name is of the future"
        done"""
        same_bytes("what is wrong with the times", b"", lab.sh(script).stdout)

    @law(variant=True)
    def test_a_link_stays_a_link(self, lab: Lab) -> None:
        """A write through symbolic links changes the file they lead to; the links stay."""
        lab.sh("mkdir dir; printf old >dir/real; ln -s real dir/link; ln -s dir/link chain")
        lab.env.files.write_bytes(lab.path("chain"), b"new")
        lab.expect_file("the file", lab.path("dir/real"), b"new")
        same_bytes("the links", b"dir/link\nreal\n", lab.sh("readlink chain; readlink dir/link").stdout)

    @law()
    def test_a_link_to_nothing_is_decided(self, lab: Lab) -> None:
        """A write through a link to a missing file makes that file; a loop of links is ELOOP."""
        lab.sh("ln -s target link; ln -s a b; ln -s b a")
        lab.env.files.write_bytes(lab.path("link"), b"made")
        same_bytes("link and target", b"target\nmade", lab.sh("readlink link; cat target").stdout)
        with pytest.raises(OSError) as caught:  # noqa: PT011 - errno is checked
            lab.env.files.write_bytes(lab.path("a"), b"x")
        equal("errno and path", (errno.ELOOP, lab.path("a")), (caught.value.errno, caught.value.filename))

    @law()
    def test_hard_links_are_kept_broken_or_refused(self, lab: Lab) -> None:
        """All names of a file get the new bytes, or only the one named, or none, as the caller says."""
        files, path = lab.env.files, lab.path("a")
        lab.sh("printf old >a; ln a b")
        with pytest.raises(OSError):  # noqa: PT011 - any errno will do
            files.write_bytes(path, b"refused", hardlinks="refuse")
        same_bytes("both after refuse", b"oldold", lab.sh("cat a b").stdout)
        kept = files.write_bytes(path, b"kept", hardlinks="keep")
        same_bytes("both after keep", b"keptkept", lab.sh("cat a b").stdout)
        equal("links and `atomic` after keep", (2, False), (files.stat(path).nlink, kept.atomic))
        files.write_bytes(path, b"broken", hardlinks="break")
        same_bytes("both after break", b"brokenkept", lab.sh("cat a b").stdout)

    @law(variant=True)
    def test_what_is_no_file_is_not_written(self, lab: Lab) -> None:
        """Directories, FIFOs, devices and paths that end in `/` are refused with errno and path, and stay."""
        lab.sh("mkdir dir; mkfifo fifo; printf x >file")
        for name in ("dir", "fifo", "/dev/null", "dir/", "new/", "file/", "file/below"):
            path = name if name.startswith("/") else lab.path(name)
            with lab.soon(f"the refusal of {name}"), pytest.raises(OSError) as caught:  # noqa: PT011 - the path is checked
                lab.env.files.write_bytes(path, b"data")
            equal(f"{name}: path in the error", path, caught.value.filename)
        script = "[ -d dir ] && [ -p fifo ] && [ -c /dev/null ] && [ -f file ] && [ ! -e new ] && ls dir"
        same_bytes("all as before", b"", lab.sh(script).stdout)

    @law()
    def test_missing_parents_are_made_only_on_request(self, lab: Lab) -> None:
        """A write into a missing directory is FileNotFoundError; with `make_parents` the directories are made."""
        path = lab.path("new/deep/file")
        with pytest.raises(FileNotFoundError) as caught:
            lab.env.files.write_bytes(path, b"x")
        equal("path in the error", path, caught.value.filename)
        equal("whether a directory was made", False, lab.exists("new"))
        lab.env.files.write_bytes(path, b"x", make_parents=True)
        lab.expect_file("the file", path, b"x")

    @law(variant=True)
    def test_a_status_is_true(self, lab: Lab) -> None:
        """`stat` tells kind, size, mode, links, time and target as the environment's own tools set them."""
        lab.sh("printf 12345 >f; chmod 640 f; ln f g; TZ=UTC0 touch -t 202001020304.05 f; ln -s f link; mkfifo fifo")
        files = lab.env.files
        seen = files.stat(lab.path("f"))
        equal("kind, size, mode, nlink", ("file", 5, 0o640, 2), (seen.kind, seen.size, seen.mode, seen.nlink))
        holds(seen.mtime is None or int(seen.mtime) == 1577934245, f"mtime is {seen.mtime}")
        link = files.stat(lab.path("link"), follow=False)
        equal("the link itself", ("symlink", "f"), (link.kind, link.target))
        equal("what it leads to", ("file", 5), (files.stat(lab.path("link")).kind, files.stat(lab.path("link")).size))
        others = {name: files.stat(lab.path(name)).kind for name in (".", "fifo")}
        equal("other kinds", {".": "directory", "fifo": "fifo"}, others)
        equal("/dev/null", "char", files.stat("/dev/null").kind)

    @law()
    def test_a_listing_is_complete(self, lab: Lab) -> None:
        """`list_dir` names everything once, hidden files too, in the order of their bytes; links are not followed."""
        lab.sh("mkdir box; cd box; : >b; : >.hidden; mkdir a; ln -s nowhere link; : >Z; printf 123 >c")
        seen = [(one.name, one.kind) for one in lab.env.files.list_dir(lab.path("box"))]
        expected = [
            (".hidden", "file"),
            ("Z", "file"),
            ("a", "directory"),
            ("b", "file"),
            ("c", "file"),
            ("link", "symlink"),
        ]
        equal("the listing", expected, seen)
        equal("an empty directory", [], lab.env.files.list_dir(lab.path("box/a")))
        for name, kind in (("box/b", NotADirectoryError), ("missing", FileNotFoundError)):
            with pytest.raises(kind):
                lab.env.files.list_dir(lab.path(name))

    @law()
    def test_existence_is_told(self, lab: Lab) -> None:
        """`exists` is true for files and directories, false for missing names and for links that lead nowhere."""
        lab.sh(": >f; mkdir d; ln -s f good; ln -s nowhere bad")
        names = ("f", "d", "good", "bad", "missing", "f/below")
        seen = {name: lab.env.files.exists(lab.path(name)) for name in names}
        equal("exists", {**dict.fromkeys(names, False), "f": True, "d": True, "good": True}, seen)

    @law()
    def test_directories_are_made(self, lab: Lab) -> None:
        """`make_dir` makes one directory, with `parents` all that are missing, and never replaces anything."""
        files = lab.env.files
        files.make_dir(lab.path("one"))
        files.make_dir(lab.path("two/three/four"), parents=True)
        files.make_dir(lab.path("two/three/four"), parents=True)
        lab.sh("[ -d one ] && [ -d two/three/four ]; : >file")
        for name, kind in (("one", FileExistsError), ("file", FileExistsError), ("no/parent", FileNotFoundError)):
            with pytest.raises(kind):
                files.make_dir(lab.path(name))

    @law()
    def test_removal_takes_what_was_named(self, lab: Lab) -> None:
        """`remove` takes a file, a link but not its target, and a full directory only with `recursive`."""
        files = lab.env.files
        lab.sh("mkdir -p full/sub empty keep; : >full/sub/f; : >f; : >keep/f; ln -s keep link; ln -s ../keep full/link")
        for name in ("f", "link", "empty"):
            files.remove(lab.path(name))
        with pytest.raises(OSError) as caught:  # noqa: PT011 - errno is checked
            files.remove(lab.path("full"))
        holds(caught.value.errno in (errno.ENOTEMPTY, errno.EEXIST), f"errno of a full directory: {caught.value!r}")
        lab.sh("[ -e full/sub/f ]")
        files.remove(lab.path("full"), recursive=True)
        with pytest.raises(FileNotFoundError):
            files.remove(lab.path("full"))
        same_bytes("what is left", b"keep\nkeep/f\n", lab.sh("find keep; ls -A | grep -v keep; :").stdout)

    @law()
    def test_a_move_is_a_new_name(self, lab: Lab) -> None:
        """`move` renames files, directories and links as such, and replaces something only with `overwrite`."""
        files = lab.env.files
        lab.sh("printf a >a; printf b >b; mkdir d1 d2; : >d1/f; ln -s a link")
        with pytest.raises(FileExistsError):
            files.move(lab.path("a"), lab.path("b"))
        same_bytes("both after the refusal", b"ab", lab.sh("cat a b").stdout)
        files.move(lab.path("a"), lab.path("b"), overwrite=True)
        files.move(lab.path("link"), lab.path("link2"))
        with pytest.raises(FileExistsError):
            files.move(lab.path("d1"), lab.path("d2"))
        files.move(lab.path("d1"), lab.path("d2"), overwrite=True)
        same_bytes("after it", b"b\nd2\nd2/f\nlink2\n", lab.sh("find b d2 link2; ls a d1 2>/dev/null; :").stdout)
        same_bytes("what moved", b"a", lab.sh("cat b").stdout)

    @law()
    def test_changes_are_made_together_or_not_at_all(self, lab: Lab) -> None:
        """`commit` applies every change, and none of them when one cannot be applied."""
        lab.sh("printf a >a; printf b >b; printf c >c")
        good: list[Change] = [
            Write(path=lab.path("a"), data=b"new a"),
            Remove(path=lab.path("b")),
            Move(path=lab.path("c"), dst=lab.path("d")),
            MakeDir(path=lab.path("dir")),
            Write(path=lab.path("dir/e"), data=b"e"),
        ]
        with pytest.raises((OSError, FileChanged)):
            lab.env.files.commit([*good, Write(path=lab.path("missing/f"), data=b"f")])
        same_bytes("after a failure", b"a\nb\nc\nabc", lab.sh("ls; cat a b c").stdout)
        results = lab.env.files.commit(good)
        same_bytes("after success", b"a\nd\ndir\ne\nnew ace", lab.sh("ls . | cat; ls dir; cat a d dir/e").stdout)
        equal("sizes in the results", [5, None, None, None, 1], [one and one.size for one in results])

    @law()
    def test_errors_name_the_callers_path(self, lab: Lab) -> None:
        """Every error of the file system has an errno and the path that the caller gave, never an inner one."""
        files, path = lab.env.files, lab.path("missing")
        calls: list[Callable[[str], Any]] = [
            files.read_bytes,
            files.stat,
            files.sha256,
            files.list_dir,
            files.remove,
            lambda p: list(files.read_chunks(p)),
            lambda p: files.move(p, lab.path("dst")),
            lambda p: files.read_many([p]),
        ]
        for call in calls:
            with pytest.raises(FileNotFoundError) as caught:
                call(path)
            equal("errno and path", (errno.ENOENT, path), (caught.value.errno, caught.value.filename))

    @law()
    def test_paths_that_cannot_be_are_refused(self, lab: Lab) -> None:
        """Empty paths and paths with NULs or stray surrogates are refused by name; names too long are ENAMETOOLONG."""
        files = lab.env.files
        for path in ("", "a\0b", "a\ud800b"):
            for call in (files.read_bytes, files.stat, lambda p: files.write_bytes(p, b"x"), files.remove):
                with pytest.raises(InvalidArgument):
                    call(path)
        with pytest.raises(OSError) as caught:  # noqa: PT011 - errno is checked
            files.write_bytes(lab.path("x" * 256), b"x")
        equal("errno of a name of 256 bytes", errno.ENAMETOOLONG, caught.value.errno)


def _letters(mode: int) -> bytes:
    """A regular file's mode as ``ls -l`` shows it."""
    bits = "".join(letter if mode >> (8 - at) & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))
    return f"-{bits}".encode()
