"""What a look shows, and what it costs: the nodes and the shown rows, never the jobs."""

import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec.structs import asdict, replace

from crawl_console.client import end_orphans
from crawl_console.crawl.status import status_as_dict
from crawl_engine.judge import summary
from crawl_engine.judge.rates import speed_of
from crawl_engine.model.host import HostPolicy, HostState
from crawl_engine.model.job import JobState
from crawl_engine.model.node import HeartbeatState, NodeState, Role
from crawl_engine.model.run import NO_ETA, Judgement, OutputRate
from crawl_engine.runtime.beat_file import Beat, BrowserState, NodeBrowsers
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.pages import documents
from crawl_engine.store.read import host_rows, snapshot
from crawl_engine.store.tables.host import host_speeds
from crawl_engine.store.tables.host.host_speeds import HostNow
from crawl_engine.store.tables.job import jobs, rings, sequences
from crawl_engine.store.tables.job.jobs import JobUpdate
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row.rows import NewRows, RejectedRecords
from crawl_engine.store.tables.run import nodes, runs, supervisors, versions
from crawl_engine.store.transactions.lease import has_leasable_jobs
from tests.contract.store.harness import Page, StoreHarness, again, failed

NewStore = Callable[..., StoreHarness]

BEAT = Beat(
    number=1, state="READY", in_flight=3, done=10, failed=1, rss=5000, lag=0.01, now="http://a/", now_age=24.0,
    now_limit=30.0,
)  # fmt: skip


def _busy(new_store: NewStore) -> StoreHarness:
    """A run with something of everything."""
    store = new_store(nodes_=2, policies={"b:80": HostPolicy(delay=60.0, concurrency=3, robots=False)})
    store.seed(*[f"http://a/{i}" for i in range(8)])
    store.seed("http://b/1", "http://b/2")
    one, two, three, four, five, *_ = store.take("http://a/", free=6)
    store.commit(
        store.done(one, RejectedRecords("book", 4), data=["{}", "{}"], links=[Page("http://a/100")]),
        failed(two),
        again(three, 9e9),
        JobOutcome(job=four, state=JobState.SKIPPED, reason="gone"),
        JobOutcome(job=five, state=JobState.INCOMPLETE, reason="cut off"),
    )
    store.take("http://b/")
    return store


def test_totals_and_parts_agree(new_store: NewStore) -> None:
    look = snapshot.read(_busy(new_store).db)
    assert look.jobs == {"done": 1, "failed": 1, "skipped": 1, "incomplete": 1, "ready": 5, "taken": 2}
    assert look.delayed == 1
    assert look.rows == {"book": 2}
    assert look.rejected == {"book": 4}
    assert look.sequence_count == 2
    for name in ("done", "failed", "skipped", "incomplete", "taken"):
        assert sum(getattr(s, name) for s in look.sequences) == look.jobs[name]
    assert sum(s.ready + s.delayed for s in look.sequences) == look.jobs["ready"]
    a, b = look.hosts
    assert (a.host, a.running, a.waiting, a.errors, a.delay) == ("a:80", 1, 4, 2, 0.0)
    assert (b.host, b.running, b.waiting, b.concurrency, b.robots) == ("b:80", 1, 1, 3, "off")


def test_only_pages_count_in_totals(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(0.0, 8, robots=True)})
    store.seed("http://a/1")
    look = snapshot.read(store.db)
    assert look.jobs["ready"] == 1
    assert [s.group for s in look.sequences] == ["g"]
    assert look.hosts[0].robots == "wanted"


