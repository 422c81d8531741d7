"""What a user installs: the wheel's contents and metadata."""

from __future__ import annotations

import configparser
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BACKENDS = {f"hermes_env_{name}" for name in ("daytona", "docker", "local", "modal", "ssh", "vercel")}
PACKAGES = {"hermes_env", "hermes_env_conformance", *BACKENDS}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source distribution, and the wheel that the real build tool makes of that."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.Path:
    """The wheel."""
    (file,) = built.glob("*.whl")
    return zipfile.Path(file)


def test_the_source_distribution_holds_what_the_wheel_is_made_of(built: Path) -> None:
    """Our packages, what describes them, and no tests."""
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    described = {"README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml"}
    assert tops - {".gitignore"} == {"hermes_env", "backends", "conformance", *described}


def test_the_wheel_holds_our_packages_only(wheel: zipfile.Path) -> None:
    """Nothing but `hermes_env*` packages is installed: no tests, no scripts, no stray modules."""
    tops = {entry.name for entry in wheel.iterdir()}
    assert {name for name in tops if not name.endswith(".dist-info")} == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_package_is_typed_and_complete(wheel: zipfile.Path, package: str) -> None:
    """Each import package carries py.typed and every module of the source tree."""
    assert (wheel / package / "py.typed").exists()
    (source,) = [path for path in (ROOT / package, *ROOT.glob(f"*/{package}")) if (path / "py.typed").exists()]
    for module in source.rglob("*.py"):
        assert wheel.joinpath(package, *module.relative_to(source).parts).exists()


def test_the_metadata_names_extras_and_entry_points(wheel: zipfile.Path) -> None:
    """Extras, console script, licence and both backends are declared; the core needs pydantic alone."""
    (info,) = [entry for entry in wheel.iterdir() if entry.name.endswith(".dist-info")]
    points = configparser.ConfigParser()
    points.read_string((info / "entry_points.txt").read_text())
    assert dict(points["hermes_env.backends"]) == {
        "local": "hermes_env_local:LocalEnvironment",
        "docker": "hermes_env_docker:DockerEnvironment",
        "ssh": "hermes_env_ssh:SshEnvironment",
        "daytona": "hermes_env_daytona:DaytonaEnvironment",
        "modal": "hermes_env_modal:ModalEnvironment",
        "vercel": "hermes_env_vercel:VercelEnvironment",
    }
    assert dict(points["console_scripts"]) == {"hermes-env": "hermes_env._cli.__main__:main"}
    metadata = (info / "METADATA").read_text().splitlines()
    extras = {line.split(": ")[1] for line in metadata if line.startswith("Provides-Extra: ")}
    runtimes = {"deepagents", "inspect", "pydantic-ai"}
    clouds = {"daytona", "modal", "vercel"}
    assert extras >= {"cli", "conformance", "docker", "ssh", "all", "dev"} | clouds | runtimes
    assert dict(points["inspect_ai"]) == {"hermes_env": "hermes_env.adapters.inspect_ai"}
    # The loader of Hermes agent takes a folder by this file.
    assert (wheel / "hermes_env" / "adapters" / "hermes_agent" / "plugin.yaml").exists()
    needed = [line for line in metadata if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert len(needed) == 1 and needed[0].startswith("Requires-Dist: pydantic")
    assert "Requires-Python: >=3.11" in metadata and "License-Expression: Apache-2.0" in metadata
    assert (info / "licenses" / "LICENSE").exists()
