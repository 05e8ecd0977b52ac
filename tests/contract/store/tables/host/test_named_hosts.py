"""Hosts that locators name, jobs that may leave their host, and what a host skipped by the address guard gets back."""

import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState, ReasonCode, link_key, locator_key
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import HostFailure, StoredRobots
from crawl_engine.store.tables.job import jobs, linked_jobs, locators
from crawl_engine.store.tables.job.jobs import NewLocator
from crawl_engine.store.tables.job.linked_jobs import Children, NewLink
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions import placement, robots
from crawl_engine.store.transactions.robots import RobotsWanted
from crawl_engine.supervise.reload.defs_sync import ReextractionPlanner
from tests.contract.store.harness import Page, StoreHarness, child

NewStore = Callable[..., StoreHarness]
REASON = 'address 10.0.0.1 is private; to allow it: hosts: {"x:80": {private: true}}'
POLICY = HostPolicy(delay=0.0, concurrency=8, robots=True)
GUARDED = HostFailure(failed=False, guarded="x:80")


def _skip_robots(store: StoreHarness) -> None:
    sequence = store.db.value("SELECT id FROM sequences WHERE kind = 'robots'")
    (robots,) = store.lease(sequence).jobs
    store.commit(JobOutcome(job=robots, state=JobState.SKIPPED, reason=REASON, reason_code=ReasonCode.ADDRESS))


