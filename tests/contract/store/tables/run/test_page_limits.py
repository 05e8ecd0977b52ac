"""Each limit of the requests for pages reserves, settles, is told, and can be lifted."""

import pytest

from crawl_engine.model.job import JobState, LeasedJob
from crawl_engine.store.read import situation
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import page_limits, runs
from crawl_engine.store.tables.run.page_limits import LIMITS, PageLimit
from crawl_engine.store.transactions import waits
from crawl_engine.store.transactions.waits import WaitingPlace
from tests.contract.store.harness import StoreHarness

EACH = pytest.mark.parametrize("limit", LIMITS, ids=[limit.code for limit in LIMITS])


def name_of(store: StoreHarness, limit: PageLimit) -> str:
    sql = f"SELECT {limit.name} FROM sequences s JOIN hosts h ON h.id = s.host LIMIT 1"
    return str(store.db.value(sql))


def requests(store: StoreHarness) -> list[int]:
    return [room.requests for room in page_limits.list_rooms(store.db, store.run)]


def answered(store: StoreHarness, job: LeasedJob) -> JobOutcome:
    """Done, with one request and its answer."""
    outcome = store.done(job)
    outcome.stats.answers = ((200, 0.01),)
    return outcome


@EACH
def test_a_limit_counts_what_was_sent_and_what_is_leased(store: StoreHarness, limit: PageLimit) -> None:
    store.seed(*[f"http://a/{number}" for number in range(9)])
    store.commit(answered(store, store.lease(1, free=1).jobs[0]))
    name = name_of(store, limit)
    store.limit(limit.code, name, 4)
    assert requests(store) == [1], "pages of before count"
    leased = store.lease(1).jobs
    assert [job.terms.limits for job in leased] == [(limit.code,)] * 3
    assert store.lease(1).jobs == ()
    assert requests(store) == [4]
    seen = situation.read(store.db, runs.get(store.db, store.run))
    left = seen.run_room if limit.ends_run else sum(host.left for host in seen.hosts.values())
    assert left == 3, "the pages that are asked for now are still to come"
    (wait,) = waits.explain(
        store.db, store.run, [WaitingPlace("page", "g", "a:80")], store.now, lambda *_: None
    ).values()
    assert wait == f"{limit.text.format(most=4, name=name)} is reached"
    assert not page_limits.is_over(store.db, page_limits.read_rooms(store.db, 1)[0])
    store.commit(*[answered(store, job) for job in leased[1:]], JobOutcome(job=leased[0], state=JobState.READY))
    assert requests(store) == [3], "one was not sent"
    assert situation.read(store.db, runs.get(store.db, store.run)).total == 9
    (last,) = store.lease(1).jobs
    store.commit(answered(store, last))
    (room,) = page_limits.read_rooms(store.db, 1)
    assert page_limits.is_over(store.db, room)
    assert (page_limits.find_end(store.db, store.run) is not None) == limit.ends_run
    store.lease(1)
    assert store.stored_counters()[1]["skipped"] == (0 if limit.ends_run else 5)
    store.check_counters()


@EACH
def test_jobs_of_a_limit_that_is_lifted_and_set_again_stay_reserved(store: StoreHarness, limit: PageLimit) -> None:
    store.seed(*[f"http://a/{number}" for number in range(9)])
    name = name_of(store, limit)
    store.limit(limit.code, name, 3)
    held = store.lease(1).jobs
    store.limit(limit.code, name, None)
    assert requests(store) == []
    free = store.lease(1, free=2).jobs
    assert [job.terms.limits for job in free] == [()] * 2
    store.limit(limit.code, name, 6)
    assert requests(store) == [3]
    store.commit(*[answered(store, job) for job in free])
    assert requests(store) == [5]
    store.commit(*[answered(store, job) for job in held])
    assert requests(store) == [5], "what was reserved is what was sent"
    assert len(store.lease(1).jobs) == 1
