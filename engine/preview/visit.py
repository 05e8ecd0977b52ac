"""One page fetched by hand: as a node would, redirects followed and robots.txt asked first. Queues and stores nothing.

A crawl spreads the hops of a page over leases, whose clocks keep its manners; here one operator waits for one page.
"""

import asyncio
from dataclasses import replace

from engine import urls
from engine.errors import NoPage
from engine.fetch.client import Fetcher
from engine.fetch.decode import decode
from engine.fetch.errors import FetchFailed
from engine.fetch.host_policy import manners_of, rule_for
from engine.fetch.redirects import next_hop
from engine.fetch.response import Answer
from engine.fetch.robots import LARGEST, RobotsRules, rules_for
from engine.model.definition import Definitions
from engine.model.job import Request
from engine.model.job_key import document_key
from engine.settings import Settings

_ROBOTS_HOPS = 5


def visit(url: str, definitions: Definitions, settings: Settings) -> Answer:
    """Fetch a page, at whatever status it ends; the answer's `url` is the final one, without credentials.

    Host rules of the defs hold: headers, cookies, and whether robots.txt counts. Raises NoPage.
    """
    start = urls.normalize(url)
    if start is None:
        raise NoPage(f"{urls.without_credentials(url)}: not an http or https URL", "Write all of it: https://…")
    return asyncio.run(_Visit(definitions, settings).to(start))


class _Visit:
    def __init__(self, definitions: Definitions, settings: Settings) -> None:
        self._definitions = definitions
        self._settings = settings
        self._fetcher = Fetcher.of(settings, connections=2)
        self._rules: dict[str, tuple[int, RobotsRules] | None] = {}

    async def to(self, url: str) -> Answer:
        try:
            return await self._followed(url)
        except FetchFailed as failure:
            where = urls.without_credentials(url)
            raise NoPage(f"{where}: {failure.reason}", failure.remedy or "Try again, or give a file.") from failure
        finally:
            await self._fetcher.aclose()

    async def _followed(self, url: str) -> Answer:
        request, begun = Request(), 0.0
        seen = {document_key(url, request.method, request.body)}
        for _ in range(self._settings.max_redirects + 1):
            await self._ask_robots(url)
            answer = await self._send(url, request)
            begun += answer.elapsed
            if answer.location is None:
                if answer.location_problem:
                    raise NoPage(f"{answer.url}: {answer.location_problem}", "The site must mend that.")
                return replace(answer, elapsed=begun)
            request = next_hop(request, answer.status, url, answer.location)
            url = answer.location
            key = document_key(url, request.method, request.body)
            if key in seen:
                raise NoPage(f"{urls.without_credentials(url)}: redirects in a circle", "The site must mend that.")
            seen.add(key)
        raise NoPage(
            f"{urls.without_credentials(url)}: more than {self._settings.max_redirects} redirects",
            "Raise it with --set max_redirects=N.",
        )

    async def _ask_robots(self, url: str) -> None:
        key = urls.host_key(url)
        if not manners_of(self._definitions, self._settings, key).robots:
            return
        if key not in self._rules:
            self._rules[key] = await self._robots_of(urls.origin(url))
        told = self._rules[key]
        if told is None or told[1].allowed(url, self._settings.user_agent):
            return
        why = f"robots.txt answered {told[0]}" if told[0] >= 500 else "robots.txt disallows it"
        raise NoPage(
            f"{urls.without_credentials(url)}: {why}",
            "A crawl would skip it. If the site is yours, use --set robots=false, or `robots: false` in `hosts`.",
        )

    async def _robots_of(self, origin: str) -> tuple[int, RobotsRules] | None:
        """Status and rules; None: it cannot be had, which allows everything, as in a crawl."""
        url = f"{origin}/robots.txt"
        try:
            for _ in range(_ROBOTS_HOPS + 1):
                answer = await self._send(url, Request())
                if answer.location is None:
                    break
                url = answer.location
        except FetchFailed:
            return None
        text = decode(answer.body[:LARGEST], "text/plain; charset=utf-8").text if answer.status < 300 else ""
        return answer.status, rules_for(answer.status, text)

    async def _send(self, url: str, request: Request) -> Answer:
        rule = rule_for(self._definitions, urls.host_key(url))
        return await self._fetcher.send(url, request, headers=rule.headers, cookies=rule.cookies, url_from_defs=True)
