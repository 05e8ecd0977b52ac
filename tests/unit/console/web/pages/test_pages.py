"""The pages of `serve` without a browser: what they say, what they escape, their filters, parts and charts."""

import html
import re
import warnings

import pytest
from msgspec.structs import replace

from crawl_console.format import format_count
from crawl_console.words.run_line import run_state_span
from crawl_engine.model.host import HostState
from crawl_engine.model.run import Alarm, Eta, Judgement
from crawl_engine.store.read.failures import FailureGroup
from crawl_engine.store.read.snapshot import EMPTY_SNAPSHOT
from crawl_engine.store.tables.run.events import Event
from tests.console.builders import AT, group, host, line, node, output, run

pytest.importorskip("prometheus_client", reason="the extra serve is missing")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette prefers another client than the one that is installed


from tests.unit.console.web.pages.served import EVIL, PATHS, REST, Served, Source, situation

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
    from crawl_console.words.run_line import progress_parts, run_parts

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


def test_a_crawl_without_a_run_has_all_pages() -> None:
    source = Source()
    source.current, source.reports = EMPTY_SNAPSHOT, []
    served = Served(source, live=False)
    for path in PATHS:
        if "job?" not in path:
            assert "<main" in served.get(path)
    assert "no run yet" in served.words("/crawl")


def test_a_browser_gets_a_page_for_what_is_not_there_and_a_script_json() -> None:
    client = Served(situation()).client
    page = client.get("/nothing", headers={"Accept": "text/html"})
    assert (page.status_code, "there is no such page" in page.text, "<main" in page.text) == (404, True, True)
    assert client.get("/nothing", headers={"Accept": "*/*"}).json() == {"error": "Not Found", "remedy": ""}


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
