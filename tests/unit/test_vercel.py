"""The Vercel backend without its service: version, credentials, options, errors, uploads."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from vercel.sandbox.sync import SandboxApiError, SandboxError, SandboxStreamError

from hermes_env import BackendUnavailable, EnvironmentGone, InvalidArgument, list_backends, open_environment
from hermes_env_vercel import _credentials, _failures, _sdk, _transfer
from hermes_env_vercel._options import VercelOptions

VARIABLES = ("VERCEL_OIDC_TOKEN", "VERCEL_OIDC_TOKEN_FILE", "VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID")


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def options(**given: Any) -> VercelOptions:
    """Options as a caller gives them."""
    return VercelOptions.model_validate(given)


def oidc(**claims: Any) -> str:
    """A token with these claims, which nobody signed."""
    parts = [{"alg": "none"}, {"exp": time.time() + 3600, **claims}, {}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


# -- the SDK's version ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.9.1", "0.11.0", "1.0.0"])
def test_another_version_of_the_sdk_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A release with other names is not tried: the listing and the error name it, and how to get the right one."""
    folder = tmp_path / f"vercel_sandbox-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vercel-sandbox\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (info,) = [info for info in list_backends() if info.name == "vercel"]
    assert not info.available and info.reason is not None
    assert f"vercel-sandbox {version} is installed" in info.reason and info.install == _sdk.INSTALL
    with pytest.raises(BackendUnavailable, match=f"{version} is installed") as caught:
        open_environment("vercel", token="t", team="t", project="p")
    assert caught.value.reason == "not_installed" and _sdk.INSTALL in str(caught.value)


def test_a_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK the error says what to install."""
    monkeypatch.setattr(sys, "path", [os.getcwd()])
    assert "`vercel` brings it" in str(_sdk.problem())


# -- credentials ---------------------------------------------------------------------------------------------------


def test_arguments_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is given wins over everything in the environment; team and project may come from there."""
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", oidc(project_id="prj_o", owner_id="team_o"))
    monkeypatch.setenv("VERCEL_TEAM_ID", "team_e")
    monkeypatch.setenv("VERCEL_PROJECT_ID", "prj_e")
    found = _credentials.find(options(token="given", project="prj_a"))
    assert (found.token, found.team, found.project, found.source) == ("given", "team_e", "prj_a", "option token")
    assert "given" not in repr(found)


def test_an_oidc_token_hides_the_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK takes VERCEL_OIDC_TOKEN before VERCEL_TOKEN without a word: the source says so."""
    token = oidc(project_id="prj_o", owner_id="team_o")
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", token)
    found = _credentials.find(options())
    assert (found.token, found.team, found.project, found.source) == (token, "team_o", "prj_o", "VERCEL_OIDC_TOKEN")
    monkeypatch.setenv("VERCEL_TOKEN", "other")
    assert _credentials.find(options()).source == "VERCEL_OIDC_TOKEN (before VERCEL_TOKEN, which is set, too)"


def test_a_token_file_is_named(tmp_path: Path) -> None:
    """A token that came from VERCEL_OIDC_TOKEN_FILE is said to have come from there."""
    (tmp_path / "token").write_text(oidc(project_id="prj_f", owner_id="team_f"))
    program = (
        "from hermes_env_vercel import _credentials as c\nfrom hermes_env_vercel._options import VercelOptions as V\n"
        "found = c.find(V())\nprint(found.project, found.source)"
    )
    environ = {**os.environ, "VERCEL_OIDC_TOKEN_FILE": str(tmp_path / "token")}
    # A process of its own: the SDK keeps such a token until it expires, whatever the variable says later.
    done = subprocess.run([sys.executable, "-c", program], env=environ, stdout=-1, check=True)
    assert done.stdout.decode() == "prj_f VERCEL_OIDC_TOKEN_FILE\n"


def test_an_access_token_needs_team_and_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """VERCEL_TOKEN counts together with its two ids only."""
    monkeypatch.setenv("VERCEL_TOKEN", "plain")
    monkeypatch.setenv("VERCEL_TEAM_ID", "team_e")
    with pytest.raises(BackendUnavailable, match="VERCEL_PROJECT_ID"):
        _credentials.find(options())
    monkeypatch.setenv("VERCEL_PROJECT_ID", "prj_e")
    assert _credentials.find(options()).source == "VERCEL_TOKEN"


def test_missing_credentials_are_one_clear_error() -> None:
    """Without credentials nothing is asked of the service, and the error says where to get them."""
    with pytest.raises(BackendUnavailable, match="account/settings/tokens") as caught:
        open_environment("vercel", base_url="http://127.0.0.1:1/api")
    assert caught.value.reason == "no_credentials"
    with pytest.raises(BackendUnavailable, match="team and project") as caught:
        open_environment("vercel", token="given", base_url="http://127.0.0.1:1/api")
    assert caught.value.reason == "no_credentials"


def test_an_oidc_token_without_claims_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OIDC token that names no project is not silently replaced by VERCEL_TOKEN, and the error says which it is."""
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", oidc())
    with pytest.raises(BackendUnavailable, match="VERCEL_OIDC_TOKEN names no project"):
        _credentials.find(options())


