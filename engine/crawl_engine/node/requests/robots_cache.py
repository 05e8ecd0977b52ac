"""Caches the parsed robots.txt of the hosts this node works on."""

import asyncio
import time
from typing import NamedTuple

from msgspec import Struct

from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.extraction.page_extraction import UnreadablePage
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.node.extraction.wire import RobotsAnswer
from crawl_engine.robots.rules import LARGE_TEXT, HostRobots, disallowed_by, is_readable, parse_robots
from crawl_engine.store.pages.body import Body
from crawl_engine.store.tables.host.hosts import StoredRobots

_MAX_HOSTS = 1000
_MAX_CHARACTERS = 1_000_000
"""Characters of the cached files."""
_RECHECK_SECONDS = 60.0
"""Seconds after which to look for a newer copy in the store."""
_RECHECK_OFF_SECONDS = 5.0
"""The same while robots.txt does not apply: once a locator names the host, it may."""


class RobotsPending(Exception):
    """The host's robots.txt is being fetched again; the job must wait for it."""


class RobotsGuarded(Exception):
    """The address guard refused to ask for the host's robots.txt."""


class _CachedRobots(Struct):
    robots: HostRobots
    size: int
    fetched_at: float | None
    checked_at: float


class Refusal(NamedTuple):
    """Why a URL may not be fetched."""

    reason: str
    by_rule: bool
    """Whether a rule disallows it; else the robots.txt cannot be read."""


class LargeRobots:
    """Asks an extraction process about one large file; URLs that gather meanwhile go in one message."""

    def __init__(self, pool: ExtractionPool, text: str, agent: str) -> None:
        self._pool = pool
        self._body = Body(text.encode("utf-8", "replace"))
        self._agent = agent
        self._urls: list[str] = []
        self._answer: asyncio.Task[RobotsAnswer] | None = None
        self._lock = asyncio.Lock()

    async def read_delay(self) -> float:
        """Its Crawl-delay. Raises UnreadablePage, ExtractionUnavailable."""
        return (await self._ask([])).crawl_delay

    async def disallowing_rule(self, url: str) -> str | None:
        """As in `RobotsRules`. Raises UnreadablePage, ExtractionUnavailable."""
        if not self._urls or self._answer is None:
            self._answer = asyncio.create_task(self._ask_next())
        self._urls.append(url)
        index = len(self._urls) - 1
        return (await asyncio.shield(self._answer)).rules[index]  # the others still wait for it

    async def _ask_next(self) -> RobotsAnswer:
        async with self._lock:
            asked, self._urls = self._urls, []
            return await self._ask(asked)

    async def _ask(self, asked: list[str]) -> RobotsAnswer:
        header = {"kind": "robots", "agent": self._agent, "urls": asked}
        answer = await self._pool.work(ExtractionRequest(header=header, body=self._body))
        assert isinstance(answer, RobotsAnswer)
        return answer


class RobotsCache:
    """One for each node; used on the fetch loop's thread."""

    def __init__(self, db_access: DbAccess, agent: str, pool: ExtractionPool) -> None:
        """`agent`: the product token that selects the rules. `pool`: parses large files."""
        self._db_access = db_access
        self._pool = pool
        self._agent = agent
        self._hosts: dict[int, _CachedRobots] = {}
        """By host, in the order in which they were parsed."""
        self._parsing: dict[int, asyncio.Task[HostRobots]] = {}
        self._exempt: dict[int, float] = {}
        self._size = 0
        self._defs_version = 0

    def allows_all(self, host: int, version: int) -> bool:
        """Whether the host's robots.txt is known to allow every URL. False where `rules` must look into the store."""
        if version > self._defs_version:
            return False
        now, cached = time.monotonic(), self._hosts.get(host)
        if host in self._exempt:
            return now - self._exempt[host] < _RECHECK_OFF_SECONDS
        return cached is not None and cached.robots.allows_all and now - cached.checked_at < _RECHECK_SECONDS

    async def rules(self, host: int, version: int) -> HostRobots | None:
        """The robots.txt of a host; None if the defs of that version ignore it.

        Raises RobotsPending, RobotsGuarded.
        """
        if version > self._defs_version:
            self._defs_version = version
            self._exempt.clear()
            for each in self._hosts.values():
                each.checked_at = float("-inf")  # it may no longer apply
        exempt_since = self._exempt.get(host)
        if exempt_since is not None and time.monotonic() - exempt_since < _RECHECK_OFF_SECONDS:
            return None
        cached = self._hosts.get(host)
        if cached is not None and time.monotonic() - cached.checked_at < _RECHECK_SECONDS:
            return cached.robots
        return await self._read(host, cached)

    async def find_refusal(self, host: int, version: int, url: str) -> Refusal | None:
        """Why the URL may not be fetched; None: it may. A large file that takes too long counts as unreadable.

        Raises RobotsPending, RobotsGuarded, ExtractionUnavailable.
        """
        robots = await self.rules(host, version)
        if robots is None:
            return None
        if robots.ask is not None:
            try:
                rule = await robots.ask(url)
                return None if rule is None else Refusal(disallowed_by(rule), by_rule=True)
            except UnreadablePage as error:
                robots = HostRobots(readable=False, problem=str(error))
                if host in self._hosts:
                    self._hosts[host].robots = robots
        reason = robots.refusal(url)
        return None if reason is None else Refusal(reason, by_rule=robots.readable)

    async def parse(self, status: int, text: str) -> HostRobots:
        """As `parse_robots`; a large file is parsed in an extraction process. Raises ExtractionUnavailable."""
        if len(text) <= LARGE_TEXT or not is_readable(status):
            return parse_robots(status, text, self._agent)
        large = LargeRobots(self._pool, text, self._agent)
        try:
            return HostRobots(crawl_delay=await large.read_delay(), ask=large.disallowing_rule)
        except UnreadablePage as error:
            return HostRobots(readable=False, problem=str(error))

    def remember(self, host: int, robots: HostRobots, text: str, fetched_at: float) -> None:
        """Keep a parsed robots.txt that is about to be stored; it counts once it is stored."""
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
        robots = await self._parse_once(host, stored)
        self._keep(host, _CachedRobots(robots, len(stored.text), stored.fetched_at, time.monotonic()))
        return robots

    async def _parse_once(self, host: int, stored: StoredRobots) -> HostRobots:
        """Parse a file, a large one once for all jobs that ask for it meanwhile."""
        if len(stored.text) <= LARGE_TEXT:
            return parse_robots(stored.status, stored.text, self._agent)
        task = self._parsing.get(host)
        if task is None:
            task = asyncio.create_task(self.parse(stored.status, stored.text))
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