def test_nodes_show_their_life_and_the_dead_no_pid(new_store: NewStore) -> None:
    store = new_store(nodes_=2)
    with store.db.transaction():
        nodes.record_spawn(store.db, store.nodes[0], 4711, "b:4711:1")
        nodes.record_beats(store.db, [(store.nodes[0], 0.2, BEAT)])
        nodes.set_heart(store.db, store.nodes[0], HeartbeatState.HEALTHY)
        nodes.set_state(store.db, store.nodes[1], NodeState.DEAD)
        nodes.set_role(store.db, store.nodes[1], Role.DEAD_RUNNER)
        nodes.end(store.db, store.nodes[1], "died: signal 9", 5.0)
        nodes.insert(store.db, store.run, store.supervisor, Role.RUNNER, 2, 6.0)
    one, two, three = snapshot.read(store.db).nodes
    assert asdict(one) == {
        "id": "n1", "role": "RUNNER", "state": "READY", "heart": "HEALTHY", "done": 10, "failed": 1, "pid": 4711,
        "beat_age": 0.2, "in_flight": 3, "rss": 5000, "lag": 0.01, "now": "http://a/", "replaces": None,
        "reason": None, "past": False, "now_age": 24.0, "now_limit": 30.0, "jobs_per_s": 0.0,
        "browsers": None,
    }  # fmt: skip
    assert (two.state, two.pid, two.beat_age, two.reason) == ("DEAD", None, None, "died: signal 9")
    assert (three.id, three.replaces, three.state) == ("n3", "n2", "STARTING")
    with store.db.transaction():
        supervisors.begin(store.db, "boot:2:2", store.run, 7.0)
    assert {node.past for node in snapshot.read(store.db).nodes} == {True}


def test_a_host_is_read_beyond_the_limit(new_store: NewStore) -> None:
    store = _busy(new_store)
    look = snapshot.read(store.db, limit=1)
    assert ([host.host for host in look.hosts], look.host_count) == (["a:80"], 2)
    assert host_rows.get_host(store.db, store.run, "b:80") == snapshot.read(store.db).hosts[1]
    assert host_rows.get_host(store.db, store.run, "c:80") is None


def test_the_hosts_with_work_are_read_first(new_store: NewStore) -> None:
    """The first thousand of ten thousand hosts may have ended long ago."""
    store = _busy(new_store)
    with store.db.transaction():
        for key, taken in (("a:80", 0), ("b:80", 1)):
            store.db.execute(
                "UPDATE sequences SET ready = 0, delayed = 0, taken = ?"
                " WHERE host = (SELECT id FROM hosts WHERE key = ?)",
                (taken, key),
            )
    assert [host.host for host in snapshot.read(store.db, limit=1).hosts] == ["b:80"]
    assert [host.host for host in snapshot.read(store.db, limit=2).hosts] == ["a:80", "b:80"]


def test_a_silent_host_says_since_when(new_store: NewStore) -> None:
    store = _busy(new_store)
    ids = dict(store.db.all("SELECT key, id FROM hosts"))
    now = store_time()
    with store.db.transaction():
        states = {
            ids["a:80"]: HostNow(HostState.SILENT, 0.0, now - 40), ids["b:80"]: HostNow(HostState.OK, 2.5, None),
        }  # fmt: skip
        host_speeds.set_states(store.db, store.run, states)
    shown = [(host.state, host.silent, host.pages_per_s) for host in snapshot.read(store.db).hosts]
    assert shown == [("silent", 40.0, 0.0), ("ok", None, 2.5)]


def test_a_node_shows_its_browsers_while_it_lives(new_store: NewStore) -> None:
    store = new_store(nodes_=2)
    one = BrowserState(pid=5000, pages=12, loading=1, rss=2**30, age=3.5, urls=("http://a/ü",))
    browsers = NodeBrowsers(replaced=2, reason="had loaded 500 pages", processes=(one,))
    beats = [(store.nodes[0], 0.2, replace(BEAT, browsers=browsers)), (store.nodes[1], 0.2, BEAT)]
    with store.db.transaction():
        for place, node in enumerate(store.nodes):
            nodes.record_spawn(store.db, node, 4711 + place, f"b:{4711 + place}:1")
        nodes.record_beats(store.db, beats)
    look = snapshot.read(store.db)
    assert [node.browsers for node in look.nodes] == [browsers, None]
    (shown, _) = status_as_dict(look)["nodes"]
    assert shown["browsers"]["processes"][0]["urls"] == ("http://a/ü",)
    assert [node.browsers for node in end_orphans(look).nodes] == [None, None]
    with store.db.transaction():
        nodes.end(store.db, store.nodes[0], "died: signal 9", 5.0)
    assert snapshot.read(store.db).nodes[0].browsers is None


