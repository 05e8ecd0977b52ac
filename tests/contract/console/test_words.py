"""Every surface uses the words of docs/glossary.md, and one number for each of them."""

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from crawl_console.cli.main import main
from crawl_console.cli.progress import _line
from crawl_console.crawl.source import PollResult
from crawl_console.crawl.status import status_as_dict
from crawl_console.tui.screens.hosts import HostsTable
from crawl_console.tui.screens.nodes import NodesTable
from crawl_console.tui.widgets.header import Header
from crawl_console.tui.widgets.panels import SequencesTable
from crawl_console.words.node_table import STATE_MARKS
from crawl_engine.model.host import HostPolicy, HostState
from crawl_engine.model.job import JobState
from crawl_engine.model.node import STALE, STATE_WORDS, NodeState, state_word
from crawl_engine.model.run import Eta, HostGroup, Judgement, Stage
from crawl_engine.store.read import snapshot
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import runs
from tests.console.builders import node
from tests.contract.store.harness import Page, StoreHarness, failed, sent
from tests.unit.doc_pages import ROOT, prose, section, table

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
STATES = {row[0].strip("*"): re.findall(r"[A-Z]{4,}", row[1]) for row in table(section(GLOSSARY, "States of a node"))}


def test_the_states_of_a_node_are_those_of_the_glossary() -> None:
    by_word: dict[str, list[str]] = {STALE: ["ARRHYTHMIA"]}
    for state, word in STATE_WORDS.items():
        by_word.setdefault(word, []).append(state)
    assert by_word == STATES
    assert set(STATE_WORDS) == set(NodeState)
    assert set(STATE_MARKS) == set(STATES)


@pytest.mark.parametrize(
    ("state", "heart", "word"),
    [
        ("READY", "ARRHYTHMIA", "stale"), ("DRAINING", "ARRHYTHMIA", "stale"), ("DEAD", "ARRHYTHMIA", "dead"),
        ("DONE", "HEALTHY", "done"), ("STANDBY", "NEWBORN", "standby"), ("SHUTDOWN", "APPARENT_DEATH", "stopping"),
    ],
)  # fmt: skip
def test_a_live_node_whose_beat_is_late_is_stale(state: str, heart: str, word: str) -> None:
    assert state_word(state, heart) == word


def test_a_node_that_works_is_ready_between_two_jobs() -> None:
    assert [node(1, "DONE", in_flight=held, jobs_per_s=rate).word for held, rate in ((1, 0.0), (0, 0.3), (0, 0.0))] == [
        "ready", "ready", "done",
    ]  # fmt: skip


def test_tables_head_their_columns_with_these_words() -> None:
    tables = [NodesTable, HostsTable, SequencesTable]
    titles = {table.__name__: {column.title for column in table.COLUMNS} for table in tables}
    assert {"STATE", "FAILED", "HELD"} <= titles["NodesTable"]
    assert {"BAD%", "BLOCKED", "WAITING"} <= titles["HostsTable"]
    assert {"LEFT", "HELD"} <= titles["SequencesTable"], "its jobs are held; only hosts know which are running"
    assert not any("ERR" in title for of_table in titles.values() for title in of_table)


def test_no_page_calls_a_node_idle() -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in ("decisions", "develop")]
    for page in (path for path in pages if path.name != "performance.md"):
        text = re.sub(r"`[^`\n]*`", "", prose(page.read_text("utf-8")))  # `idle` is a word of the defs
        assert not re.search(r"\bidle\b", text), page.name


@pytest.fixture
def counted(tmp_path: Path) -> StoreHarness:
    """A host with two places: five pages are taken; it gave bad answers, one of them blocked, and links are gone."""
    store = StoreHarness(tmp_path, policies={"a:80": HostPolicy(0.0, 2, False), "b:80": HostPolicy(0.0, 8, False)})
    store.seed("http://a/0", "http://a/missing", "http://b/1")
    home, missing = store.take("http://a/")
    store.commit(store.done(home, links=[Page(f"http://a/{number}") for number in range(1, 9)]))
    first, second = store.take("http://a/", free=2)
    gone = HostFailure(failed=False, gone=True)
    refused = JobOutcome(job=second, state=JobState.READY, attempts=1, stats=sent(responses=1, blocked=True))
    store.commit(
        JobOutcome(job=missing, state=JobState.FAILED, attempts=1, stats=sent(), effects=(gone,)),
        JobOutcome(job=first, state=JobState.SKIPPED, attempts=1, stats=sent(), effects=(gone,)),
        refused,
    )
    (failing,) = store.take("http://a/", free=1)
    store.commit(failed(failing))
    with store.db.transaction():
        store.db.execute("UPDATE hosts SET concurrency = 8 WHERE key = 'a:80'")
    assert len(store.take("http://a/", free=5)) == 5
    with store.db.transaction():
        store.db.execute("UPDATE hosts SET concurrency = 2 WHERE key = 'a:80'")
    assert len(store.take("http://b/")) == 1
    return store


