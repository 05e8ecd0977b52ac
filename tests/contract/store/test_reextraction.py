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
from tests.contract.store.house import House, Page, document

Houses = Callable[..., House]


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

    def __init__(self, house: House, pages: int = 1) -> None:
        self.house = house
        self.publish(defs("title"))
        self.done = self.crawl(pages)

    def publish(self, definitions: Definitions) -> int:
        db = self.house.db
        with db.transaction():
            version = versions.publish(db, definitions, 0.0)
            runs.set_version(db, self.house.run, version)
            sequences.set_groups(db, self.house.run, [group.name for group in definitions.task_groups])
            self.ids = {d.name: versions.ensure_data_def(db, d) for d in definitions.data_defs}
        return version

    def crawl(self, pages: int, host: str = "a") -> list[int]:
        self.house.seed(*[f"http://{host}/{i}" for i in range(pages)])
        taken: list[LeasedJob] = []
        while got := self.house.take(f"http://{host}/0"):
            self.house.commit(*map(self.fetched, got))
            taken += got
        return [job.id for job in taken]

    def rows(self, job: LeasedJob, *names: str) -> tuple[ExtractedRow, ...]:
        return tuple(ExtractedRow(name, self.ids[name], f'{{"v":{job.defs_version},"d":"{name}"}}') for name in names)

    def fetched(self, job: LeasedJob, **more: Any) -> JobOutcome:
        self.page = getattr(self, "page", 0) + 1
        return replace(
            self.house.done(job), rows=self.rows(job, "book", "shelf"), document=document(job.url),
            page=self.page, **more,
        )  # fmt: skip

    def queue(self) -> None:
        """Give all stale pages to the nodes."""
        db, run = self.house.db, self.house.run
        with db.transaction():
            found = stale_pages.find_stale(db, run, versions.current(db, run), 0, stale_pages.last_job_id(db))
            jobs.queue_extracts(db, [page for page, _, lost in found if not lost])

    def lease(self, free: int = 32) -> Lease:
        return self.house.lease(self.sequence(), free=free)

    def sequence(self) -> int:
        return int(self.house.db.value("SELECT id FROM sequences WHERE kind = 'extract'"))

    def worked(self, job: LeasedJob, **more: Any) -> JobOutcome:
        """A re-extraction of which `shelf` is unchanged."""
        kept = tuple(id_ for id_ in job.extracted_with if id_ in self.ids.values())
        names = [name for name, id_ in self.ids.items() if id_ not in kept]
        return JobOutcome(job=job, state=JobState.DONE, rows=self.rows(job, *names), kept_data_defs=kept, **more)

    def made(self) -> list[tuple[int, str, int]]:
        """Job, dataDef and version of every row, in order."""
        told = [(job, orjson.loads(data)) for job, data in self.house.rows()]
        return [(job, data["d"], data["v"]) for job, data in told]

    def extractions(self) -> list[tuple[int, str]]:
        return self.house.db.all("SELECT page, state FROM jobs WHERE page IS NOT NULL ORDER BY id")


@pytest.fixture
def shop(house: House) -> Shop:
    return Shop(house)


def test_only_a_change_of_the_pages_defs_makes_a_page_stale(shop: Shop) -> None:
    db, run = shop.house.db, shop.house.run

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
    house = shop.house
    (page,) = shop.done
    with house.db.transaction():
        for name in ("book", "shelf"):
            outputs.ensure(house.db, house.run, appender="a", type_="csv", data_def=name, path=name, settings={})
        for output in outputs.list_outputs(house.db, house.run):
            outputs.advance(house.db, output.id, cursor=rows.last_id(house.db, house.run), size=0, rows=1, inode=1)
    version = shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    assert (job.kind, job.page_job, job.depth, job.url) == (JobKind.EXTRACT, page, 0, "http://a/0")
    assert job.stored is not None
    house.commit(shop.worked(job, rejected=(("book", 2),)))
    assert shop.made() == [(page, "shelf", version - 1), (page, "book", version)]
    assert rows.counts(house.db, house.run) == {"book": (1, 2), "shelf": (1, 0)}
    assert {o.data_def: o.dirty for o in outputs.list_outputs(house.db, house.run)} == {"book": True, "shelf": False}
    assert shop.extractions() == []
    assert house.db.one("SELECT state, defs FROM jobs WHERE id = ?", (page,)) == ("DONE", version)
    house.check_counters()
    shop.publish(defs("price"))
    shop.queue()
    house.commit(shop.worked(shop.lease().jobs[0]))
    assert rows.counts(house.db, house.run) == {"book": (1, 0), "shelf": (1, 0)}, "what was rejected is taken back"


