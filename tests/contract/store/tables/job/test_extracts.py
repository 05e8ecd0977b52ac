"""Stale pages are re-extracted by jobs of their own, which replace their rows; outdated outcomes change nothing."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState
from crawl_engine.store.db.filter import GlobFilter, JobFilter
from crawl_engine.store.read import stale_pages
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.job import extracts, jobs, rings
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.row.rows import NewRows, RejectedRecords
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.store.tables.run.runs import StaleSearch
from crawl_engine.store.transactions.commit import commit
from crawl_engine.store.transactions.retry import retry
from crawl_engine.supervise.reload.stale_page_scan import GROUP_REMOVED, ReextractionPlanner
from tests.contract.store.harness import Page, StoreHarness, child
from tests.contract.store.shop import Shop, defs

NewStore = Callable[..., StoreHarness]
_READ_WHERE_HOSTS_SHARE_A_LIMIT = frozenset(
    {"SCAN j USING INDEX jobs_taken", "SCAN hosts USING COVERING INDEX hosts_pool", "SCAN p"}
)
"""Jobs in progress, and what says whether there is any such limit."""


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
    assert stale() == [], "another group was added"
    shop.publish(defs("title", "price"))
    assert stale() == shop.done
    shop.publish(defs("title"))
    assert stale() == [], "back to the original defs"
    shop.publish(defs("title", groups=("g", "more")))
    assert stale() == shop.done, "its links may lead to the new group"


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
    assert (job.kind, job.extraction.page_job, job.lineage.depth, job.url) == (JobKind.EXTRACT, page, 0, "http://a/0")
    assert job.stored is not None
    store.commit(shop.extracted(job, RejectedRecords("book", 2)))
    assert shop.row_versions() == [(page, "shelf", version - 1), (page, "book", version)]
    assert store.row_counts() == {"book": (1, 2), "shelf": (1, 0)}
    assert {o.data_def: o.dirty for o in outputs.list_outputs(store.db, store.run)} == {"book": True, "shelf": False}
    assert shop.extractions() == []
    assert store.db.one("SELECT state, defs FROM jobs WHERE id = ?", (page,)) == ("DONE", version)
    store.check_counters()
    shop.publish(defs("price"))
    shop.queue()
    store.commit(shop.extracted(shop.lease().jobs[0]))
    assert store.row_counts() == {"book": (1, 0), "shelf": (1, 0)}, "rejections are subtracted"


def test_a_page_that_is_stale_at_its_commit_is_queued_in_it(shop: Shop) -> None:
    store = shop.store
    store.seed("http://a/late")
    (job,) = store.take("http://a/late")
    shop.publish(defs("title", "price", groups=("g", "other")))
    links = [child(Page("http://a/1", group="gone")), child(Page("http://a/2"))]
    children = Children(tuple(links))
    finished = shop.fetched(job, children)
    committed = store.commit(finished)
    assert shop.extractions() == [(job.id, "READY")]
    assert [one.url for one in children.jobs] == ["http://a/2"], "a link without a job is not kept"
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


def test_an_outdated_re_extraction_is_requeued_and_writes_nothing(shop: Shop) -> None:
    store = shop.store
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    before = store.rows()
    outdated = shop.extracted(job)
    version = shop.publish(defs("title", "price", "stock"))
    store.commit(outdated)
    assert store.rows() == before
    assert shop.extractions() == [(shop.done[0], "READY")]
    store.commit(shop.extracted(shop.lease().jobs[0]))
    assert sorted(row[1:] for row in shop.row_versions()) == [("book", version), ("shelf", version - 2)]
    store.check_counters()


def test_a_lost_lease_replaces_nothing(shop: Shop) -> None:
    store = shop.store
    shop.publish(defs("title", "price"))
    shop.queue()
    (job,) = shop.lease().jobs
    before = store.rows()
    with store.db.transaction():
        jobs.release_all(store.db, store.run, "test")
    assert store.commit(shop.extracted(job)).accepted_ids == frozenset()
    assert store.rows() == before
    (again,) = shop.lease().jobs
    lost = shop.extracted(job)
    lost.effects = tuple(
        replace(effect, texts=('{"lost":1}',)) if isinstance(effect, NewRows) else effect for effect in lost.effects
    )
    assert store.commit(shop.extracted(again), lost).accepted_ids == {job.id}
    assert len(store.rows()) == 2
    assert not any("lost" in text for _, text in store.rows())
    assert store.db.value("SELECT reextracted FROM runs") == 1


def test_hosts_do_not_block_re_extractions(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=60.0, concurrency=1, robots=False)})
    shop = Shop(store)
    store.now += 120
    store.seed(*[f"http://a/{i}" for i in range(1, 4)])
    assert len(store.take("http://a/1")) == 1
    shop.publish(defs("title", "price"))
    host = store.place("http://a/0").host
    with store.db.transaction():
        hosts.set_backoff(store.db, host, Backoff(store.now + 1000, throttled=True, strike=True))
        extracts.queue(store.db, shop.done)
        assert rings.ring_hosts(store.db, [host], store.now)
    clock = store.db.value("SELECT next_at FROM hosts")
    assert len(shop.lease().jobs) == 1
    assert store.db.value("SELECT next_at FROM hosts") == clock


def test_fetches_come_first_and_re_extraction_is_never_starved(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=0.0, concurrency=1000, robots=False)})
    shop = Shop(store, pages=40)
    shop.publish(defs("title", "price"))
    shop.queue()
    assert len(shop.lease(free=8).jobs) == 8, "nothing is fetched"
    store.seed(*[f"http://b/{i}" for i in range(5)])
    assert len(shop.lease(free=16).jobs) == 2, "pages wait for a slot"
    assert len(shop.lease(free=1).jobs) == 1
    store.take("http://b/0")
    assert len(shop.lease(free=16).jobs) == 8, "pages are being fetched, none waits"


def test_re_extractions_do_not_count_against_a_quota(new_store: NewStore) -> None:
    store = new_store(slots=32, policies={"a:80": HostPolicy(delay=0.0, concurrency=1000, robots=False)})
    shop = Shop(store, pages=10)
    shop.publish(defs("title", "price"))
    shop.queue()
    assert store.db.value("SELECT active_sequences FROM runs") == 0
    store.seed(*[f"http://a/x{i}" for i in range(40)])
    assert store.db.value("SELECT active_sequences FROM runs") == 1
    assert len(store.take("http://a/0")) == 32


def test_an_extract_only_run_leases_only_re_extractions(shop: Shop) -> None:
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
    assert store.commit(shop.extracted(job)).accepted_ids == frozenset()
    assert store.rows() == []
    assert store.row_counts() == {"book": (0, 0), "shelf": (0, 0)}
    store.finish_all("http://a/0")
    store.check_counters()


def test_jobs_of_an_absent_group_are_skipped_and_requeued_in_batches(new_store: NewStore) -> None:
    store = new_store()
    shop = Shop(store)
    shop.publish(defs("title", groups=("g", "more")))
    store.seed(*[f"http://a/m{i}" for i in range(30)], group="more")
    (waiting,) = store.take("http://a/m0", "more", free=1)
    store.commit(JobOutcome(job=waiting, state=JobState.READY, attempts=1, not_before=store.now + 100))
    planner = ReextractionPlanner(store.context())
    shop.publish(defs("title"))
    assert store.take("http://a/m0", "more") == (), "suspended before all of them are skipped"
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


def test_the_search_continues_from_its_stored_position(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from crawl_engine.supervise.reload import stale_page_scan

    monkeypatch.setattr(stale_page_scan, "_SCAN_SIZE", 7)
    monkeypatch.setattr(stale_page_scan, "_MAX_QUEUED", 10)
    store = new_store()
    shop = Shop(store, pages=25)
    shop.publish(defs("title", "price"))
    search = StaleSearch(upto=stale_pages.last_job_id(store.db), before={"book": 25}, expected=25)
    with store.db.transaction():
        runs.set_reextraction(store.db, store.run, search)
    steps = 0
    while runs.is_reextracting(store.db, store.run):
        ReextractionPlanner(store.context()).step()  # a new planner each time: it keeps nothing in memory
        assert len(shop.extractions()) <= 10 + 7
        store.commit(*map(shop.extracted, shop.lease(free=3).jobs))
        steps += 1
        assert steps < 100
    assert sorted(version for _, name, version in shop.row_versions() if name == "book") == [3] * 25
    assert runs.get_reextraction(store.db, store.run) == (None, 25)
    (text,) = [t for (t,) in store.db.all("SELECT text FROM events WHERE kind = 'defs'")]
    assert text == "25 pages re-extracted; book: 25 → 25 rows"


def test_the_search_for_stale_pages_reads_only_its_range(shop: Shop) -> None:
    store = shop.store
    plans = store.plans(lambda: stale_pages.find_stale(store.db, store.run, 2, 0, 10))
    [(_, plan)] = plans
    assert plan[0] == "SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", plan
    assert not any(line.startswith("SCAN") for line in plan), plan
    shop.publish(defs("title", "price"))
    shop.queue()
    sequence = shop.sequence()
    for sql, plan in store.plans(lambda: store.lease(sequence)):
        scans = [line for line in plan if line.startswith("SCAN") and line not in _READ_WHERE_HOSTS_SHARE_A_LIMIT]
        assert all("VIRTUAL TABLE" in line or "CONSTANT ROW" in line for line in scans), (sql, plan)


@pytest.mark.parametrize("away", [("g",), ("more",)])
def test_links_dropped_while_a_group_was_absent_are_extracted_when_it_is_back(shop: Shop, away: tuple[str]) -> None:
    """The page was leased and is re-extracted under equal defs; in between its result lost its links."""
    store = shop.store
    shop.publish(defs("title", groups=("g", "more")))
    shop.queue()
    while got := shop.lease().jobs:
        store.commit(*map(shop.extracted, got))
    store.seed("http://a/late")
    (job,) = store.take("http://a/late")
    shop.publish(defs("title", groups=[name for name in ("g", "more") if name not in away]))
    store.commit(shop.fetched(job, Children((child(Page("http://a/1", group=away[0])),))))
    shop.publish(defs("title", groups=("g", "more")))
    shop.queue()
    (again,) = [leased for leased in shop.lease().jobs if leased.extraction.page_job == job.id]
    assert again.extraction.extracted_with == ()
    assert again.extraction.links_stale
