"""Chapter tools: what an agent edits through `hermes_env.tools` is changed whole, as told, or not at all."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes_env.tools import EditEvent, FilePolicy, FileTools

from ._check import equal, holds, same_bytes
from ._law import law

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.files import Change
    from hermes_env.tools import EditOutcome

    from ._lab import Lab

_FILL = r"""
mkdir work work/sub
printf 'one\r\ntwo \351\r\nlast' >work/odd; chmod 750 work/odd
printf '\000\001gone' >work/gone; chmod 600 work/gone
printf '#!/bin/sh\n' >work/from; chmod 755 work/from
printf 'x\n' >work/sub/x
"""
_PATCH = """*** Begin Patch
*** Update File: odd
@@
-one
+uno
*** Add File: deep/new
+new
*** Delete File: gone
*** Update File: from
*** Move to: sub/to
*** Update File: sub/x
@@
-x
+y
*** End Patch
"""
_LINKS = r"""
ln -s sub/x work/gone-link; ln -s nowhere work/sub/from-link
"""
_LINK_PATCH = """*** Begin Patch
*** Delete File: gone-link
*** Update File: sub/from-link
*** Move to: deep/to-link
*** End Patch
"""
_WHERE = r"cd work && for f in gone-link sub/from-link deep/to-link; do ls -ld $f 2>/dev/null | sed 's/.* -> //'; done"
_TREE = r"""
cd work && find . | sort | while IFS= read -r f; do
  if [ -f "$f" ]; then ls -l "$f" | cut -c 1-10; cksum <"$f"; fi
  printf '%s\n' "$f"
done
"""


class _Killed(BaseException):
    """The client ends here."""


class ToolLaws:
    """Reading, editing, undoing and recovering."""

    @law()
    def test_a_patch_changes_what_it_says(self, lab: Lab) -> None:
        """A patch arrives byte for byte in every file it names; line ends, foreign bytes and modes stay."""
        lab.sh(_FILL)
        _applied(_tools(lab, lab.env).apply_patch(_PATCH))
        lab.expect_file("the updated file", lab.path("work/odd"), b"uno\r\ntwo \xe9\r\nlast")
        lab.expect_file("the added file", lab.path("work/deep/new"), b"new\n")
        lab.expect_file("the moved file", lab.path("work/sub/to"), b"#!/bin/sh\n")
        modes = lab.sh("ls -l work/odd work/sub/to").text.splitlines()
        equal("modes", ["-rwxr-x---", "-rwxr-xr-x"], [line[:10] for line in modes])
        equal("names that are gone", (False, False), (lab.exists("work/gone"), lab.exists("work/from")))
        equal("what is left in work", b"", lab.sh("find work state -name '.hermes*' -o -name '*.journal'").stdout)

    @law()
    def test_a_change_meanwhile_is_not_lost(self, lab: Lab) -> None:
        """A file that somebody writes between look and commit keeps his bytes, and nothing of the patch is applied."""
        lab.sh(_FILL)

        def meanwhile(_: EditEvent) -> None:
            lab.sh("printf hers >work/sub/x")
            seen.append(lab.sh(_TREE).stdout)

        seen: list[bytes] = []
        outcome = _tools(lab, lab.env, before=[meanwhile]).apply_patch(_PATCH)
        holds(not outcome.ok and outcome.error is not None, f"the patch is told as {outcome.status}")
        same_bytes("the tree", seen[0], lab.sh(_TREE).stdout)

    @law()
    def test_an_edit_is_undone(self, lab: Lab) -> None:
        """Undo gives back bytes, modes and names, and removes the directories that the edit made."""
        lab.sh(_FILL)
        before = lab.sh(_TREE).stdout
        tools = _tools(lab, lab.env)
        done = _applied(tools.apply_patch(_PATCH))
        _applied(tools.undo(done.edit_id))
        same_bytes("the tree", before, lab.sh(_TREE).stdout)

    @law()
    def test_links_are_moved_deleted_and_made_again(self, lab: Lab) -> None:
        """Deleting and moving a symbolic link leaves its target alone, and undo makes the link as it was."""
        lab.sh(_FILL + _LINKS)
        tools = _tools(lab, lab.env)
        done = _applied(tools.apply_patch(_LINK_PATCH))
        equal("where the links lead", b"nowhere\n", lab.sh(_WHERE).stdout)
        lab.expect_file("the target", lab.path("work/sub/x"), b"x\n")
        _applied(tools.undo(done.edit_id))
        equal("where they lead again", b"sub/x\nnowhere\n", lab.sh(_WHERE).stdout)

    @law()
    def test_twenty_files_take_four_round_trips(self, lab: Lab) -> None:
        """A patch of twenty files asks the environment four times at most, and one of a single file three times."""
        lab.sh("mkdir work && i=0; while [ $i -lt 20 ]; do echo a >work/f$i; i=$((i+1)); done")
        tools = _tools(lab, lab.env)
        body = "".join(f"*** Update File: f{n}\n@@\n-a\n+{n}\n" for n in range(20))
        with _counting(lab.env) as scripts:
            _applied(tools.apply_patch(f"*** Begin Patch\n{body}*** End Patch\n"))
        equal("last file", b"19\n", lab.sh("cat work/f19").stdout)
        holds(len(scripts) <= 4, f"twenty files took {len(scripts)} round trips")
        with _counting(lab.env) as scripts:
            _applied(tools.str_replace("f0", "0", "x"))
        holds(len(scripts) <= 3, f"one file took {len(scripts)} round trips")

    @law()
    def test_an_edit_stays_in_the_workspace(self, lab: Lab) -> None:
        """No link and no spelling leads an edit or a read out of the workspace, by where it really leads."""
        lab.sh(_FILL + "mkdir out; printf secret >out/file; ln -s ../out work/way; ln -s ../out/file work/link")
        tools = _tools(lab, lab.env)
        for path in ("way/file", "link", "../out/file", lab.path("out/file"), "way/../out/file"):
            outcome = tools.str_replace(path, "secret", "told")
            equal(f"code for {path}", "path_outside_root", outcome.error and outcome.error.code)
            equal(f"text of {path}", "", tools.read_file(path).text)
        lab.expect_file("the file outside", lab.path("out/file"), b"secret")

    @law()
    def test_a_broken_edit_is_recovered(self, lab: Lab) -> None:
        """What a client that died in the middle of an edit left is made whole by the next one."""
        lab.sh(_FILL)
        before = lab.sh(_TREE).stdout
        with _dying_halfway(lab.env):
            try:
                _tools(lab, lab.env).apply_patch(_PATCH)
            except _Killed:
                pass
            else:
                holds(False, "the edit was not broken off: the law proves nothing")
        holds(lab.sh(_TREE).stdout != before, "nothing was changed before the end: the law proves nothing")
        recovery = _tools(lab, lab.env).recover()
        holds(recovery.clean, f"the recovery tells {recovery.edits}")
        same_bytes("the tree", before, lab.sh(_TREE).stdout)
        equal("what is left", b"", lab.sh("find work state -name '.hermes*' -o -name '*.journal'").stdout)

    @law()
    def test_a_read_tells_what_the_file_is(self, lab: Lab) -> None:
        """A read has the digest, encoding and line ends of the file's own bytes, and shows them without loss."""
        lab.sh(_FILL)
        read = _tools(lab, lab.env).read_file("odd")
        data = b"one\r\ntwo \xe9\r\nlast"
        equal("digest", hashlib.sha256(data).hexdigest(), read.sha256)
        equal("facts", ("unknown-8bit", "crlf", False), (read.encoding, read.eol, read.final_newline))
        equal("text", "one\ntwo \\xe9\nlast\n", read.text)
        equal("kind of a binary file", ("binary", ""), _shown(_tools(lab, lab.env), "gone"))