def test_a_page_that_is_stale_at_its_commit_is_queued_with_it(shop: Shop) -> None:
    house = shop.house
    house.seed("http://a/late")
    (job,) = house.take("http://a/late")
    shop.publish(defs("title", "price", groups=("g", "other")))
    links = tuple(house.done(job, links=[Page("http://a/1", group="gone"), Page("http://a/2")]).children)
    finished = shop.fetched(job, children=links)
    committed = house.commit(finished)
    assert shop.extractions() == [(job.id, "READY")]
    assert [child.url for child in finished.children] == ["http://a/2"], "nothing remembers a link that made no job"
    assert house.jobs("url")[-2:] == [("http://a/late",), ("http://a/2",)]
    assert committed.ring, "the extraction's sequence is rung"
    assert house.state(job.id) == "DONE"


def test_with_new_only_a_stale_page_keeps_its_rows(shop: Shop) -> None:
    house = shop.house
    house.seed("http://a/late")
    (job,) = house.take("http://a/late")
    shop.publish(defs("title", "price"))
    commit(house.db, house.nodes[0], house.run, [shop.fetched(job)], house.places, house.now, reextract_stale=False)
    assert shop.extractions() == []


def test_an_outdated_re_extraction_goes_back_and_writes_nothing(shop: Shop) -> None:
    house = shop.house
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    before = house.rows()
    outdated = shop.worked(job)
    version = shop.publish(defs("title", "price", "stock"))
    house.commit(outdated)
    assert house.rows() == before
    assert shop.extractions() == [(shop.done[0], "READY")]
    house.commit(shop.worked(shop.lease().jobs[0]))
    assert sorted(row[1:] for row in shop.made()) == [("book", version), ("shelf", version - 2)]
    house.check_counters()


def test_a_lost_lease_replaces_nothing(shop: Shop) -> None:
    house = shop.house
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    before = house.rows()
    with house.db.transaction():
        jobs.release_all(house.db, house.run, "test")
    assert house.commit(shop.worked(job)).accepted_ids == frozenset()
    assert house.rows() == before
    (again,) = shop.lease().jobs
    assert house.commit(shop.worked(again), shop.worked(job)).accepted_ids == {job.id}
    assert len(house.rows()) == 2


def test_hosts_hold_up_no_re_extraction(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=60.0, concurrency=1, robots=False)})
    shop = Shop(house)
    house.now += 120
    house.seed(*[f"http://a/{i}" for i in range(1, 4)])
    assert len(house.take("http://a/1")) == 1
    shop.publish(defs("title", "price"))
    host = house.place("http://a/0").host
    with house.db.transaction():
        hosts.set_backoff(house.db, host, house.now + 1000)
        jobs.queue_extracts(house.db, shop.done)
        assert sequences.ring_hosts(house.db, [host], house.now)
    clock = house.db.value("SELECT next_at FROM hosts")
    assert len(shop.lease().jobs) == 1
    assert house.db.value("SELECT next_at FROM hosts") == clock


def test_fetching_goes_first_and_re_extraction_is_never_starved(houses: Houses) -> None:
    house = houses(manners={"a:80": HostPolicy(delay=0.0, concurrency=1000, robots=False)})
    shop = Shop(house, pages=40)
    shop.publish(defs("title", "price"))
    shop.queue()
    assert len(shop.lease(free=8).jobs) == 8, "nothing is fetched"
    house.seed(*[f"http://b/{i}" for i in range(5)])
    assert len(shop.lease(free=16).jobs) == 2, "pages wait for a slot"
    assert len(shop.lease(free=1).jobs) == 1
    house.take("http://b/0")
    assert len(shop.lease(free=16).jobs) == 8, "pages are under way, none waits"


def test_re_extractions_take_nothing_of_a_sequences_quota(houses: Houses) -> None:
    house = houses(slots=32, manners={"a:80": HostPolicy(delay=0.0, concurrency=1000, robots=False)})
    shop = Shop(house, pages=10)
    shop.publish(defs("title", "price"))
    shop.queue()
    assert house.db.value("SELECT active_sequences FROM runs") == 0
    house.seed(*[f"http://a/x{i}" for i in range(40)])
    assert house.db.value("SELECT active_sequences FROM runs") == 1
    assert len(house.take("http://a/0")) == 32


def test_where_nothing_is_to_be_fetched_only_re_extractions_are_leased(shop: Shop) -> None:
    house = shop.house
    house.seed("http://a/new")
    shop.publish(defs("title", "price"))
    shop.queue()
    with house.db.transaction():
        runs.set_extract_only(house.db, house.run, True)
    assert house.take("http://a/new") == ()
    assert len(shop.lease().jobs) == 1


