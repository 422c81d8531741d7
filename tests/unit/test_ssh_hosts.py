"""Known-hosts files, checked against what ssh-keygen finds and makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hermes_env import BackendUnavailable
from hermes_env_ssh._hosts import HostKey, KnownHosts, known_name, matches_any

KEY = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIAp9D4Nsn0Bhpk+4cRRNTX0IhyZ1P2Dhe6wVxO9Hg+zp")
OTHER = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIBxk7Ti1pWgVnTtLIH1KqUtS4ysWNHeBxL9GE1v3CTgL")


def hosts(path: Path, text: str, name: str = "host.example", *, accept_new: bool = False) -> KnownHosts:
    """One file with this text, and one that does not exist."""
    path.write_text(text)
    return KnownHosts(name, (str(path), str(path.parent / "absent")), accept_new)


@pytest.mark.parametrize(
    "field",
    ["host.example", "other,host.example", "*.example", "h?st.example", "HOST.example", "*,!bad.example"],
)
def test_names_that_match(tmp_path: Path, field: str) -> None:
    """Lists, patterns and capitals match as sshd(8) says."""
    hosts(tmp_path / "known", f"# text\n\n{field} {KEY.kind} {KEY.blob} comment\n").check(KEY)


@pytest.mark.parametrize("field", ["host", "*,!host.example", "host.example.org", "[host.example]:2222", "|1|x|y"])
def test_names_that_do_not_match(tmp_path: Path, field: str) -> None:
    """A host that no line names is refused, and the file stays as it was."""
    known = hosts(tmp_path / "known", f"{field} {KEY.kind} {KEY.blob}\n")
    with pytest.raises(BackendUnavailable, match="is not known"):
        known.check(KEY)
    assert (tmp_path / "known").read_text() == f"{field} {KEY.kind} {KEY.blob}\n"


@pytest.mark.parametrize("name", ["host.example", "[host.example]:2222"])
def test_hashed_names(tmp_path: Path, name: str) -> None:
    """Names that ssh-keygen hashed are found."""
    path = tmp_path / "known"
    path.write_text(f"{name} {KEY.kind} {KEY.blob}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    assert "example" not in path.read_text()
    KnownHosts(name, (str(path),)).check(KEY)
    with pytest.raises(BackendUnavailable, match="is not known"):
        KnownHosts("host.other", (str(path),)).check(KEY)


def test_a_changed_key_is_refused_always(tmp_path: Path) -> None:
    """Neither policy accepts another key than the known one, and nothing is added."""
    for accept_new in (False, True):
        known = hosts(tmp_path / "known", f"host.example {KEY.kind} {KEY.blob}\n", accept_new=accept_new)
        with pytest.raises(BackendUnavailable, match="is not the one") as caught:
            known.check(OTHER)
        assert caught.value.reason == "denied"
        assert OTHER.blob not in (tmp_path / "known").read_text()


def test_one_of_several_keys_is_enough(tmp_path: Path) -> None:
    """A host may have an old and a new key of one kind."""
    text = "".join(f"host.example {key.kind} {key.blob}\n" for key in (KEY, OTHER))
    known = hosts(tmp_path / "known", text)
    known.check(KEY)
    known.check(OTHER)


def test_a_revoked_key_is_refused(tmp_path: Path) -> None:
    """A revoked key is refused though another line accepts it."""
    text = f"host.example {KEY.kind} {KEY.blob}\n@revoked * {KEY.kind} {KEY.blob}\n"
    with pytest.raises(BackendUnavailable, match="is revoked"):
        hosts(tmp_path / "known", text, accept_new=True).check(KEY)


def test_a_file_of_revoked_keys(tmp_path: Path) -> None:
    """`RevokedHostKeys`: a key in it is refused; a list that cannot be read refuses every key."""
    known = tmp_path / "known"
    known.write_text(f"host.example {KEY.kind} {KEY.blob}\n")
    revoked = tmp_path / "revoked"

    def check() -> None:
        KnownHosts("host.example", (str(known),), revoked=(str(revoked),)).check(KEY)

    with pytest.raises(BackendUnavailable, match="No such file"):
        check()
    revoked.write_text(f"# text\n{OTHER.kind} {OTHER.blob} other\n")
    check()
    revoked.write_text(f"{OTHER.kind} {OTHER.blob}\n{KEY.kind} {KEY.blob} comment\n")
    with pytest.raises(BackendUnavailable, match="is revoked by"):
        check()
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(tmp_path / "krl")], check=True, capture_output=True)
    revoked.write_bytes((tmp_path / "krl").read_bytes())
    with pytest.raises(BackendUnavailable, match="a KRL"):
        check()


def test_a_new_name_is_hashed_on_demand(tmp_path: Path) -> None:
    """`HashKnownHosts`: the name does not stand in the file, and ssh-keygen finds it."""
    path, name = tmp_path / "known", known_name("host.example", 2222)
    KnownHosts(name, (str(path),), accept_new=True, hash_names=True).check(KEY)
    assert "example" not in path.read_text()
    KnownHosts(name, (str(path),)).check(KEY)
    subprocess.run(["ssh-keygen", "-F", name, "-f", str(path)], check=True, capture_output=True)


def test_an_authority_is_not_a_host_key(tmp_path: Path) -> None:
    """A line for a certificate authority does not make its key a host's."""
    known = hosts(tmp_path / "known", f"@cert-authority * {KEY.kind} {KEY.blob}\n")
    with pytest.raises(BackendUnavailable, match="is not known"):
        known.check(KEY)


def test_accept_new_adds_a_line_that_ssh_keygen_finds(tmp_path: Path) -> None:
    """A new key is added in a private file, after a last line without an end, and known from then on."""
    path = tmp_path / "new" / "known"
    name = known_name("Host.example", 2222)
    KnownHosts(name, (str(path),), accept_new=True).check(KEY)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text().rstrip("\n"))
    KnownHosts("second.example", (str(path),), accept_new=True).check(OTHER)
    KnownHosts(name, (str(path),)).check(KEY)
    for host, key in ((name, KEY), ("second.example", OTHER)):
        found = subprocess.run(["ssh-keygen", "-F", host, "-f", str(path)], capture_output=True, text=True, check=True)
        assert key.blob in found.stdout


def test_fingerprint_is_that_of_ssh_keygen(tmp_path: Path) -> None:
    """People compare fingerprints: ours is written like theirs."""
    (tmp_path / "key.pub").write_text(f"{KEY.kind} {KEY.blob}\n")
    shown = subprocess.run(["ssh-keygen", "-lf", str(tmp_path / "key.pub")], capture_output=True, text=True, check=True)
    assert KEY.fingerprint in shown.stdout


def test_pattern_lists() -> None:
    """A negated pattern wins, and alone it matches nothing."""
    assert matches_any("web1", ["web*"])
    assert not matches_any("web1", ["web*", "!web1"])
    assert not matches_any("web1", ["!web2"])