def _tools(lab: Lab, env: BaseEnvironment, **settings: Any) -> FileTools:
    """Tools on the directory ``work`` of the law, with journals beside it and a store on this machine."""
    lab.sh("mkdir -p state")
    store = tempfile.TemporaryDirectory(prefix="hermes-law-")
    lab.later(store.cleanup)
    return FileTools(
        env,
        FilePolicy(workspace=lab.path("work")),
        confirm=lambda _event, _reasons: True,
        store_dir=store.name,
        state_dir=lab.path("state"),
        **settings,
    )


def _applied(outcome: EditOutcome) -> EditOutcome:
    holds(outcome.status == "applied" and outcome.ok, f"the edit is told as {outcome.status}: {outcome.errors}")
    return outcome


def _shown(tools: FileTools, path: str) -> tuple[str, str]:
    read = tools.read_file(path)
    return read.kind, read.text


@contextmanager
def _counting(env: BaseEnvironment) -> Iterator[list[str]]:
    """The scripts that run in the environment; none where files are reached without."""
    counted: Any = env
    run = counted.run_script
    scripts: list[str] = []

    def run_script(script: str, *args: Any, **settings: Any) -> Any:
        scripts.append(script)
        return run(script, *args, **settings)

    counted.run_script = run_script
    try:
        yield scripts
    finally:
        vars(env).pop("run_script", None)


@contextmanager
def _dying_halfway(env: BaseEnvironment) -> Iterator[None]:
    """Let the commit after that of the journal apply two changes, and nothing after it."""
    files: Any = env.files
    commit = files.commit
    names = ("commit", "survey", "sweep", "remove")

    def dead(*_args: Any, **_settings: Any) -> Any:
        raise _Killed

    def half(changes: Sequence[Change], **settings: Any) -> Any:
        if any(change.path.endswith(".journal") for change in changes):
            return commit(changes, **settings)
        commit([change for change in changes if change.path.endswith(("/odd", "/gone"))], **settings)
        for name in names:
            setattr(files, name, dead)
        raise _Killed

    files.commit = half
    try:
        yield
    finally:
        for name in names:
            vars(files).pop(name, None)
