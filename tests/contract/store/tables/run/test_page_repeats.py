"""Pages in a row that give the same: counted over nodes and restarts, told by a pattern, skipped beyond a limit."""

import itertools

import pytest

from crawl_engine.model.job import JobState
from crawl_engine.store.db.connector import DatabaseBusy, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.read.data_warnings import find_warnings
from crawl_engine.store.tables.run import events, runs
from crawl_engine.store.tables.run.page_repeats import PageSeen, widen_pattern
from crawl_engine.store.transactions.next_page import leads_to_one_page
from tests.contract.store.harness import Page, StoreHarness, failed


def urls_of(path: str, count: int) -> list[str]:
    return [f"http://a/{path}/{number}" for number in range(count)]


def give(store: StoreHarness, digests: dict[str, int], *, node: int | None = None) -> None:
    """Commit pages in this order, one by one."""
    store.seed(*digests)
    jobs = {job.url: job for job in store.take(next(iter(digests)), node=node, free=999)}
    for url, digest in digests.items():
        store.commit(store.done(jobs[url], PageSeen(digest)), node=node)


def found(store: StoreHarness) -> list[str]:
    warnings = find_warnings(store.db, runs.get(store.db, store.run), {})
    return [warning.text for warning in warnings if warning.code == "repeated-pages"]


@pytest.mark.parametrize(("same", "warns"), [(9, False), (10, True), (11, True)])
def test_ten_in_a_row_are_a_warning(store: StoreHarness, same: int, warns: bool) -> None:
    give(store, {"http://a/x": 1, **dict.fromkeys(urls_of("soft", same), 2), "http://a/y": 1})
    text = f"{same} pages of a:80 in a row gave the same text and fields: http://a/soft/*"
    assert found(store) == ([text] if warns else [])


def test_pages_that_are_not_in_a_row_are_none(store: StoreHarness) -> None:
    give(store, {url: 7 if at % 9 < 8 else at for at, url in enumerate(urls_of("p", 20))})
    give(store, {url: at for at, url in enumerate(urls_of("q", 20))})
    give(store, dict.fromkeys(urls_of("r", 20), 0))  # each unlike the one before
    assert found(store) == []


def test_each_group_and_host_is_counted_alone(store: StoreHarness) -> None:
    store.seed(*urls_of("one", 9))
    store.seed(*urls_of("two", 9), group="h")
    store.seed(*[url.replace("//a/", "//b/") for url in urls_of("three", 10)])
    taken = [store.take("http://a/"), store.take("http://a/", "h"), store.take("http://b/")]
    for jobs in itertools.zip_longest(*taken):
        store.commit(*[store.done(job, PageSeen(5)) for job in jobs if job is not None])
    assert found(store) == ["10 pages of b:80 in a row gave the same text and fields: http://b/three/*"]


def test_the_row_goes_over_nodes_and_restarts(store: StoreHarness) -> None:
    second = store.node()
    for node, path in [(None, "one"), (second, "two"), (None, "three")]:
        give(store, dict.fromkeys(urls_of(path, 4), 5), node=node)
        if path == "two":
            store.db.close()  # what a kill leaves
            store.db = connect(store.folder / CRAWL, durable=False, busy_seconds=10)
    assert found(store) == ["12 pages of a:80 in a row gave the same text and fields: http://a/*/*"]


def test_a_result_that_is_dropped_does_not_count(store: StoreHarness) -> None:
    urls = urls_of("soft", 10)
    store.seed(*urls)
    jobs = store.take("http://a/")
    for job in jobs:
        store.commit(store.done(job._replace(lease=1), PageSeen(5)))
    store.commit(*[store.done(job, PageSeen(5)) for job in jobs[:8]])
    store.commit(store.done(jobs[0], PageSeen(5)), failed(jobs[8]))
    store.commit(store.done(jobs[9], PageSeen(5)))
    assert found(store) == [], "nine pages"


