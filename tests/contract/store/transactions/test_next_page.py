"""The page that a finished one leads to is created and leased before the commit of that one."""

from collections.abc import Callable
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from crawl_engine.errors import Fenced
from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobOrigin, JobState, LeasedJob, link_key
from crawl_engine.model.link import LinkRequest
from crawl_engine.model.node import NodeState
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.postgres_schema import read_tables
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.host.cookie_jars import CookiesChanged
from crawl_engine.store.tables.job import jobs, rings, sequences
from crawl_engine.store.tables.job.linked_jobs import ChildJob, Children
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import Effect, JobOutcome
from crawl_engine.store.tables.run import nodes, versions
from crawl_engine.store.transactions import next_page
from crawl_engine.store.transactions.lease import may_take_new_job
from crawl_engine.store.transactions.next_page import NextPageLease, leads_to_one_page, lease_next_page
from tests.contract.store.harness import DEFS, REQUEST, Page, StoreHarness, child


def advance(store: StoreHarness, outcome: JobOutcome, *, held: int = 1, free: int = 8) -> NextPageLease | None:
    return lease_next_page(
        store.db, store.run, outcome, store.places, store.now, store.lease_request(free=free, held=held)
    )


@pytest.fixture
def job(store: StoreHarness) -> LeasedJob:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    return job


def test_a_series_is_leased_page_by_page_and_committed_at_once(store: StoreHarness, job: LeasedJob) -> None:
    outcomes = []
    for number in range(2, 7):
        outcome = store.done(job, data=["{}"], links=[Page(f"http://a/{number}")])
        result = advance(store, outcome, held=len(outcomes) + 1)
        assert result is not None
        assert result.ring == ()
        (job,) = result.leased
        assert job.url == f"http://a/{number}"
        outcome.remove(Children)
        outcomes.append(outcome)
    assert store.jobs() == [(f"http://a/{number}", "TAKEN") for number in range(1, 7)]
    assert store.rows() == []
    outcomes.append(store.done(job, data=["{}"]))
    assert store.commit(*outcomes).accepted_ids == {outcome.job.id for outcome in outcomes}
    assert store.jobs() == [(f"http://a/{number}", "DONE") for number in range(1, 7)]
    assert [parent for (parent,) in store.jobs("parent")] == [None, *(outcome.job.id for outcome in outcomes[:-1])]
    assert len(store.rows()) == 6
    store.check_counters()
    store.check_sums()


SERIES = '{"method":"POST","headers":[],"cookies":[],"body":"q=1","content_type":null,"series":{"first":1}}'
URL, KEY = "http://a/2", link_key("g", "http://a/2")
POST = LinkRequest(method="POST", body="p=2")
CHILDREN = {
    "a link": ChildJob("g", "a:80", "http://a", URL, 1, 3, KEY),
    "a link that carries": ChildJob("g", "a:80", "http://a", URL, 1, 0, KEY, carried='[{"a":"1"},""]'),
    "a form": ChildJob("g", "a:80", "http://a", URL, 1, 0, b"form", request=POST.to_json()),
    "a next page": ChildJob(
        "g", "a:80", "http://a", URL, 0, 0, b"next", request=LinkRequest(relation="next").to_json(), page_key=KEY
    ),
    "a next page of a POST": ChildJob(
        "g", "a:80", "http://a", "http://a/1", 0, 0, b"post", request=replace(POST, relation="next").to_json()
    ),
    "a page of a series": ChildJob(
        "g", "a:80", "http://a", URL, 0, 0, b"series", may_leave_host=True, request=LinkRequest(page=2).to_json(),
        carried='[{},"abc"]', page_key=KEY, in_series=True,
    ),
    "a page of a series of bodies": ChildJob(
        "g", "a:80", "http://a", "http://a/1", 0, 0, b"series", request=LinkRequest(body="q=2", page=2).to_json(),
        in_series=True,
    ),
    "a page seen lately": ChildJob("g", "a:80", "http://a", URL, 1, 0, KEY, fresh_since=5.0),
}  # fmt: skip


