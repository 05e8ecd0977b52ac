"""The cache of parsed robots.txt: bounded, rechecked, and never of what could not be read."""

import asyncio
import threading
import time
from typing import Literal, cast

import pytest

from engine.fetch.robots_reader import HostRobots, parse_robots
from engine.node.db_access import DbAccess
from engine.node.handlers import robots_cache
from engine.node.handlers.robots_cache import RobotsCache, RobotsGuarded, RobotsPending
from engine.store.tables.hosts import GUARDED, StoredRobots

pytestmark = pytest.mark.asyncio
CLOSED = "User-agent: us\nDisallow: /\n"


class Stored:
    """What the store has, by host; counts the reads."""

    def __init__(self) -> None:
        self.result: StoredRobots | Literal["OFF"] | None = None
        self.reads = 0

    def robots(self, host: int) -> StoredRobots | Literal["OFF"] | None:
        self.reads += 1
        return self.result


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def cache(stored: Stored) -> RobotsCache:
    return RobotsCache(cast(DbAccess, stored), "us")


async def allows(cache: RobotsCache, host: int = 1, version: int = 1) -> bool:
    robots = await cache.rules(host, version)
    return robots is None or robots.refusal("http://h/a") is None


async def test_a_readable_file_is_read_once(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert not await allows(cache)
    assert not await allows(cache)
    assert stored.reads == 1


async def test_an_unreadable_one_is_looked_up_each_time(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(0, "connection refused", None)
    assert not await allows(cache)
    stored.result = StoredRobots(404, "", 1.0)
    assert await allows(cache)


async def test_one_that_is_being_read_again_decides_nothing(cache: RobotsCache, stored: Stored) -> None:
    with pytest.raises(RobotsPending):
        await cache.rules(1, 1)


async def test_a_newer_copy_is_seen_after_a_minute(
    cache: RobotsCache, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert not await allows(cache)
    stored.result = StoredRobots(200, "", 2.0)
    assert not await allows(cache)
    monkeypatch.setattr(robots_cache, "_RECHECK_SECONDS", 0.0)
    assert await allows(cache)


async def test_defs_that_ignore_robots_txt_count_from_their_version_on(cache: RobotsCache, stored: Stored) -> None:
    stored.result = "OFF"
    assert await allows(cache)
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert await allows(cache)
    assert not await allows(cache, version=2)


async def test_a_host_that_robots_txt_applies_to_later_is_seen_within_seconds(
    cache: RobotsCache, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A locator may name a host during the run; its robots.txt applies from then on, without a new version."""
    stored.result = "OFF"
    assert await allows(cache)
    assert await allows(cache)
    assert stored.reads == 1
    stored.result = None
    monkeypatch.setattr(robots_cache, "_RECHECK_OFF_SECONDS", 0.0)
    with pytest.raises(RobotsPending):
        await cache.rules(1, 1)
    monkeypatch.undo()
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert not await allows(cache)


async def test_large_files_do_not_fill_the_memory(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(200, CLOSED + "# filler\n" * 40_000, 1.0)
    for host in range(20):
        assert not await allows(cache, host)
    assert list(cache._hosts) == [18, 19], "the oldest are evicted first"


async def test_many_rules_leave_the_loop_to_other_jobs(cache: RobotsCache, stored: Stored) -> None:
    rules = "".join(f"Disallow: /*{number}*x$\n" for number in range(8_000))
    stored.result = StoredRobots(200, f"User-agent: us\n{rules}Disallow: /*0y\n", 1.0)
    robots = await cache.rules(1, 1)
    assert robots is not None
    url = "http://h/" + "1234567890" * 700
    gaps: list[float] = []

    async def watch() -> None:
        while True:
            began = time.thread_time()  # what the loop does, not how busy the machine is
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - began)
            await asyncio.sleep(0.001)

    watcher = asyncio.create_task(watch())
    began = time.process_time()
    refusals = await asyncio.gather(cache.refusal(robots, url + "y"), cache.refusal(robots, url + "z"))
    watcher.cancel()
    assert refusals == ["robots.txt disallows it (line 8002: Disallow: /*0y)", None]
    assert [robots.refusal(url + "y"), robots.refusal(url + "z")] == refusals
    assert len(gaps) > 20
    assert sum(gaps) < (time.process_time() - began) / 2, "each step of the search is short"


async def test_a_host_whose_robots_txt_was_guarded_decides_nothing(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(GUARDED, "", None)
    with pytest.raises(RobotsGuarded):
        await cache.rules(1, 1)


@pytest.fixture
def parsed_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that parsed a file."""
    threads: list[int] = []

    def parse(status: int, text: str, agent: str) -> HostRobots:
        threads.append(threading.get_ident())
        return parse_robots(status, text, agent)

    monkeypatch.setattr(robots_cache, "parse_robots", parse)
    return threads


async def test_a_large_file_is_parsed_once_and_in_a_thread(
    cache: RobotsCache, stored: Stored, parsed_by: list[int]
) -> None:
    stored.result = StoredRobots(200, CLOSED + "# filler\n" * 10_000, 1.0)
    assert await asyncio.gather(*(allows(cache) for _ in range(10))) == [False] * 10
    assert len(parsed_by) == 1
    assert parsed_by[0] != threading.get_ident()


async def test_what_the_robots_job_parsed_counts_once_it_is_stored(
    cache: RobotsCache, stored: Stored, parsed_by: list[int]
) -> None:
    stored.result = StoredRobots(200, "", 1.0)
    assert await allows(cache)
    cache.remember(1, parse_robots(200, CLOSED, "us"), CLOSED, 2.0)
    assert await allows(cache)
    cache.remember(1, parse_robots(200, CLOSED, "us"), CLOSED, 2.0)
    stored.result = StoredRobots(200, CLOSED, 2.0)
    assert not await allows(cache)
    assert len(parsed_by) == 2
