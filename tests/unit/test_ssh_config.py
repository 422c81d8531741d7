"""The client configuration, checked against what ``ssh -G`` makes of the same files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import InvalidArgument
from hermes_env_ssh._options import SshOptions
from hermes_env_ssh._resolve import resolve

if TYPE_CHECKING:
    from hermes_env_ssh._target import Target

CONFIGS = {
    "plain": "Host a\n HostName real.example\n Port 2201\n User u1\nHost *\n Port 99\n User last\n",
    "first value wins": "Port 1\nHost a\n Port 2\n",
    "equals and quotes": 'Host=a\n HostName = "real.example"\n\tUser="some one"\n',
    "capitals": "hOsT a\nHOSTNAME real\nport 5\n",
    "patterns": "Host b* !a a\n Port 3\nHost ? \n Port 4\n",
    "negation": "Host * !a\n Port 3\nHost *\n Port 5\n",
    "comment": "Host a # b\n Port 7 # seven\n",
    "tokens": "Host a\n HostName %h.example\n User u\n",
    "include": "Include {folder}/one.conf\nHost a\n Port 1\n",
    "include in a section": "Host b\n Include {folder}/one.conf\nHost a\n User after\n",
    "include keeps the section": "Host a\n Include {folder}/one.conf\n User after\n",
    "include of a pattern": "Include {folder}/*.conf\n",
    "include in an include": "Include {folder}/outer.inc\n Host a\n User mine\n",
    "include that is not there": "Include {folder}/absent\nHost a\n Port 8\n",
    "match all": "Match all\n Port 11\n",
    "match host": "Host a\n HostName real.example\nMatch host real.*\n Port 12\nMatch originalhost a\n User m\n",
    "match user": "Host a\n User u1\nMatch user u1,u2\n Port 13\nMatch user u3\n Port 14\n",
    "match exec": 'Match exec true\n Port 15\nMatch exec "test %n = b"\n User never\n',
    "match negated": "Match !host a\n Port 16\nMatch !host b host a\n Port 17\n",
    "match final": "Match final host real.example\n Port 18\nHost a\n HostName real.example\n",
    "match ends a host": "Host b\n Port 1\nMatch host a\n Port 19\n",
    "identities": "Host a\n IdentityFile {folder}/k1\n IdentityFile {folder}/k2\nHost *\n IdentityFile {folder}/k3\n",
    "alive": "Host a\n ServerAliveInterval 7\n ServerAliveCountMax 9\n ConnectTimeout 6\n",
    "times": "Host a\n ServerAliveInterval 1m30\n ConnectTimeout 2h\n",
    "no comment inside a word": "Host a\n User some#one # this is\n HostName 'real'#z\n",
    "backslashes": 'Host a\n User DOMAIN\\one\n HostName "q\\"r"\n',
    "escaped blank": "Host a\n User some\\ one\n",
    "empty word": 'Host a\n User ""x\n',
    "known": "Host a\n UserKnownHostsFile {folder}/kh1 {folder}/kh2\n GlobalKnownHostsFile {folder}/kh3\n",
    "strict": "Host a\n StrictHostKeyChecking accept-new\n",
    "alias": "Host a\n HostKeyAlias thing\n",
    "jump": "Host a\n ProxyJump me@j1:2222,j2\n",
    "command": "Host a\n ProxyCommand nc 'x y' %h %p # kept\n Port 5\n",
    "jump first": "Host a\n ProxyJump j1\n ProxyCommand nc %h %p\n",
    "command first": "Host a\n ProxyCommand nc %h %p\n ProxyJump j1\n",
}
INCLUDED = {
    "one.conf": "Host a\n Port 21\n HostName included.example\nHost *\n ConnectTimeout 3\n",
    "two.conf": "Host a\n User two\n",
    "outer.inc": "Include {folder}/one.conf\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that the configurations include."""
    for name, text in INCLUDED.items():
        (tmp_path / name).write_text(text.format(folder=tmp_path))
    return tmp_path


