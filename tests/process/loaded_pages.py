"""Pages that a browser loads for a test, without a crawl: the pool, the proxy and the loader of a node."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crawl_engine.browser.browsers import BrowserPool
from crawl_engine.browser.far_ends import HostAccess
from crawl_engine.browser.loader import BrowserLoader
from crawl_engine.browser.messages import Verdict
from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.request import build_request
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import HostRoute, TlsRule
from crawl_engine.model.job import Request
from crawl_engine.model.step import BrowserRule
from crawl_engine.processes.launcher import OwnTemplate
from crawl_engine.settings import Settings


class OpenRules:
    """Servers on loopback may be reached; nothing is disallowed."""

    def __init__(self, *, verify: bool) -> None:
        self._route = HostRoute(tls=TlsRule(verify=verify))

    def find_access(self, host_key: str) -> HostAccess:
        return HostAccess(host_key.startswith(("127.0.0.1:", "localhost:")), self._route)

    async def judge_document(self, url: str) -> Verdict:
        return Verdict()

    async def judge_part(self, url: str) -> Verdict:
        return Verdict(is_for_host=True)


class PageLoads:
    """One browser, and all that a node has for it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.settings = Settings(**{"browser_sandbox": os.geteuid() != 0, "deadline": 25.0, **settings})
        self._runner = asyncio.Runner()
        self._template = OwnTemplate(["crawl_engine.browser.chromium"], folder)
        self._runner.run(self._open())

    async def _open(self) -> None:
        self.pool = BrowserPool(self._template, self.settings, self.folder, "n1")
        self._fetcher = Fetcher.from_settings(self.settings, connections=2)
        self._loader = BrowserLoader(self.pool, self._fetcher, self.settings)
        self._budget = ByteBudget(capacity=4 * self.settings.max_body, largest=self.settings.max_body)

    def load(self, *urls: str, verify: bool = True, **rule: Any) -> list[FetchResponse | FetchFailed]:
        """What each page becomes, loaded at once; a failure stands for itself."""
        return self._runner.run(self._load_all(urls, BrowserRule(**rule), OpenRules(verify=verify)))

    def load_beside_one_given_up(self, url: str, other: str, **rule: Any) -> FetchResponse | FetchFailed:
        """What a page becomes while another one in its browser is given up."""

        async def load() -> FetchResponse | FetchFailed:
            rules = OpenRules(verify=True)
            first, second = [asyncio.create_task(self._load(one, BrowserRule(**rule), rules)) for one in (url, other)]
            await asyncio.sleep(1.5)
            second.cancel()
            return await first

        return self._runner.run(load())

    async def _load_all(
        self, urls: tuple[str, ...], rule: BrowserRule, rules: OpenRules
    ) -> list[FetchResponse | FetchFailed]:
        return await asyncio.gather(*[self._load(url, rule, rules) for url in urls])

    async def _load(self, url: str, rule: BrowserRule, rules: OpenRules) -> FetchResponse | FetchFailed:
        async def admit() -> None:
            pass

        request = build_request(url, Request(in_browser=True), {}, {}, from_defs=False)
        share = self._budget.open_share()
        try:
            return await self._loader.load(rule, url, request, share, admit=admit, rules=rules, sends_cookies=True)
        except FetchFailed as failure:
            return failure
        finally:
            share.release()

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()
        self._template.close()

    async def _close(self) -> None:
        await self._loader.aclose()
        await self._fetcher.aclose()


@contextmanager
def page_loads(folder: Path, **settings: Any) -> Iterator[PageLoads]:
    loads = PageLoads(folder, **settings)
    try:
        yield loads
    finally:
        loads.close()
