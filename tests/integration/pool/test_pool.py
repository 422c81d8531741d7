"""Pools of warm environments: limits, waiting, replacement, cancellation and the end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandCancelled,
    EnvironmentGone,
    EnvironmentPool,
    InvalidArgument,
    PoolExhausted,
    aio,
)
from hermes_env_local import LocalEnvironment
from tests.waiting import until


class Counted:
    """Opens environments of this machine and counts how many exist."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.all: list[BaseEnvironment] = []
        self.open = self.most = 0
        self.failure: Exception | None = None
        self.slow = threading.Event()
        self.slow.set()

    def __call__(self) -> BaseEnvironment:
        """One more; the pool's limit is judged here, at the backend."""
        assert self.slow.wait(60)
        if self.failure is not None:
            raise self.failure
        counted = self

        class Environment(LocalEnvironment):
            ends: datetime | None = None

            def _open(self) -> None:
                with counted.lock:
                    counted.open += 1
                    counted.most = max(counted.most, counted.open)
                super()._open()

            def _close(self) -> None:
                super()._close()
                with counted.lock:
                    counted.open -= 1

            def _expires_at(self) -> datetime | None:
                return self.ends

        env = Environment().open()
        with self.lock:
            self.all.append(env)
        return env


@pytest.fixture
def backend() -> Counted:
    """A backend that counts."""
    return Counted()


def test_it_opens_ahead(backend: Counted) -> None:
    """As many as asked for are open before anybody takes one, and again after one was taken."""
    with EnvironmentPool(backend, warm=3, limit=5) as pool:
        until(lambda: pool.stats.idle == 3)
        with pool.take() as env:
            assert env.exec("echo here").text == "here\n"
            until(lambda: pool.stats.idle == 3)
            assert pool.stats.taken == 1
    assert backend.open == 0


def test_the_limit_holds(backend: Counted) -> None:
    """However many ask at once, no more exist than the limit says, and everybody is served."""
    with EnvironmentPool(backend, warm=2, limit=4) as pool:

        def work(number: int) -> str:
            with pool.take(timeout=120) as env:
                return env.exec(["echo", str(number)]).text

        with ThreadPoolExecutor(24) as threads:
            assert list(threads.map(work, range(48))) == [f"{number}\n" for number in range(48)]
        assert pool.stats.taken == pool.stats.waiting == 0
    assert backend.most <= 4 and backend.open == 0
    assert len(backend.all) >= 48  # Nobody got what another one had used.


def test_a_wait_that_runs_out(backend: Counted) -> None:
    """A caller who will not wait longer is told why, and takes nothing with him."""
    with EnvironmentPool(backend, warm=0, limit=1) as pool:
        with pool.take() as env:
            with pytest.raises(PoolExhausted, match="1 taken") as caught, pool.take(timeout=0.1):
                pass
            assert isinstance(caught.value, TimeoutError | BackendUnavailable) and caught.value.retryable
            assert pool.stats.waiting == 0 and env.alive()
        with pool.take(timeout=60) as env:
            assert env.alive()


def test_who_waits_longest_is_first(backend: Counted) -> None:
    """Environments are handed out in the order in which they were asked for."""
    order: list[int] = []
    with EnvironmentPool(backend, warm=0, limit=1) as pool:

        def work(number: int) -> None:
            with pool.take():
                order.append(number)

        threads = []
        with pool.take():
            for number in range(5):
                threads.append(threading.Thread(target=work, args=(number,)))
                threads[-1].start()
                until(lambda number=number: pool.stats.waiting == number + 1)  # type: ignore[misc]
        for thread in threads:
            thread.join(60)
    assert order == list(range(5))


def test_reuse(backend: Counted) -> None:
    """With reuse the same one comes again, without what still ran and without sessions; a closed one does not."""
    with EnvironmentPool(backend, warm=1, limit=1, reuse=True) as pool:
        with pool.take() as first:
            left, session = first.start("sleep 600"), first.session()
        with pool.take() as second:
            assert second is first and second.exec("true").ok
            with pytest.raises(CommandCancelled):
                left.wait(60)
            with pytest.raises(EnvironmentGone):
                session.exec("true")
            second.close()
        with pool.take() as third:
            assert third is not first and third.alive()


def test_dead_ones_are_replaced(backend: Counted) -> None:
    """One that died, or will end soon, while it was idle is not handed out."""
    with EnvironmentPool(backend, warm=2, limit=3) as pool:
        until(lambda: pool.stats.idle == 2)
        backend.all[0].close()
        backend.all[1].ends = datetime.now(UTC) + timedelta(seconds=5)  # type: ignore[attr-defined]
        with pool.take(timeout=60) as env:
            assert env not in backend.all[:2] and env.alive()
        assert pool.stats.replaced == 2
    assert backend.open == 0


def test_dead_ones_are_found_while_nobody_asks(backend: Counted) -> None:
    """Idle ones are looked at from time to time."""
    with EnvironmentPool(backend, warm=1, limit=2, check_every=0.05) as pool:
        until(lambda: pool.stats.idle == 1)
        backend.all[0].close()
        until(lambda: len(backend.all) == 2 and pool.stats.idle == 1)
        assert pool.stats.replaced == 1


