"""File policies: roots, forbidden names, suffixes, limits, confirmations and presets."""

from __future__ import annotations

import pytest

from hermes_env.tools import CountedChange, FilePolicy

_POLICY = FilePolicy(workspace="/w", extra_roots=("/data",), forbidden=(".git", "secret/*.key", "/data/ro"))


@pytest.mark.parametrize(
    ("path", "resolved", "code"),
    [
        ("a.py", "/w/a.py", None),
        ("/w/sub/a.py", "/w/sub/a.py", None),
        ("/data/x", "/data/x", None),
        ("sub/../a.py", "/w/a.py", None),
        ("../x", "/x", "path_outside_root"),
        ("sub/../../x", "/x", "path_outside_root"),
        ("../wx/a", "/wx/a", "path_outside_root"),
        ("/etc/passwd", "/etc/passwd", "path_outside_root"),
        ("link/passwd", "/etc/passwd", "path_outside_root"),
        ("../w/a.py", "/w/a.py", None),
        (".git/config", "/w/.git/config", "policy_refused"),
        ("sub/.git", "/w/sub/.git", "policy_refused"),
        ("secret/a.key", "/w/secret/a.key", "policy_refused"),
        ("secret/a.txt", "/w/secret/a.txt", None),
        ("/data/ro/x/y", "/data/ro/x/y", "policy_refused"),
        ("~", "/w/~", "path_invalid"),
        ("~/x", "/w/~/x", "path_invalid"),
        ("~x", "/w/~x", None),
        ("", "/w", "path_invalid"),
        ("a\nb", "/w/a\nb", "path_invalid"),
        ("a\0b", "/w/a", "path_invalid"),
    ],
)
def test_write_paths(path: str, resolved: str, code: str | None) -> None:
    """Only resolved places inside the roots and outside the forbidden names may be written."""
    problem = _POLICY.check_path(path, resolved, access="write")
    assert (problem.code if problem else None) == code
    assert problem is None or problem.path == path


def test_a_workspace_below_a_forbidden_name_works() -> None:
    """The pattern is for what is in the workspace, not for the place of the workspace itself."""
    policy = FilePolicy(workspace="/home/build/w", forbidden=("build",))
    assert policy.check_path("a", "/home/build/w/a", access="write") is None
    assert policy.check_path("build/a", "/home/build/w/build/a", access="write") is not None


def test_symlink_rules() -> None:
    """A followed link is judged by its target, refused, or allowed anywhere."""
    for rule, outside, inside in (
        ("inside", "path_outside_root", None),
        ("refuse", "policy_refused", "policy_refused"),
        ("anywhere", None, None),
    ):
        policy = FilePolicy(workspace="/w", symlinks=rule)  # type: ignore[arg-type] # one of its three values
        for resolved, code in (("/etc/x", outside), ("/w/x", inside)):
            problem = policy.check_path("link", resolved, access="write", link=True)
            assert (problem.code if problem else None) == code, (rule, resolved)


def test_reading_outside() -> None:
    """Reading stays inside the roots unless the policy opens it."""
    assert _POLICY.check_path("/etc/hosts", "/etc/hosts", access="read") is not None
    codex = FilePolicy.codex("/w")
    assert codex.check_path("/etc/hosts", "/etc/hosts", access="read") is None
    assert codex.check_path("/etc/hosts", "/etc/hosts", access="write") is not None


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("a.py", True),
        ("a.PY", True),
        ("Makefile", True),
        ("a.sh", False),
        (".env", True),
        ("a.tar.gz", False),
    ],
)
def test_helloagents_suffixes(name: str, allowed: bool) -> None:
    """Only known text suffixes may be written; names without a suffix may."""
    problem = FilePolicy.helloagents("/w").check_path(name, f"/w/{name}", access="write")
    assert (problem is None) == allowed
    if problem is not None:
        assert problem.message.startswith("Disallowed file suffix for write: .")


def test_helloagents_wants_relative_paths() -> None:
    """An absolute path is refused even inside the workspace."""
    problem = FilePolicy.helloagents("/w").check_path("/w/a.py", "/w/a.py", access="write")
    assert problem is not None


def _changes(files: int, lines: int, kind: str = "update") -> list[CountedChange]:
    return [CountedChange(f"f{i}", kind, lines, 10) for i in range(files)]  # type: ignore[arg-type] # a literal


def test_limits() -> None:
    """Too many files, lines or bytes, and forbidden deletes, are each refused with the numbers."""
    policy = FilePolicy.helloagents("/w")
    assert policy.check_changes(_changes(10, 80)) == ()
    messages = [p.message for p in policy.check_changes(_changes(11, 80))]
    assert messages == [
        "Too many files in patch: 11 > 10",
        "Patch too large: 880 changed lines > 800",
    ]
    assert {p.code for p in policy.check_changes(_changes(11, 80))} == {"too_large"}
    small = FilePolicy(max_file_bytes=5, allow_delete=False)
    problems = small.check_changes([*_changes(1, 1), CountedChange("d", "delete", 1, 0)])
    assert [(p.code, p.path) for p in problems] == [("too_large", "f0"), ("policy_refused", "d")]
    assert policy.check_patch_size(5 << 20) is None
    assert policy.check_patch_size((5 << 20) + 1) is not None


def test_confirmation() -> None:
    """Deletes, six files and 400 lines ask by default, one less does not."""
    policy = FilePolicy()
    assert policy.confirmation(_changes(5, 79)) == ()
    assert policy.confirmation(_changes(6, 1)) == ("changes 6 files",)
    assert policy.confirmation(_changes(1, 400)) == ("changes 400 lines",)
    assert policy.confirmation(_changes(1, 1, "delete")) == ("deletes f0",)
    assert FilePolicy.codex("/w").confirmation(_changes(50, 100, "delete")) == ()


def test_presets_differ_where_the_systems_do() -> None:
    """Claude Code wants a read before a write, OpenClaw stays in the workspace."""
    assert FilePolicy.claude_code("/w").read_before_write
    assert not FilePolicy.openclaw("/w").read_before_write
    assert FilePolicy.openclaw("/w").check_path("/x", "/x", access="read") is not None
