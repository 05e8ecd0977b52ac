"""Caches the parsed robots.txt of the hosts this node works on."""

import time
from typing import NamedTuple

from engine.fetch.robots import is_readable
from engine.fetch.robots_reader import HostRobots, parse_robots
from engine.node.db_access import DbAccess

_MAX_HOSTS = 1000
_MAX_CHARACTERS = 1_000_000
"""Of the cached files; parsed rules take about thirty times that."""
_RECHECK_SECONDS = 60.0
"""Seconds after which to look for a newer copy in the store."""
_RECHECK_OFF_SECONDS = 5.0
"""The same where robots.txt does not apply: once a locator names the host, it may."""


class RobotsPending(Exception):
    """The host's robots.txt is being asked for again; the job must wait for it."""


class _CachedRobots(NamedTuple):
    robots: HostRobots
    fetched_at: float | None
    checked_at: float


class RobotsCache:
    """One for each node; used on the fetch loop's thread."""

    def __init__(self, db_access: DbAccess, agent: str) -> None:
        """`agent`: the product token that selects the rules."""
        self._db_access = db_access
        self._agent = agent
        self._hosts: dict[int, _CachedRobots] = {}
        self._exempt: dict[int, float] = {}
        self._size = 0
        self._defs_version = 0

    def rules(self, host: int, version: int) -> HostRobots | None:
        """The robots.txt of a host; None where the defs of that version ignore it. Raises RobotsPending."""
        if version > self._defs_version:
            self._defs_version = version
            self._clear()
        exempt_since = self._exempt.get(host)
        if exempt_since is not None and time.monotonic() - exempt_since < _RECHECK_OFF_SECONDS:
            return None
        cached = self._hosts.get(host)
        if cached is not None and time.monotonic() - cached.checked_at < _RECHECK_SECONDS:
            return cached.robots
        return self._read(host, cached)

    def _read(self, host: int, cached: _CachedRobots | None) -> HostRobots | None:
        self._exempt.pop(host, None)
        stored = self._db_access.robots(host)
        if stored is None:
            raise RobotsPending
        if stored == "OFF":
            self._exempt[host] = time.monotonic()
            return None
        if cached is not None and cached.fetched_at == stored.fetched_at:
            self._hosts[host] = cached._replace(checked_at=time.monotonic())
            return cached.robots
        robots = parse_robots(stored.status, stored.text, self._agent)
        if not is_readable(stored.status):
            return robots  # not cached: an operator's retry asks for it again
        if len(self._hosts) >= _MAX_HOSTS or self._size + len(stored.text) > _MAX_CHARACTERS:
            self._clear()
        self._size += len(stored.text)
        self._hosts[host] = _CachedRobots(robots, stored.fetched_at, time.monotonic())
        return robots

    def _clear(self) -> None:
        self._hosts.clear()
        self._exempt.clear()
        self._size = 0