def test_every_surface_has_the_same_counts(
    counted: StoreHarness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = snapshot.read(counted.db)
    a, b = sorted(view.hosts, key=lambda host: host.host)
    assert (a.bad_answers, a.blocked, a.gone, a.running) == (3, 1, 1, 2), "one page of a locator is missing"
    assert (view.bad_answers, view.blocked, view.gone, view.running) == (3, 1, 1, a.running + b.running)
    assert view.running == 3
    assert view.running + view.waiting == view.jobs["ready"] + view.jobs["taken"]

    report: dict[str, Any] = status_as_dict(view)
    assert [report[name] for name in ("running", "bad_answers", "blocked", "gone")] == [3, 3, 1, 1]
    assert [host["running"] for host in report["hosts"]] == [2, 1]
    assert f" {view.running} running, {view.waiting} waiting" in _line(view, 0.0)
    header = Header()
    header.last_poll = PollResult(1.0, 0.0, view, 1)
    drawn = "".join(text for text, _ in header._progress_line(200))
    assert f"  bad answers {3 / 5:.1%}  blocked 1  running 3 " in drawn

    monkeypatch.setattr("crawl_console.client.supervisor_pid", lambda _view: 1)
    with pytest.raises(SystemExit):
        main(["status", "--data", str(counted.folder)])
    assert "3 running; answers: 3 bad (1 blocked), 1 gone\n" in capsys.readouterr().out
    monkeypatch.undo()
    with pytest.raises(SystemExit):
        main(["status", "--json", "--data", str(counted.folder)])
    lost = json.loads(capsys.readouterr().out)
    assert lost["running"] == sum(host["running"] for host in lost["hosts"]) == 0, "its supervisor is gone"


def test_every_surface_says_the_same_of_hosts_and_rates(
    counted: StoreHarness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = (HostGroup(HostState.OK, 1, ("a:80",)), HostGroup(HostState.UNASKED, 2, ("b:80", "c:80")))
    rates = Judgement(7.5, 3.0, nodes={"n1": 7.5}, hosts=groups, share=0.4)
    with counted.db.transaction():
        runs.add_time(counted.db, counted.run, 1.0, rates, Eta(60.0, "a:80", exact=False, paused=4))
    view = snapshot.read(counted.db)
    assert view.run is not None
    view = replace(view, run=replace(view.run, stage=Stage.RUNNING))
    header = Header()
    header.last_poll = PollResult(1.0, 0.0, view, 1)
    health = "".join(text for text, _ in header._health_line(120))
    progress = "".join(text for text, _ in header._progress_line(200))
    assert " ● 1 host ok  · 2 not asked: b:80, c:80 " in health
    assert "  7.5 pg/s  3.0 rows/s" in progress
    assert "ETA ≥ 1:00 a; without 4 paused pages" in progress
    assert [node.jobs_per_s for node in view.nodes] == [7.5]
    monkeypatch.setattr("crawl_console.client.supervisor_pid", lambda _view: 1)
    report = json.loads(orjson.dumps(status_as_dict(view)))
    assert report["rates"]["pages_per_s"] == 7.5
    assert report["host_states"] == {
        "ok": {"count": 1, "names": ["a:80"]}, "unasked": {"count": 2, "names": ["b:80", "c:80"]}
    }  # fmt: skip
    assert (report["progress"]["share"], report["progress"]["exact"], report["eta"]["paused"]) == (0.4, False, 4)
    with pytest.raises(SystemExit):
        main(["status", "--data", str(counted.folder)])
    out = capsys.readouterr().out
    assert "hosts: 1 ok; 2 not asked: b:80, c:80\n" in out
    assert "without 4 paused pages" in out
