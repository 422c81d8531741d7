"""Public bug reports about patches and edits, each as the right value."""

from __future__ import annotations

import pytest

from hermes_env.tools import (
    EditError,
    Missing,
    PatchParseError,
    Plan,
    Snapshot,
    State,
    Unreadable,
    make_plan,
    parse_patch,
    paths_of,
    str_replace,
    view_lines,
)


def _plan(text: str, **files: bytes) -> Plan:
    patch = parse_patch(text)
    states = {name.replace("__", "."): Snapshot.of(data) for name, data in files.items()}
    return make_plan(patch, {path: states.get(path, Missing()) for path in paths_of(patch)})


def test_report_1_undecodable_bytes_elsewhere_survive() -> None:
    """Editing line 3 of a Latin-1 file leaves the byte E9 of line 2 alone."""
    data = b"one\ncaf\xe9\nthree\n"
    assert str_replace(data, "three", "THREE").after == b"one\ncaf\xe9\nTHREE\n"


def test_report_2_lf_text_matches_crlf_file_and_endings_stay() -> None:
    """Old text with LF, copied from a listing, matches a CR LF file, and the file stays CR LF."""
    data = b"a\r\nb\r\nc\r\n"
    assert str_replace(data, "a\nb\n", "a\nx\ny\n").after == b"a\r\nx\r\ny\r\nc\r\n"


def test_report_2_no_cr_cr_lf() -> None:
    """A patch with CR LF lines on a CR LF file does not double the CR."""
    text = "*** Begin Patch\r\n*** Update File: f\r\n@@\r\n-b\r\n+x\r\n*** End Patch\r\n"
    assert _plan(text, f=b"a\r\nb\r\n").changes[0].after == b"a\r\nx\r\n"


@pytest.mark.parametrize("line", ["EOF", "HERMES_EOF", "'", "$(id)", "*** End Patch", "*** Begin Patch", "-- end --"])
def test_report_5_content_is_inert(line: str) -> None:
    """Lines that look like somebody's marker are content when they have their prefix."""
    plan = _plan(f"*** Begin Patch\n*** Add File: f\n+a\n+{line}\n+b\n*** End Patch\n")
    assert plan.changes[0].after == f"a\n{line}\nb\n".encode()


def test_report_8_the_notice_is_out_of_band() -> None:
    """A clipped view says so beside the text, so no notice can get into a file with it."""
    data = b"".join(b"line %d\n" % i for i in range(1, 61))
    view = view_lines(data, 1, 20, numbers=False)
    assert view.text.encode() == b"".join(data.splitlines(keepends=True)[:20])
    assert view.total == 60


def test_report_8_pasted_line_numbers_are_named() -> None:
    """Old text with the numbers of a listing is refused with that reason."""
    with pytest.raises(EditError, match="line numbers of a listing"):
        str_replace(b"alpha\nbeta\n", "     2\tbeta", "gamma")


def test_report_10_a_failing_hunk_stops_the_whole_patch() -> None:
    """Adding one file and updating a missing one changes nothing and says what is missing."""
    text = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n@@\n-x\n+y\n*** End Patch\n"
    plan = _plan(text)
    assert plan.changes == ()
    assert [(p.code, p.path, p.patch_line) for p in plan.problems] == [("not_found", "b", 4)]


def test_report_12_update_of_a_link_goes_to_its_target() -> None:
    """A link and its target are one file: both edits meet in one content."""
    text = "*** Begin Patch\n*** Update File: link\n@@\n-a\n+A\n*** Update File: real\n@@\n-b\n+B\n*** End Patch\n"
    link = Snapshot(b"a\nb\n", "0" * 64, real="/w/real", link=True)
    real = Snapshot(b"a\nb\n", "0" * 64, real="/w/real")
    plan = make_plan(parse_patch(text), {"link": link, "real": real})
    assert [(c.kind, c.after) for c in plan.changes] == [("update", b"A\nB\n")]


def test_report_12_delete_of_a_link_leaves_the_target() -> None:
    """Deleting a link deletes the link."""
    text = "*** Begin Patch\n*** Delete File: link\n*** Update File: real\n@@\n-a\n+A\n*** End Patch\n"
    link = Snapshot(b"a\n", "0" * 64, real="/w/real", link=True)
    real = Snapshot(b"a\n", "0" * 64, real="/w/real")
    plan = make_plan(parse_patch(text), {"link": link, "real": real})
    kinds = {(c.kind, c.path, c.link, c.after) for c in plan.changes}
    assert kinds == {("delete", "link", True, None), ("update", "real", False, b"A\n")}


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "a(b)",
        "it's",
        'say "hi"',
        "a;b",
        "-rf",
        "~",
        "$HOME",
        "*.txt",
        "a -> b",
        "ä",
        "\udce9",
        "{x}",
        "a:b",
        "#",
    ],
)
def test_report_23_nasty_names_are_plain_names(name: str) -> None:
    """Names with blanks, quotes, dashes, globs and foreign bytes arrive as they are."""
    plan = _plan(f"*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch\n")
    assert [change.path for change in plan.changes] == [name]