def test_a_retried_page_is_not_re_extracted_meanwhile(shop: Shop) -> None:
    house = shop.house
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    assert retry(house.db, house.run, JobFilter(states=GlobFilter(("done",)))) == 1
    assert shop.extractions() == []
    assert house.commit(shop.worked(job)).accepted_ids == frozenset()
    assert house.rows() == []
    assert rows.counts(house.db, house.run) == {"book": (0, 0), "shelf": (0, 0)}
    house.finish_all("http://a/0")
    house.check_counters()


def test_jobs_of_a_lacking_group_are_skipped_and_revived_in_batches(houses: Houses) -> None:
    house = houses()
    shop = Shop(house)
    shop.publish(defs("title", groups=("g", "more")))
    house.seed(*[f"http://a/m{i}" for i in range(30)], group="more")
    (waiting,) = house.take("http://a/m0", "more", free=1)
    house.commit(JobOutcome(job=waiting, state=JobState.READY, attempts=1, not_before=house.now + 100))
    planner = ReextractionPlanner(house.db, house.run)
    shop.publish(defs("title"))
    assert house.take("http://a/m0", "more") == (), "held before all of them are skipped"
    while not planner.done:
        planner.step()
    told = "SELECT state, reason, count(*) FROM jobs WHERE url LIKE '%/m%' GROUP BY 1, 2"
    assert house.db.all(told) == [("SKIPPED", GROUP_REMOVED, 30)]
    house.check_counters()
    shop.publish(defs("title", groups=("g", "more")))
    planner.step()
    while not planner.done:
        planner.step()
    assert house.db.all(told) == [("READY", None, 30)]
    assert len(house.take("http://a/m0", "more", free=8)) > 0
    house.check_counters()


def test_the_search_goes_on_where_it_was(houses: Houses, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.supervise.reload import stale_page_scan

    monkeypatch.setattr(stale_page_scan, "_SCAN_SIZE", 7)
    monkeypatch.setattr(stale_page_scan, "_MAX_QUEUED", 10)
    house = houses()
    shop = Shop(house, pages=25)
    shop.publish(defs("title", "price"))
    told = {
        "at": 0,
        "upto": stale_pages.last_job_id(house.db),
        "lost": 0,
        "before": {"book": 25},
        "groups": [],
        "found": 0,
        "expected": 25,
        "targets": [],
        "unlinked": 0,
        "counted": 0,
    }
    with house.db.transaction():
        runs.set_reextraction(house.db, house.run, orjson.dumps(told).decode())
    steps = 0
    while runs.is_reextracting(house.db, house.run):
        ReextractionPlanner(house.db, house.run).step()  # a new one each time: nothing is kept in memory
        assert len(shop.extractions()) <= 10 + 7
        house.commit(*map(shop.worked, shop.lease(free=3).jobs))
        steps += 1
        assert steps < 100
    assert sorted(version for _, name, version in shop.made() if name == "book") == [3] * 25
    assert runs.get_reextraction(house.db, house.run) == (None, 25)
    (text,) = [t for (t,) in house.db.all("SELECT text FROM events WHERE kind = 'defs'")]
    assert text == "25 pages re-extracted; book: 25 → 25 rows"


def test_no_look_for_stale_pages_reads_more_than_its_stretch(shop: Shop) -> None:
    house = shop.house
    plans = house.plans(lambda: stale_pages.find_stale(house.db, house.run, 2, 0, 10))
    [(_, plan)] = plans
    assert plan[0] == "SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", plan
    assert not any(line.startswith("SCAN") for line in plan), plan
    shop.publish(defs("title", "price"))
    shop.queue()
    sequence = shop.sequence()
    for sql, plan in house.plans(lambda: house.lease(sequence)):
        assert not any(line.startswith("SCAN") and "json_each" not in line for line in plan), (sql, plan)


@pytest.mark.parametrize("away", [("g",), ("more",)])
def test_links_left_out_while_a_group_was_away_are_looked_for_when_it_is_back(shop: Shop, away: tuple[str]) -> None:
    """The page was leased and is re-extracted under defs that mean the same; in between its result lost its links."""
    house = shop.house
    shop.publish(defs("title", groups=("g", "more")))
    shop.queue()
    while got := shop.lease().jobs:
        house.commit(*map(shop.worked, got))
    house.seed("http://a/late")
    (job,) = house.take("http://a/late")
    shop.publish(defs("title", groups=[name for name in ("g", "more") if name not in away]))
    links = house.done(job, links=[Page("http://a/1", group=away[0])]).children
    house.commit(shop.fetched(job, children=tuple(links)))
    shop.publish(defs("title", groups=("g", "more")))
    shop.queue()
    (again,) = [found for found in shop.lease().jobs if found.page_job == job.id]
    assert again.extracted_with == ()
    assert again.links_stale
