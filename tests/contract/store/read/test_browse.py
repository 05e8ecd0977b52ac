"""Lists of jobs, read by index and never by counting; the newest failure first; one job in full."""

import random
from collections.abc import Callable, Sequence

import pytest

from crawl_console.filter_syntax import job_filter, parse
from crawl_engine.errors import UsageError
from crawl_engine.model.host import HostPolicy
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.db.schema import PAGES
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read import browse, job_range
from crawl_engine.store.read.browse import Cursor
from crawl_engine.store.read.job_range import find_first_id
from crawl_engine.store.tables.job.jobs import PRIORITY_RANGE
from crawl_engine.store.tables.run.events import Event
from tests.contract.store.harness import Page, StoreHarness, again, document, failed


def listed(
    store: StoreHarness, text: str = "", *, limit: int = 3, backwards: bool = False, seconds: float = 9.0
) -> list[int]:
    """All pages of a list, one after the other."""
    ids: list[int] = []
    at: Cursor | None = None
    while True:
        part = browse.list_jobs(
            store.db, store.run, parse(text), after=at, limit=limit, backwards=backwards, seconds=seconds
        )
        ids += [line.id for line in part.lines]
        if part.next is None:
            return ids
        at = part.next


@pytest.fixture
def mixed(store: StoreHarness) -> StoreHarness:
    """Jobs of two hosts and two groups in every state."""
    store.seed(*(f"http://a/{n}" for n in range(8)))
    store.seed(*(f"http://b:81/x{n}" for n in range(6)), group="h")
    for number, job in enumerate(store.take("http://a/", free=6)):
        if number == 0:
            store.commit(store.done(job, data=['{"title":"x"}'], links=[Page("http://a/child", depth=2)]))
        elif number < 3:
            store.commit(failed(job, f"HTTP 50{number}"))
        elif number == 3:
            store.commit(again(job, store.now + 60))
    store.take("http://b:81/", "h", free=2)
    return store


def states(store: StoreHarness, *expected: str) -> list[int]:
    return [i for i, s, w in store.jobs("id, state, not_before") if (s if w is None else "DELAYED") in expected]


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("backwards", [False, True])
def test_every_job_is_listed_once_in_order(mixed: StoreHarness, limit: int, backwards: bool) -> None:
    everyone = [row[0] for row in mixed.jobs("id")]
    assert listed(mixed, limit=limit, backwards=backwards) == (everyone[::-1] if backwards else everyone)
    for text, expected in (
        ("state:ready", states(mixed, "READY", "DELAYED")),
        ("state:delayed", states(mixed, "DELAYED")),
        ("state:ready !state:delayed", states(mixed, "READY")),
        ("state:taken", states(mixed, "TAKEN")),
        ("state:done,taken", states(mixed, "DONE", "TAKEN")),
        ("!state:done", states(mixed, "READY", "DELAYED", "TAKEN", "FAILED")),
        ("state:skipped", []),
        ("host:b", [i for i, u in mixed.jobs("id, url") if "b:81" in u]),
        ("host:b:81 state:taken", states(mixed, "TAKEN")[-2:]),
        ("!host:b", [i for i, u in mixed.jobs("id, url") if "b:81" not in u]),
        ("host:*8*", everyone),
        ("group:h x[0-2]", [i for i, u in mixed.jobs("id, url") if u[-2:] in ("x0", "x1", "x2")]),
        ("CHILD", [i for i, u in mixed.jobs("id, url") if u == "http://a/child"]),
        ("http 50[0-9]", states(mixed, "FAILED")),
        ("50.", states(mixed, "FAILED")),
        (r"b:81/x4 http://b\..", []),
        ("!/x", [i for i, u in mixed.jobs("id, url") if "/x" not in u]),
        ("depth>1", [i for i, d in mixed.jobs("id, depth") if d > 1]),
        ("node:n1 state:taken", states(mixed, "TAKEN")),
        ("node:n2", []),
        ("state:done !state:done x", []),
        ("attempts:1 state:done", states(mixed, "DONE")),
        ("!child !host:b", [i for i, u in mixed.jobs("id, url") if "b:81" not in u and "child" not in u]),
    ):
        ids = listed(mixed, text, limit=limit, backwards=backwards)
        assert ids == (expected[::-1] if backwards else expected), text
        assert browse.count_jobs(mixed.db, mixed.run, parse(text)) == len(expected), text
        assert sorted(i for chunk in browse.iter_ids(mixed.db, mixed.run, parse(text)) for i in chunk) == expected, text


