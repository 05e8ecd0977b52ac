"""Many child jobs are committed in pieces before their page; a lost lease or an old epoch writes nothing."""

import pytest
from msgspec.structs import replace

from crawl_engine.errors import Fenced
from crawl_engine.model.definition import TaskGroup
from crawl_engine.model.job import JobState, LeasedJob, ReasonCode
from crawl_engine.model.link import LinkRequest
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.store.transactions.children import ChildrenResult, commit_children
from tests.contract.store.harness import DEFS, Page, StoreHarness, child

PAGES = [Page(f"http://a/{number}") for number in range(10)]


def commit_piece(store: StoreHarness, outcome: JobOutcome, count: int) -> ChildrenResult | None:
    return commit_children(store.db, store.nodes[0], store.run, outcome, count, store.places, store.now)


@pytest.fixture
def job(store: StoreHarness) -> LeasedJob:
    store.seed("http://a/start")
    (job,) = store.take("http://a/")
    return job


def children_of(outcome: JobOutcome) -> Children:
    (children,) = outcome.find_all(Children)
    return children


def urls_of(store: StoreHarness) -> list[str]:
    return [url for (url,) in store.db.all("SELECT url FROM jobs WHERE origin = 'link' ORDER BY id")]


def test_pieces_and_the_commit_create_each_child_once(store: StoreHarness, job: LeasedJob) -> None:
    outcome = store.done(job, data=["{}"], links=PAGES)
    first = commit_piece(store, outcome, 4)
    assert first is not None
    assert [child.url for child in first.committed] == [page.url for page in PAGES[:4]]
    assert first.ring == (store.sequence("http://a/"),)
    assert len(children_of(outcome).jobs) == 6
    assert store.jobs("state")[0][0] == "TAKEN", "the page itself is not done"
    assert store.rows() == []
    assert commit_piece(store, outcome, 4) is not None
    assert store.commit(outcome).accepted_ids == {job.id}
    assert urls_of(store) == [page.url for page in PAGES]
    assert len(store.rows()) == 1
    store.check_counters()


@pytest.mark.parametrize("pieces", [0, 5])
def test_children_keep_since_when_a_stored_document_replaces_their_fetch(
    store: StoreHarness, job: LeasedJob, pieces: int
) -> None:
    outcome = store.done(job, links=PAGES)
    children = children_of(outcome)
    children.jobs = tuple(
        child._replace(fresh_since=None if number % 2 else 100.5 + number) for number, child in enumerate(children.jobs)
    )
    if pieces:
        commit_piece(store, outcome, pieces)
    store.commit(outcome)
    expected = {page.url: None if number % 2 else 100.5 + number for number, page in enumerate(PAGES)}
    leased = store.take("http://a/", free=6)
    assert {one.url: one.lineage.fresh_since for one in leased} == {one.url: expected[one.url] for one in leased}
    assert len(leased) > 2

    # a retry asks for the page, and so does a locator that names it
    store.commit(*(store.done(one) for one in leased))
    ended, *_ = [one for one in leased if one.lineage.fresh_since is not None]
    with store.db.transaction():
        assert jobs.reopen(store.db, [ended.id], []) == 1
    waiting = store.jobs("url, fresh_since, state")
    (named, *_) = [url for url, moment, state in waiting if state == "READY" and moment is not None]
    store.seed(named)
    now = {url: moment for url, moment, _ in store.jobs("url, fresh_since, state")}
    assert (now[ended.url], now[named]) == (None, None)
    store.check_counters()


def test_a_repeated_attempt_creates_no_child_twice(store: StoreHarness, job: LeasedJob) -> None:
    commit_piece(store, store.done(job, links=PAGES), 5)
    with store.db.transaction():
        assert jobs.release(store.db, store.nodes[0], "it died", crashed=True) == 1
    again = store.done(_retaken(store, job), links=PAGES)
    commit_piece(store, again, 7)
    store.commit(again)
    assert sorted(urls_of(store)) == [page.url for page in PAGES]
    store.check_counters()


def _retaken(store: StoreHarness, job: LeasedJob) -> LeasedJob:
    while True:
        for taken in store.take("http://a/"):
            if taken.id == job.id:
                return taken


def test_a_lost_lease_writes_nothing(store: StoreHarness, job: LeasedJob) -> None:
    late = store.done(job, links=PAGES)
    with store.db.transaction():
        jobs.release(store.db, store.nodes[0], "it hung", crashed=True)
    assert commit_piece(store, late, 5) is None
    assert urls_of(store) == []


def test_an_old_epoch_writes_nothing(store: StoreHarness, job: LeasedJob) -> None:
    outcome = store.done(job, links=PAGES)
    with pytest.raises(Fenced):
        commit_children(store.db, 999, store.run, outcome, 5, store.places, store.now)
    assert urls_of(store) == []
    assert len(children_of(outcome).jobs) == 10


def test_links_into_groups_that_the_defs_lost_are_dropped_and_remembered(store: StoreHarness, job: LeasedJob) -> None:
    outcome = store.done(job, links=[Page("http://a/gone", group="lost"), *PAGES])
    with store.db.transaction():
        version = versions.publish(store.db, replace(DEFS, task_groups=(TaskGroup(name="g"),)), 1.0)
        runs.set_version(store.db, store.run, version)
    result = commit_piece(store, outcome, 5)
    assert result is not None
    assert len(result.committed) == 4
    assert outcome.links_dropped
    store.commit(outcome)
    assert outcome.links_dropped, "the page is re-extracted for its links if the group comes back"
    assert store.jobs("defs")[0] == (None,)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("first", [0, 1])
def test_of_pages_that_name_each_other_as_canonical_one_is_kept(
    store: StoreHarness, first: int, *, together: bool
) -> None:
    store.seed("http://a/0", "http://a/1")
    leased = store.take("http://a/")
    request = LinkRequest(relation="canonical").to_json()
    skipped = [
        JobOutcome(
            job=job,
            state=JobState.SKIPPED,
            reason=f"its canonical URL is {other.url}",
            reason_code=ReasonCode.CANONICAL,
            effects=(Children((child(Page(other.url))._replace(request=request),)),),
        )
        for job, other in zip(leased, reversed(leased), strict=True)
    ]
    ordered = [skipped[first], skipped[1 - first]]
    for outcomes in [ordered] if together else [ordered[:1], ordered[1:]]:
        store.commit(*outcomes)
    assert sorted(state for (state,) in store.jobs("state")) == ["READY", "SKIPPED"]
    (kept,) = store.take("http://a/")
    assert kept.lineage.link.relation == "canonical"
    store.check_counters()
