"""One page fetched by hand: as a node would, redirects followed and robots.txt asked first. Queues and stores nothing.

A crawl spreads the hops of a page over leases, whose clocks keep its manners; here one operator waits for one page.
"""

import asyncio
from dataclasses import replace

from engine import urls
from engine.errors import PageUnavailable
from engine.fetch.client import Fetcher
from engine.fetch.decode import decode
from engine.fetch.errors import FetchFailed
from engine.fetch.host_policy import host_rule_for, resolve_host_policy
from engine.fetch.redirects import build_redirect_request
from engine.fetch.response import FetchResponse
from engine.fetch.robots import MAX_ROBOTS_BYTES, RobotsRules, robots_rules_for
from engine.model.definition import Definitions
from engine.model.job import Request
from engine.model.job_key import document_key
from engine.settings import Settings

_MAX_ROBOTS_REDIRECTS = 5


def fetch_page(url: str, definitions: Definitions, settings: Settings) -> FetchResponse:
    """Fetch a page, at whatever status it ends; the answer's `url` is the final one, without credentials.

    Host rules of the defs hold: headers, cookies, and whether robots.txt counts. Raises NoPage.
    """
    start = urls.normalize(url)
    if start is None:
        raise PageUnavailable(
            f"{urls.without_credentials(url)}: not an http or https URL", "Write all of it: https://…"
        )
    return asyncio.run(_PageFetch(definitions, settings).fetch(start))


class _PageFetch:
    def __init__(self, definitions: Definitions, settings: Settings) -> None:
        self._definitions = definitions
        self._settings = settings
        self._fetcher = Fetcher.from_settings(settings, connections=2)
        self._rules: dict[str, tuple[int, RobotsRules] | None] = {}

    async def fetch(self, url: str) -> FetchResponse:
        try:
            return await self._follow_redirects(url)
        except FetchFailed as failure:
            where = urls.without_credentials(url)
            raise PageUnavailable(
                f"{where}: {failure.reason}", failure.remedy or "Try again, or give a file."
            ) from failure
        finally:
            await self._fetcher.aclose()

    async def _follow_redirects(self, url: str) -> FetchResponse:
        request, begun = Request(), 0.0
        seen = {document_key(url, request.method, request.body)}
        for _ in range(self._settings.max_redirects + 1):
            await self._check_robots(url)
            answer = await self._send(url, request)
            begun += answer.elapsed
            if answer.location is None:
                if answer.location_problem:
                    raise PageUnavailable(f"{answer.url}: {answer.location_problem}", "The site must mend that.")
                return replace(answer, elapsed=begun)
            request = build_redirect_request(request, answer.status, url, answer.location)
            url = answer.location
            key = document_key(url, request.method, request.body)
            if key in seen:
                raise PageUnavailable(
                    f"{urls.without_credentials(url)}: redirects in a circle", "The site must mend that."
                )
            seen.add(key)
        raise PageUnavailable(
            f"{urls.without_credentials(url)}: more than {self._settings.max_redirects} redirects",
            "Raise it with --set max_redirects=N.",
        )

    async def _check_robots(self, url: str) -> None:
        key = urls.host_key(url)
        if not resolve_host_policy(self._definitions, self._settings, key).robots:
            return
        if key not in self._rules:
            self._rules[key] = await self._fetch_robots(urls.origin(url))
        told = self._rules[key]
        if told is None or told[1].allowed(url, self._settings.user_agent):
            return
        why = f"robots.txt answered {told[0]}" if told[0] >= 500 else "robots.txt disallows it"
        raise PageUnavailable(
            f"{urls.without_credentials(url)}: {why}",
            "A crawl would skip it. If the site is yours, use --set robots=false, or `robots: false` in `hosts`.",
        )

    async def _fetch_robots(self, origin: str) -> tuple[int, RobotsRules] | None:
        """Status and rules; None: it cannot be had, which allows everything, as in a crawl."""
        url = f"{origin}/robots.txt"
        try:
            for _ in range(_MAX_ROBOTS_REDIRECTS + 1):
                answer = await self._send(url, Request())
                if answer.location is None:
                    break
                url = answer.location
        except FetchFailed:
            return None
        text = decode(answer.body[:MAX_ROBOTS_BYTES], "text/plain; charset=utf-8").text if answer.status < 300 else ""
        return answer.status, robots_rules_for(answer.status, text)

    async def _send(self, url: str, request: Request) -> FetchResponse:
        rule = host_rule_for(self._definitions, urls.host_key(url))
        return await self._fetcher.send(url, request, headers=rule.headers, cookies=rule.cookies, url_from_defs=True)