def test_an_ended_node_has_no_request(new_store: NewStore) -> None:
    """Neither one that ended, nor one whose supervisor is gone."""
    store = new_store(nodes_=2)
    with store.db.transaction():
        for place, node in enumerate(store.nodes):
            nodes.record_spawn(store.db, node, 4711 + place, f"b:{4711 + place}:1")
            nodes.record_beats(store.db, [(node, 0.2, BEAT)])
        nodes.set_state(store.db, store.nodes[1], NodeState.DEAD)
        nodes.end(store.db, store.nodes[1], "died: signal 9", 5.0)
    look = snapshot.read(store.db)
    assert [(node.now, node.now_age, node.now_limit) for node in look.nodes] == [("http://a/", 24.0, 30.0), ("", 0, 0)]
    assert [(node.now, node.now_age, node.now_limit) for node in end_orphans(look).nodes] == [("", 0, 0)] * 2


def test_appenders_show_what_is_written_and_what_is_behind(new_store: NewStore) -> None:
    store = _busy(new_store)
    with store.db.transaction():
        settings: dict[str, Any] = {"columns": ["title"], "joins": {}, "delimiter": ","}
        outputs.ensure(
            store.db, store.run, appender="rows", type_="csv", data_def="book", path="/x/book.csv", settings=settings
        )
        epoch = nodes.insert_appender(store.db, store.run, store.supervisor, 0.0)
        nodes.register_appender(store.db, epoch, 99, "b:99:1")
        (output,) = outputs.list_outputs(store.db, store.run)
        outputs.advance(store.db, output.id, cursor=1, size=20, rows=1, inode=5)
    (result,) = snapshot.read(store.db).appenders
    assert asdict(result) == {
        "name": "rows/book", "type": "csv", "rows": 1, "bytes": 20, "path": "/x/book.csv", "backlog": 1,
        "rebuilding": False, "pid": 99, "beat_age": None, "flush_ms": None, "error": None,
        "rows_per_s": 0.0, "bytes_per_s": 0.0, "cursor": 1, "added": 1,
    }  # fmt: skip
    with store.db.transaction():
        nodes.end_appender(store.db, epoch, NodeState.DEAD, 1.0)
        outputs.mark_dirty(store.db, store.run, "book", 1)
    (result,) = snapshot.read(store.db).appenders
    assert (result.pid, result.rebuilding) == (None, True)


def test_an_output_is_behind_by_the_rows_of_its_own_data_def(new_store: NewStore) -> None:
    store = new_store()
    store.seed("http://a/1")
    [job] = store.take("http://a/")
    with store.db.transaction():
        shelf = versions.ensure_data_def(store.db, "shelf", "h")
    ids = {"book": store.book, "shelf": shelf}
    rows = tuple(NewRows(name, ids[name], ("{}",)) for name in ("book", "shelf", "book", "shelf", "book"))
    store.commit(JobOutcome(job=job, state=JobState.DONE, effects=rows))
    with store.db.transaction():
        for name, cursor in (("book", 1), ("shelf", 0)):
            outputs.ensure(
                store.db, store.run, appender="rows", type_="csv", data_def=name, path=f"/x/{name}.csv",
                settings={"columns": ["title"], "joins": {}, "delimiter": ","},
            )  # fmt: skip
            (output,) = [o for o in outputs.list_outputs(store.db, store.run) if o.data_def == name]
            outputs.advance(store.db, output.id, cursor=cursor, size=20, rows=cursor, inode=5)
    assert {a.name: a.backlog for a in snapshot.read(store.db).appenders} == {"rows/book": 2, "rows/shelf": 2}

    with store.db.transaction():
        store.db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)"
            " INSERT INTO rows (run, job, data_def, data) SELECT ?, ?, ?, '{}' FROM n",
            (store.run, job.id, shelf),
        )
    result = {a.name: a.backlog for a in snapshot.read(store.db).appenders}
    assert result == {"rows/book": 10_001, "rows/shelf": 10_001}, "so many that nobody counts whose they are"


def test_paused_sequences_are_counted_until_the_run_is_done(new_store: NewStore) -> None:
    store = _busy(new_store)
    with store.db.transaction():
        store.db.execute(
            "INSERT INTO sequences (run, host, kind, grp) SELECT s.run, s.host, 'extract', s.grp"
            " FROM sequences s JOIN hosts h ON h.id = s.host WHERE h.key = 'b:80' AND s.grp = 'g' LIMIT 1"
        )
        assert sequences.pause(store.db, store.run, "g@b:80", True) == 1, "its re-extraction is no other sequence"
        assert sequences.count_paused(store.db, store.run) == 1
    assert snapshot.read(store.db, limit=0).paused_sequences == 1
    with store.db.transaction():
        store.db.execute("UPDATE runs SET state = 'DONE'")
    assert snapshot.read(store.db, limit=0).paused_sequences == 0