@pytest.mark.parametrize("at_once", [1, 3, 20])
def test_pages_beyond_the_limit_are_skipped(store: StoreHarness, at_once: int) -> None:
    urls = urls_of("soft", 7)
    store.seed("http://a/x", *urls, "http://a/y")
    jobs = store.take("http://a/")
    digests = [1, *[2] * 7, 1]
    outcomes = [
        store.done(job, PageSeen(digest, 3), data=['{"title":"x"}'], links=[Page(f"{job.url}/more")])
        for job, digest in zip(jobs, digests, strict=True)
    ]
    for at in range(0, len(outcomes), at_once):
        assert len(store.commit(*outcomes[at : at + at_once]).accepted_ids) == len(outcomes[at : at + at_once])
    states = dict(store.jobs())
    kept = ["http://a/x", *urls[:3], "http://a/y"]
    assert [url for url in ("http://a/x", *urls, "http://a/y") if states[url] == "DONE"] == kept
    assert [url for url in states if url.endswith("/more")] == [f"{url}/more" for url in kept]
    assert len(store.rows()) == 5
    assert {states[url] for url in urls[3:]} == {"SKIPPED"}
    store.check_counters()
    store.check_sums()
    text = "7 pages of a:80 in a row gave the same text and fields: http://a/soft/*; max_repeats skipped 4"
    assert found(store) == [text]
    reasons = store.db.all("SELECT DISTINCT reason FROM jobs WHERE state = 'SKIPPED'")
    assert reasons == [("the same as the 3 pages before it (max_repeats)",)]
    assert [event.text for event in store.list_events()][-1] == f"SKIPPED: {reasons[0][0]}  {urls[-1]}"


def test_a_commit_that_fails_is_decided_again(store: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_busy(*_: object) -> None:
        raise DatabaseBusy("locked", "wait")

    store.seed(*urls_of("soft", 4))
    outcomes = [
        store.done(job, PageSeen(2, 3), data=['{"title":"x"}'], links=[Page(f"{job.url}/more")])
        for job in store.take("http://a/")
    ]
    effects = [outcome.effects for outcome in outcomes]
    with monkeypatch.context() as patched, pytest.raises(DatabaseBusy):
        patched.setattr(events, "add", is_busy)
        store.commit(*outcomes)
    assert [(outcome.state, outcome.effects) for outcome in outcomes] == [(JobState.DONE, made) for made in effects]
    store.commit(outcomes[-1])
    assert (len(store.rows()), dict(store.jobs())["http://a/soft/3/more"]) == (1, "READY"), "the first of its row"


def test_with_a_limit_the_next_page_waits_for_the_commit(store: StoreHarness) -> None:
    store.seed("http://a/1")
    (job,) = store.take("http://a/")
    link = [Page("http://a/2")]
    assert leads_to_one_page(store.done(job, PageSeen(5), links=link))
    assert not leads_to_one_page(store.done(job, PageSeen(5, 3), links=link))
    assert store.done(job).state is JobState.DONE


@pytest.mark.parametrize(
    ("urls", "pattern"),
    [
        (["http://a/soft/", "http://a/soft/p/", "http://a/soft/p/p/"], "http://a/soft/*"),
        (["http://a/l?page=1", "http://a/l?page=2", "http://a/l?page=3"], "http://a/l?page=*"),
        (["http://a/l?a=1&page=1", "http://a/l?a=1&page=2"], "http://a/l?a=1&page=*"),
        (["http://a/l", "http://a/l?page=2", "http://a/l?page=3"], "http://a/l?*"),
        (["http://a/l?a=1", "http://a/l?a=1&b=2", "http://a/l?a=1&b=2&c=3"], "http://a/l?a=1&*"),
        (["http://a/p/1/x", "http://a/p/2/x", "http://a/p/3/x"], "http://a/p/*/x"),
        (["http://a/p/1/x", "http://a/p/2/x", "http://a/q"], "http://a/*"),
        (["http://a/", "http://a/x/y", "http://a/z"], "http://a/*"),
        (["http://a/x.html", "http://a/y.html?z"], "http://a/*?*"),
    ],
)
def test_a_pattern_fits_all_urls(urls: list[str], pattern: str) -> None:
    widened = urls[0]
    for url in urls[1:]:
        widened = widen_pattern(widened, url)
    assert widened == pattern