def ours(folder: Path, text: str, **options: object) -> Target:
    """What this backend makes of a configuration."""
    (folder / "config").write_text(text.format(folder=folder))
    return resolve(SshOptions.model_validate({"host": "a", "config": str(folder / "config"), **options}))


def theirs(folder: Path) -> dict[str, list[str]]:
    """What OpenSSH makes of the same file."""
    shown = subprocess.run(
        ["ssh", "-G", "-F", str(folder / "config"), "a"], capture_output=True, text=True, check=True, timeout=30
    )
    values: dict[str, list[str]] = {}
    for line in shown.stdout.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, []).append(value)
    return values


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
@pytest.mark.parametrize("name", CONFIGS)
def test_same_as_openssh(folder: Path, name: str) -> None:
    """Host, port, account, files, limits and the way are those that OpenSSH finds."""
    target = ours(folder, CONFIGS[name])
    truth = theirs(folder)
    assert target.host == truth["hostname"][0]
    assert str(target.port) == truth["port"][0]
    assert target.user == truth["user"][0]
    if name == "identities":
        assert list(target.key_files) == truth["identityfile"]
    if name == "known":
        assert target.known.files == tuple(f"{folder}/kh{n}" for n in (1, 2, 3))
        assert truth["userknownhostsfile"] == [" ".join(target.known.files[:2])]
    if "connecttimeout" in truth and truth["connecttimeout"] != ["none"]:
        assert target.connect_timeout == int(truth["connecttimeout"][0])
    if name in ("alive", "times"):
        assert target.alive_interval == int(truth["serveraliveinterval"][0])
    if name == "alive":
        assert (target.alive_interval, target.alive_count) == (7, 9)
    assert target.known.accept_new == (truth["stricthostkeychecking"][0] == "accept-new")
    assert (target.known.name == "thing") == (truth.get("hostkeyalias") == ["thing"])


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
def test_programs_run_only_where_they_decide(folder: Path) -> None:
    """`Match exec` after a criterion that does not hold runs nothing, here as in OpenSSH."""
    text = (
        'Match host b exec "touch {folder}/never1"\n Port 1\nMatch !host a exec "touch {folder}/never2"\n Port 2\n'
        'Match exec "touch {folder}/ran" host b\n Port 3\n'
    )
    for read in (ours, lambda folder, _text: theirs(folder)):
        read(folder, text)
        assert (folder / "ran").exists()
        assert not list(folder.glob("never*"))
        (folder / "ran").unlink()


def test_times_that_are_none(folder: Path) -> None:
    """What is no time is named; none and 0 never mean for ever."""
    for text in ("1x", "-1", "1.5", "m"):
        with pytest.raises(InvalidArgument, match="is not a time"):
            ours(folder, f"ConnectTimeout {text}\n")
    assert ours(folder, "ConnectTimeout none\nServerAliveInterval 0\n").connect_timeout == 20


def test_one_way_only(folder: Path) -> None:
    """Two ways at once are refused, whichever would have been taken."""
    with pytest.raises(InvalidArgument, match="proxy_command"):
        ours(folder, "", jump="j", proxy_command="nc %h %p")
    assert ours(folder, "", jump="none", proxy_command="nc %h %p").proxy_command == "nc a 22"


def test_names_in_a_jump(folder: Path) -> None:
    """A jump host of the configuration may be named after the host."""
    (nearest,) = ours(folder, "Host a\n HostName real\n User u\n ProxyJump %r@gate-%h-%n\n").jumps
    assert (nearest.user, nearest.host) == ("u", "gate-real-a")


def test_jump_hosts(folder: Path) -> None:
    """A chain is kept in order, each hop with its own configuration, and the nearest with its own jump hosts."""
    text = CONFIGS["jump"] + "Host j1\n HostName one.example\n ProxyJump gate\nHost j2\n User two\n Port 2\n"
    nearest, second = ours(folder, text).jumps
    assert (nearest.host, nearest.port, nearest.user) == ("one.example", 2222, "me")
    assert [hop.host for hop in nearest.jumps] == ["gate"]
    assert (second.host, second.port, second.user, second.jumps) == ("j2", 2, "two", ())