def test_the_printed_object_has_the_names_scripts_read(new_store: NewStore) -> None:
    result = summary.build_report(snapshot.read(_busy(new_store).db), exit_code=0)
    assert list(result)[:10] == [
        "run", "state", "exit_code", "seconds", "pages_per_s", "jobs", "rows", "appenders", "nodes", "defs_version",
    ]  # fmt: skip
    assert set(result["jobs"]) == {"done", "failed", "skipped", "incomplete", "ready", "taken"}
    assert {"id", "role", "state", "heart", "done", "failed"} == set(result["nodes"][0])
    assert (result["state"], result["exit_code"], result["defs_version"]) == ("READY", 0, 1)
    orjson.dumps(result)


def test_without_a_run_the_object_is_whole_and_empty(new_store: NewStore) -> None:
    store = new_store()
    with store.db.transaction():
        store.db.execute("DELETE FROM nodes")
        store.db.execute("DELETE FROM runs")
    look = snapshot.read(store.db)
    assert look == snapshot.EMPTY_SNAPSHOT
    result = summary.build_report(look, exit_code=None)
    assert result["state"] is result["run"] is result["exit_code"] is result["defs_version"] is None
    assert (result["appenders"], result["nodes"], result["rows"]) == ([], [], {})
    assert result["jobs"] == {"done": 0, "failed": 0, "skipped": 0, "incomplete": 0, "ready": 0, "taken": 0}
    full = set(summary.build_report(snapshot.read(_busy(new_store).db), exit_code=0))
    assert set(result) == full


def test_pages_per_second_are_those_of_the_time_under_a_supervisor(store: StoreHarness) -> None:
    store.seed(*[f"http://a/{i}" for i in range(6)])
    store.finish_all("http://a/")
    with store.db.transaction():
        runs.add_time(store.db, store.run, 4.0, Judgement(2.0), NO_ETA)
    result = summary.build_report(snapshot.read(store.db), exit_code=0)
    assert (result["seconds"], result["pages_per_s"]) == (4.0, 1.5)
    assert summary.build_report(snapshot.EMPTY_SNAPSHOT, exit_code=None)["pages_per_s"] == 0.0


def test_rates_are_those_that_were_judged_and_the_dead_have_none(new_store: NewStore) -> None:
    store = new_store(nodes_=2)
    with store.db.transaction():
        settings: dict[str, Any] = {"columns": ["title"], "joins": {}, "delimiter": ","}
        outputs.ensure(
            store.db, store.run, appender="rows", type_="csv", data_def="book", path="/x/book.csv", settings=settings
        )
        appender = nodes.insert_appender(store.db, store.run, store.supervisor, 0.0)
        nodes.register_appender(store.db, appender, 99, "b:99:1")
        nodes.set_state(store.db, store.nodes[1], NodeState.DEAD)
        nodes.end(store.db, store.nodes[1], "died: signal 9", 5.0)
        rates = Judgement(7.0, nodes={"n1": 3.0, "n2": 4.0}, outputs={"rows/book": OutputRate(9.0, 90.0)})
        runs.add_time(store.db, store.run, 4.0, rates, NO_ETA)
    look = snapshot.read(store.db)
    assert [node.jobs_per_s for node in look.nodes] == [3.0, 0.0]
    assert [(output.rows_per_s, output.bytes_per_s) for output in look.appenders] == [(9.0, 90.0)]
    assert speed_of(look, is_live=True) == (7.0, 0.0, False)
    lost = end_orphans(look)
    assert [node.jobs_per_s for node in lost.nodes] + [output.rows_per_s for output in lost.appenders] == [0.0] * 3
    assert speed_of(lost, is_live=False).is_mean
    with store.db.transaction():
        nodes.end_appender(store.db, appender, NodeState.DEAD, 6.0)
    assert snapshot.read(store.db).appenders[0].rows_per_s == 0.0


