"""What goes wrong outside: the tree is the old or the new one, never between, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from hermes_env import TransportError
from hermes_env.tools import EditOutcome
from tests.slow import slow

from .bench import Bench, directory, is_commit, make_bench, open_kind, tree, with_functions
from .killer import FILES, PATCH, change, fill, start

ROOT = Path(__file__).parents[3]


def apply(bench: Bench) -> EditOutcome:
    """The edit that all faults hit."""
    return bench.tools().apply_patch(PATCH)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The old and the new tree, made without any fault."""
    with directory() as home, open_kind("native", home) as env:
        bench = make_bench("native", home, env)
        fill(bench.root)
        old = bench.tree()
        assert apply(bench).ok
        return old, bench.tree()


def clean(bench: Bench) -> None:
    """Nothing is left of any edit."""
    assert (bench.journals(), bench.left_over()) == ([], [])


@contextmanager
def small_disk(home: Path) -> Iterator[Path]:
    """A file system of 1 MiB in the workspace."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    target = home / "work" / "small"
    target.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", target], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting is not possible here")
    try:
        yield target
    finally:
        subprocess.run(["umount", target], check=True)


@pytest.mark.parametrize("kind", ["native", "sh", "staged", "docker"])
def test_a_full_disk_while_staging(kind: str, home: Path, request: pytest.FixtureRequest) -> None:
    """When one of several new files does not fit, nothing is changed and ENOSPC is told for the caller's path."""
    with small_disk(home):
        options: dict[str, Any] = {}
        if kind == "docker":
            options = {**request.getfixturevalue("docker"), "mounts": (f"{home}:{home}",)}
        with open_kind(kind, home, **options) as env:
            bench = make_bench(kind, home, env)
            fill(bench.root)
            before = bench.tree()
            big = "".join(f"+{'x' * 99}\n" for _ in range(20_000))
            patch = PATCH.replace("*** End Patch", f"*** Add File: small/big\n{big}*** End Patch")
            outcome = bench.tools().apply_patch(patch)
            assert (outcome.ok, outcome.status) == (False, "rolled_back")
            assert outcome.error is not None
            assert (outcome.error.code, outcome.error.path) == ("write_failed", "small/big")
            assert "No space left" in outcome.error.message
            assert bench.tree() == before
            clean(bench)


@pytest.mark.parametrize("kth", [1, 2, 3, 4])
def test_the_kth_rename_fails(bench: Bench, kth: int, monkeypatch: pytest.MonkeyPatch, trees: tuple[str, str]) -> None:
    """A rename that the system refuses in the middle of a commit takes back all before it."""
    fill(bench.root)
    if bench.kind == "native":
        calls = 0
        rename = os.rename

        def failing(src: Any, dst: Any, **settings: Any) -> None:
            nonlocal calls
            if b".journal" not in os.fsencode(dst) and b".bak" not in os.fsencode(src):
                calls += 1
                if calls == kth:
                    raise PermissionError(13, "Permission denied", src)
            rename(src, dst, **settings)

        monkeypatch.setattr("os.rename", failing)
    else:
        shim = f'moved=0; mv() {{ moved=$((moved+1)); [ "$moved" -ne {kth} ] || return 1; command mv "$@"; }}'
        bench.fault = lambda script: with_functions(script, shim) if is_commit(script) and _runs(bench) == 2 else script
    outcome = apply(bench)
    assert (outcome.ok, outcome.status) == (False, "rolled_back")
    assert outcome.error is not None and outcome.error.code in ("permission_denied", "write_failed")
    assert bench.tree() == trees[0]
    clean(bench)
    monkeypatch.undo()
    bench.fault = None
    assert apply(bench).ok and bench.tree() == trees[1]


def _runs(bench: Bench) -> int:
    """Commits so far: the first writes the journal, the second changes the files."""
    return sum(map(is_commit, bench.scripts))


def between(bench: Bench, act: Callable[[], None]) -> None:
    """Do something once, between the survey of an edit and its commit."""
    commit = bench.env.files.commit
    done = threading.Event()

    def late(changes: Any, **settings: Any) -> Any:
        if not done.is_set():
            done.set()
            act()
        return commit(changes, **settings)

    bench.env.files.commit = late  # type: ignore[method-assign]


