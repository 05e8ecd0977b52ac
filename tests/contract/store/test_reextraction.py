"""Stale pages are worked as jobs of their own, their rows replaced; what is outdated at its commit changes nothing."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from engine.model.definition import DataDef, Definitions, Field, Link, Task, TaskGroup
from engine.model.job import JobKind, JobState, LeasedJob
from engine.store.db.filter import GlobFilter, JobFilter
from engine.store.read import stale_pages
from engine.store.tables import hosts, jobs, outputs, rows, runs, sequences, versions
from engine.store.tables.hosts import HostPolicy
from engine.store.transactions.commit import commit
from engine.store.transactions.lease import Lease
from engine.store.transactions.outcome import ExtractedRow, JobOutcome
from engine.store.transactions.retry import retry
from engine.supervise.reload.stale_page_scan import GROUP_REMOVED, ReextractionPlanner
from tests.contract.store.harness import Page, StoreHarness, document

NewStore = Callable[..., StoreHarness]


def defs(*fields: str, groups: Iterable[str] = ("g",), more: bool = False, depth: int | None = None) -> Definitions:
    """A dataDef `book` with these fields, and `shelf`, both of group g; group `more` is linked where it is there."""
    links = (Link(selector="a", group="more"),) if "more" in groups else ()
    book = DataDef(name="book", fields=tuple(Field(name=name) for name in fields))
    shelf = DataDef(name="shelf", fields=(Field(name="s"),), links=links)
    tasks = (Task(name="a", data_def="book"), Task(name="b", data_def="shelf"))
    return Definitions(
        data_defs=(book, shelf),
        task_groups=tuple(TaskGroup(name=name, tasks=tasks, max_depth=depth) for name in groups),
    )


class Shop:
    """A run with pages of group g, done under the first of its def versions."""

    def __init__(self, store: StoreHarness, pages: int = 1) -> None:
        self.store = store
        self.publish(defs("title"))
        self.done = self.crawl(pages)

    def publish(self, definitions: Definitions) -> int:
        db = self.store.db
        with db.transaction():
            version = versions.publish(db, definitions, 0.0)
            runs.set_version(db, self.store.run, version)
            sequences.set_groups(db, self.store.run, [group.name for group in definitions.task_groups])
            self.ids = {d.name: versions.ensure_data_def(db, d) for d in definitions.data_defs}
        return version

    def crawl(self, pages: int, host: str = "a") -> list[int]:
        self.store.seed(*[f"http://{host}/{i}" for i in range(pages)])
        taken: list[LeasedJob] = []
        while got := self.store.take(f"http://{host}/0"):
            self.store.commit(*map(self.fetched, got))
            taken += got
        return [job.id for job in taken]

    def rows(self, job: LeasedJob, *names: str) -> tuple[ExtractedRow, ...]:
        return tuple(ExtractedRow(name, self.ids[name], f'{{"v":{job.defs_version},"d":"{name}"}}') for name in names)

    def fetched(self, job: LeasedJob, **more: Any) -> JobOutcome:
        self.page = getattr(self, "page", 0) + 1
        return replace(
            self.store.done(job), rows=self.rows(job, "book", "shelf"), document=document(job.url),
            page=self.page, **more,
        )  # fmt: skip

    def queue(self) -> None:
        """Give all stale pages to the nodes."""
        db, run = self.store.db, self.store.run
        with db.transaction():
            found = stale_pages.find_stale(db, run, versions.current(db, run), 0, stale_pages.last_job_id(db))
            jobs.queue_extracts(db, [page for page, _, lost in found if not lost])

    def lease(self, free: int = 32) -> Lease:
        return self.store.lease(self.sequence(), free=free)

    def sequence(self) -> int:
        return int(self.store.db.value("SELECT id FROM sequences WHERE kind = 'extract'"))

    def worked(self, job: LeasedJob, **more: Any) -> JobOutcome:
        """A re-extraction of which `shelf` is unchanged."""
        kept = tuple(id_ for id_ in job.extracted_with if id_ in self.ids.values())
        names = [name for name, id_ in self.ids.items() if id_ not in kept]
        return JobOutcome(job=job, state=JobState.DONE, rows=self.rows(job, *names), kept_data_defs=kept, **more)

    def made(self) -> list[tuple[int, str, int]]:
        """Job, dataDef and version of every row, in order."""
        result = [(job, orjson.loads(data)) for job, data in self.store.rows()]
        return [(job, data["d"], data["v"]) for job, data in result]

    def extractions(self) -> list[tuple[int, str]]:
        return self.store.db.all("SELECT page, state FROM jobs WHERE page IS NOT NULL ORDER BY id")


@pytest.fixture
def shop(store: StoreHarness) -> Shop:
    return Shop(store)


def test_only_a_change_of_the_pages_defs_makes_a_page_stale(shop: Shop) -> None:
    db, run = shop.store.db, shop.store.run

    def stale() -> list[int]:
        return [
            page
            for page, _, _ in stale_pages.find_stale(db, run, versions.current(db, run), 0, stale_pages.last_job_id(db))
        ]

    assert stale() == []
    shop.publish(defs("title", groups=("g", "other")))
    assert stale() == [], "another group came"
    shop.publish(defs("title", "price"))
    assert stale() == shop.done
    shop.publish(defs("title"))
    assert stale() == [], "back to what it was made with"
    shop.publish(defs("title", groups=("g", "more")))
    assert stale() == shop.done, "its links may lead to a group now"


def test_rows_of_changed_data_defs_are_replaced_and_no_others(shop: Shop) -> None:
    store = shop.store
    (page,) = shop.done
    with store.db.transaction():
        for name in ("book", "shelf"):
            outputs.ensure(store.db, store.run, appender="a", type_="csv", data_def=name, path=name, settings={})
        for output in outputs.list_outputs(store.db, store.run):
            outputs.advance(store.db, output.id, cursor=rows.last_id(store.db, store.run), size=0, rows=1, inode=1)
    version = shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    assert (job.kind, job.page_job, job.depth, job.url) == (JobKind.EXTRACT, page, 0, "http://a/0")
    assert job.stored is not None
    store.commit(shop.worked(job, rejected=(("book", 2),)))
    assert shop.made() == [(page, "shelf", version - 1), (page, "book", version)]
    assert rows.counts(store.db, store.run) == {"book": (1, 2), "shelf": (1, 0)}
    assert {o.data_def: o.dirty for o in outputs.list_outputs(store.db, store.run)} == {"book": True, "shelf": False}
    assert shop.extractions() == []
    assert store.db.one("SELECT state, defs FROM jobs WHERE id = ?", (page,)) == ("DONE", version)
    store.check_counters()
    shop.publish(defs("price"))
    shop.queue()
    store.commit(shop.worked(shop.lease().jobs[0]))
    assert rows.counts(store.db, store.run) == {"book": (1, 0), "shelf": (1, 0)}, "what was rejected is taken back"


def test_a_page_that_is_stale_at_its_commit_is_queued_with_it(shop: Shop) -> None:
    store = shop.store
    store.seed("http://a/late")
    (job,) = store.take("http://a/late")
    shop.publish(defs("title", "price", groups=("g", "other")))
    links = tuple(store.done(job, links=[Page("http://a/1", group="gone"), Page("http://a/2")]).children)
    finished = shop.fetched(job, children=links)
    committed = store.commit(finished)
    assert shop.extractions() == [(job.id, "READY")]
    assert [child.url for child in finished.children] == ["http://a/2"], "nothing remembers a link that made no job"
    assert store.jobs("url")[-2:] == [("http://a/late",), ("http://a/2",)]
    assert committed.ring, "the extraction's sequence is rung"
    assert store.state(job.id) == "DONE"


def test_with_new_only_a_stale_page_keeps_its_rows(shop: Shop) -> None:
    store = shop.store
    store.seed("http://a/late")
    (job,) = store.take("http://a/late")
    shop.publish(defs("title", "price"))
    commit(store.db, store.nodes[0], store.run, [shop.fetched(job)], store.places, store.now, reextract_stale=False)
    assert shop.extractions() == []


def test_an_outdated_re_extraction_goes_back_and_writes_nothing(shop: Shop) -> None:
    store = shop.store
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    before = store.rows()
    outdated = shop.worked(job)
    version = shop.publish(defs("title", "price", "stock"))
    store.commit(outdated)
    assert store.rows() == before
    assert shop.extractions() == [(shop.done[0], "READY")]
    store.commit(shop.worked(shop.lease().jobs[0]))
    assert sorted(row[1:] for row in shop.made()) == [("book", version), ("shelf", version - 2)]
    store.check_counters()


def test_a_lost_lease_replaces_nothing(shop: Shop) -> None:
    store = shop.store
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    before = store.rows()
    with store.db.transaction():
        jobs.release_all(store.db, store.run, "test")
    assert store.commit(shop.worked(job)).accepted_ids == frozenset()
    assert store.rows() == before
    (again,) = shop.lease().jobs
    assert store.commit(shop.worked(again), shop.worked(job)).accepted_ids == {job.id}
    assert len(store.rows()) == 2


def test_hosts_hold_up_no_re_extraction(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=60.0, concurrency=1, robots=False)})
    shop = Shop(store)
    store.now += 120
    store.seed(*[f"http://a/{i}" for i in range(1, 4)])
    assert len(store.take("http://a/1")) == 1
    shop.publish(defs("title", "price"))
    host = store.place("http://a/0").host
    with store.db.transaction():
        hosts.set_backoff(store.db, host, store.now + 1000)
        jobs.queue_extracts(store.db, shop.done)
        assert sequences.ring_hosts(store.db, [host], store.now)
    clock = store.db.value("SELECT next_at FROM hosts")
    assert len(shop.lease().jobs) == 1
    assert store.db.value("SELECT next_at FROM hosts") == clock


def test_fetching_goes_first_and_re_extraction_is_never_starved(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=0.0, concurrency=1000, robots=False)})
    shop = Shop(store, pages=40)
    shop.publish(defs("title", "price"))
    shop.queue()
    assert len(shop.lease(free=8).jobs) == 8, "nothing is fetched"
    store.seed(*[f"http://b/{i}" for i in range(5)])
    assert len(shop.lease(free=16).jobs) == 2, "pages wait for a slot"
    assert len(shop.lease(free=1).jobs) == 1
    store.take("http://b/0")
    assert len(shop.lease(free=16).jobs) == 8, "pages are under way, none waits"


def test_re_extractions_take_nothing_of_a_sequences_quota(new_store: NewStore) -> None:
    store = new_store(slots=32, policies={"a:80": HostPolicy(delay=0.0, concurrency=1000, robots=False)})
    shop = Shop(store, pages=10)
    shop.publish(defs("title", "price"))
    shop.queue()
    assert store.db.value("SELECT active_sequences FROM runs") == 0
    store.seed(*[f"http://a/x{i}" for i in range(40)])
    assert store.db.value("SELECT active_sequences FROM runs") == 1
    assert len(store.take("http://a/0")) == 32


def test_where_nothing_is_to_be_fetched_only_re_extractions_are_leased(shop: Shop) -> None:
    store = shop.store
    store.seed("http://a/new")
    shop.publish(defs("title", "price"))
    shop.queue()
    with store.db.transaction():
        runs.set_extract_only(store.db, store.run, True)
    assert store.take("http://a/new") == ()
    assert len(shop.lease().jobs) == 1


def test_a_retried_page_is_not_re_extracted_meanwhile(shop: Shop) -> None:
    store = shop.store
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    assert retry(store.db, store.run, JobFilter(states=GlobFilter(("done",)))) == 1
    assert shop.extractions() == []
    assert store.commit(shop.worked(job)).accepted_ids == frozenset()
    assert store.rows() == []
    assert rows.counts(store.db, store.run) == {"book": (0, 0), "shelf": (0, 0)}
    store.finish_all("http://a/0")
    store.check_counters()


def test_jobs_of_a_lacking_group_are_skipped_and_revived_in_batches(new_store: NewStore) -> None:
    store = new_store()
    shop = Shop(store)
    shop.publish(defs("title", groups=("g", "more")))
    store.seed(*[f"http://a/m{i}" for i in range(30)], group="more")
    (waiting,) = store.take("http://a/m0", "more", free=1)
    store.commit(JobOutcome(job=waiting, state=JobState.READY, attempts=1, not_before=store.now + 100))
    planner = ReextractionPlanner(store.db, store.run)
    shop.publish(defs("title"))
    assert store.take("http://a/m0", "more") == (), "held before all of them are skipped"
    while not planner.done:
        planner.step()
    result = "SELECT state, reason, count(*) FROM jobs WHERE url LIKE '%/m%' GROUP BY 1, 2"
    assert store.db.all(result) == [("SKIPPED", GROUP_REMOVED, 30)]
    store.check_counters()
    shop.publish(defs("title", groups=("g", "more")))
    planner.step()
    while not planner.done:
        planner.step()
    assert store.db.all(result) == [("READY", None, 30)]
    assert len(store.take("http://a/m0", "more", free=8)) > 0
    store.check_counters()


def test_the_search_goes_on_where_it_was(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.supervise.reload import stale_page_scan

    monkeypatch.setattr(stale_page_scan, "_SCAN_SIZE", 7)
    monkeypatch.setattr(stale_page_scan, "_MAX_QUEUED", 10)
    store = new_store()
    shop = Shop(store, pages=25)
    shop.publish(defs("title", "price"))
    result = {
        "at": 0,
        "upto": stale_pages.last_job_id(store.db),
        "lost": 0,
        "before": {"book": 25},
        "groups": [],
        "found": 0,
        "expected": 25,
        "targets": [],
        "unlinked": 0,
        "counted": 0,
    }
    with store.db.transaction():
        runs.set_reextraction(store.db, store.run, orjson.dumps(result).decode())
    steps = 0
    while runs.is_reextracting(store.db, store.run):
        ReextractionPlanner(store.db, store.run).step()  # a new one each time: nothing is kept in memory
        assert len(shop.extractions()) <= 10 + 7
        store.commit(*map(shop.worked, shop.lease(free=3).jobs))
        steps += 1
        assert steps < 100
    assert sorted(version for _, name, version in shop.made() if name == "book") == [3] * 25
    assert runs.get_reextraction(store.db, store.run) == (None, 25)
    (text,) = [t for (t,) in store.db.all("SELECT text FROM events WHERE kind = 'defs'")]
    assert text == "25 pages re-extracted; book: 25 → 25 rows"


def test_no_look_for_stale_pages_reads_more_than_its_stretch(shop: Shop) -> None:
    store = shop.store
    plans = store.plans(lambda: stale_pages.find_stale(store.db, store.run, 2, 0, 10))
    [(_, plan)] = plans
    assert plan[0] == "SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", plan
    assert not any(line.startswith("SCAN") for line in plan), plan
    shop.publish(defs("title", "price"))
    shop.queue()
    sequence = shop.sequence()
    for sql, plan in store.plans(lambda: store.lease(sequence)):
        assert not any(line.startswith("SCAN") and "json_each" not in line for line in plan), (sql, plan)


@pytest.mark.parametrize("away", [("g",), ("more",)])
def test_links_left_out_while_a_group_was_away_are_looked_for_when_it_is_back(shop: Shop, away: tuple[str]) -> None:
    """The page was leased and is re-extracted under defs that mean the same; in between its result lost its links."""
    store = shop.store
    shop.publish(defs("title", groups=("g", "more")))
    shop.queue()
    while got := shop.lease().jobs:
        store.commit(*map(shop.worked, got))
    store.seed("http://a/late")
    (job,) = store.take("http://a/late")
    shop.publish(defs("title", groups=[name for name in ("g", "more") if name not in away]))
    links = store.done(job, links=[Page("http://a/1", group=away[0])]).children
    store.commit(shop.fetched(job, children=tuple(links)))
    shop.publish(defs("title", groups=("g", "more")))
    shop.queue()
    (again,) = [found for found in shop.lease().jobs if found.page_job == job.id]
    assert again.extracted_with == ()
    assert again.links_stale