def test_the_newest_run_is_shown_or_the_one_asked_for(store: StoreHarness) -> None:
    with store.db.transaction():
        newer = runs.create(store.db, None, 1.0)
    for asked, expected in ((None, newer.seq), (store.run, store.run)):
        look = snapshot.read(store.db, run=asked)
        assert look.run is not None
        assert look.run.seq == expected
    assert snapshot.read(store.db).nodes == []


def test_a_look_shows_at_most_what_was_asked_and_tells_how_many_there_are(store: StoreHarness) -> None:
    for i in range(12):
        store.seed(f"http://h{i}/")
    look = snapshot.read(store.db, limit=5)
    assert (len(look.sequences), len(look.hosts), look.sequence_count) == (5, 5, 12)
    assert look.jobs["ready"] == 12


def test_sequences_at_work_are_shown_first(store: StoreHarness) -> None:
    for i in range(3):
        store.seed(f"http://h{i}/1", f"http://h{i}/2")
    store.take("http://h2/")
    store.finish_all("http://h0/")
    assert [s.host for s in snapshot.read(store.db).sequences] == ["h2:80", "h1:80", "h0:80"]


def test_an_ended_supervisor_is_not_shown(store: StoreHarness) -> None:
    epoch = snapshot.read(store.db).epoch
    assert epoch is not None
    assert (epoch.epoch, epoch.identity, epoch.run) == (store.supervisor, "boot:1:1", store.run)
    with store.db.transaction():
        supervisors.end(store.db, store.supervisor, 9.0)
    assert snapshot.read(store.db).epoch is None


# What it costs. A plan that says SCAN reads the whole table; the names of indexes are those of schema.sql.


def _reads(plans: list[tuple[str, list[str]]], words: str) -> list[str]:
    return [line for _, plan in plans for line in plan if words in line]


@pytest.mark.parametrize("state", ["READY", "DONE", "KILLED"])
def test_a_look_never_reads_jobs(new_store: NewStore, state: str) -> None:
    store = _busy(new_store)
    store.db.execute("UPDATE runs SET state = ?", (state,))
    store.db.execute("UPDATE sequences SET done = 0")
    statements = store.plans(lambda: snapshot.read(store.db))
    assert len(statements) >= 8
    assert not [s for s, _ in statements if re.search(r"\b(from|join)\s+(jobs|landings)\b", s.lower())]
    for line in (line for _, plan in statements for line in plan):
        assert not line.startswith("SCAN rows") or "INDEX" in line or "PRIMARY KEY" in line, line


def _scans(plans: list[tuple[str, list[str]]], *tables: str) -> list[str]:
    return [
        line
        for _, plan in plans
        for line in plan
        if line.split()[0] == "SCAN" and line.split()[1] in tables and "USING" not in line
    ]


JOBS = ("jobs", "j", "r", "other", "rows", "documents", "d")


def test_a_lease_finds_its_jobs_by_index_and_in_order(new_store: NewStore) -> None:
    store = _busy(new_store)
    plans = store.plans(lambda: store.lease(1))
    assert _scans(plans, *JOBS) == []
    assert _reads(plans, "USING INDEX jobs_due (sequence=?)")
    assert _reads(plans, "USING COVERING INDEX jobs_taken") or _reads(plans, "USING INDEX jobs_taken (<expr>=?)")
    assert not [line for s, plan in plans if "j.priority DESC" in s for line in plan if "TEMP B-TREE" in line], (
        "the index gives the order"
    )