def test_the_newest_failure_comes_first(store: StoreHarness) -> None:
    store.seed(*(f"http://a/{n}" for n in range(8)))
    taken = list(store.take("http://a/"))
    random.Random(3).shuffle(taken)
    for at, job in enumerate(taken):
        store.commit(failed(job))
        store.db.execute("UPDATE jobs SET changed_at = ? WHERE id = ?", (100.0 + at // 2, job.id))
    expected = [i for i, _ in sorted(store.jobs("id, changed_at"), key=lambda row: (row[1], row[0]), reverse=True)]
    assert listed(store, "state:failed", limit=2) == expected
    assert listed(store, "state:failed", limit=2, backwards=True) == expected[::-1]
    assert listed(store, "state:failed broke", limit=4) == expected


@pytest.mark.parametrize("text", ["state:ready", "state:ready a/", "state:ready b/|a/"])
def test_a_job_that_is_taken_while_the_list_is_read_is_not_listed_as_ready(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A search finds the ids first and reads the lines of these after it."""
    store.seed(*(f"http://a/{n}" for n in range(4)))
    find = browse._matching_ids

    def find_while_a_node_takes(job_filter: JobFilter, jobs: Sequence[browse._SearchedJob]) -> list[int]:
        found = find(job_filter, jobs)
        store.take("http://a/", free=2)
        return found

    monkeypatch.setattr(browse, "_matching_ids", find_while_a_node_takes)
    lines = browse.list_jobs(store.db, store.run, parse(text)).lines
    assert {line.state for line in lines} == {"READY"}
    assert [line.id for line in lines] == states(store, "READY")


def test_a_line_has_all_columns(mixed: StoreHarness) -> None:
    (line,) = browse.list_jobs(mixed.db, mixed.run, parse("state:delayed")).lines
    assert (line.kind, line.state, line.group, line.host) == ("page", "READY", "g", "a:80")
    assert (line.attempts, line.crashes, line.reason, line.node) == (1, 0, "timeout", "n1")
    assert line.wait is not None
    assert line.changed_at is not None
    (line, *_) = browse.list_jobs(mixed.db, mixed.run, parse("state:ready !state:delayed")).lines
    assert (line.wait, line.node, line.changed_at) == (None, None, None)


@pytest.mark.parametrize("priority", [0, 7, -7, 1_000_000, -1_000_000])
@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_priority_is_shown_as_the_defs_give_it(store: StoreHarness, priority: int, times: int) -> None:
    """Also of a job that was lowered, so that it comes last."""
    store.seed("http://a/1")
    store.db.execute("UPDATE jobs SET priority = ?", (priority - times * PRIORITY_RANGE,))
    (line,) = browse.list_jobs(store.db, store.run, parse("")).lines
    assert line.priority == priority


def test_other_kinds_are_listed_only_if_the_filter_names_them(new_store: Callable[..., StoreHarness]) -> None:
    store = new_store(policies={"a:80": HostPolicy(delay=0.0, concurrency=8, robots=True)})
    store.seed("http://a/1")
    assert len(listed(store)) == 1
    assert [line.kind for line in browse.list_jobs(store.db, store.run, parse("kind:robots")).lines] == ["robots"]


def test_age_is_that_of_the_last_change(mixed: StoreHarness) -> None:
    mixed.db.execute("UPDATE jobs SET changed_at = changed_at - 600 WHERE state = 'FAILED'")
    assert len(listed(mixed, "state:failed age>5m")) == 2
    assert listed(mixed, "state:failed age<5m") == []
    assert listed(mixed, "state:failed !age>5m") == []


def test_jobs_of_other_runs_are_not_listed_nor_passed(mixed: StoreHarness) -> None:
    from crawl_engine.store.tables.run import runs

    old, mixed.run = mixed.run, 0
    with mixed.db.transaction():
        mixed.run = runs.create(mixed.db, None, 0.0).seq
    mixed.places = mixed.new_places()
    mixed.seed("http://a/new", "http://a/new2")
    new = [i for i, u in mixed.jobs("id, url") if "new" in u]
    assert listed(mixed) == new
    assert find_first_id(mixed.db, mixed.run, 99) == new[0]
    assert find_first_id(mixed.db, old, 99) == 1
    mixed.run = old
    assert set(listed(mixed)) == {i for i, u in mixed.jobs("id, url") if "new" not in u}


def test_a_listing_that_runs_out_of_time_returns_a_cursor(mixed: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_range, "_WINDOW", 2)
    first = browse.list_jobs(mixed.db, mixed.run, parse("child"), seconds=0.0)
    assert first.lines == ()
    assert first.next is not None
    everyone = [row[0] for row in mixed.jobs("id")]
    assert listed(mixed, "child", seconds=0.0) == states_of(mixed, "child")
    assert listed(mixed, seconds=0.0, backwards=True) == everyone[::-1]


def states_of(store: StoreHarness, part: str) -> list[int]:
    return [i for i, u in store.jobs("id, url") if part in u]


def test_a_listing_is_read_from_an_index(mixed: StoreHarness) -> None:
    for text in ("", "state:failed", "state:ready", "state:taken", "state:delayed", "state:incomplete", "state:done"):
        for _, plan in mixed.plans(lambda t=text: browse.list_jobs(mixed.db, mixed.run, parse(t))):
            for line in plan:
                assert not line.startswith(("SCAN j", "SCAN d", "SCAN jobs")) or "INDEX" in line, (text, line)
                if text == "":
                    assert "TEMP B-TREE" not in line


def test_one_job_in_full(store: StoreHarness) -> None:
    store.seed("http://a/1", name="start")
    (job,) = store.take("http://a/")
    pages = PageStore(store.folder)
    page = document("http://a/1", b"<p>hello</p>")
    (stored,) = pages.add([page])
    said = Event(3.0, "INFO", "n1", "page", "200 http://a/1", job.id)
    store.commit(store.done(job, page, said, data=['{"title":"x"}'], page=stored))
    with_headers = connect(store.folder / PAGES, read_only=True)
    result = browse.get_detail(store.db, job.id, pages=with_headers)
    with_headers.close()
    pages.close()
    assert result is not None
    assert result.line.state == "DONE"
    assert (result.locator, result.request.method, result.root_url) == ("start", "GET", None)
    assert result.page is not None
    assert (result.page.status, result.page.size, result.page.headers) == (200, 12, (("Content-Type", "text/html"),))
    assert [event for _, event in result.events] == [said]
    assert [(name, data) for _, name, data in result.rows] == [("book", '{"title":"x"}')]
    assert browse.get_detail(store.db, 999) is None


def test_a_pattern_that_takes_too_long_is_an_error(mixed: StoreHarness) -> None:
    mixed.db.execute("UPDATE jobs SET url = 'http://a/' || 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' WHERE id = 1")
    with pytest.raises(UsageError, match="takes too long"):
        browse.list_jobs(mixed.db, mixed.run, job_filter("(a|aa)+$x?y"))