def test_report_27_fuzzy_match_changes_only_what_it_matched() -> None:
    """A match by punctuation leaves typographic characters of context and other lines alone."""
    data = "“one” — a\ntwo\nthree — b\n".encode()
    text = '*** Begin Patch\n*** Update File: f\n@@\n "one" - a\n-two\n+2\n*** End Patch\n'
    plan = _plan(text, f=data)
    assert plan.changes[0].after == data.replace(b"two", b"2")
    assert plan.changes[0].hunks[0].tier == "punctuation"


def test_report_28_bom_is_kept_once_and_never_added() -> None:
    """The first line behind a BOM matches, the BOM stays, and no other file gets one."""
    assert str_replace(b"\xef\xbb\xbfconst a=1\n", "const a=1", "const a=2").after == b"\xef\xbb\xbfconst a=2\n"
    assert str_replace(b"\xef\xbb\xbfa\n", "\ufeffa", "\ufeffb").after == b"\xef\xbb\xbfb\n"
    assert str_replace(b"a\n", "a", "b").after == b"b\n"


def test_report_29_the_error_names_hunk_and_line() -> None:
    """Of three hunks the bad second one is named by number, patch line and path."""
    text = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+A\n@@\n-zz\n+B\n@@\n-c\n+C\n*** End Patch\n"
    plan = _plan(text, f=b"a\nb\nc\n")
    assert [(p.code, p.path, p.hunk, p.patch_line) for p in plan.problems] == [("context_not_found", "f", 2, 6)]


def test_d26_unreadable_is_not_absent() -> None:
    """Add, Delete, Update and both ends of Move refuse a path that could not be read."""
    denied = Unreadable("permission_denied", "Permission denied")
    for body in (
        "*** Add File: x\n+a\n",
        "*** Delete File: x\n",
        "*** Update File: x\n@@\n-a\n+b\n",
        "*** Move File: x -> free\n",
        "*** Move File: there -> x\n",
    ):
        patch = parse_patch(f"*** Begin Patch\n{body}*** End Patch\n")
        files: dict[str, State] = {"x": denied, "there": Snapshot.of(b"t\n"), "free": Missing()}
        plan = make_plan(patch, files, overwrite=True)
        assert [(p.code, p.path) for p in plan.problems] == [("permission_denied", "x")], body
        assert plan.changes == ()


def test_d13_case_only_rename_is_a_rename_and_hard_links_are_one_file() -> None:
    """One inode under two names: a new spelling is a move, another name is not."""
    same = Snapshot(b"a\n", "0" * 64, identity=(1, 2), mode=0o755)
    rename = parse_patch("*** Begin Patch\n*** Move File: readme -> README\n*** End Patch\n")
    plan = make_plan(rename, {"readme": same, "README": same})
    assert [(c.kind, c.source, c.path, c.mode) for c in plan.changes] == [("move", "readme", "README", 0o755)]
    other = parse_patch("*** Begin Patch\n*** Move File: a -> b\n*** End Patch\n")
    plan = make_plan(other, {"a": same, "b": same})
    assert plan.ok
    assert plan.changes == ()


def test_d13_directory_as_destination_is_refused() -> None:
    """A file does not move into a directory that is named as its destination."""
    patch = parse_patch("*** Begin Patch\n*** Move File: a -> d\n*** End Patch\n")
    plan = make_plan(patch, {"a": Snapshot.of(b"x"), "d": Unreadable("is_directory", "a directory")})
    assert [(p.code, p.path) for p in plan.problems] == [("is_directory", "d")]


def test_d14_mode_goes_with_a_moved_file() -> None:
    """A moved and changed file keeps the mode of its source."""
    patch = parse_patch("*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** End Patch\n")
    plan = make_plan(patch, {"a": Snapshot.of(b"x\n", mode=0o755), "b": Missing()})
    assert [(c.kind, c.mode, c.after) for c in plan.changes] == [("move", 0o755, b"y\n")]


def test_d28_environment_id_must_be_ours() -> None:
    """A patch for another environment is refused as a whole."""
    patch = parse_patch("*** Begin Patch\n*** Environment ID: other\n*** Add File: a\n+x\n*** End Patch\n")
    files = {"a": Missing()}
    assert make_plan(patch, files, environment_ids={"mine"}).problems[0].code == "environment_mismatch"
    assert make_plan(patch, files, environment_ids={"other"}).ok


