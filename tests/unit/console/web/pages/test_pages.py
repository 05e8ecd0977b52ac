"""The pages of `serve` without a browser: what they say, what they escape, their filters, parts and charts."""

import asyncio
import html
import re
import time
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from console.crawl.source import PollResult
from console.crawl.status import line_of, status_as_dict
from console.format import format_count
from console.sanitize import clean
from console.words.run_line import run_state_span
from engine.model.host import HostState
from engine.model.run import Alarm, Eta, Judgement
from engine.store.read.event_search import EventListing
from engine.store.read.failures import FailureGroup
from engine.store.read.snapshot import EMPTY_SNAPSHOT
from engine.store.tables.run.events import Event, EventLine
from tests.console.builders import AT, group, host, line, node, output, run, samples, snapshot
from tests.console.fakes import FakeSource

pytest.importorskip("prometheus_client", reason="the extra serve is missing")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette prefers another client than the one that is installed
    from starlette.testclient import TestClient

from console.web import control
from console.web.access import Access
from console.web.app import create_app
from console.web.given import GivenOrders
from console.web.pages import forms
from console.web.watch import Crawls, CrawlView

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
        lines = [EventLine(*one) for one in self.lines if one[0] < before and event_filter.accepts(one[1].text)]
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
SITUATIONS = {
    "busy": {},
    "paused": {"run": run(paused="operator", eta=Eta(None, "paused"))},
    "rest": {"run": run(judgement=Judgement(3.0, 9.0, hosts=(group("ok", 7), group("resting", 1, "img.example:443")))),
             "alarms": [REST]},
    "silent": {"run": run(eta=Eta(None, "a:80", reason="a:80 silent 24 s")),
               "hosts": [host("a:80", state=HostState.SILENT, silent=24.0)]},
    "many": {"jobs": {"done": 1_234_567, "failed": 1_000, "skipped": 0, "incomplete": 0, "ready": 99_999, "taken": 9}},
    "behind": {"appenders": [output(backlog=10_001, error="No space left on device")]},
    "seen": {"acknowledged": frozenset({REST.key}), "alarms": [REST]},
    "done": {"run": run(state="DONE", stage="SHUTDOWN_COMPLETE")},
    "killed": {"run": run(state="KILLED", stage="SHUTDOWN_COMPLETE", reason="killed")},
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_page_has_the_numbers_and_words_of_status(name: str) -> None:
    source = situation(**SITUATIONS[name])
    live = name not in ("done", "killed")
    served = Served(source, live=live)
    status, words = served.view.status, served.words("/crawl")
    assert status["run"] in words
    for alarm in status["alarms"]:
        assert alarm["text"] in words
    for one in status["nodes"]:
        if one["state"] not in ("DEAD", "TERMINATED"):
            assert f"{one['id']} " in words
            assert format_count(one["done"]) in words
    for one in status["appenders"]:
        assert f"{one['name']} {format_count(one['rows'])}" in words
    for data_def, counts in status["rejected"].items():
        assert f"{data_def}: {counts:,} rejected" in words
    hosts = served.words("/crawl/hosts")
    for one in status["hosts"]:
        assert one["host"] in hosts
        assert format_count(one["pages"]) in hosts
    assert f"{sum(status['jobs'][key] for key in ('done', 'failed', 'skipped')):,} / " in words
    assert f"Failed {format_count(status['jobs']['failed'])}" in words
    assert run_state_span(served.view.poll)[0] in words
    assert served.client.get("/status.json").json()["jobs"] == status["jobs"]


def test_the_head_is_the_one_of_the_console() -> None:
    from console.words.run_line import progress_parts, run_parts

    served = Served(situation())
    words = served.words("/crawl")
    for parts in (run_parts(served.view.poll), progress_parts(served.view.poll, 10_000)):
        line_ = "".join(text for _, spans in parts for text, _ in spans)
        assert " ".join(line_.split()) in words


@pytest.mark.parametrize("path", PATHS)
def test_text_of_crawled_sites_is_harmless_in_every_place(path: str) -> None:
    name = "shop<script>alert(1)</script>"
    source = situation(
        run=run(reason=EVIL), alarms=[Alarm("x", EVIL, host=EVIL)], hosts=[host(EVIL)],
        nodes=[node(1, now=f"http://a/{EVIL}"), node(2, "DEAD", reason=EVIL, pid=None)],
        rows={EVIL: 3}, rejected={EVIL: 3}, appenders=[output(EVIL, error=EVIL)], paused_names=(EVIL,),
    )  # fmt: skip
    source.current = replace(source.current, data_defs={EVIL: source.current.data_defs["book"]})
    source.lines = [(1, Event(AT, "ERROR", EVIL, "page", EVIL, 2))]
    source.jobs_ = [line(2, "FAILED", url=f"http://a/{EVIL}", reason=EVIL, group=EVIL, host=EVIL)]
    source.page_text = f"<title>{EVIL}</title>\n<img src=x onerror=alert(1)>\n</pre>".encode()
    source.failure_groups = lambda run: [FailureGroup(EVIL, EVIL, 3, (EVIL,))]  # type: ignore[method-assign]
    for is_controlled in (False, True):
        text = Served(source, name, control=is_controlled).get(path)
        assert text.count("<script") == 1, "that of the page alone"
        assert "alert(1)</script>" not in text
        assert not re.search(r"<img|onerror=[^&]*>|javascript:", text.replace("&lt;img src=x onerror=alert(1)&gt;", ""))
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
        assert " style=" not in text
        assert not re.search(r"\son\w+=", re.sub(r"&lt;.*?&gt;", "", text))
        assert "shop&lt;script&gt;" in text


def test_the_body_of_a_page_is_text_to_save() -> None:
    answer = Served(situation()).client.get("/crawl/body?id=1")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_a_long_body_is_cut() -> None:
    source = situation()
    source.page_text = b"x" * 300_000
    text = Served(source).get("/crawl/job?id=1")
    assert text.count("x") < 201_000
    assert "the first 200,000 bytes only" in text


def test_hosts_come_in_parts_and_are_filtered() -> None:
    source = situation()
    source.hosts = [host(f"h{number}.example:80") for number in range(120)]
    served = Served(source)
    first = served.words("/crawl/hosts")
    assert "1–50 of 120" in first
    assert "Before" not in first
    last = served.get("/crawl/hosts?page=2")
    assert "101–120 of 120" in last
    assert "Next" not in last
    assert "1–11 of 11" in served.words("/crawl/hosts?filter=h11")
    assert "page=1" in served.get("/crawl/hosts?filter=example")
    assert "no hosts yet" in served.words("/crawl/hosts?page=99999999999999999999999&filter=nothing")


@pytest.mark.parametrize("page", ["hosts", "jobs", "log"])
@pytest.mark.parametrize("text", ["stat:x", '"open', "(", "host:", "!"])
def test_a_wrong_filter_is_told_beside_it(page: str, text: str) -> None:
    shown = Served(situation()).get(f"/crawl/{page}?filter={text}")
    assert 'role="alert"' in shown
    assert f'value="{html.escape(text, quote=True).replace("&quot;", "&#34;")}"' in shown


@pytest.mark.parametrize("path", PATHS)
def test_there_are_no_orders_without_control(path: str) -> None:
    served = Served(situation())
    assert "/orders/" not in served.get(path)
    assert "/ask/" not in served.get(path)
    assert served.client.post("/orders/pause").status_code == 404
    assert served.client.get("/ask/kill").status_code == 404


def test_what_cannot_be_undone_is_asked_in_the_words_of_the_console() -> None:
    served = Served(situation(), control=True)
    kill = served.words("/ask/kill?node=n1")
    assert "Kill 1 node" in kill
    assert "8 jobs in flight are lost; other nodes run them again." in kill
    assert "No, go back" in kill
    assert "16 jobs in flight may finish within the grace time." in served.words("/ask/cancel")
    assert "1 job that match state:failed become READY again" in served.words("/ask/retry")
    for name in ("cancel", "kill", "retry"):
        answer = served.client.post(f"/orders/{name}", data={})
        assert (answer.status_code, answer.url.path) == (200, f"/ask/{name}")
        assert 'name="sure" value="yes"' in answer.text, "asked, and not done"
    assert served.client.post("/orders/nothing", data={}).status_code == 400
    assert served.client.get("/orders/kill").status_code == 405


async def give_twice(served: Served, path: str, fields: dict[str, str]) -> list[Any]:
    """Two browsers post the same form at once."""
    transport = httpx.ASGITransport(served.client.app)  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        return await asyncio.gather(*(client.post(path, data=fields) for _ in range(2)))


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Orders that were carried out."""
    given: list[Any] = []

    def carry_out(name: str, _watch: Any, arguments: dict[str, Any], by: str) -> tuple[int, dict[str, Any]]:
        time.sleep(0.05)  # long enough for another one to come meanwhile
        given.append((name, arguments))
        if name == "drain":
            return 409, {"ok": False, "text": "n1 is the last runner"}
        return 200, {"ok": True, "text": f"done for the {len(given)}. time"}

    names = ("pause", "resume", "kill", "scale", "drain")
    monkeypatch.setattr(forms, "ORDERS", {name: partial(carry_out, name) for name in names})
    monkeypatch.setattr(control, "open_latest_run", lambda _: nullcontext((None, SimpleNamespace(id="3f2a"))))
    return given


def fields_of(text: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that gives an order."""
    form = re.findall(rf'<form method="post"[^>]* action="/orders/{action}\?.*?</form>', text, re.DOTALL)[0]
    return {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}


def test_an_order_leads_back_to_its_page_which_says_what_came_of_it(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    fields = fields_of(served.get("/crawl/hosts?filter=img") + served.get("/crawl?x=1"), "pause")
    answer = served.client.post("/orders/pause?data=shop", data=fields)
    assert [one.status_code for one in answer.history] == [303]
    assert (answer.status_code, answer.url.path, answer.url.params["x"]) == (200, "/crawl", "1")
    assert re.search(r"✓ pause: done for the 1\. time .*web testclient, \d\d:\d\d:\d\d", answer.text)
    again = served.client.get(answer.url)
    assert "done for the 1. time" in again.text, "F5 asks for the page, and gives no order"
    assert orders == [("pause", {})]
    undo = fields_of(answer.text, "resume")
    for _ in range(2):
        taken_back = served.client.post("/orders/resume?data=shop", data=undo)
    assert orders == [("pause", {}), ("resume", {})], "two browsers take it back once"
    assert "done for the 2. time" in taken_back.text
    said = served.client.get(answer.url).text.partition('id="said-order"')[2].partition("</div>")[0]
    assert "done for the 1. time" in said
    assert "<form" not in said


async def test_a_form_that_is_sent_twice_at_once_counts_once(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    fields = fields_of(served.get("/crawl"), "scale") | {"count": "3"}
    answers = await give_twice(served, "/orders/scale?data=shop", fields)
    assert [one.status_code for one in answers] == [303, 303]
    assert orders == [("scale", {"count": 3})]
    assert len({one.headers["location"] for one in answers}) == 1
    await give_twice(served, "/orders/scale?data=shop", fields | {"count": "4"})
    assert orders[1:] == [("scale", {"count": 4})], "another order of the same page is another order"


def test_an_order_about_an_earlier_run_is_refused(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    fields = fields_of(served.get("/ask/kill"), "kill")
    assert fields["run"] == "3f2a"
    told = served.client.post("/orders/kill?data=shop", data={**fields, "run": "0000", "key": "x"}).text
    assert "nothing was done: the server was started again since" in told
    key = fields_of(served.get("/ask/kill"), "kill")["key"]
    told = served.client.post("/orders/kill?data=shop", data={**fields, "run": "0000", "key": key}).text
    assert "✗ kill: nothing was done: the order was about run 0000. Now it is run 3f2a." in html.unescape(told)
    assert orders == []


def test_an_order_that_is_refused_is_told_where_it_was_given(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    answer = served.client.post("/orders/drain?data=shop", data=fields_of(served.get("/crawl"), "drain"))
    assert (answer.status_code, answer.url.path) == (200, "/crawl")
    assert '<div id="said-order" class="given bad" role="alert">' in answer.text
    assert "✗ drain: n1 is the last runner" in answer.text


def test_the_way_back_stays_on_this_server() -> None:
    served = Served(situation(), control=True)
    for path in ("http://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"):
        assert "evil" not in served.get(f"/ask/kill?back={path}")
        assert "javascript:" not in served.get(f"/ask/kill?back={path}")


def test_plots_are_svg_and_say_what_they_show() -> None:
    source = situation()
    source.samples_ = samples()
    served = Served(source, live=False)
    text = served.get("/crawl/plots")
    assert text.count("<svg viewBox") >= 4
    assert 'aria-label="Queue: at the end 841, top 900, the whole run, 4m55' in text
    for path in re.findall(r' d="([^"]*)"', text):
        assert re.fullmatch(r"[MLHZ0-9. ]*", path)
    assert "NaN" not in text
    assert 'class="area good c2xx"' in text
    empty = Served(situation()).get("/crawl/plots")
    assert empty.count("<svg viewBox") >= 4, "without samples there are empty charts"


def test_a_crawl_without_a_run_has_all_pages() -> None:
    source = Source()
    source.current, source.reports = EMPTY_SNAPSHOT, []
    served = Served(source, live=False)
    for path in PATHS:
        if "job?" not in path:
            assert "<main" in served.get(path)
    assert "no run yet" in served.words("/crawl")


def test_one_that_cannot_be_read_says_why() -> None:
    served = Served(situation())
    served.view = replace(served.view, error=f"the file is damaged {EVIL}")
    assert f"cannot be read: the file is damaged {clean(EVIL)}" in served.words("/crawl")
    assert "✗ the file is damaged" in served.words("/")


def test_what_is_not_there_is_told_on_a_page() -> None:
    served = Served(situation())
    assert "no data directory" in served.get("/crawl?data=nothing", 400)
    assert "there is no job 77" in served.get("/crawl/job?id=77", 400)


def test_tables_have_captions_and_headings() -> None:
    text = Served(situation(), control=True).get("/crawl")
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    assert len(tables) >= 7
    for table in tables:
        assert "<caption" in table
        assert "<thead" not in table or 'scope="col"' in table
        assert all(
            'scope="row"' in one or 'data-key="none"' in one for one in re.findall(r"<tr data-key.*?</tr>", table)
        )
    assert text.count("<h1") == 1
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