def test_only_hosts_of_locators_are_named(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://[::1]:8080/", "http://b.example:81/")
    (job,) = store.take("http://a/1")
    store.commit(store.done(job, links=[Page("http://c/1"), Page("http://b.example:82/")]))
    named = {key for key in hosts.list_keys(store.db, store.run) if hosts.is_named(store.db, store.run, key)}
    assert named == {"a:80", "[::1]:8080", "b.example:81"}
    names = ["a", "[::1]", "b.example", "c", "b", "example", "a:80", ""]
    assert [name for name in names if hosts.is_name_named(store.db, store.run, name)] == ["a", "[::1]", "b.example"]
    assert not hosts.is_named(store.db, store.run + 1, "a:80")


def test_a_redirected_locator_does_not_name_the_host_it_leads_to(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    outcome = JobOutcome(job=job, state=JobState.READY, hops=1, target="http://b/1", next_host=("b:80", "http://b"))
    store.commit(outcome)
    assert store.jobs("url, target") == [("http://a/1", "http://b/1")]
    assert not hosts.is_named(store.db, store.run, "b:80")


def test_names_are_found_by_index(store: StoreHarness) -> None:
    store.seed("http://a/1")
    for work in (
        lambda: hosts.is_named(store.db, store.run, "a:80"),
        lambda: hosts.is_name_named(store.db, store.run, "a"),
    ):
        for statement, plan in store.plans(work):
            assert not any(line.startswith("SCAN hosts") for line in plan), (statement, plan)


def test_a_job_knows_whether_it_may_leave_its_host(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    assert job.lineage.may_leave_host
    free, strict = child(Page("http://a/free"))._replace(may_leave_host=True), child(Page("http://a/strict"))
    store.commit(store.done(job, Children((free, strict))))
    leased = {job.url: job.lineage.may_leave_host for job in store.take("http://a/1")}
    assert leased == {"http://a/free": True, "http://a/strict": False}


def test_a_link_that_becomes_a_locator_may_leave_its_host(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    store.commit(store.done(job, links=[Page("http://a/2")]))
    with store.db.transaction():
        located = locators.ensure(store.db, store.run, "g", "later", "{}")
        url, sequence = "http://a/2", store.db.value("SELECT sequence FROM jobs WHERE url = 'http://a/2'")
        key = locator_key("g", "later", url, "GET", None)
        new = NewLocator(store.run, sequence, 0, located, url, link_key("g", url), key)
        jobs.add_locators(store.db, [new])
    assert store.jobs("url, origin, may_leave_host")[1:] == [("http://a/2", "locator", 1)]


def test_pages_of_a_guarded_host_do_not_wait_for_its_robots_txt(new_store: NewStore) -> None:
    store = new_store(policies={"x:80": POLICY})
    store.seed("http://x/1")
    _skip_robots(store)
    stored = hosts.get_robots(store.db, 1)
    assert isinstance(stored, StoredRobots)
    assert stored.is_guarded
    assert len(store.take("http://x/1")) == 1
    store.check_counters()


def test_a_host_that_is_no_longer_guarded_is_asked_for_its_robots_txt_before_its_pages(new_store: NewStore) -> None:
    store = new_store(policies={"x:80": POLICY})
    store.seed("http://x/1", "http://x/2")
    _skip_robots(store)
    first, second = store.take("http://x/1")
    asking = [JobOutcome(job=job, state=JobState.READY, effects=(RobotsWanted(),)) for job in (first, second)]
    result = store.commit(*asking)
    assert store.db.value("SELECT id FROM sequences WHERE kind = 'robots'") in result.ring
    assert hosts.get_robots(store.db, 1) is None
    assert store.take("http://x/1") == ()
    _skip_robots(store)
    assert len(store.take("http://x/1")) == 2
    store.check_counters()


def test_the_guard_leaves_an_earlier_robots_txt_in_force(new_store: NewStore) -> None:
    store = new_store(policies={"x:80": POLICY})
    store.seed("http://x/1")
    with store.db.transaction():
        hosts.set_robots(store.db, 1, 200, "Disallow: /", 2.0, fetched_at=time.time() - 24 * 3600)
        robots.ask_stale_hosts(store.db, store.run, time.time())
    _skip_robots(store)
    assert store.db.one("SELECT robots, robots_status, crawl_delay FROM hosts") == ("KNOWN", 200, 2.0)


@pytest.mark.parametrize("obeys_robots", [True, False])
def test_a_readmitted_host_is_asked_for_its_robots_txt_before_its_pages(
    new_store: NewStore, obeys_robots: bool
) -> None:
    store = new_store(policies={"x:80": POLICY})
    store.seed("http://x/1", "http://x/2")
    _skip_robots(store)
    first, second = store.take("http://x/1")
    store.commit(
        JobOutcome(job=first, state=JobState.SKIPPED, reason=REASON, reason_code=ReasonCode.ADDRESS),
        JobOutcome(job=second, state=JobState.SKIPPED, reason="not a page: image/png", reason_code=ReasonCode.NO_PAGE),
    )
    with store.db.transaction():
        placement.readmit_host(store.db, store.run, "x:80", replace(POLICY, robots=obeys_robots))
    planner = ReextractionPlanner(store.context())
    while not planner.done:
        planner.step()
    expected = [("http://x/1", "READY"), ("http://x/2", "SKIPPED")]
    robots = ("http://x/robots.txt", "READY" if obeys_robots else "SKIPPED")
    assert sorted(store.jobs()) == sorted([*expected, robots])
    leased = store.take("http://x/1")
    assert [job.url for job in leased] == ([] if obeys_robots else ["http://x/1"])
    store.check_counters()


def test_naming_a_host_tells_which_ones_skipped_jobs(new_store: NewStore) -> None:
    store = new_store(policies={"x:80": POLICY})
    quiet, skipped = store.place("http://quiet/1"), store.place("http://x/1", kind=JobKind.SITEMAP)
    _skip_robots(store)
    with store.db.transaction():
        assert hosts.mark_named(store.db, [quiet.host, skipped.host]) == ["x:80"]
        assert hosts.mark_named(store.db, [quiet.host, skipped.host]) == []
    assert hosts.is_named(store.db, store.run, "quiet:80")


@pytest.mark.parametrize("kind", [JobKind.PAGE, JobKind.ROBOTS])
def test_a_refusal_on_its_way_while_its_host_is_named_is_taken_back(new_store: NewStore, kind: JobKind) -> None:
    store = new_store(policies={"x:80": replace(POLICY, robots=kind is JobKind.ROBOTS)})
    host = store.place("http://x/1").host
    with store.db.transaction():
        place = store.places.find_or_create(store.db, "g", "x:80", "http://x")
        linked_jobs.add_links(store.db, [NewLink(store.run, place.sequence, 0, 0, None, 0, "http://x/1", b"1")])
    (job,) = store.lease(store.db.value("SELECT id FROM sequences WHERE kind = ?", (kind,))).jobs
    refused = JobOutcome(
        job=job, state=JobState.SKIPPED, reason=REASON, reason_code=ReasonCode.ADDRESS,
        effects=(GUARDED, Event(0.0, "INFO", "n1", "page", REASON, job.id)),
    )  # fmt: skip
    with store.db.transaction():
        assert hosts.mark_named(store.db, [host]) == [], "nothing is skipped yet"
    store.commit(refused)
    assert store.state(job.id) == "READY"
    assert REASON not in [event.text for event in store.list_events()]
    assert len(store.lease(job.sequence).jobs) == 1
    store.check_counters()


def test_a_refusal_of_a_host_that_is_not_named_stays(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    store.commit(
        JobOutcome(job=job, state=JobState.SKIPPED, reason=REASON, reason_code=ReasonCode.ADDRESS, effects=(GUARDED,))
    )
    assert store.state(job.id) == "SKIPPED"
