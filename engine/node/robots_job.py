"""Fetches robots.txt for its job, and caches the parsed rules of the hosts this node works on."""

from collections.abc import Awaitable, Callable
from functools import partial

from engine.fetch.response import FetchResponse
from engine.fetch.robots_reader import HostRobots, fetch_robots, parse_robots
from engine.model.job import LeasedJob, Request
from engine.node.db_access import DbAccess
from engine.store.transactions.outcome import RobotsResult

_MAX_CACHED_HOSTS = 1000
_MAX_CRAWL_DELAY = 30.0


SendRequest = Callable[[LeasedJob, str, Request], Awaitable[FetchResponse]]
"""Sends one request for a job, with the headers and cookies the defs set for the host. Raises FetchFailed."""


class RobotsHandler:
    """One for each node."""

    unreachable = RobotsResult(0, "", 0.0)

    def __init__(self, send: SendRequest, db_access: DbAccess, user_agent: str) -> None:
        self._send = send
        self._db_access = db_access
        self._user_agent = user_agent
        self._hosts: dict[int, HostRobots | None] = {}
        self._defs_version = 0

    def rules(self, host: int, version: int) -> HostRobots | None:
        """The robots.txt of a host; None where the defs of that version ignore it."""
        if version > self._defs_version:
            self._defs_version = version
            self._hosts.clear()
        if host not in self._hosts:
            stored = self._db_access.robots(host)
            if len(self._hosts) >= _MAX_CACHED_HOSTS:
                self._hosts.clear()
            self._hosts[host] = None if stored is None else parse_robots(*stored)
        return self._hosts[host]

    async def fetch(self, job: LeasedJob) -> tuple[FetchResponse, RobotsResult]:
        """Fetch a robots.txt. Raises FetchFailed."""
        response, text = await fetch_robots(job.url, partial(self._send, job))
        delay = parse_robots(response.status, text).rules.crawl_delay(self._user_agent) or 0.0
        return response, RobotsResult(response.status, text, min(delay, _MAX_CRAWL_DELAY))
