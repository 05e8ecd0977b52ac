"""robots.txt in the store: kept for a day across runs, asked for again, and moved by redirects."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import JobKind, JobState, LeasedJob, ReasonCode
from crawl_engine.model.run import RunState
from crawl_engine.robots.rules import is_readable
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.read import host_rows
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import StoredRobots
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import runs
from crawl_engine.store.transactions import placement, robots
from crawl_engine.store.transactions.retry import retry
from crawl_engine.store.transactions.robots import RobotsResult
from tests.contract.store.harness import StoreHarness, failed, moved

NewStore = Callable[..., StoreHarness]
HOUR = 3600.0
POLICY = HostPolicy(delay=0.0, concurrency=8, robots=True, agent="us")
TEXT = "User-agent: *\nDisallow: /no"


@pytest.fixture
def gated(new_store: NewStore) -> StoreHarness:
    """Two hosts whose robots.txt is required; the first has a page."""
    store = new_store(policies={"a:80": POLICY, "b:80": POLICY})
    store.seed("http://a/1")
    return store


def lease_robots(store: StoreHarness, host: str = "a:80") -> LeasedJob:
    sequence = store.db.value(
        "SELECT s.id FROM sequences s JOIN hosts h ON h.id = s.host WHERE s.kind = 'robots' AND h.key = ?", (host,)
    )
    (job,) = store.lease(int(sequence)).jobs
    return job


SIGNAL = {"search": "yes", "ai-train": "no"}


def readable(job: LeasedJob, *, age: float = 0.0, delay: float = 0.0) -> JobOutcome:
    result = RobotsResult(200, TEXT, delay, "us", time.time() - age, SIGNAL)
    return JobOutcome(job=job, state=JobState.DONE, attempts=1, effects=(result,))


def unreadable(job: LeasedJob, reason: str = "connection refused") -> JobOutcome:
    return failed(job, reason).add(RobotsResult(0, reason, 0.0, "us"))


def state(store: StoreHarness, host: str = "a:80") -> tuple[Any, ...] | None:
    return store.db.one(
        "SELECT robots, robots_status, robots_text FROM hosts WHERE run = ? AND key = ?", (store.run, host)
    )


def signals(store: StoreHarness) -> dict[str, dict[str, str]]:
    return {row.host: row.content_signal for row in host_rows.list_hosts(store.db, store.run, 9, 1)}


def next_run(store: StoreHarness, policy: HostPolicy = POLICY) -> None:
    with store.db.transaction():
        runs.supersede(store.db)
        store.run = runs.create(store.db, None, 0.0).seq
        runs.begin(store.db, store.run, 0.0)
        runs.set_slots(store.db, store.run, 64)
        for run_state in (RunState.SEEDING, RunState.READY):
            runs.set_state(store.db, store.run, run_state)
    store.places = store.new_places({"a:80": policy})


@pytest.mark.parametrize(
    ("age", "policy", "reused"),
    [
        (0.0, POLICY, True),
        (22.9 * HOUR, POLICY, True),
        (23.1 * HOUR, POLICY, False),
        (-HOUR, POLICY, False),
        (0.0, HostPolicy(delay=0.0, concurrency=8, robots=True, agent="others"), False),
        (0.0, HostPolicy(delay=0.0, concurrency=8, robots=False, agent="us"), False),
    ],
)
def test_a_new_run_takes_over_a_robots_txt_of_today(
    gated: StoreHarness, age: float, policy: HostPolicy, reused: bool
) -> None:
    gated.commit(readable(lease_robots(gated), age=age, delay=2.0))
    next_run(gated, policy)
    gated.seed("http://a/1")
    known, status, text = state(gated) or ()
    assert known == ("KNOWN" if reused else "WANTED" if policy.robots else "OFF")
    assert (status, text) == ((200, TEXT) if reused else (None, None))
    kinds = [kind for (kind,) in gated.db.all("SELECT kind FROM sequences WHERE run = ? ORDER BY id", (gated.run,))]
    assert ("robots" in kinds) is (policy.robots and not reused)
    assert signals(gated)["a:80"] == (SIGNAL if reused else {})
    if reused:
        assert [job.terms.delay for job in gated.take("http://a/")] == [2.0]


def test_an_unreadable_one_is_not_taken_over(gated: StoreHarness) -> None:
    gated.commit(unreadable(lease_robots(gated)))
    next_run(gated)
    gated.seed("http://a/1")
    assert state(gated) == ("WANTED", None, None)


def test_an_unreadable_one_lets_its_pages_be_leased_without_a_delay(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=30.0, concurrency=8, robots=True)})
    store.seed(*[f"http://a/{n}" for n in range(50)])
    store.commit(unreadable(lease_robots(store)))
    assert state(store) == ("KNOWN", 0, "connection refused")
    store.now += 30
    taken = store.take("http://a/", free=64)
    assert len(taken) == 32, "up to a batch of the concurrency and four times as many spare jobs: nothing will be sent"
    assert {job.terms.send_at for job in taken} == {None}


def test_a_stale_one_is_asked_for_again_and_kept_while_it_cannot_be_read(gated: StoreHarness) -> None:
    gated.commit(readable(lease_robots(gated), age=23.5 * HOUR))
    host = int(gated.db.value("SELECT id FROM hosts"))
    with gated.db.transaction():
        assert robots.ask_stale_hosts(gated.db, gated.run, time.time()) == 1
        assert robots.ask_stale_hosts(gated.db, gated.run, time.time()) == 0
    gated.check_counters()
    assert gated.take("http://a/") == (), "its pages wait"
    copy = hosts.get_robots(gated.db, host)
    assert isinstance(copy, StoredRobots)
    assert copy.text == TEXT, "for pages that were leased before"
    result = gated.commit(unreadable(lease_robots(gated)))
    assert state(gated) == ("KNOWN", 200, TEXT)
    assert signals(gated)["a:80"] == SIGNAL
    assert len(result.ring) == 1
    assert len(gated.take("http://a/")) == 1


def test_the_content_signal_of_the_newest_copy_is_in_force(gated: StoreHarness) -> None:
    gated.commit(readable(lease_robots(gated), age=23.5 * HOUR))
    with gated.db.transaction():
        robots.ask_stale_hosts(gated.db, gated.run, time.time())
    assert signals(gated)["a:80"] == SIGNAL
    job = lease_robots(gated)
    gated.commit(JobOutcome(job=job, state=JobState.DONE, effects=(RobotsResult(404, "", 0.0, "us", time.time()),)))
    assert signals(gated)["a:80"] == {}


def test_one_that_cannot_be_read_for_a_month_closes_the_host(gated: StoreHarness) -> None:
    gated.commit(readable(lease_robots(gated), age=31 * 24 * HOUR))
    with gated.db.transaction():
        robots.ask_stale_hosts(gated.db, gated.run, time.time())
    gated.commit(unreadable(lease_robots(gated)))
    assert state(gated) == ("KNOWN", 0, "connection refused")


def test_only_hosts_with_open_pages_are_asked_again(gated: StoreHarness) -> None:
    gated.commit(readable(lease_robots(gated), age=50 * HOUR))
    gated.finish_all("http://a/")
    with gated.db.transaction():
        assert robots.ask_stale_hosts(gated.db, gated.run, time.time()) == 0
    gated.seed("http://a/2")
    with gated.db.transaction():
        assert robots.ask_stale_hosts(gated.db, gated.run, time.time()) == 1


def test_a_host_that_took_over_its_copy_gets_a_robots_job_when_it_is_stale(gated: StoreHarness) -> None:
    gated.commit(readable(lease_robots(gated), age=22 * HOUR))
    next_run(gated)
    gated.seed("http://a/1")
    with gated.db.transaction():
        assert robots.ask_stale_hosts(gated.db, gated.run, time.time() + 2 * HOUR) == 1
    urls = gated.db.all("SELECT url, state FROM jobs WHERE run = ?", (gated.run,))
    assert ("http://a/robots.txt", "READY") in urls


def test_a_retry_of_pages_asks_for_their_unreadable_robots_txt(gated: StoreHarness) -> None:
    gated.commit(unreadable(lease_robots(gated)))
    (page,) = gated.take("http://a/")
    gated.commit(failed(page, "robots.txt cannot be read: connection refused"))
    host = page.host
    assert retry(gated.db, gated.run, JobFilter()) == 1
    assert state(gated) == ("WANTED", None, "connection refused")
    assert hosts.get_robots(gated.db, host) is None, "nothing may be decided before it is read"
    gated.check_counters()
    gated.commit(readable(lease_robots(gated)))
    assert len(gated.take("http://a/")) == 1


def test_a_retry_keeps_a_readable_robots_txt(gated: StoreHarness) -> None:
    gated.commit(readable(lease_robots(gated)))
    (page,) = gated.take("http://a/")
    gated.commit(failed(page))
    retry(gated.db, gated.run, JobFilter())
    assert state(gated) == ("KNOWN", 200, TEXT)


def test_a_robots_txt_redirected_to_another_host_counts_for_its_own(gated: StoreHarness) -> None:
    gated.commit(moved(lease_robots(gated), "http://b/rules"))
    assert gated.db.value("SELECT count(*) FROM jobs WHERE url LIKE '%b/robots.txt'") == 0, "b has no page yet"
    job = lease_robots(gated, "b:80")
    assert (job.url, job.target) == ("http://a/robots.txt", "http://b/rules")
    result = gated.commit(readable(job))
    assert state(gated) == ("KNOWN", 200, TEXT)
    assert state(gated, "b:80") == ("WANTED", None, None)
    assert result.ring == (gated.sequence("http://a/"),)
    gated.seed("http://b/1")
    gated.places = gated.new_places({"b:80": POLICY})
    assert gated.place("http://b/1").sequence
    assert lease_robots(gated, "b:80").url == "http://b/robots.txt", "its first page asks for it"


def test_a_node_that_died_of_a_robots_txt_closes_its_host_wherever_the_job_was(gated: StoreHarness) -> None:
    gated.commit(moved(lease_robots(gated), "http://b/rules"))
    for _ in range(jobs.MAX_CRASHES):
        lease_robots(gated, "b:80")
        with gated.db.transaction():
            jobs.release(gated.db, gated.nodes[0], "n1 died", crashed=True)
    with gated.db.transaction():
        hosts.abandon_robots(gated.db, gated.run)
    assert state(gated) == ("KNOWN", 0, "its node ended during the request")
    assert state(gated, "b:80") == ("WANTED", None, None)


def test_pages_that_an_unreadable_robots_txt_failed_come_back_when_it_is_ignored(gated: StoreHarness) -> None:
    gated.commit(unreadable(lease_robots(gated)))
    gated.seed("http://a/2")
    one, two = gated.take("http://a/")
    refused = failed(one, "robots.txt cannot be read: connection refused")
    refused.reason_code = ReasonCode.ROBOTS
    gated.commit(refused, failed(two, "HTTP 500"))
    with gated.db.transaction():
        placement.apply_host_policy(gated.db, gated.run, "a:80", HostPolicy(delay=0.0, concurrency=8, robots=False))
        for sequence, _, reason in sequences.list_unsettled(gated.db, gated.run, 9):
            assert reason == "returned"
            jobs.requeue_skipped(gated.db, sequence, 99)
    assert [gated.state(job.id) for job in (one, two)] == ["READY", "FAILED"]
    gated.check_counters()


def test_a_sitemap_moves_to_the_host_of_its_redirect(gated: StoreHarness) -> None:
    gated.places = gated.new_places()
    place = gated.place("http://c/map.xml", kind=JobKind.SITEMAP)
    with gated.db.transaction():
        gated.db.execute("UPDATE jobs SET sequence = ? WHERE url = 'http://a/1'", (place.sequence,))
    (job,) = gated.lease(place.sequence).jobs
    gated.commit(moved(job, "http://d/map.xml"))
    (job,) = gated.lease(gated.place("http://d/map.xml", kind=JobKind.SITEMAP).sequence).jobs
    assert (job.kind, job.target) == (JobKind.SITEMAP, "http://d/map.xml")


@pytest.mark.parametrize("agent", ["others", "us"])
def test_another_user_agent_asks_again_since_the_crawl_delay_may_differ(gated: StoreHarness, agent: str) -> None:
    gated.commit(readable(lease_robots(gated), delay=9.0))
    with gated.db.transaction():
        assert robots.ask_stale_hosts(gated.db, gated.run, time.time(), agent) == (agent == "others")
        assert robots.ask_stale_hosts(gated.db, gated.run, time.time()) == 0


def test_no_delay_where_nothing_may_be_sent_and_only_there(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=30.0, concurrency=8, robots=True)})
    store.seed("http://a/1")
    for status in (200, 204, 301, 404, 408, 410, 425, 429, 451, 500, 503, 599, 600, 999):
        with store.db.transaction():
            store.db.execute("UPDATE hosts SET next_at = NULL, robots_fetched_at = NULL")
            fetched_at = time.time() if is_readable(status) else None
            hosts.set_robots(store.db, 1, status, "", 0.0, agent="us", fetched_at=fetched_at)
        (job,) = store.take("http://a/1")
        store.commit(JobOutcome(job=job, state=JobState.READY))
        assert job.terms.delay == (30.0 if is_readable(status) else 0.0), status
