"""The cost of fetches: counted once, by the commit that accepts the result, for the group of the job."""

import pytest

from crawl_engine.model.definition import Definitions, TaskGroup
from crawl_engine.model.job import JobState
from crawl_engine.model.run import NO_ETA, NO_JUDGEMENT
from crawl_engine.model.step import BrowserRule, GroupLoading, RenderWhen
from crawl_engine.store.read import snapshot
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run import metrics, runs, versions
from crawl_engine.store.tables.run.metrics import FetchStats, GroupTotals, build_metrics
from tests.contract.store.harness import StoreHarness, again, failed, sent, unwritable


def spent(finished: JobOutcome, received: int = 100, seconds: float = 0.5) -> JobOutcome:
    finished.stats = sent(responses=1, seconds=seconds, received=received)
    return finished


def test_a_commit_adds_up_by_group(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    store.seed("http://a/4", group="other")
    one, two, three = store.take("http://a/1")
    (other,) = store.take("http://a/4", "other")
    store.commit(spent(store.done(one)), spent(failed(two), 7), spent(again(three), 3), spent(store.done(other), 50))
    assert metrics.list_fetch_stats(store.db, store.run) == [
        FetchStats("g", 3, 1.5, 110, 1),
        FetchStats("other", 1, 0.5, 50, 0),
    ]
    (three,) = store.take("http://a/3")
    store.commit(spent(store.done(three)))
    assert metrics.list_fetch_stats(store.db, store.run)[0] == FetchStats("g", 4, 2.0, 210, 1)


def test_a_result_with_a_lost_lease_is_not_counted(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/1")
    store.commit(spent(store.done(one._replace(lease=one.lease + 1))), spent(store.done(two)))
    store.commit(spent(store.done(two)))
    assert metrics.list_fetch_stats(store.db, store.run) == [FetchStats("g", 1, 0.5, 100, 0)]


def test_a_job_without_a_fetch_writes_no_metrics(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/1")
    stored = store.done(one)
    stored.stats.requests = 0
    store.commit(stored, JobOutcome(job=two, state=JobState.READY))
    assert metrics.list_fetch_stats(store.db, store.run) == [], "a stored page and a released job"


@pytest.mark.parametrize("how", ["row", "link"])
def test_the_fetch_of_a_result_that_cannot_be_stored_is_counted(store: StoreHarness, how: str) -> None:
    store.seed("http://a/1", "http://a/2")
    one, two = store.take("http://a/1")
    store.commit(spent(unwritable(store, one, how)), spent(store.done(two)))
    assert store.state(one.id) == "FAILED"
    assert metrics.list_fetch_stats(store.db, store.run) == [FetchStats("g", 2, 1.0, 200, 0)]


def test_a_commit_group_costs_one_statement(store: StoreHarness) -> None:
    store.seed(*[f"http://a/{n}" for n in range(16)])
    taken = store.take("http://a/0")
    plans = store.plans(lambda: store.commit(*[spent(store.done(job)) for job in taken]))
    assert len([s for s, _ in plans if "INTO metrics" in s]) == 1


def test_the_snapshot_has_the_figures(store: StoreHarness) -> None:
    store.seed("http://a/1", "http://a/2", "http://a/3")
    one, two, _ = store.take("http://a/1")
    store.commit(spent(store.done(one)), spent(failed(two)))
    with store.db.transaction():
        runs.count_takeover(store.db, store.run)
        runs.add_time(store.db, store.run, 30.0, NO_JUDGEMENT, NO_ETA)
    result = snapshot.read(store.db).metrics
    assert {key: result[key] for key in ("success", "seconds", "pages_per_min", "fetches", "fetch_ms", "bytes")} == {
        "success": 50.0, "seconds": 30.0, "pages_per_min": 2.0, "fetches": 2, "fetch_ms": 500.0, "bytes": 200,
    }  # fmt: skip
    assert result["takeovers"] == 1
    assert result["groups"] == [
        {
            "group": "g", "done": 1, "failed": 1, "skipped": 0, "incomplete": 0, "left": 1, "fetches": 2,
            "fetch_ms": 500.0, "bytes": 200, "retries": 0, "plain": 0, "rendered": 0, "browser": None,
        }
    ]  # fmt: skip


def test_figures_of_nothing_are_nothing() -> None:
    result = build_metrics([], [], {}, 0.0, 0)
    assert result["success"] is result["fetch_ms"] is None
    assert result["groups"] == result["shares"] == []


def test_shares_are_of_the_jobs_of_all_nodes() -> None:
    result = build_metrics([GroupTotals("g", 4, 0, 0, 0, 0)], [], {"n1": 3, "n2": 1, "n3": 0}, 1.0, 0)
    assert [s["share"] for s in result["shares"]] == [75.0, 25.0, 0.0]


def loaded(finished: JobOutcome, *, by_browser: bool | None) -> JobOutcome:
    finished.stats = sent(responses=1)
    finished.stats.is_rendered = by_browser
    return finished


def test_pages_with_and_without_a_browser_are_counted_once(store: StoreHarness) -> None:
    store.seed(*[f"http://a/{n}" for n in range(5)])
    store.seed("http://a/x", group="other")
    plain, rendered, lost, retried, skipped = store.take("http://a/0")
    (other,) = store.take("http://a/x", "other")
    store.commit(
        loaded(store.done(plain), by_browser=False), loaded(store.done(rendered), by_browser=True),
        loaded(store.done(lost._replace(lease=lost.lease + 1)), by_browser=True),
        loaded(again(retried), by_browser=True),
        loaded(JobOutcome(job=skipped, state=JobState.SKIPPED), by_browser=True),
        loaded(store.done(other), by_browser=None),
    )  # fmt: skip
    store.commit(loaded(store.done(plain), by_browser=False))  # its lease is over
    stats = {of.group: (of.plain, of.rendered) for of in metrics.list_fetch_stats(store.db, store.run)}
    assert stats == {"g": (1, 2), "other": (0, 0)}
    groups = {group["group"]: group for group in snapshot.read(store.db).metrics["groups"]}
    assert groups["g"]["browser"] == "1 of 3 pages needed no browser"
    assert groups["other"]["browser"] is None


def test_the_defs_say_which_groups_ask_without_their_browser_first(store: StoreHarness) -> None:
    loaders = {
        "g": BrowserRule(when=RenderWhen(missing=".price")), "all": BrowserRule(wait="idle"), "none": None
    }  # fmt: skip
    groups = [
        TaskGroup(name=n, loader=None if rule is None else GroupLoading(browser=rule)) for n, rule in loaders.items()
    ]
    with store.db.transaction():
        version = versions.publish(store.db, Definitions(task_groups=tuple(groups)), 1.0)
        runs.set_version(store.db, store.run, version)
    assert metrics.list_asking_first(store.db, version) == ["g"]
    store.seed(*[f"http://a/{n}" for n in range(20)])
    while taken := store.take("http://a/0"):
        store.commit(*[loaded(store.done(job), by_browser=True) for job in taken])
    assert [group["browser"] for group in snapshot.read(store.db).metrics["groups"]] == [
        "20 of 20 pages rendered, each asked for twice: without `when`, once is enough"
    ]


@pytest.mark.parametrize(
    ("plain", "rendered", "asks_first", "told"),
    [
        (0, 0, True, None),
        (987, 13, True, "987 of 1,000 pages needed no browser"),
        (30, 970, True, "970 of 1,000 pages rendered, each asked for twice: without `when`, once is enough"),
        (30, 970, False, "30 of 1,000 pages needed no browser"),  # the defs have changed
        (1, 18, True, "1 of 19 pages needed no browser"),
        (0, 1000, False, "1,000 pages rendered"),
        (0, 1, True, "1 page rendered"),
    ],
)
def test_advice_on_a_browser(plain: int, rendered: int, asks_first: bool, told: str | None) -> None:
    stats = FetchStats("g", 0, 0.0, 0, 0, plain=plain, rendered=rendered)
    assert metrics.describe_browser(stats, asks_first) == told
