"""The log, paged in both directions and filtered: no line twice, none missing, each read bounded."""

import pytest

from crawl_console.filter_syntax import parse_events
from crawl_engine.store.read import job_range
from crawl_engine.store.read.event_search import list_events
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import Event
from tests.contract.store.harness import StoreHarness


@pytest.fixture
def logged(store: StoreHarness) -> StoreHarness:
    store.db.execute("DELETE FROM events")
    levels = ("INFO", "WARNING", "ERROR")
    for number in range(30):
        event = Event(float(number), levels[number % 3], f"n{number % 2}", "page", f"line {number}", number % 5 or None)
        with store.db.transaction():
            events.add(store.db, store.run if number % 7 else store.run + 1, [event])
    return store


def forwards(store: StoreHarness, text: str, limit: int, seconds: float) -> list[int]:
    ids, at = [], 0
    while True:
        part = list_events(store.db, store.run, parse_events(text), after=at, limit=limit, seconds=seconds)
        ids += [int(event.at) for _, event in part.events]
        if part.next is None:
            return ids
        at = part.next


def backwards(store: StoreHarness, text: str, limit: int, seconds: float) -> list[int]:
    ids: list[int] = []
    at: int = 1 << 62
    while True:
        part = list_events(store.db, store.run, parse_events(text), before=at, limit=limit, seconds=seconds)
        ids = [*(int(event.at) for _, event in part.events), *ids]
        if part.next is None:
            return ids
        at = part.next


@pytest.mark.parametrize("window", [3, 20_000])
@pytest.mark.parametrize("limit", [1, 4, 100])
@pytest.mark.parametrize("seconds", [0.0, 9.0])
def test_paging_leaves_no_line_out(
    logged: StoreHarness, monkeypatch: pytest.MonkeyPatch, window: int, limit: int, seconds: float
) -> None:
    monkeypatch.setattr(job_range, "_WINDOW", window)
    ours = [n for n in range(30) if n % 7]
    for text, expected in (
        ("", ours),
        ("level:error", [n for n in ours if n % 3 == 2]),
        ("!level:error source:n1", [n for n in ours if n % 3 != 2 and n % 2]),
        ("2$", [n for n in ours if n % 10 == 2]),
        ('"line 1" !5', [n for n in ours if str(n)[0] == "1" and "5" not in str(n)]),
        ("age<1h", []),
    ):
        assert forwards(logged, text, limit, seconds) == expected, text
        assert backwards(logged, text, limit, seconds) == expected, text


def test_lines_about_a_job(logged: StoreHarness) -> None:
    assert [int(event.at) for _, event in events.list_by_job(logged.db, 2, 100)] == list(range(2, 30, 5))
    assert [int(event.at) for _, event in events.list_by_job(logged.db, 2, 2)] == [22, 27]
    ((_, plan),) = logged.plans(lambda: events.list_by_job(logged.db, 2, 2))
    assert any("events_job" in line for line in plan)


def test_the_url_of_a_job_follows_a_text_that_ends_with_two_spaces(store: StoreHarness) -> None:
    url = "http://a/1"
    store.seed(url)
    [job] = store.take(url)
    texts = ["200 12 ms  ", "200 12 ms  http://a/2", "FAILED: it ends "]
    with store.db.transaction():
        events.add(store.db, store.run, [Event(0.0, "INFO", "n1", "page", text, job.id) for text in texts])
        events.add(store.db, store.run, [Event(0.0, "INFO", "n1", "page", "of no job  ")])
    expected = ["200 12 ms  http://a/1", *texts[1:]]
    assert [event.text for _, event in events.list_by_job(store.db, job.id, 9)] == expected
    listed = events.list_after(store.db, store.run, 0, 99)
    assert [event.text for _, event in listed][-4:] == [*expected, "of no job  "]
    assert [event.text for _, event in events.list_by_ids(store.db, [id_ for id_, _ in listed])][3] == expected[0]
    found = list_events(store.db, store.run, parse_events("a/1")).events
    assert [event.text for _, event in found] == expected[:1]
