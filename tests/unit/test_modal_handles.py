"""Connections to one sandbox: shared by a few commands each, and made when they are needed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes_env_modal._handles import MOST, Handle, Handles


class Opener:
    """Makes connections, or fails to."""

    def __init__(self, fail: int = 0) -> None:
        self.made = 0
        self._fail = fail

    async def __call__(self) -> Any:
        """One more."""
        await asyncio.sleep(0.01)
        self.made += 1
        if self.made <= self._fail:
            raise ConnectionError("gone")
        return f"another {self.made}"


def test_a_connection_is_shared_by_a_few_commands() -> None:
    """As many as it has room for, also when all ask at the same time; room that is given back is used again."""

    async def work() -> None:
        handles = Handles("first", opener := Opener())
        taken = await asyncio.gather(*[handles.take() for _ in range(3 * MOST)])
        used = [handle.box.result() for handle in taken]
        assert {name: used.count(name) for name in used} == {"first": MOST, "another 1": MOST, "another 2": MOST}
        handles.give(taken[0])
        assert (await handles.take()).box.result() == "first" and opener.made == 2

    asyncio.run(work())


def test_a_connection_that_cannot_be_made_is_tried_again_by_the_next() -> None:
    """Who waits for it is told, and nothing of it stays."""

    async def work() -> None:
        handles = Handles("first", Opener(fail=1))
        for _ in range(MOST):
            await handles.take()
        results = await asyncio.gather(*[handles.take() for _ in range(3)], return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionError] * 3
        assert (await handles.take()).box.result() == "another 2"

    asyncio.run(work())


def test_a_command_that_is_given_up_leaves_the_connection_to_others() -> None:
    """Whoever waits for the same connection gets it."""

    async def work() -> None:
        handles = Handles("first", Opener())
        for _ in range(MOST):
            await handles.take()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handles.take(), 0.001)
        taken: list[Handle] = [await handles.take() for _ in range(MOST)]
        assert {handle.box.result() for handle in taken} == {"another 1"}

    asyncio.run(work())
