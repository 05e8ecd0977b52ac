"""What pages say of the log, of failures and of what cannot be read now."""

import re
import time
import warnings
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_console.format import format_date_time
from crawl_console.sanitize import clean
from crawl_engine.store.read.event_search import EventListing
from crawl_engine.store.read.failures import FailureGroup
from crawl_engine.store.read.snapshot import EMPTY_SNAPSHOT
from crawl_engine.store.tables.run.events import Event, EventLine
from tests.console.builders import AT, line, samples

pytest.importorskip("prometheus_client", reason="the extra serve is missing")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette prefers another client than the one that is installed


from tests.unit.console.web.pages.served import EVIL, REST, Served, Source, situation


def test_plots_are_svg_and_say_what_they_show() -> None:
    source = situation()
    source.samples_ = samples()
    served = Served(source, live=False)
    text = served.get("/crawl/plots")
    assert text.count("<svg viewBox") >= 4
    assert 'aria-label="Queue: at the end 841, top 900, the whole run, 4m55' in text
    for path in re.findall(r' d="([^"]*)"', text):
        assert re.fullmatch(r"[MLHVZ0-9. ]*", path)
    assert "NaN" not in text
    assert 'class="area good c2xx"' in text
    empty = Served(situation()).get("/crawl/plots")
    assert empty.count("<svg viewBox") >= 4, "without samples there are empty charts"


def test_one_that_cannot_be_read_says_why() -> None:
    served = Served(situation(), control=True)
    bright = served.words("/crawl")
    served.view = replace(served.view, error=f"the file is damaged {EVIL}", read_at=time.time() - 75)
    words, text = served.words("/crawl"), served.get("/crawl")
    assert f"cannot be read: the file is damaged {clean(EVIL)} · what is dimmed was read at" in words
    assert re.search(r"\d\d:\d\d:\d\d, 1m15 ago|\d\d:\d\d:\d\d, 1m 15s ago|, 75s ago", words), words[:600]
    for told in ("12,480", "3f2a", "img.example"):
        assert (told in bright) == (told in words), "the last values stay"
    for lie in ("no run yet", "✓ no alarms", "nothing here yet", "/orders/pause"):
        assert lie not in text
    assert '<main id="main" tabindex="-1" class="old">' in text
    assert '<header class="old">' in text
    assert "✗ the file is damaged" in served.words("/")


@pytest.mark.parametrize("page", ["jobs", "hosts", "failed", "log", "plots", "runs"])
def test_a_page_of_what_cannot_be_read_shows_no_empty_list(page: str) -> None:
    served = Served(situation())
    served.view = replace(served.view, error="the server is gone", read_at=time.time() - 75)
    text = served.get(f"/crawl/{page}", 503)
    assert "cannot be read: the server is gone" in text
    assert "cannot be read now. It is tried again each second" in text
    assert not re.search("nothing here yet|no jobs|no hosts|nothing failed|no run yet", text)


def test_what_was_never_read_has_no_values() -> None:
    source = Source()
    source.current = EMPTY_SNAPSHOT
    served = Served(source, live=False)
    served.view = replace(served.view, error="the server is gone")
    words = served.get("/crawl", 503)
    assert "cannot be read: the server is gone · it was never read since this server began" in words
    assert not re.search("no run yet|no alarms|no nodes|nothing yet|none yet|no hosts", words)


def log_of(count: int) -> Source:
    """A log with a page in each line, a warning in each tenth, and a needle at its begin."""
    source = situation()
    source.lines = [(1, Event(AT, "ERROR", "n1", "page", "a needle", None))]
    for id_ in range(2, count):
        text = "200   84 ms   12 kB  24 rows  https://shop.example/item/7"
        if id_ % 10:
            source.lines.append((id_, Event(AT + id_, "INFO", "n1", "page", text)))
        else:
            text = f"503  try 2 in 8 s  http://img.example:80/{id_}"
            source.lines.append((id_, Event(AT + id_, "WARNING", "n1", "page", text)))
    return source


def test_the_log_is_folded_as_in_the_console_and_has_buttons_for_levels() -> None:
    served = Served(log_of(400))
    folded = served.get("/crawl/log")
    assert folded.count("<li data-key") == 2, "the needle, and all warnings of a host"
    assert "×39" in folded
    assert "shop.example last 359 ok, p50 84ms" in folded
    for name, count in (("error", 1), ("warning", 2)):
        assert f"level={name}" in folded
        assert served.get(f"/crawl/log?level={name}").count("<li data-key") == count
    lines = served.get("/crawl/log?lines=all")
    assert lines.count("<li data-key") == 100
    assert "before=300" in lines
    assert "nothing here yet" in served.get("/crawl/log?level=error&filter=level:warning")
    assert served.get("/crawl/log?filter=level:warning").count("<li data-key") == 1


def test_plots_tell_the_values_of_a_time_and_mark_orders_and_alarms() -> None:
    source = situation()
    source.samples_ = samples()
    at = source.samples_[-20].at
    source.lines = [
        (1, Event(at, "INFO", "web 10.1.2.3", "command", f"pause: intake paused {EVIL}")),
        (2, Event(at + 60, "WARNING", "supervisor", "host", "img.example:443 rests")),
    ]
    source.last_events = lambda run, found, limit: source.lines[:1] if found.kinds.include else source.lines[1:]  # type: ignore[method-assign]
    text = Served(source, live=False).get("/crawl/plots")
    assert text.count('<path class="mark') == 8, "two on each of four"
    assert "web 10.1.2.3: pause: intake paused &lt;script" in text
    assert "supervisor: img.example:443 rests" in text
    assert re.search(r"<title>\d\d:\d\d:\d\d: 2xx [\d.]+", text)
    assert re.search(r"<title>\d\d:\d\d:\d\d: p50 \w+, p95 \w+</title>", text)


def test_failures_have_dates_and_samples() -> None:
    source, shop = situation(), "shop.example:80"
    source.jobs_ = [line(2, "FAILED", url="http://shop.example/item/7", reason="HTTP 500", host=shop)]
    groups = [FailureGroup(shop, "HTTP 500", 222, ("detail",))]
    source.failure_groups = lambda run: groups  # type: ignore[method-assign]
    source.failure_bounds = lambda run: {(shop, "HTTP 500"): (AT, AT + 100)}  # type: ignore[method-assign]
    words = Served(source).words("/crawl/failed")
    assert f"{format_date_time(AT)} {format_date_time(AT + 100)} http://shop.example/item/7" in words


def test_the_log_is_searched_until_there_is_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read may end without a match, long before the end of the log."""
    source = log_of(400)
    asked = []

    def short(run: int, event_filter: Any, before: int, limit: int) -> EventListing:
        asked.append(before)
        lines = [EventLine(*one) for one in source.lines if before - 50 <= one[0] < before]
        found = tuple(one for one in lines if event_filter.accepts(one.event.text))
        return EventListing(found, before - 50 if before > 50 else None)

    monkeypatch.setattr(source, "listed_events", short)
    text = Served(source).get("/crawl/log?filter=needle")
    assert "a needle" in text
    assert len(asked) == 8
    assert "Next" not in text


def test_an_alarm_is_no_old_warning_besides() -> None:
    source = situation(alarms=[REST])
    old = REST.text.replace("24 s", "9 s")
    source.lines = [(7, Event(AT, "WARNING", "n1", "host", old)), (8, Event(AT, "WARNING", "n1", "host", "another"))]
    alarms = Served(source).get("/crawl").partition('<table id="alarms"')[2].partition("</table>")[0]
    assert REST.text in alarms
    assert old not in alarms
    assert "another" in alarms
