"""The cache of parsed robots.txt: bounded, rechecked, and never of what could not be read."""

from typing import Literal, cast

import pytest

from engine.node import robots_cache
from engine.node.db_access import DbAccess
from engine.node.robots_cache import RobotsCache, RobotsPending
from engine.store.tables.hosts import StoredRobots

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


def allows(cache: RobotsCache, host: int = 1, version: int = 1) -> bool:
    robots = cache.rules(host, version)
    return robots is None or robots.refusal("http://h/a") is None


def test_a_readable_file_is_read_once(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert not allows(cache)
    assert not allows(cache)
    assert stored.reads == 1


def test_an_unreadable_one_is_looked_up_each_time(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(0, "connection refused", None)
    assert not allows(cache)
    stored.result = StoredRobots(404, "", 1.0)
    assert allows(cache)


def test_one_that_is_being_read_again_decides_nothing(cache: RobotsCache, stored: Stored) -> None:
    with pytest.raises(RobotsPending):
        cache.rules(1, 1)


def test_a_newer_copy_is_seen_after_a_minute(
    cache: RobotsCache, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert not allows(cache)
    stored.result = StoredRobots(200, "", 2.0)
    assert not allows(cache)
    monkeypatch.setattr(robots_cache, "_RECHECK_SECONDS", 0.0)
    assert allows(cache)


def test_defs_that_ignore_robots_txt_count_from_their_version_on(cache: RobotsCache, stored: Stored) -> None:
    stored.result = "OFF"
    assert allows(cache)
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert allows(cache)
    assert not allows(cache, version=2)


def test_a_host_that_robots_txt_applies_to_later_is_seen_within_seconds(
    cache: RobotsCache, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A locator may name a host during the run; its robots.txt applies from then on, without a new version."""
    stored.result = "OFF"
    assert allows(cache)
    assert allows(cache)
    assert stored.reads == 1
    stored.result = None
    monkeypatch.setattr(robots_cache, "_RECHECK_OFF_SECONDS", 0.0)
    with pytest.raises(RobotsPending):
        cache.rules(1, 1)
    monkeypatch.undo()
    stored.result = StoredRobots(200, CLOSED, 1.0)
    assert not allows(cache)


def test_large_files_do_not_fill_the_memory(cache: RobotsCache, stored: Stored) -> None:
    stored.result = StoredRobots(200, CLOSED + "# filler\n" * 40_000, 1.0)
    for host in range(20):
        assert not allows(cache, host)
    assert len(cache._hosts) <= 3
