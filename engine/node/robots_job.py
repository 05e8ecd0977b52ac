"""The robots desk: reads robots.txt for its job, and keeps the parsed rules of the hosts this node works."""

from collections.abc import Awaitable, Callable

from engine.fetch.decode import decode
from engine.fetch.response import FetchResponse
from engine.fetch.robots import MAX_ROBOTS_BYTES, RobotsRules, robots_rules_for
from engine.model.job import LeasedJob, Request
from engine.node.db_access import DbAccess
from engine.store.transactions.outcome import RobotsResult

_MAX_REDIRECTS = 5
"""Redirects of a robots.txt that are followed, as RFC 9309 asks."""
_MAX_CACHED_HOSTS = 1000
_MAX_CRAWL_DELAY = 30.0


SendRequest = Callable[[LeasedJob, str, Request], Awaitable[FetchResponse]]
"""One request for a job, with what the defs say of the host. Raises FetchFailed."""


class RobotsHandler:
    """One for each node."""

    unreachable = RobotsResult(0, "", 0.0)

    def __init__(self, send: SendRequest, clerk: DbAccess, user_agent: str) -> None:
        self._send = send
        self._db_access = clerk
        self._user_agent = user_agent
        self._rules: dict[int, tuple[int, RobotsRules] | None] = {}
        self._defs_version = 0

    def rules(self, host: int, version: int) -> tuple[int, RobotsRules] | None:
        """Status and rules of a host's robots.txt; None where, as the defs of that version say, it does not count."""
        if version > self._defs_version:
            self._defs_version = version
            self._rules.clear()
        if host not in self._rules:
            told = self._db_access.robots(host)
            if len(self._rules) >= _MAX_CACHED_HOSTS:
                self._rules.clear()
            self._rules[host] = None if told is None else (told[0], robots_rules_for(*told))
        return self._rules[host]

    async def fetch(self, job: LeasedJob) -> tuple[FetchResponse, RobotsResult]:
        """Fetch a robots.txt. Raises FetchFailed."""
        url, request = job.url, Request()
        for _ in range(_MAX_REDIRECTS + 1):
            answer = await self._send(job, url, request)
            if answer.location is None:
                break
            url = answer.location
        text = decode(answer.body[:MAX_ROBOTS_BYTES], "text/plain; charset=utf-8").text if answer.status < 300 else ""
        delay = robots_rules_for(answer.status, text).crawl_delay(self._user_agent) or 0.0
        return answer, RobotsResult(answer.status, text, min(delay, _MAX_CRAWL_DELAY))
