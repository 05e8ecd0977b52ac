"""The robots desk: reads robots.txt for its job, and keeps the parsed rules of the hosts this node works."""

from collections.abc import Awaitable, Callable

from engine.fetch.decode import decode
from engine.fetch.response import Answer
from engine.fetch.robots import LARGEST, RobotsRules, rules_for
from engine.model.job import LeasedJob, Request
from engine.node.db_access import Clerk
from engine.store.transactions.commit import Robots

_HOPS = 5
"""Redirects of a robots.txt that are followed, as RFC 9309 asks."""
_HOSTS_KEPT = 1000
_LONGEST_CRAWL_DELAY = 30.0


Send = Callable[[LeasedJob, str, Request], Awaitable[Answer]]
"""One request for a job, with what the defs say of the host. Raises FetchFailed."""


class RobotsDesk:
    """One for each node."""

    unreachable = Robots(0, "", 0.0)

    def __init__(self, send: Send, clerk: Clerk, user_agent: str) -> None:
        self._send = send
        self._clerk = clerk
        self._user_agent = user_agent
        self._rules: dict[int, tuple[int, RobotsRules] | None] = {}
        self._version = 0

    def rules(self, host: int, version: int) -> tuple[int, RobotsRules] | None:
        """Status and rules of a host's robots.txt; None where, as the defs of that version say, it does not count."""
        if version > self._version:
            self._version = version
            self._rules.clear()
        if host not in self._rules:
            told = self._clerk.robots(host)
            if len(self._rules) >= _HOSTS_KEPT:
                self._rules.clear()
            self._rules[host] = None if told is None else (told[0], rules_for(*told))
        return self._rules[host]

    async def read(self, job: LeasedJob) -> tuple[Answer, Robots]:
        """Fetch a robots.txt. Raises FetchFailed."""
        url, request = job.url, Request()
        for _ in range(_HOPS + 1):
            answer = await self._send(job, url, request)
            if answer.location is None:
                break
            url = answer.location
        text = decode(answer.body[:LARGEST], "text/plain; charset=utf-8").text if answer.status < 300 else ""
        delay = rules_for(answer.status, text).crawl_delay(self._user_agent) or 0.0
        return answer, Robots(answer.status, text, min(delay, _LONGEST_CRAWL_DELAY))