@pytest.mark.parametrize("child", CHILDREN.values(), ids=CHILDREN)
@pytest.mark.parametrize("request_", [REQUEST, SERIES], ids=["GET", "POST"])
def test_a_job_that_is_created_taken_is_as_one_that_is_created_and_leased(
    new_store: Callable[..., StoreHarness], monkeypatch: pytest.MonkeyPatch, child: ChildJob, request_: str
) -> None:
    def created(*, taken: bool) -> tuple[object, ...]:
        store = new_store()
        monkeypatch.setattr(next_page, "may_take_new_job", may_take_new_job if taken else lambda *_: False)
        store.seed("http://a/1", request=request_, body="q=1" if request_ == SERIES else None)
        (job,) = store.take("http://a/")
        result = advance(store, store.done(job, Children((child,))))
        assert result is not None
        assert len(result.leased) == 1
        store.check_counters()
        columns = ", ".join(name for name in read_tables()["jobs"] if name != "changed_at")
        leased = [one._replace(lease=0) for one in result.leased]
        assert [one.lease for one in result.leased] == [
            row[0] for row in store.db.all("SELECT lease FROM jobs WHERE id > 1")
        ]
        return leased, result.ring, store.jobs(columns.replace("lease,", "")), store.rung()

    both = created(taken=True), created(taken=False)
    assert both[0] == both[1]


def test_a_job_that_waits_comes_before_the_page_that_is_created(store: StoreHarness, job: LeasedJob) -> None:
    store.seed("http://a/0")
    result = advance(store, store.done(job, links=[Page("http://a/2")]), free=1)
    assert result is not None
    assert [one.url for one in result.leased] == ["http://a/0"]
    assert ("http://a/2", "READY") in store.jobs()
    store.check_counters()


def test_a_page_that_another_job_is_fetching_waits_for_its_document(store: StoreHarness, job: LeasedJob) -> None:
    store.seed("http://a/2", group="other")
    assert len(store.take("http://a/", "other")) == 1
    result = advance(store, store.done(job, links=[Page("http://a/2")]))
    assert result is not None
    assert result.leased == ()
    assert store.jobs()[2] == ("http://a/2", "READY")
    store.check_counters()


def test_a_page_that_has_a_job_gets_no_second_one(store: StoreHarness, job: LeasedJob) -> None:
    store.seed("http://a/2")
    outcome = store.done(job, links=[Page("http://a/2")])
    result = advance(store, outcome)
    assert result is not None
    assert [one.lineage.origin for one in result.leased] == [JobOrigin.LOCATOR], "the job that there was"
    assert store.take("http://a/") == ()
    assert len(store.jobs()) == 2
    assert advance(store, outcome, held=2) == NextPageLease(leased=(), ring=(), due=None)
    assert len(store.jobs()) == 2
    store.check_counters()


def test_the_commit_of_a_page_whose_children_were_not_dropped_creates_no_second_job(
    store: StoreHarness, job: LeasedJob
) -> None:
    outcome = store.done(job, links=[Page("http://a/2")])
    advance(store, outcome)
    assert store.commit(outcome).accepted_ids == {job.id}
    assert store.jobs() == [("http://a/1", "DONE"), ("http://a/2", "TAKEN")]
    store.check_counters()


def test_after_the_death_of_the_node_both_pages_are_worked_once_more(store: StoreHarness, job: LeasedJob) -> None:
    outcome = store.done(job, data=["{}"], links=[Page("http://a/2")])
    result = advance(store, outcome)
    assert result is not None
    with store.db.transaction():
        jobs.release(store.db, store.nodes[0], "died", crashed=False)
        sequences.recount_taken(store.db, store.run)
        rings.ring_all(store.db, store.run, store.now)
    late = store.commit(outcome, store.done(result.leased[0], data=["{}"]))
    assert late.accepted_ids == frozenset()
    assert store.rows() == []
    again = store.take("http://a/")
    assert [one.url for one in again] == ["http://a/1", "http://a/2"]
    store.commit(store.done(again[0], data=["{}"], links=[Page("http://a/2")]), store.done(again[1], data=["{}"]))
    assert store.jobs() == [("http://a/1", "DONE"), ("http://a/2", "DONE")]
    assert len(store.rows()) == 2
    store.check_counters()


