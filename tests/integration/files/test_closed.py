"""Files of an environment that is not open any more."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import EnvironmentGone, Files, MakeDir, aio

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Place

CALLS: dict[str, Callable[[Any, str], Any]] = {
    "write_bytes": lambda files, local: files.write_bytes("new", b"x"),
    "read_bytes": lambda files, local: files.read_bytes("file"),
    "read_chunks": lambda files, local: files.read_chunks("file"),
    "read_many": lambda files, local: files.read_many(["file"]),
    "survey": lambda files, local: files.survey(["file"]),
    "sweep": lambda files, local: files.sweep(["."]),
    "sha256": lambda files, local: files.sha256("file"),
    "upload": lambda files, local: files.upload(local, "new"),
    "download": lambda files, local: files.download("file", f"{local}-copy"),
    "exists": lambda files, local: files.exists("file"),
    "stat": lambda files, local: files.stat("file"),
    "list_dir": lambda files, local: files.list_dir("."),
    "make_dir": lambda files, local: files.make_dir("new"),
    "remove": lambda files, local: files.remove("file"),
    "move": lambda files, local: files.move("file", "new"),
    "commit": lambda files, local: files.commit([MakeDir(path="new")]),
}


def test_every_method_is_known() -> None:
    """No method of `Files` is left out below."""
    public = {name for name, _ in inspect.getmembers(Files, inspect.isfunction) if not name.startswith("_")}
    assert public == set(CALLS)


def test_nothing_works_after_close(place: Place, tmp_path: Path) -> None:
    """After the environment was closed every method says that it is gone, and does nothing."""
    place.put("file", b"content")
    (tmp_path / "local").write_bytes(b"content")
    begun = place.files.read_chunks("file")
    place.env.close()
    for call in CALLS.values():
        with pytest.raises(EnvironmentGone):
            call(place.files, str(tmp_path / "local"))
    for empty in (lambda: place.files.commit([]), lambda: place.files.read_many([]), lambda: place.files.sweep([])):
        with pytest.raises(EnvironmentGone):
            empty()
    with pytest.raises(EnvironmentGone):
        next(begun)
    assert [path.name for path in place.dir.iterdir()] == ["file"]
    assert [path.name for path in tmp_path.iterdir()] == ["local"]


async def _after_close(home: Path) -> tuple[bool, BaseException | None]:
    env = await aio.open_environment("local", cwd=str(home))
    await env.close()
    try:
        await env.files.read_bytes("file")
    except Exception as error:
        return await env.alive(), error
    return await env.alive(), None


def test_async_files_after_close(home: Path) -> None:
    """The awaitable files of a closed environment raise the same error."""
    import asyncio

    alive, error = asyncio.run(_after_close(home))
    assert isinstance(error, EnvironmentGone)
    assert not alive
