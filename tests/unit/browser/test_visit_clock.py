"""The time of a page in a browser: it stands while the page waits for its turn."""

import asyncio

import pytest

from crawl_engine.browser.visit_clock import VisitClock

pytestmark = pytest.mark.asyncio


async def test_a_wait_for_a_turn_is_no_time_of_the_page():
    clock = VisitClock(0.2)
    async with clock.limit(0.2), clock.limit(0.1):
        with clock.stand():
            await asyncio.sleep(0.4)
        assert clock.left > 0.1, "the limits, which are shorter than the wait, go on"
    with pytest.raises(TimeoutError):
        async with clock.limit(0.05):
            with clock.stand():
                await asyncio.sleep(0.1)
            await asyncio.sleep(60)


async def test_waits_that_overlap_count_once():
    clock = VisitClock(10.0)

    async def wait(seconds: float) -> None:
        with clock.stand():
            await asyncio.sleep(seconds)

    await asyncio.gather(wait(0.2), wait(0.3), wait(0.1))
    assert 9.8 < clock.left <= 10.0
    with clock.stand():
        async with clock.limit(0.01):
            await asyncio.sleep(0.05)  # a limit that begins in a wait has its time after it


async def test_a_limit_that_ends_as_the_clock_stops_ends_as_it_would():
    clock = VisitClock(0.05)
    with pytest.raises(TimeoutError):
        async with clock.limit(0.05):
            try:
                await asyncio.sleep(60)
            finally:
                with clock.stand():
                    await asyncio.sleep(0)
    assert clock.left <= 0
