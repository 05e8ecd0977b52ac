"""Deadlines of requests: one timer ends each at its time; other cancellations are not theirs."""

import asyncio
import time

import pytest

from crawl_engine.http.deadline import Deadline, Deadlines


async def last(deadline: Deadline, seconds: float = 9.0) -> float:
    """How long a block with the deadline lasts that would last so many seconds."""
    start = time.monotonic()
    try:
        with deadline:
            await asyncio.sleep(seconds)
    except TimeoutError:
        pass
    return time.monotonic() - start


async def test_each_request_ends_at_its_own_time() -> None:
    deadlines = Deadlines(0.3)

    async def start(after: float, seconds: float) -> float:
        await asyncio.sleep(after)
        return await last(deadlines.start(), seconds)

    lasted = await asyncio.gather(start(0, 9), start(0.2, 9), start(0.1, 0.1), start(0.7, 9))
    assert lasted == [pytest.approx(seconds, abs=0.09) for seconds in (0.3, 0.3, 0.1, 0.3)]


async def test_a_block_in_time_raises_nothing_and_an_own_timeout_error_passes() -> None:
    deadlines = Deadlines(5)
    with pytest.raises(TimeoutError, match="own"), deadlines.start():
        raise TimeoutError("own")
    with deadlines.start():
        await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_deadline_that_pauses_goes_on_with_what_is_left() -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError), Deadlines(0.3).start() as deadline:
        await asyncio.sleep(0.1)
        left = deadline.pause()
        await asyncio.sleep(0.4)
        deadline.resume(left)
        await asyncio.sleep(9)
    assert time.monotonic() - start == pytest.approx(0.7, abs=0.15)


async def test_a_deadline_begins_again_with_progress() -> None:
    with Deadlines(0.3).start() as deadline:
        for _ in range(4):
            await asyncio.sleep(0.1)
            deadline.restart()


@pytest.mark.parametrize("seconds", [5.0, 0.05])
async def test_a_cancelled_task_stays_cancelled(seconds: float) -> None:
    async def work() -> None:
        try:
            with Deadlines(seconds).start():
                await asyncio.sleep(9)
        finally:
            await asyncio.sleep(0)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.04, time.sleep, 0.05)  # the deadline and the cancellation come together
    asyncio.get_running_loop().call_later(0.041, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
