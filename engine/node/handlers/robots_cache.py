"""Caches the parsed robots.txt of the hosts this node works on."""

import asyncio
import time

from msgspec import Struct

from engine.fetch.robots import LARGE_TEXT, is_readable
from engine.fetch.robots_reader import HostRobots, disallowed_by, parse_robots
from engine.node.db_access import DbAccess
from engine.store.tables.hosts import StoredRobots

_MAX_HOSTS = 1000
_MAX_CHARACTERS = 1_000_000
"""Of the cached files; parsed rules take about thirty times that."""
_RECHECK_SECONDS = 60.0
"""Seconds after which to look for a newer copy in the store."""
_RECHECK_OFF_SECONDS = 5.0
"""The same where robots.txt does not apply: once a locator names the host, it may."""
_SLICE_SECONDS, _SHARE = 0.002, 0.1
"""A long search for the rule that decides runs in slices of that length, and takes that share of the loop's time."""


class RobotsPending(Exception):
    """The host's robots.txt is being asked for again; the job must wait for it."""


class RobotsGuarded(Exception):
    """The address guard refused to ask for the host's robots.txt."""


class _CachedRobots(Struct):
    robots: HostRobots
    size: int
    fetched_at: float | None
    checked_at: float


async def parse_off_loop(status: int, text: str, agent: str) -> HostRobots:
    """As `parse_robots`; a large file is parsed in a thread, so that the loop continues with its other jobs."""
    if len(text) < LARGE_TEXT:
        return parse_robots(status, text, agent)
    return await asyncio.to_thread(parse_robots, status, text, agent)


class RobotsCache:
    """One for each node; used on the fetch loop's thread."""

    def __init__(self, db_access: DbAccess, agent: str) -> None:
        """`agent`: the product token that selects the rules."""
        self._db_access = db_access
        self._agent = agent
        self._hosts: dict[int, _CachedRobots] = {}
        """By host; the order is that in which they were parsed."""
        self._parsing: dict[int, asyncio.Task[HostRobots]] = {}
        self._exempt: dict[int, float] = {}
        self._size = 0
        self._defs_version = 0
        self._search_lock = asyncio.Lock()

    async def rules(self, host: int, version: int) -> HostRobots | None:
        """The robots.txt of a host; None where the defs of that version ignore it.

        Raises RobotsPending, RobotsGuarded.
        """
        if version > self._defs_version:
            self._defs_version = version
            self._exempt.clear()
            for each in self._hosts.values():
                each.checked_at = float("-inf")  # it may not apply any more
        exempt_since = self._exempt.get(host)
        if exempt_since is not None and time.monotonic() - exempt_since < _RECHECK_OFF_SECONDS:
            return None
        cached = self._hosts.get(host)
        if cached is not None and time.monotonic() - cached.checked_at < _RECHECK_SECONDS:
            return cached.robots
        return await self._read(host, cached)

    async def refusal(self, robots: HostRobots, url: str) -> str | None:
        """Why the URL may not be fetched; None: it may. The many rules of one host leave the loop to the others."""
        if not robots.rules.is_costly(url):
            return robots.refusal(url)
        async with self._search_lock:
            pause_at = time.perf_counter() + _SLICE_SECONDS
            for rule in robots.rules.search(url):
                if rule is not None:
                    return None if rule.allows else disallowed_by(robots.rules.describe(rule))
                if time.perf_counter() > pause_at:
                    await asyncio.sleep(_SLICE_SECONDS * (1 / _SHARE - 1))
                    pause_at = time.perf_counter() + _SLICE_SECONDS
        return None

    def remember(self, host: int, robots: HostRobots, text: str, fetched_at: float) -> None:
        """Keep what was parsed of a host's robots.txt that is about to be stored; it counts once that is done."""
        self._keep(host, _CachedRobots(robots, len(text), fetched_at, float("-inf")))

    async def _read(self, host: int, cached: _CachedRobots | None) -> HostRobots | None:
        self._exempt.pop(host, None)
        stored = self._db_access.robots(host)
        if stored is None:
            raise RobotsPending
        if stored == "OFF":
            self._exempt[host] = time.monotonic()
            return None
        if stored.is_guarded:
            raise RobotsGuarded
        if cached is not None and cached.fetched_at == stored.fetched_at:
            cached.checked_at = time.monotonic()
            return cached.robots
        if not is_readable(stored.status):
            # not cached: an operator's retry asks for it again
            return parse_robots(stored.status, stored.text, self._agent)
        if len(stored.text) < LARGE_TEXT:
            robots = parse_robots(stored.status, stored.text, self._agent)
        else:
            robots = await self._parse_large(host, stored)
        self._keep(host, _CachedRobots(robots, len(stored.text), stored.fetched_at, time.monotonic()))
        return robots

    async def _parse_large(self, host: int, stored: StoredRobots) -> HostRobots:
        """Parse a file, once for all jobs that ask for it meanwhile."""
        task = self._parsing.get(host)
        if task is None:
            task = asyncio.create_task(parse_off_loop(stored.status, stored.text, self._agent))
            self._parsing[host] = task
            task.add_done_callback(lambda _: self._parsing.pop(host, None))
        return await asyncio.shield(task)  # a job that is cancelled leaves the task to the others

    def _keep(self, host: int, robots: _CachedRobots) -> None:
        self._drop(host)
        self._hosts[host] = robots
        self._size += robots.size
        while len(self._hosts) > 1 and (len(self._hosts) > _MAX_HOSTS or self._size > _MAX_CHARACTERS):
            self._drop(next(iter(self._hosts)))

    def _drop(self, host: int) -> None:
        dropped = self._hosts.pop(host, None)
        if dropped is not None:
            self._size -= dropped.size