def test_commands_and_precedence(folder: Path) -> None:
    """Of the two ways the first line counts, tokens are filled in, and options beat the configuration."""
    assert ours(folder, CONFIGS["command"]).proxy_command == "nc 'x y' a 5 # kept"
    assert ours(folder, CONFIGS["jump first"]).proxy_command is None
    assert ours(folder, CONFIGS["command first"]).jumps == ()
    assert ours(folder, CONFIGS["command first"], jump="j2").proxy_command is None
    assert ours(folder, CONFIGS["jump first"], proxy_command="nc x").jumps == ()
    assert ours(folder, CONFIGS["jump first"], jump="none").jumps == ()
    assert ours(folder, "Host a\n ProxyJump none\n").jumps == ()
    direct = ours(folder, CONFIGS["plain"], port=7, user="me", key_file="k", known_hosts="/k", connect_timeout=1.5)
    assert (direct.port, direct.user, direct.key_files, direct.known.files) == (7, "me", ("k",), ("/k",))
    assert direct.connect_timeout == 1.5


def test_jump_hosts_that_name_each_other(folder: Path) -> None:
    """A circle is refused instead of followed."""
    with pytest.raises(InvalidArgument, match="in a row"):
        ours(folder, "Host *\n ProxyJump b\n")


@pytest.mark.parametrize("spec", ["user@", "h:port", "a,,b", ":5"])
def test_broken_jump_hosts(folder: Path, spec: str) -> None:
    """What cannot be a jump host is named."""
    with pytest.raises(InvalidArgument, match="jump"):
        ours(folder, "", jump=spec)


def test_addresses_of_jump_hosts(folder: Path) -> None:
    """An IPv6 address needs brackets only with a port; the ssh:// form is known."""
    hops = ours(folder, "", jump="u@[::1]:22,::1,ssh://w@h:5/").jumps
    assert [(hop.host, hop.port) for hop in hops] == [("::1", 22), ("::1", 22), ("h", 5)]
    assert hops[0].user == "u"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('Host a\n HostName "x\n', "line 2"),
        ("Match localnetwork 10.0.0.0/8\n Port 1\n", "localnetwork"),
        ("Host a\n Port x\n", "whole number"),
        ("Host a\n HostName %Z\n", "%Z"),
        ("Include {folder}/config\n", "files deep"),
        ("Host a\n Port\n", "no value"),
    ],
)
def test_what_cannot_be_understood_is_named(folder: Path, text: str, problem: str) -> None:
    """Nothing is guessed: the file and the line are in the error."""
    with pytest.raises(InvalidArgument, match=problem):
        ours(folder, text)


def test_secrets_and_policies(folder: Path) -> None:
    """A password goes to the named host only and is never shown; `no` accepts new hosts and nothing more."""
    target = ours(folder, "Host a\n ProxyJump j\n StrictHostKeyChecking no\n", password="hunter2")
    assert target.password is not None
    assert target.jumps[0].password is None
    assert "hunter2" not in repr(target)
    assert target.known.accept_new


def test_agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is asked unless key files are given, at the socket that the configuration names."""
    monkeypatch.setitem(os.environ, "SSH_AUTH_SOCK", "/run/agent")
    assert ours(folder, "").agent_socket == "/run/agent"
    assert ours(folder, "", key_file="k").agent_socket is None
    assert ours(folder, "", key_file="k", agent=True).agent_socket == "/run/agent"
    assert ours(folder, "", agent=False).agent_socket is None
    assert ours(folder, "IdentityAgent none\n").agent_socket is None
    assert ours(folder, "IdentityAgent /other\n").agent_socket == "/other"
    monkeypatch.setitem(os.environ, "MY_AGENT", "/mine")
    assert ours(folder, "IdentityAgent $MY_AGENT\n").agent_socket == "/mine"
    assert ours(folder, "IdentityAgent ${{MY_AGENT}}/x\n").agent_socket == "/mine/x"
    assert ours(folder, "IdentitiesOnly yes\n").agent_listed_only