def test_files_of_the_working_directory_give_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A token in a file of the working directory is not used: that may be somebody else's repository."""
    monkeypatch.chdir(tmp_path)
    token = oidc(project_id="prj_o", owner_id="team_o")
    for name in (".env", ".env.local"):
        (tmp_path / name).write_text(f"VERCEL_OIDC_TOKEN={token}\n")
    (tmp_path / ".vercel").mkdir()
    (tmp_path / ".vercel" / "project.json").write_text('{"projectId": "prj_o", "orgId": "team_o"}')
    with pytest.raises(BackendUnavailable):
        _credentials.find(options())


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tags": dict.fromkeys("abcd", "x")}, "at most 3 tags"),
        ({"network": False, "domain_allow": ["example.com"]}, "contradict"),
        ({"network_deny": ["10.0.0.0/8"]}, "network_deny takes blocks"),
        ({"team": "team_x"}, "belong to a token"),
        ({"base_url": "vercel.com/api"}, "https://"),
        ({"execution_time_limit": 0.5}, "execution_time_limit"),
        ({"vcpus": 0}, "vcpus"),
        ({"persistent": True}, "unknown"),
    ],
)
def test_options_that_cannot_work_are_refused(given: dict[str, Any], named: str) -> None:
    """Before anything is made the error names what does not fit."""
    with pytest.raises(InvalidArgument, match=named):
        open_environment("vercel", **given)


def test_the_token_is_not_shown() -> None:
    """Options do not show the token."""
    assert "secret-token" not in repr(options(token="secret-token"))


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://vercel.com/api", "http://proxy:1"),
        ("http://127.0.0.1:8000/api", None),
        ("http://localhost/api", None),
        ("https://inside.example/api", None),
    ],
)
def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str | None) -> None:
    """Proxies count for the service, and never for this machine."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:1")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert _sdk._proxy_for(url) == proxy


# -- errors --------------------------------------------------------------------------------------------------------


def answered(status: int, code: str | None = None) -> SandboxApiError:
    """The SDK's error for an answer."""
    data = {"error": {"code": code, "message": "m"}}
    return SandboxApiError(httpx2.Response(status), "said no", data=data)


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (answered(400), InvalidArgument, None),
        (answered(401), BackendUnavailable, "denied"),
        (answered(402), BackendUnavailable, "denied"),
        (answered(403, "forbidden"), BackendUnavailable, "denied"),
        (answered(404, "not_found"), EnvironmentGone, None),
        (answered(409, "conflict"), InvalidArgument, None),
        (answered(409, "sandbox_stopped"), EnvironmentGone, None),
        (answered(410), EnvironmentGone, None),
        (answered(410, "sandbox_stopped"), EnvironmentGone, None),
        (answered(410, "sandbox_stream_closed"), BackendUnavailable, "unreachable"),
        (answered(422, "sandbox_stopping"), EnvironmentGone, None),
        (answered(422, "bad_request"), InvalidArgument, None),
        (answered(429), BackendUnavailable, "capacity"),
        (answered(500), BackendUnavailable, "unreachable"),
        (SandboxStreamError("cut", code="sandbox_stopped"), BackendUnavailable, "unreachable"),
        (SandboxError("odd"), BackendUnavailable, "unreachable"),
        (httpx2.ConnectError("refused"), BackendUnavailable, "unreachable"),
        (TimeoutError("no answer"), BackendUnavailable, "unreachable"),
    ],
    ids=lambda value: repr(getattr(value, "status_code", value))[:30],
)
def test_the_sdks_errors_become_ours(error: Exception, kind: type[Exception], reason: str | None) -> None:
    """Each is mapped by class, status and code, and chained to its cause."""
    with pytest.raises(kind) as caught, _failures.translated("creation"):
        raise error
    assert getattr(caught.value, "reason", None) == reason
    assert (caught.value.__cause__ is error and "creation" in str(caught.value)) or isinstance(error, TimeoutError)


def test_other_errors_pass() -> None:
    """What is not the SDK's is not dressed up as its answer."""
    with pytest.raises(KeyError), _failures.translated("creation"):
        raise KeyError("ours")


# -- uploads -------------------------------------------------------------------------------------------------------


class Disk:
    """Holds files, and does to them what the scripts do."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.calls: list[str] = []

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Small files."""
        self.calls.append("write")
        self.files.update(files)

    def write_stream(self, path: str, chunks: Iterator[bytes], size: int) -> None:
        """A file of known length."""
        self.calls.append("stream")
        self.files[path] = b"".join(chunks)
        assert len(self.files[path]) == size

    def run(self, text: str) -> str:
        """Append the parts."""
        self.calls.append("run")
        path = text.split()[2]
        for part in sorted(name for name in self.files if name.startswith(f"{path}.part")):
            self.files[path] += self.files.pop(part)
        return "joined\n"


PART = _transfer.PART


@pytest.mark.parametrize("chunk", [PART // 3 + 1, PART, PART * 2 + 5])
@pytest.mark.parametrize(
    ("length", "size", "calls"),
    [
        (0, None, ["write"]),
        (PART, None, ["write"]),
        (PART + 1, None, ["write", "write", "run"]),
        (3 * PART, None, ["write", "write", "write", "run"]),
        (PART, PART, ["write"]),
        (PART + 1, PART + 1, ["stream"]),
        (3 * PART, 2 * PART, ["stream", "write", "run"]),
        (2 * PART, 5, ["write", "write", "run"]),
    ],
)
def test_content_of_any_length_is_put_together(length: int, size: int | None, calls: list[str], chunk: int) -> None:
    """However it is cut and whatever its length was said to be, all of it is there at the end, and nothing else."""
    pattern = bytes(range(251))
    data = (pattern * (length // 251 + 1))[:length]
    disk = Disk()
    _transfer.upload(disk, "/f", iter([data[at : at + chunk] for at in range(0, length, chunk)]), size)
    assert disk.files == {"/f": data}
    assert disk.calls == calls


def test_a_script_that_did_not_do_it_is_an_error() -> None:
    """A join or a removal that is not confirmed is not taken for done."""
    with pytest.raises(ConnectionError, match="not removed"):
        _transfer.remove(Silent(), "/f")


class Silent(Disk):
    """A service that gives no output."""

    def run(self, text: str) -> str:
        """Nothing is known of it."""
        return ""