def test_opening_fails(backend: Counted) -> None:
    """Who waits is told why; the pool tries again, also while nobody waits."""
    backend.failure = BackendUnavailable("no more room", reason="capacity")
    with EnvironmentPool(backend, warm=1, limit=2) as pool:
        with pytest.raises(BackendUnavailable, match="no more room"), pool.take(timeout=60):
            pass
        backend.failure = None
        until(lambda: pool.stats.idle == 1)
        with pool.take(timeout=60) as env:
            assert env.alive()


def test_close(backend: Counted) -> None:
    """Closing ends what is taken and what is just being opened, tells those who wait, and is done when it returns."""
    pool = EnvironmentPool(backend, warm=0, limit=2)
    told: list[BaseException] = []

    def ask() -> None:
        try:
            with pool.take():
                pass
        except EnvironmentGone as error:
            told.append(error)

    with pool.take() as env:
        process = env.start("sleep 600")
        backend.slow.clear()
        waiting = [threading.Thread(target=ask) for _ in range(2)]
        for thread in waiting:
            thread.start()
        until(lambda: pool.stats.waiting == 2 and pool.stats.opening == 1)
        closing = threading.Thread(target=pool.close)
        closing.start()
        for thread in waiting:
            thread.join(60)
        assert len(told) == 2 and closing.is_alive()
        backend.slow.set()
        closing.join(60)
        with pytest.raises(CommandCancelled):
            process.wait(60)
    assert backend.open == 0 and not any(env.alive() for env in backend.all)
    pool.close()
    with pytest.raises(EnvironmentGone), pool.take():
        pass


def test_an_environment_that_does_not_close(backend: Counted) -> None:
    """What could not be closed is told when the pool is closed; the others are closed all the same."""
    pool = EnvironmentPool(backend, warm=3, limit=3)
    until(lambda: pool.stats.idle == 3)
    broken = backend.all[1]
    close = broken.close

    def failing() -> None:
        close()
        raise BackendUnavailable("the provider does not answer", reason="unreachable")

    broken.close = failing  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup) as caught:
        pool.close()
    assert len(caught.value.exceptions) == 1
    assert backend.open == 0


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"warm": 3, "limit": 2}, {"warm": -1}, {"at_once": 0}, {"cwd": "/"}], ids=str
)
def test_numbers_that_make_no_sense(backend: Counted, wrong: dict[str, int]) -> None:
    """They are refused before anything is opened."""
    with pytest.raises(InvalidArgument):
        EnvironmentPool(backend, **wrong)  # type: ignore[arg-type]
    assert not backend.all


INTERRUPTED = """
import os, signal, threading
from hermes_env import EnvironmentPool
with EnvironmentPool("local", warm=0, limit=1) as pool:
    with pool.take():
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            with pool.take():
                pass
        except KeyboardInterrupt:
            print(pool.stats.waiting, pool.stats.taken)
    with pool.take(timeout=60) as env:
        print(env.exec("echo goes on").text)
"""


def test_an_interrupt() -> None:
    """Ctrl-C while waiting takes nothing, and the pool goes on."""
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{INTERRUPTED}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split("\n")[:2] == ["0 1", "goes on"], done.stderr
    assert done.returncode == 0


def test_tasks(backend: Counted) -> None:
    """Many tasks share a few environments, and each of them has its own while it has it."""

    async def main() -> None:
        async with aio.EnvironmentPool(backend, warm=2, limit=3) as pool:

            async def agent(number: int) -> str:
                async with pool.take(timeout=120) as env:
                    assert pool.stats.taken <= 3
                    return (await env.exec(["echo", str(number)])).text

            assert await asyncio.gather(*map(agent, range(20))) == [f"{number}\n" for number in range(20)]
            with pytest.raises(PoolExhausted):
                async with pool.take(), pool.take(), pool.take(), pool.take(timeout=0.05):
                    pass
            assert pool.stats.taken == pool.stats.waiting == 0

    asyncio.run(main())
    gc.collect()
    assert backend.most <= 3 and backend.open == 0


def test_cancelled_tasks(backend: Counted) -> None:
    """A task that is cancelled at any moment, also when it is just being served, takes nothing with it."""

    async def main() -> None:
        async with aio.EnvironmentPool(backend, warm=1, limit=2, reuse=True) as pool:

            async def agent() -> None:
                async with pool.take() as env:
                    await env.exec("sleep 600")

            for turn in range(40):
                task = asyncio.create_task(agent())
                for _ in range(turn % 8):
                    await asyncio.sleep(0)
                await asyncio.sleep((turn // 8) * 0.004)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert pool.stats.taken == pool.stats.waiting == 0
            async with pool.take(60) as one, pool.take(60) as two:
                assert (await one.exec("true")).ok and (await two.exec("true")).ok

    asyncio.run(main())
    gc.collect()
    assert backend.most <= 2 and backend.open == 0