@pytest.mark.parametrize(
    "work",
    [
        lambda h: rings.ring_hosts(h.db, [1, 2], h.now),
        lambda h: rings.ring_all(h.db, h.run, h.now),
        lambda h: rings.has_waited(h.db, h.run, 5.0),
        lambda h: rings.list_rung(h.db, h.run, 5),
        lambda h: rings.list_rung_without_delay(h.db, h.run, 5),
        lambda h: rings.renew(h.db, [1, 2], h.now),
        lambda h: has_leasable_jobs(h.db, h.run, h.now, more_slots=32),
        lambda h: jobs.promote(h.db, h.run, h.now),
        lambda h: jobs.next_due(h.db, h.run),
        lambda h: jobs.has_open_jobs(h.db, h.run),
        lambda h: jobs.release(h.db, h.nodes[0], "x", crashed=True),
        lambda h: jobs.release_all(h.db, h.run, "x"),
        lambda h: jobs.resume_incomplete(h.db, h.run),
        lambda h: jobs.skip_ready(h.db, 1, "x", 10),
        lambda h: sequences.recount_taken(h.db, h.run),
        lambda h: sequences.count(h.db, h.run, "done"),
        lambda h: h.seed("http://a/100", name="other"),
        lambda h: h.seed(*[f"http://a/{i}" for i in range(100, 163)], name="other"),
        lambda h: h.seed(*[f"http://a/{i}" for i in range(100, 164)], name="other"),
    ],
    ids=[
        "ring_hosts", "ring_all", "has_waited", "list_rung", "list_rung_without_delay", "renew", "has_leasable_jobs",
        "promote", "next_due", "any_open", "release",
        "release_all", "resume", "skip_ready", "recount_taken", "total", "seed 1", "seed 63", "seed 64",
    ],
)  # fmt: skip
def test_no_step_of_a_crawl_reads_all_jobs(new_store: NewStore, work: Callable[[StoreHarness], object]) -> None:
    store = _busy(new_store)
    plans = store.plans(lambda: work(store))
    assert plans
    assert _scans(plans, *JOBS) == []
    for line in _reads(plans, "jobs_") + _reads(plans, "sqlite_autoindex_jobs"):
        assert "SEARCH" in line or "jobs_taken" in line or "jobs_incomplete" in line, line
    assert not _reads(plans, "sqlite_autoindex_jobs_1 (run=?)"), "every job of a run is read"
    assert not _reads(plans, "AUTOMATIC"), "an index is built for one statement"


def test_rings_of_hosts_are_found_by_host(new_store: NewStore) -> None:
    store = _busy(new_store)
    plans = store.plans(lambda: rings.ring_hosts(store.db, [1], store.now))
    assert _reads(plans, "USING INDEX sequences_host (host=?)")
    assert _scans(plans, "sequences", "s", "t", "o") == []


def test_rings_of_a_run_look_only_at_sequences_that_wait(new_store: NewStore) -> None:
    store = _busy(new_store)
    plans = store.plans(lambda: rings.ring_all(store.db, store.run, store.now))
    assert _reads(plans, "USING INDEX sequences_waiting (run=?)")


@pytest.mark.parametrize("links", [1, 3, 16, 64, 127])
def test_a_commit_finds_everything_by_key(new_store: NewStore, links: int) -> None:
    store = _busy(new_store)
    taken = store.take("http://a/")
    assert taken
    pages = [Page(f"http://a/{i}") for i in range(7, 7 + links)]
    plans = store.plans(lambda: store.commit(*[store.done(job, data=["{}"], links=pages) for job in taken]))
    assert _scans(plans, *JOBS) == []
    assert not _reads(plans, "sqlite_autoindex_jobs_1 (run=?)"), "every job of a run is read"
    assert not _reads(plans, "AUTOMATIC"), "an index is built for one statement"


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32, 64])
def test_verdicts_documents_and_beats_find_their_rows_by_key_however_many_come_at_once(
    store: StoreHarness, count: int
) -> None:
    def work() -> None:
        leased = jobs.read_leased(store.db, [(i, 1, i, None) for i in range(count)])
        jobs.finish(store.db, [JobUpdate(i, 1, JobState.DONE) for i in range(count)], leased)
        documents.list_stored(store.db, store.run, [bytes(16)] * count, 0.0)
        nodes.record_beats(store.db, [(i, 0.0, Beat(number=1, state="READY")) for i in range(count)])

    plans = store.plans(work)
    assert len(plans) >= 3
    assert _scans(plans, *JOBS, "nodes") == []
    assert not _reads(plans, "AUTOMATIC")


def test_spare_jobs_of_a_host_wait(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=0.0, concurrency=4, robots=False)})
    store.seed(*[f"http://a/{number}" for number in range(20)])
    held = len(store.take("http://a/", free=12))
    assert held > 4
    [host] = snapshot.read(store.db).hosts
    assert (host.running, host.waiting) == (4, 16), "no more are sent at once, whatever the nodes hold"
