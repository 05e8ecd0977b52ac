"""An application that serves a source of tests, without a socket."""

import html
import re
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crawl_console.crawl.source import PollResult
from crawl_console.crawl.status import line_of, status_as_dict
from crawl_engine.model.run import Alarm
from crawl_engine.store.read.event_search import EventListing
from crawl_engine.store.tables.run.events import EventLine
from tests.console.builders import snapshot
from tests.console.fakes import FakeSource

pytest.importorskip("prometheus_client", reason="the extra serve is missing")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette prefers another client than the one that is installed
    from starlette.testclient import TestClient

from crawl_console.web.access import Access
from crawl_console.web.app import create_app
from crawl_console.web.given import GivenOrders
from crawl_console.web.watch import Crawls, CrawlView

TOKEN = "t" * 20
EVIL = "<script>alert(1)</script>\x1b]52;c;x\x07\u202etxt.exe[/b]\"'"
PATHS = ("/crawl", "/crawl/jobs", "/crawl/hosts", "/crawl/failed", "/crawl/log", "/crawl/plots", "/crawl/runs",
         "/crawl/job?id=2", "/")  # fmt: skip


class Source(FakeSource):
    """With what only the web asks."""

    hosts: list[Any] = []  # noqa: RUF012

    def find_hosts(self, run: int, host_filter: Any, offset: int, limit: int) -> Any:
        found = [one for one in self.hosts or self.current.hosts if host_filter.accepts(one.host)]
        return found[offset : offset + limit], len(found)

    def listed_events(self, run: int, event_filter: Any, before: int, limit: int) -> EventListing:
        levels = event_filter.levels.include
        lines = [
            EventLine(*one)
            for one in self.lines
            if one[0] < before and event_filter.accepts(one[1].text) and (not levels or one[1].level in levels)
        ]
        return EventListing(tuple(lines[-limit:]), lines[-limit].id if len(lines) > limit else None)

    def count_jobs(self, run: int, job_filter: Any) -> int:
        return len(self.matching(job_filter))


class Served:
    """An application that serves one source."""

    def __init__(self, source: Source, name: str = "shop", *, live: bool = True, control: bool = False) -> None:
        shown, data = source.current, Path("/data/shop")
        poll = PollResult(0.0, 0.0, shown, 4121 if live else None, page_rates=[1.0, 2.0, 3.0])
        self.view = CrawlView(
            name,
            name,
            data,
            1,
            time.monotonic(),
            poll,
            line=line_of(data, shown, None, None),
            status=status_as_dict(shown),
        )

        async def current() -> CrawlView:
            return self.view

        async def ask(question: Any) -> Any:
            return question(source)

        watch: Any = SimpleNamespace(
            name=name, data=data, current=current, ask=ask, given=GivenOrders(), expire=lambda: None
        )
        app = create_app(Crawls({name: watch}, control), Access(lambda: TOKEN, 80))
        self.client = TestClient(app, base_url="http://localhost", headers={"Authorization": f"Bearer {TOKEN}"})

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == status, answer.text
        return answer.text

    def words(self, path: str) -> str:
        """The text of a page as it is read, its white space folded."""
        text = re.sub(r"<(?!/?(?:span|b)\b)[^>]*>", " ", self.get(path).partition("<body")[2])
        return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def situation(**changes: Any) -> Source:
    source = Source()
    source.current = snapshot(**changes)
    return source


REST = Alarm("host-resting", "img.example:443 rests 24 s after HTTP 429", host="img.example:443")
