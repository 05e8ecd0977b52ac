"""The budget of bytes: bounded, without deadlock, without leaks; waiting does not use up a request's deadline."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator

import pytest

from crawl_engine.http.byte_budget import FREE_BYTES, BodyShare, ByteBudget
from crawl_engine.http.errors import FetchFailed, NoRoom
from crawl_engine.model.job import Request
from tests.unit.http.server import Exchange, LoopbackFetcher, Site, serving

LARGEST = 1_000_000
CAPACITY = 2 * LARGEST


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def new_budget() -> ByteBudget:
    return ByteBudget(capacity=CAPACITY, largest=LARGEST)


def test_small_bodies_take_nothing() -> None:
    budget = new_budget()
    for _ in range(1000):
        assert budget.open_share().try_grow(FREE_BYTES)
    assert budget.used == 0


def test_bytes_beyond_the_free_ones_count_until_they_are_released() -> None:
    budget = new_budget()
    share = budget.open_share()
    assert share.try_grow(FREE_BYTES - 1)
    assert share.try_grow(11)
    assert budget.used == 10
    share.release()
    share.release()
    assert budget.used == 0


async def test_growing_bodies_never_wait_for_each_other_in_a_circle() -> None:
    """Twenty bodies of unknown length, each of the largest size, while commits take their time."""
    budget, highest, done = new_budget(), 0, 0

    async def read() -> None:
        nonlocal highest, done
        share = budget.open_share()
        for _ in range(LARGEST // 50_000):
            await share.grow(50_000)
            highest = max(highest, budget.used)
            await asyncio.sleep(0)
        share.finish_reading()
        done += 1
        threading.Timer(0.002, share.release).start()  # the committer's thread

    async with asyncio.timeout(20):
        await asyncio.gather(*(read() for _ in range(20)))
        while budget.used:
            await asyncio.sleep(0.005)
    assert done == 20
    assert LARGEST < highest <= CAPACITY


@pytest.mark.parametrize("seed", range(5))
async def test_any_order_of_growth_cancellation_and_release_leaves_nothing(seed: int) -> None:
    dice, budget, highest = random.Random(seed), new_budget(), 0

    async def read(steps: list[int]) -> None:
        nonlocal highest
        share = budget.open_share()
        try:
            for step in steps:
                await share.grow(step)
                highest = max(highest, budget.used)
                await asyncio.sleep(dice.random() / 500)
            share.finish_reading()
            await asyncio.sleep(dice.random() / 100)
        finally:
            share.release()

    tasks = []
    for _ in range(60):
        total, steps = dice.randint(1, LARGEST), []
        while total > 0:
            steps.append(min(total, dice.randint(1, LARGEST)))
            total -= steps[-1]
        tasks.append(asyncio.create_task(read(steps)))
    for task in dice.sample(tasks, 20):
        await asyncio.sleep(dice.random() / 200)
        task.cancel()
    async with asyncio.timeout(20):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert budget.used == 0
    assert highest <= CAPACITY
    assert budget.open_share().try_grow(LARGEST), "nobody is left waiting"


async def test_the_rest_is_free_again_while_the_large_reader_is_still_in_memory() -> None:
    budget = new_budget()
    first, large, last = budget.open_share(), budget.open_share(), budget.open_share()
    await first.grow(LARGEST)
    await large.grow(LARGEST)  # more than the rest has: it is the large reader
    large.finish_reading()
    assert not last.try_grow(LARGEST)
    first.release()
    assert last.try_grow(LARGEST), "the large reader's body now counts for the rest; its room is free"


def fill(budget: ByteBudget) -> list[BodyShare]:
    shares = [budget.open_share(), budget.open_share()]
    assert all(share.try_grow(LARGEST + FREE_BYTES) for share in shares)
    return shares


async def test_waiting_for_a_share_does_not_use_up_the_deadline(site: Site) -> None:
    body = b"x" * 900_000

    def answer_late(exchange: Exchange) -> None:
        time.sleep(0.5)
        exchange.respond(body)

    site.pages["/"] = answer_late
    budget = new_budget()
    held = fill(budget)
    fetcher = LoopbackFetcher(user_agent="t", deadline=1, max_body=LARGEST, connections=4)
    share = budget.open_share()
    sending = asyncio.create_task(fetcher.send(site.url("/"), Request(), share=share))
    start = time.perf_counter()
    await asyncio.sleep(1.2)
    assert not sending.done()
    held[0].release()
    response = await sending
    assert response.body == body
    assert response.elapsed < 1 < time.perf_counter() - start, "the wait is not the server's"
    assert budget.used == LARGEST + share.granted
    share.release()
    held[1].release()
    assert budget.used == 0
    await fetcher.aclose()


async def test_the_deadline_runs_on_after_the_wait(site: Site) -> None:
    def drip(exchange: Exchange) -> None:
        exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + b"x" * 300_000)
        site.stopping.wait(5)

    site.pages["/"] = drip
    budget = new_budget()
    held = fill(budget)
    fetcher = LoopbackFetcher(user_agent="t", deadline=0.5, max_body=LARGEST, connections=4)
    sending = asyncio.create_task(fetcher.send(site.url("/"), Request(), share=budget.open_share()))
    await asyncio.sleep(0.3)
    for share in held:
        share.release()
    with pytest.raises(FetchFailed, match=r"timeout after 0\.5 s"):
        await asyncio.wait_for(sending, 3)
    assert budget.used == 0
    await fetcher.aclose()


FAILURES = {
    "/cut": b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + b"x" * 400_000,
    "/long": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 1_200_000,
    "/packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000,
    "/moved": b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000,
}


@pytest.mark.parametrize("path", FAILURES)
async def test_a_body_that_is_not_kept_holds_nothing(site: Site, path: str) -> None:
    def send(exchange: Exchange) -> None:
        exchange.raw(FAILURES[path])
        exchange.connection.close()

    site.pages[path] = send
    budget = new_budget()
    fetcher = LoopbackFetcher(user_agent="t", deadline=5, max_body=LARGEST, connections=4)
    try:
        response = await fetcher.send(site.url(path), Request(), share=budget.open_share())
        assert response.location is not None
    except FetchFailed:
        assert path != "/moved"
    assert budget.used == 0
    await fetcher.aclose()


async def test_a_cancelled_request_holds_nothing(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"x" * 900_000)
    budget = new_budget()
    held = fill(budget)
    fetcher = LoopbackFetcher(user_agent="t", deadline=5, max_body=LARGEST, connections=4)
    sending = asyncio.create_task(fetcher.send(site.url("/"), Request(), share=budget.open_share()))
    await asyncio.sleep(0.2)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    for share in held:
        share.release()
    assert budget.used == 0
    assert budget.open_share().try_grow(LARGEST)
    await fetcher.aclose()


async def test_what_waits_longer_than_the_deadline_gives_up_what_it_holds(site: Site) -> None:
    site.pages["/"] = lambda x: x.respond(b"x" * 900_000)
    budget = new_budget()
    held = fill(budget)
    before = budget.used
    fetcher = LoopbackFetcher(user_agent="t", deadline=0.3, max_body=LARGEST, connections=4)
    try:
        with pytest.raises(NoRoom):
            await asyncio.wait_for(fetcher.send(site.url("/"), Request(), share=budget.open_share()), 3)
        assert budget.used == before
    finally:
        for share in held:
            share.release()
        await fetcher.aclose()
    assert budget.used == 0