def test_without_a_valid_lease_nothing_is_written(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        jobs.release_all(store.db, store.run, "lost")
        sequences.recount_taken(store.db, store.run)
    assert advance(store, store.done(job, links=[Page("http://a/2")])) is None
    assert store.jobs() == [("http://a/1", "READY")]


def test_a_fenced_node_writes_nothing(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        nodes.set_state(store.db, store.nodes[0], NodeState.DEAD)
    with pytest.raises(Fenced):
        advance(store, store.done(job, links=[Page("http://a/2")]))
    assert store.jobs() == [("http://a/1", "TAKEN")]


def test_a_paused_sequence_gets_the_job_but_no_lease(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        sequences.pause(store.db, store.run, "1", True)
    result = advance(store, store.done(job, links=[Page("http://a/2")]))
    assert result == NextPageLease(leased=(), ring=(), due=None)
    assert store.jobs() == [("http://a/1", "TAKEN"), ("http://a/2", "READY")]
    store.check_counters()


def test_a_page_of_a_host_that_takes_no_more_is_left_to_a_ring(new_store: Callable[..., StoreHarness]) -> None:
    store = new_store(policies={"a:80": HostPolicy(0.0, 1, False), "b:80": HostPolicy(0.5, 8, False)})
    store.seed("http://a/1", "http://b/1")
    (job,) = store.take("http://a/")
    (slow,) = store.take("http://b/")
    result = advance(store, store.done(job, links=[Page("http://b/2")]))
    assert result is not None
    assert result.leased == ()
    assert ("http://b/2", "READY") in store.jobs()
    assert not leads_to_one_page(store.done(slow, links=[Page("http://b/3")])), "its host has a delay"


def test_a_page_of_a_group_that_the_current_defs_lack_gets_no_job(store: StoreHarness, job: LeasedJob) -> None:
    with store.db.transaction():
        version = versions.publish(store.db, DEFS, 1.0)
        store.db.execute("UPDATE runs SET defs_version = ?", (version + 1,))
    outcome = store.done(job._replace(defs_version=version), links=[Page("http://a/2", "removed")])
    result = advance(store, outcome)
    assert result is not None
    assert result.leased == ()
    assert outcome.links_dropped
    assert store.jobs() == [("http://a/1", "TAKEN")]


@pytest.mark.sqlite
def test_the_next_commit_is_durable_again(store: StoreHarness, job: LeasedJob) -> None:
    durable = connect(store.folder / CRAWL)
    full, normal = 2, 1
    for _ in range(2):
        with durable.transaction():
            assert durable.value("PRAGMA synchronous") == full
        with durable.light_transaction():
            assert durable.value("PRAGMA synchronous") == normal
        with pytest.raises(KeyError), durable.light_transaction():
            raise KeyError
    durable.close()
    with store.db.transaction():
        assert store.db.value("PRAGMA synchronous") == normal, "it was opened without"


ONE = (child(Page("http://a/2")),)


@pytest.mark.parametrize(
    ("state", "effects", "leads"),
    [
        (JobState.DONE, (Children(ONE),), True),
        (JobState.FAILED, (Children(ONE),), False),
        (JobState.DONE, (Children(ONE), CookiesChanged(Mock())), False),
        (JobState.DONE, (Children(ONE), PluginRun({})), True),
        (JobState.DONE, (Children(ONE), PluginRun({"count": "1"})), False),
        (JobState.DONE, (Children(ONE, iter(())),), False),
        (JobState.DONE, (Children(),), False),
        (JobState.DONE, (), False),
    ],
)
def test_what_leads_to_one_page(job: LeasedJob, state: JobState, effects: tuple[Effect, ...], leads: bool) -> None:
    assert leads_to_one_page(JobOutcome(job=job, state=state, effects=effects)) is leads
