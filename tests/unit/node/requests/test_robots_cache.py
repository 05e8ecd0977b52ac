"""The cache of parsed robots.txt: bounded, rechecked, and never of what could not be read."""

import asyncio
from typing import Any, Literal, cast
from unittest.mock import Mock

import pytest

from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.node.requests import robots_cache
from crawl_engine.node.requests.robots_cache import Refusal, RobotsCache, RobotsGuarded, RobotsPending
from crawl_engine.robots.rules import HostRobots, parse_robots
from crawl_engine.store.tables.host.hosts import GUARDED, StoredRobots
from tests.unit.node.extraction.tasks import extraction_pool, limits

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
    return RobotsCache(cast(DbAccess, stored), "us", Mock())


async def allows(cache: RobotsCache, host: int = 1, version: int = 1) -> bool:
    return await cache.find_refusal(host, version, "http://h/a") is None


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
    stored.result = StoredRobots(200, CLOSED + "# filler\n" * 2_000, 1.0)
    for host in range(60):
        assert not await allows(cache, host)
    assert list(cache._hosts) == list(range(5, 60)), "the oldest are evicted first"


WILDCARDS = "User-agent: us\n" + "".join(f"Disallow: /*{number}*x$\n" for number in range(8_000)) + "Disallow: /*0y\n"


async def test_a_large_file_is_asked_in_an_extraction_process(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.result = StoredRobots(200, WILDCARDS + "Crawl-delay: 7\n", 1.0)
    async with extraction_pool() as pool:
        asked: list[list[str]] = []

        def work(request: ExtractionRequest) -> Any:
            asked.append(request.header["urls"])
            return original(request)

        original = pool.work
        monkeypatch.setattr(pool, "work", work)
        cache = RobotsCache(cast(DbAccess, stored), "us", pool)
        url = "http://h/" + "1234567890" * 70
        refusals = await asyncio.gather(*(cache.find_refusal(1, 1, f"{url}{end}") for end in "yzy"))
        robots = await cache.rules(1, 1)
    expected = Refusal("robots.txt disallows it (line 8002: Disallow: /*0y)", by_rule=True)
    assert refusals == [expected, None, expected]
    assert asked == [[], [f"{url}y", f"{url}z", f"{url}y"]], "one message for all that wait"
    assert robots is not None
    assert robots.delay == 7


async def test_a_large_file_past_the_limit_counts_as_unreadable(stored: Stored) -> None:
    stored.result = StoredRobots(200, WILDCARDS, 1.0)
    async with extraction_pool(limits(seconds=0.01)) as pool:
        cache = RobotsCache(cast(DbAccess, stored), "us", pool)
        refusal = await cache.find_refusal(1, 1, "http://h/" + "1234567890" * 70 + "z")
        assert refusal is not None
        assert not refusal.by_rule
        assert refusal.reason.startswith("robots.txt cannot be read: takes more than 0.0")
        robots = await cache.rules(1, 1)
        assert robots is not None
        assert not robots.readable


async def test_a_url_past_the_limit_makes_its_host_unreadable(stored: Stored) -> None:
    stored.result = StoredRobots(200, WILDCARDS, 1.0)
    async with extraction_pool(limits(seconds=2)) as pool:
        cache = RobotsCache(cast(DbAccess, stored), "us", pool)
        assert await cache.find_refusal(1, 1, "http://h/") is None
        refusal = await cache.find_refusal(1, 1, "http://h/" + "1234567890" * 100_000 + "z")
        assert refusal == await cache.find_refusal(1, 1, "http://h/")
        assert refusal is not None
        assert "limit parse_limit" in refusal.reason or "3 times parse_limit" in refusal.reason


async def test_a_host_whose_robots_txt_was_guarded_decides_nothing(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(GUARDED, "", None)
    with pytest.raises(RobotsGuarded):
        await cache.rules(1, 1)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the files that were parsed."""
    lengths: list[int] = []

    def parse(status: int, text: str, agent: str) -> HostRobots:
        lengths.append(len(text))
        return parse_robots(status, text, agent)

    monkeypatch.setattr(robots_cache, "parse_robots", parse)
    return lengths


async def test_what_the_robots_job_parsed_counts_once_it_is_stored(
    cache: RobotsCache, stored: Stored, parsed: list[int]
) -> None:
    stored.result = StoredRobots(200, "", 1.0)
    assert await allows(cache)
    cache.remember(1, parse_robots(200, CLOSED, "us"), CLOSED, 2.0)
    assert await allows(cache)
    cache.remember(1, parse_robots(200, CLOSED, "us"), CLOSED, 2.0)
    stored.result = StoredRobots(200, CLOSED, 2.0)
    assert not await allows(cache)
    assert len(parsed) == 2
