"""The first line of a headless run: whether it resumes an unfinished one, of which day, and how to begin a new one."""

import re
import time
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest

from crawl_console.cli.progress import Progress
from crawl_console.format import format_day
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import Event
from tests.contract.store.harness import StoreHarness

NOON = datetime(2024, 3, 1, 12).timestamp()  # after a leap day


@pytest.mark.parametrize(
    ("at", "now", "day"),
    [
        (NOON, NOON, "today"),
        (datetime(2024, 3, 1, 0, 0, 1), datetime(2024, 3, 1, 23, 59), "today"),
        (datetime(2024, 2, 29, 23, 59), datetime(2024, 3, 1, 0, 1), "yesterday"),
        (datetime(2024, 2, 29, 0, 1), datetime(2024, 3, 1, 23, 59), "yesterday"),
        (datetime(2024, 2, 27, 12), NOON, "3 days ago"),
        (datetime(2024, 1, 31, 12), NOON, "30 days ago"),
        (datetime(2024, 1, 30, 12), NOON, "2024-01-30"),
        (datetime(2024, 3, 2, 12), NOON, "today"),  # the clock was set back
    ],
)
def test_a_day_in_words(at: datetime | float, now: datetime | float, day: str) -> None:
    seconds = [moment.timestamp() if isinstance(moment, datetime) else moment for moment in (at, now)]
    assert format_day(seconds[0], seconds[1]) == day


def first_line(store: StoreHarness, capsys: pytest.CaptureFixture[str], *, extract_only: bool = False) -> str:
    Progress("plain", store.folder / CRAWL).start(store.db, store.run, extract_only=extract_only)
    return capsys.readouterr().err.splitlines()[0]


def test_a_resumed_run_says_of_which_day_it_is(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> None:
    id_ = store.db.one("SELECT id FROM runs")[0]  # type: ignore[index]
    assert first_line(store, capsys).startswith(f"run {id_} starts: ")
    store.seed("http://a/1", "http://a/2")
    noon = datetime.fromtimestamp(time.time()).replace(hour=12)
    for days, word in [(0, "today"), (1, "yesterday"), (2, "2 days ago")]:
        with store.db.transaction():
            store.db.execute("UPDATE runs SET created_at = ?", ((noon - timedelta(days=days)).timestamp(),))
        line = first_line(store, capsys)
        assert line.startswith(f"resuming run {id_} of {word} (`--fresh` begins a new one): ")
        assert line.endswith("2 jobs left")
    assert first_line(store, capsys, extract_only=True).startswith(f"resuming run {id_} of 2 days ago: ")


def test_lines_begin_with_their_time_where_no_terminal_shows_it(
    store: StoreHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    time_of_line = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} ")
    progress = Progress("plain", store.folder / CRAWL, times=True)
    progress.start(store.db, store.run)
    progress.print_message("one\ntwo")
    progress.finish(store.db, store.run, 0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 4
    assert all(time_of_line.match(line) for line in lines), lines
    assert [time_of_line.sub("", line) for line in lines[1:3]] == ["one", "two"]
    json_lines = Progress("json", store.folder / CRAWL, times=True)
    json_lines.finish(store.db, store.run, 0)
    assert capsys.readouterr().err.startswith("{")


def test_an_event_that_comes_while_events_are_read_is_printed(
    store: StoreHarness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, list_texts = ["robots.txt is closed"], events.list_texts

    def list_then_add(db: Database, run: int, kind: str, *more: Any) -> list[str]:
        found = list_texts(db, run, kind, *more)
        while kind == "host" and texts:
            with closing(connect(store.folder / CRAWL)) as other, other.transaction():
                events.add(other, store.run, [Event(time.time(), "WARNING", "n1", "host", texts.pop())])
        return found

    monkeypatch.setattr(events, "list_texts", list_then_add)
    progress = Progress("plain", store.folder / CRAWL)
    progress.start(store.db, store.run)
    assert "robots.txt is closed" not in capsys.readouterr().err
    progress.finish(store.db, store.run, 0)
    assert "  robots.txt is closed\n" in capsys.readouterr().err