def test_d29_changed_lines_are_counted() -> None:
    """An update counts + and - lines, an add its lines, a delete one."""
    text = (
        "*** Begin Patch\n*** Update File: a\n@@\n x\n-y\n+z\n+w\n*** Add File: b\n+1\n+2\n"
        "*** Delete File: c\n*** End Patch\n"
    )
    assert parse_patch(text).changed_lines == 3 + 2 + 1


def test_codex_refuses_what_the_reference_refuses() -> None:
    """An update without hunks, an empty patch and a stray line are parse errors with their line."""
    for body, line in (
        ("*** Update File: a\n", 2),
        ("*** Delete File: a\n+x\n", 3),
        ("hello\n", 2),
    ):
        with pytest.raises(PatchParseError) as caught:
            parse_patch(f"*** Begin Patch\n{body}*** End Patch\n")
        assert caught.value.problem.patch_line == line


def test_a_link_is_moved_as_a_link() -> None:
    """A moved link is a link under another name; moving and editing through it is refused."""
    link = Snapshot(b"a\n", "0" * 64, real="/w/real", link=True)
    files: dict[str, State] = {"link": link, "new": Missing()}
    patch = parse_patch("*** Begin Patch\n*** Move File: link -> new\n*** End Patch\n")
    plan = make_plan(patch, files)
    assert [(c.kind, c.source, c.path, c.link) for c in plan.changes] == [("move", "link", "new", True)]
    both = parse_patch("*** Begin Patch\n*** Update File: link\n*** Move to: new\n@@\n-a\n+b\n*** End Patch\n")
    assert make_plan(both, files).problems[0].code == "not_regular"


def test_wrong_use_of_the_planner_is_an_error_of_the_caller() -> None:
    """A state that is not given, unknown rules and an unknown line end are ValueErrors."""
    patch = parse_patch("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n")
    with pytest.raises(ValueError, match="'a'"):
        make_plan(patch, {})
    with pytest.raises(ValueError, match="default, codex, hermes"):
        make_plan(patch, {"a": Missing()}, compat="vim")  # type: ignore[arg-type] # the point
    with pytest.raises(ValueError, match="eol"):
        make_plan(patch, {"a": Missing()}, eol="x")
    plan = make_plan(patch, {"a": Missing()}, eol="\r\n")
    assert plan.changes[0].after == b"x\r\n"


@pytest.mark.parametrize("path", ["a\tb", "ok"])
def test_paths_of_a_patch_are_what_must_be_read(path: str) -> None:
    """Every named path is asked for once, with its unquoted spelling."""
    patch = parse_patch(f'*** Begin Patch\n*** Delete File: "{path}"\n*** Move File: {path} -> z\n*** End Patch\n')
    assert paths_of(patch) == (f'"{path}"', path, "z")


def test_swapped_files_are_updates_with_each_other_s_mode() -> None:
    """Two files that change places both stay, so neither is the source of a move."""
    patch = parse_patch(
        "*** Begin Patch\n*** Move File: a -> t\n*** Move File: b -> a\n*** Move File: t -> b\n*** End Patch\n"
    )
    files: dict[str, State] = {
        "a": Snapshot.of(b"A\n", mode=0o755),
        "b": Snapshot.of(b"B\n", mode=0o644),
        "t": Missing(),
    }
    plan = make_plan(patch, files)
    assert [(c.kind, c.path, c.after, c.mode, c.source) for c in plan.changes] == [
        ("update", "a", b"B\n", 0o644, None),
        ("update", "b", b"A\n", 0o755, None),
    ]


def test_quotes_are_left_out_only_for_a_file_that_exists_without_them() -> None:
    """A new file keeps its quotes, and a file that really has quotes in its name wins."""
    add = parse_patch("*** Begin Patch\n*** Add File: `n`\n+x\n*** End Patch\n")
    plan = make_plan(add, {"`n`": Missing(), "n": Missing()})
    assert [change.path for change in plan.changes] == ["`n`"]
    delete = parse_patch('*** Begin Patch\n*** Delete File: "n"\n*** End Patch\n')
    both: dict[str, State] = {'"n"': Snapshot.of(b"1"), "n": Snapshot.of(b"2")}
    assert [change.path for change in make_plan(delete, both).changes] == ['"n"']


def test_a_deleted_link_is_gone() -> None:
    """After the delete of a link its name is free, and what is added there is a new file."""
    link = Snapshot(b"a\n", "0" * 64, real="/w/real", link=True)
    head = "*** Begin Patch\n*** Delete File: link\n"
    update = parse_patch(f"{head}*** Update File: link\n@@\n-a\n+b\n*** End Patch\n")
    assert [p.code for p in make_plan(update, {"link": link}).problems] == ["not_found"]
    add = parse_patch(f"{head}*** Add File: link\n+new\n*** End Patch\n")
    plan = make_plan(add, {"link": link})
    assert [(c.path, c.after, c.link) for c in plan.changes] == [("link", b"new\n", True)]
