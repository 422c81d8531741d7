"""Images: pulled from a registry of the tests' own, missing ones, and ones without a shell."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from hermes_env import BackendUnavailable, open_environment
from tests.engine import IMAGE, Engine, ensure_image
from tests.sshd import free_port, wait_for_port

from .own_engine import OwnEngine


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on loopback, which every engine takes without TLS."""
    program = shutil.which("docker-registry") or shutil.which("registry")
    if program is None:
        pytest.skip("no registry: install Debian's docker-registry")
    folder, port = tmp_path_factory.mktemp("registry"), free_port()
    (folder / "config.yml").write_text(
        f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {folder}/data\nhttp:\n  addr: 127.0.0.1:{port}\n"
    )
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    try:
        wait_for_port(port, server, folder / "log")
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def published(engine: Engine, registry: str) -> Iterator[str]:
    """An image that the registry has and the engine has not."""
    name = f"{registry}/hermes-env-test/published:1"
    engine.cli("tag", IMAGE, name)
    pushed = engine.cli("push", name)
    assert pushed.returncode == 0, pushed.stderr
    # Another copy of the layer would keep the engine from fetching it.
    engine.cli("rmi", name)
    yield name
    engine.cli("rmi", name)


def test_pull(engine: Engine, published: str, caplog: pytest.LogCaptureFixture) -> None:
    """A missing image is pulled when that is asked for, never otherwise, and not again; the log tells of it."""
    with pytest.raises(BackendUnavailable, match="pull=") as caught:
        open_environment("docker", image=published, host=engine.host)
    assert caught.value.reason == "not_installed"
    for pull, pulls in (("missing", True), ("missing", False), ("always", True)):
        steps: list[tuple[int, int]] = []
        caplog.clear()
        with (
            caplog.at_level(logging.INFO, logger="hermes_env"),
            open_environment(
                "docker",
                image=published,
                host=engine.host,
                pull=pull,
                on_pull=lambda *step: steps.append(step),  # noqa: B023 - called before the next turn
                ttl=600,
            ) as env,
        ):
            assert env.exec("echo pulled").text == "pulled\n"
        assert bool(steps) == pulls == (f"pull of image {published!r}: done" in caplog.messages)
        assert all(done <= total for done, total in steps)


def test_pull_progress_counts_bytes(own_free_of: tuple[Engine, str]) -> None:
    """An engine without the layers reports every byte of them."""
    engine, name = own_free_of
    steps: list[tuple[int, int]] = []
    with open_environment(
        "docker", image=name, host=engine.host, pull="missing", on_pull=lambda *step: steps.append(step), ttl=600
    ) as env:
        assert env.exec("echo pulled").text == "pulled\n"
    done, total = steps[-1]
    assert done == total > 500_000


@pytest.fixture
def own_free_of(own: OwnEngine, published: str) -> Iterator[tuple[Engine, str]]:
    """The tests' own engine, which shares no layers with the one that published the image."""
    own.engine.cli("rmi", "--force", IMAGE)
    yield own.engine, published
    ensure_image(own.engine)


def test_pull_that_fails(engine: Engine, registry: str) -> None:
    """An unknown image and a registry that is not there are told apart, and no container is left."""
    with pytest.raises(BackendUnavailable, match="hermes-env-test/unknown") as caught:
        open_environment("docker", image=f"{registry}/hermes-env-test/unknown:1", host=engine.host, pull="missing")
    assert caught.value.reason == "not_installed"


def test_pull_without_a_registry(engine: Engine) -> None:
    """Without a registry the error names the image and the registry's address, and can be retried."""
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(BackendUnavailable, match=nowhere) as caught:
        open_environment("docker", image=f"{nowhere}/some/image:1", host=engine.host, pull="always")
    assert caught.value.reason == "unreachable" and caught.value.retryable