@pytest.mark.parametrize("what", ["content", "gone", "new", "link"])
def test_a_target_that_changes_between_read_and_commit(bench: Bench, what: str) -> None:
    """What somebody writes, removes, makes or links meanwhile stays as he left it; nothing else is changed."""
    fill(bench.root)

    def act() -> None:
        if what == "content":
            (bench.root / "b").write_bytes(b"hers\n")
        elif what == "gone":
            (bench.root / "d").unlink()
        elif what == "new":
            (bench.root / "deep/er").mkdir(parents=True)
            (bench.root / "deep/er/new").write_bytes(b"hers\n")
        else:
            (bench.root / "sub").rename(bench.root / "elsewhere")
            (bench.root / "sub").symlink_to("elsewhere")
        seen.append(bench.tree())

    seen: list[str] = []
    between(bench, act)
    outcome = apply(bench)
    assert not outcome.ok and outcome.error is not None
    assert outcome.error.code == "stale" if what != "gone" else outcome.error.code in ("stale", "write_failed")
    assert [bench.tree()] == seen
    clean(bench)


def test_a_file_that_is_other_after_the_commit(bench: Bench, trees: tuple[str, str]) -> None:
    """Bytes that are not what was meant, found by the proof after the commit, put everything back."""
    fill(bench.root)
    commit = bench.env.files.commit
    calls = 0

    def damaged(changes: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        done = commit(changes, **settings)
        if calls == 1 and bench.kind != "native":
            return done
        if any(getattr(change, "path", "").endswith("/b") for change in changes) and calls <= 2:
            (bench.root / "b").write_bytes(b"rotten\n")
        return done

    bench.env.files.commit = damaged  # type: ignore[method-assign]
    outcome = apply(bench)
    assert (outcome.ok, outcome.status) == (False, "rolled_back")
    assert outcome.error is not None and (outcome.error.code, outcome.error.path) == ("verify_failed", "b")
    assert bench.tree() == trees[0]
    clean(bench)


@pytest.mark.parametrize("kth", [1, 2, 3])
def test_the_link_is_lost_after_a_step(bench: Bench, kth: int, trees: tuple[str, str]) -> None:
    """When the answer to the k-th commit is lost the tools look, and the tree is whole: old, or new and told so."""
    fill(bench.root)
    commit = bench.env.files.commit
    calls = 0

    def lost(changes: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        done = commit(changes, **settings)
        if calls == kth:
            raise TransportError("the link was lost")
        return done

    bench.env.files.commit = lost  # type: ignore[method-assign]
    outcome = apply(bench)
    assert bench.tree() == trees[1 if outcome.ok else 0]
    assert outcome.ok == (kth > 1)
    bench.env.files.commit = commit  # type: ignore[method-assign]
    bench.tools().recover()
    clean(bench)


def test_the_link_stays_down(bench: Bench, trees: tuple[str, str]) -> None:
    """When nothing can be asked any more the outcome says that it is unknown, and `recover` settles it later."""
    fill(bench.root)
    files = bench.env.files
    commit, survey, sweep = files.commit, files.survey, files.sweep
    calls = 0

    def down(*args: Any, **settings: Any) -> Any:
        raise TransportError("the link is down")

    def lost(changes: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            return commit(changes, **settings)
        commit(changes, **settings)
        for name in ("commit", "survey", "sweep"):
            setattr(files, name, down)
        return down()

    files.commit = lost  # type: ignore[method-assign]
    outcome = apply(bench)
    assert (outcome.ok, outcome.status) == (False, "rollback_failed")
    assert outcome.error is not None and "recover()" in outcome.error.message
    assert sorted(outcome.left_changed) == sorted(["a", "b", "d", "deep/er/new", "m", "to/m", "sub/c"])
    files.commit, files.survey, files.sweep = commit, survey, sweep  # type: ignore[method-assign]
    recovery = bench.tools().recover()
    assert [edit.done for edit in recovery.edits] == ["finished"] and recovery.clean
    assert bench.tree() == trees[1]
    clean(bench)


@pytest.mark.parametrize("kth", [1, 3, 5, 8])
def test_the_script_is_killed_and_the_client_lives(bench: Bench, kth: int, trees: tuple[str, str]) -> None:
    """A commit killed in the environment at its k-th change of a name is settled at once by the client."""
    if bench.kind == "native":
        pytest.skip("there is no script to kill")
    fill(bench.root)
    shim = _counted(f'[ "$done" -ne {kth} ] || kill -9 $$')
    bench.fault = lambda script: with_functions(script, shim) if is_commit(script) and _runs(bench) == 2 else script
    outcome = apply(bench)
    assert not outcome.ok and bench.tree() == trees[0]
    bench.fault = None
    bench.tools().recover()
    clean(bench)


def _counted(act: str) -> str:
    body = f'{{ done=$((done+1)); {act}; command NAME "$@"; }}'
    return "done=0; " + " ".join(f"{name}() {body.replace('NAME', name)};" for name in ("mv", "ln", "rm", "chmod"))


def test_other_writers_bytes_survive_recovery(near: Bench) -> None:
    """Recovery leaves a file alone that somebody wrote after the client was killed, and says so."""
    fill(near.root)
    commit = near.env.files.commit
    calls = 0

    class Killed(BaseException):
        pass

    def half(changes: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != 2:
            return commit(changes, **settings)
        commit([change for change in changes if change.path.endswith(("/a", "/b"))], **settings)
        raise Killed

    near.env.files.commit = half  # type: ignore[method-assign]
    near.env.files.sweep = _never  # type: ignore[method-assign]
    with pytest.raises(Killed):
        apply(near)
    del near.env.files.sweep, near.env.files.commit
    assert near.cat("a") != FILES["a"][0]
    near.put("b", b"hers\n")
    recovery = near.tools().recover()
    assert [(edit.done, edit.left) for edit in recovery.edits] == [("undone", ("b",))]
    assert not recovery.clean
    assert (near.cat("a"), near.cat("b")) == (FILES["a"][0], b"hers\n")


def _never(*args: Any, **settings: Any) -> Any:
    raise TransportError("the client is dead")


def killed_at_every_step(kind: str, home: Path, request: pytest.FixtureRequest, what: str) -> list[dict[str, Any]]:
    """What a client that was killed at its first step left, at its second, and so on; the last one was not killed."""
    options: dict[str, Any] = {}
    keeper = None
    if kind == "docker":
        keeper = open_kind(kind, home, **request.getfixturevalue("docker"), mounts=(f"{home}:{home}",))
        options = {"container": keeper.ref.partition("://")[2], "host": request.getfixturevalue("docker")["host"]}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.integration.tools.killer", kind, str(home), json.dumps(options), what],
            capture_output=True, text=True, cwd=ROOT, timeout=900, check=False,
        )  # fmt: skip
    finally:
        if keeper is not None:
            keeper.close()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_whole(rows: list[dict[str, Any]], old: str, new: str) -> None:
    """After recovery the tree is the old or the new one, without left-overs; and it really was between them before."""
    killed = [row for row in rows if row["killed"]]
    assert len(killed) >= 5 and not rows[-1]["killed"]
    assert any(row["tree"] not in (old, new) for row in killed), "no kill fell between old and new"
    for row in rows:
        assert row["recovered"] in (old, new), (row["step"], row["said"])
        assert (row["journals"], row["left"]) == ([], []), row["step"]
    assert rows[-1]["recovered"] == new


@pytest.mark.parametrize("kind", ["native", "sh", "staged", "docker"])
def test_the_client_is_killed_between_any_two_steps(
    kind: str, home: Path, request: pytest.FixtureRequest, trees: tuple[str, str]
) -> None:
    """A client killed at any step leaves what `recover` of the next one makes the old or the new tree, and no rest."""
    assert_whole(killed_at_every_step(kind, home, request, "patch"), *trees)


@pytest.mark.parametrize("what", ["mounted", "linked"])
# The script is that of `sh`, and the patch above has a file with two names in it, on every way.
@pytest.mark.parametrize(
    "kind", ["native", "sh", *(pytest.param(kind, marks=slow("takes a minute")) for kind in ("staged", "docker"))]
)
def test_the_client_is_killed_while_it_writes_in_place(
    kind: str, what: str, home: Path, request: pytest.FixtureRequest
) -> None:
    """A mounted file, or one with two names, that a killed client left empty or cut is made whole by `recover`."""
    start(home, what)
    with mounted_file(home) if what == "mounted" else nullcontext():
        old = tree(home / "work")
        with open_kind("native", home) as env:
            assert change(make_bench("native", home, env).tools(), what).ok
        new = tree(home / "work")
        assert_whole(killed_at_every_step(kind, home, request, what), old, new)


@contextmanager
def mounted_file(home: Path) -> Iterator[None]:
    """The file `f` of the workspace is a mount point of another file."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    target = home / "work" / "f"
    target.touch()
    command = ["mount", "--bind", str(home / "source"), str(target)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not possible here")
    try:
        yield
    finally:
        subprocess.run(["umount", target], check=True)


def test_an_interrupt_in_the_middle_settles_first(near: Bench, trees: tuple[str, str]) -> None:
    """Ctrl-C while files are being renamed comes through, after everything was put back."""
    fill(near.root)
    commit = near.env.files.commit
    calls = 0

    def interrupted(changes: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != 2:
            return commit(changes, **settings)
        commit([change for change in changes if change.path.endswith(("/a", "/d"))], **settings)
        raise KeyboardInterrupt

    near.env.files.commit = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        apply(near)
    assert near.tree() == trees[0]
    clean(near)
