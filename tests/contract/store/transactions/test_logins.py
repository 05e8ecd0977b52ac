"""Logins in the store: they come before the pages of their host, and again when pages are lost."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.model.host import HostPolicy, LoginRule
from crawl_engine.model.job import JobKind, JobState, LeasedJob
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.tables.host import host_control, host_logins, hosts
from crawl_engine.store.tables.host.cookie_jars import StoredJar, list_newer, put
from crawl_engine.store.tables.job import rings
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.transactions import logins, takeover
from crawl_engine.store.transactions.logins import LoginNews
from crawl_engine.store.transactions.retry import retry
from crawl_engine.store.transactions.waits import WaitingPlace, explain
from tests.contract.store.harness import StoreHarness, failed, sent
from tests.unit.node.leased_jobs import change

NewStore = Callable[..., StoreHarness]
RULE = LoginRule(url="/login", form={"user": "me"}, check=".logout")
POLICY = HostPolicy(delay=0.0, concurrency=8, robots=False, login=RULE)
PAGES = [f"http://a/{n}" for n in range(1, 7)]


@pytest.fixture
def gated(new_store: NewStore) -> StoreHarness:
    """A host with a login and six pages, and one without; two nodes."""
    store = new_store(nodes_=2, policies={"a:80": POLICY})
    store.seed(*PAGES, "http://b/1")
    return store


def login_sequence(store: StoreHarness) -> int:
    return int(store.db.value("SELECT id FROM sequences WHERE kind = 'login'"))


def take_login(store: StoreHarness, node: int | None = None) -> LeasedJob:
    (job,) = store.lease(login_sequence(store), node=node).jobs
    assert job.kind is JobKind.LOGIN
    return job


def log_in(store: StoreHarness) -> None:
    store.commit(store.done(take_login(store)))


def lost(job: LeasedJob, on_lost: Any = "relogin") -> JobOutcome:
    return JobOutcome(
        job=job, state=JobState.READY, reason="logged out", effects=(LoginNews(on_lost),), stats=sent(responses=1)
    )


def login(store: StoreHarness) -> host_logins.HostLogin:
    host = hosts.find(store.db, store.run, "a:80")
    assert host is not None
    return host_logins.read(store.db, host)


def lost_in_row(store: StoreHarness) -> int:
    return int(store.db.value("SELECT lost_in_row FROM hosts WHERE key = 'a:80'"))


def texts(store: StoreHarness) -> list[str]:
    return [event.text for event in store.list_events() if event.kind == "host"]


def is_paused(store: StoreHarness) -> bool:
    return host_control.read(store.db, store.run, "a:80").paused


def test_pages_wait_for_the_login_to_their_host(gated: StoreHarness) -> None:
    assert gated.take("http://a/") == ()
    assert len(gated.take("http://b/")) == 1
    assert gated.sequence("http://a/") not in gated.rung()
    assert explain(gated.db, gated.run, [WaitingPlace("page", "g", "a:80")], gated.now, lambda *_: None) == {
        WaitingPlace("page", "g", "a:80"): "the login at a:80 is in progress"
    }
    job = take_login(gated)
    assert job.url == "http://a/login"
    assert gated.lease(login_sequence(gated)).jobs == (), "one at a time"
    gated.commit(gated.done(job))
    assert login(gated).state == "DONE"
    assert gated.sequence("http://a/") in gated.rung()
    pages = gated.take("http://a/")
    assert {page.terms.login_number for page in pages} == {1}
    gated.check_counters()


def test_the_login_comes_after_the_robots_txt(new_store: NewStore) -> None:
    store = new_store(policies={"a:80": replace(POLICY, robots=True)})
    store.seed("http://a/1")
    assert store.lease(login_sequence(store)).jobs == ()
    with store.db.transaction():
        hosts.set_robots(store.db, 1, 200, "", 0.0, agent="us", fetched_at=1.0)
        assert login_sequence(store) in rings.ring_hosts(store.db, [1], store.now)
    assert take_login(store).url == "http://a/login"


def test_a_lost_page_asks_for_one_login_after_the_pages_in_progress(gated: StoreHarness) -> None:
    log_in(gated)
    one = gated.take("http://a/", free=2)
    two = gated.take("http://a/", free=2, node=gated.nodes[1])
    gated.commit(lost(one[0]), gated.done(one[1], stats=sent(responses=1)))
    assert (login(gated).state, login(gated).number) == ("WANTED", 1)
    assert gated.state(one[0].id) == "READY"
    assert gated.take("http://a/") == ()
    assert gated.lease(login_sequence(gated)).jobs == (), "answers of the other node may end the session"
    result = gated.commit(*map(lost, two), node=gated.nodes[1])
    assert login_sequence(gated) in result.ring
    log_in(gated)
    assert login(gated).number == 2
    pages = gated.take("http://a/")
    assert {page.terms.login_number for page in pages} == {2}
    gated.commit(*[gated.done(page, stats=sent(responses=1)) for page in pages])
    assert [text for text in texts(gated) if "logging in again" in text] == [
        "a:80: logged out on http://a/1; logging in again"
    ]
    gated.check_counters()


def test_a_page_sent_with_an_older_login_asks_for_none(gated: StoreHarness) -> None:
    log_in(gated)
    slow, quick = gated.take("http://a/", free=2)
    gated.commit(lost(quick))
    gated.db.execute("UPDATE jobs SET state = 'READY', lease = NULL WHERE id = ?", (slow.id,))  # its node hangs
    log_in(gated)
    (again,) = gated.take("http://a/", free=1)
    assert again.id == slow.id
    gated.commit(lost(change(again, login_number=1)))
    assert login(gated).state == "DONE"
    assert gated.state(again.id) == "READY"


def test_a_page_that_is_lost_again_after_a_new_login_has_failed(gated: StoreHarness) -> None:
    log_in(gated)
    gated.commit(lost(gated.take("http://a/", free=1)[0]))
    log_in(gated)
    (again,) = gated.take("http://a/", free=1)
    gated.commit(lost(again))
    assert gated.db.one("SELECT state, reason FROM jobs WHERE id = ?", (again.id,)) == ("FAILED", logins.LOST_REASON)
    assert login(gated).state == "DONE", "such a page is no reason for another login"
    assert lost_in_row(gated) == 1
    retry(gated.db, gated.run, JobFilter())
    (again,) = gated.take("http://a/", free=1)
    gated.commit(lost(again))
    assert gated.state(again.id) == "READY", "a retry forgets what was lost"


def lose_twice(store: StoreHarness, count: int) -> list[LeasedJob]:
    log_in(store)
    store.commit(*map(lost, store.take("http://a/", free=count)))
    log_in(store)
    return list(store.take("http://a/", free=count))


def test_three_such_pages_in_a_row_pause_the_host(gated: StoreHarness) -> None:
    pages = lose_twice(gated, 4)
    gated.commit(lost(pages[0]), lost(pages[1]))
    assert not is_paused(gated)
    gated.commit(lost(pages[2]))
    assert is_paused(gated)
    assert "a:80 is paused: 3 pages in a row were logged out again after a new login" in texts(gated)[-1]
    gated.commit(lost(pages[3]))
    (reason,) = explain(gated.db, gated.run, [WaitingPlace("page", "g", "a:80")], gated.now, lambda *_: None).values()
    assert reason == "a:80 is paused since its login was lost"
    assert gated.take("http://a/") == ()
    assert gated.lease(login_sequence(gated)).jobs == ()
    with gated.db.transaction():
        host_control.set_limits(gated.db, gated.run, "a:80", gated.now, paused=False)
    log_in(gated)
    assert len(gated.take("http://a/")) == 2


def test_a_good_page_between_them_counts_anew(gated: StoreHarness) -> None:
    pages = lose_twice(gated, 4)
    (other,) = gated.take("http://a/", free=1)
    gated.commit(
        lost(pages[0]), lost(pages[1]), gated.done(other, stats=sent(responses=1)), lost(pages[2]), lost(pages[3])
    )
    assert not is_paused(gated)
    assert lost_in_row(gated) == 2


def test_a_host_that_is_to_pause_pauses_with_the_first_lost_page(gated: StoreHarness) -> None:
    log_in(gated)
    one, two = gated.take("http://a/", free=2)
    gated.commit(lost(one, "pause"), lost(two, "pause"))
    assert is_paused(gated)
    assert len(texts(gated)) == 1
    assert "its login was lost" in texts(gated)[0]


def test_pages_fail_without_a_request_where_the_login_failed_until_a_retry(gated: StoreHarness) -> None:
    job = take_login(gated)
    gated.commit(failed(job, "HTTP 403"))
    assert login(gated).state == "FAILED"
    assert [text.partition(";")[0] for text in texts(gated)] == ["a:80: the login failed: HTTP 403"]
    pages = gated.take("http://a/")
    assert all(page.terms.login_failed for page in pages)
    assert host_logins.get_failure(gated.db, pages[0].host) == "HTTP 403"
    gated.commit(*[failed(page, "no login") for page in pages])
    retry(gated.db, gated.run, JobFilter())
    assert login(gated).state == "WANTED"
    log_in(gated)
    assert not any(page.terms.login_failed for page in gated.take("http://a/"))


def test_a_login_whose_nodes_die_is_given_up(gated: StoreHarness) -> None:
    for _ in range(3):
        take_login(gated)
        with gated.db.transaction():
            takeover.requeue_jobs(gated.db, gated.run, gated.nodes[0], "n1 died", crashed=True)
            takeover.give_up_gates(gated.db, gated.run)
    assert login(gated).state == "FAILED"
    assert len(texts(gated)) == 1
    assert gated.take("http://a/")[0].terms.login_failed


def test_a_login_by_older_defs_does_not_count(gated: StoreHarness) -> None:
    job = take_login(gated)
    with gated.db.transaction():
        logins.apply_rule(gated.db, gated.run, job.host, replace(RULE, form={"user": "other"}))
    gated.commit(gated.done(job))
    assert login(gated).state == "WANTED"
    with gated.db.transaction():
        logins.apply_rule(gated.db, gated.run, job.host, replace(RULE, url="/sign-in"))
    assert take_login(gated).url == "http://a/sign-in"
    with gated.db.transaction():
        logins.apply_rule(gated.db, gated.run, job.host, None)
    assert len(gated.take("http://a/")) == 6


def test_a_late_result_of_a_login_changes_nothing(gated: StoreHarness) -> None:
    late = take_login(gated)
    with gated.db.transaction():
        takeover.requeue_jobs(gated.db, gated.run, gated.nodes[0], "n1 died", crashed=False)
    now = take_login(gated, gated.nodes[1])
    gated.commit(failed(late, "timeout"))
    assert login(gated).state == "WANTED"
    gated.commit(gated.done(now), node=gated.nodes[1])
    gated.commit(failed(late, "timeout"))
    assert login(gated).state == "DONE"


def test_a_resumed_run_logs_in_again_only_where_that_failed(gated: StoreHarness) -> None:
    gated.commit(failed(take_login(gated), "HTTP 500"))
    for _ in range(2):
        with gated.db.transaction():
            logins.resume_run(gated.db, gated.run)
        assert login(gated).state == "WANTED"
    log_in(gated)
    with gated.db.transaction():
        logins.resume_run(gated.db, gated.run)
    assert login(gated).state == "DONE"


def test_each_node_is_given_the_jars_that_others_wrote_since(gated: StoreHarness) -> None:
    one, two = gated.nodes
    with gated.db.transaction():
        put(gated.db, gated.run, "a", StoredJar(b"1", one))
        put(gated.db, gated.run, "b", StoredJar(b"2", two))
        put(gated.db, gated.run, "a", StoredJar(b"3", two))
    assert [(new.version, new.site, new.jar.jar) for new in list_newer(gated.db, gated.run, 0, one)] == [
        (2, "b", b"2"), (3, "a", b"3"),
    ]  # fmt: skip
    assert list_newer(gated.db, gated.run, 0, two) == []
    assert list_newer(gated.db, gated.run, 3, one) == []
    ((_, plan),) = gated.plans(lambda: list_newer(gated.db, gated.run, 3, one))
    assert any("cookie_jars_version" in line for line in plan), plan


def test_pages_without_a_login_cost_no_further_statement(gated: StoreHarness) -> None:
    (page,) = gated.take("http://b/")
    statements = gated.plans(lambda: gated.commit(gated.done(page, stats=sent(responses=1))))
    assert not [s for s, _ in statements if "login" in s and "UPDATE sequences" not in s]
