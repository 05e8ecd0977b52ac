"""What all pages of a crawl begin with: its run, progress, health, and the links to the pages."""

import time
from collections.abc import Sequence

from msgspec import Struct
from starlette.requests import Request

from crawl_console.client import list_alarms
from crawl_console.format import Span, format_count, format_date_time, format_elapsed, format_time
from crawl_console.web.given import GivenOrder
from crawl_console.web.pages.charts import spark_path
from crawl_console.web.pages.grids import link
from crawl_console.web.watch import CrawlView, Watch
from crawl_console.words.health_line import health_spans
from crawl_console.words.run_line import end_span, progress_parts, run_parts, run_state_span
from crawl_engine.judge.remaining import progress_of
from crawl_engine.model.run import Alarm

SAID = "said"
"""The parameter of a page with the id of an order, of which it says what came."""
_UNLIMITED = 10_000
"""Cells of a line: a browser breaks it."""
_SPARK_VALUES = 60
SPARK_WIDTH, SPARK_HEIGHT = 120, 20
TABS = (
    ("", "Overview"), ("jobs", "Jobs"), ("hosts", "Hosts"), ("failed", "Failed"), ("log", "Log"), ("plots", "Plots"),
    ("runs", "Runs"),
)  # fmt: skip


class Tab(Struct, frozen=True):
    name: str
    href: str
    note: str
    is_current: bool


class PageHead(Struct, frozen=True):
    name: str
    key: str
    """Of the forms of this page."""
    given: GivenOrder | None
    """The order that led here."""
    run_id: str
    title: str
    """Of the page."""
    url: str
    """Of the page, with its parameters: where an order leads back."""
    events: str
    tabs: Sequence[Tab]
    brief: Sequence[Span]
    """The state and the progress in a few words, for a narrow window."""
    run: Sequence[Span]
    end: Sequence[Span]
    """How the run ended, and what is to blame; empty: it has not."""
    dates: str
    """When it began and ended."""
    level: str
    """Whether what is shown is good: the role of its bar."""
    progress: Sequence[Span]
    share: float | None
    """How far the run is, 0 to 1; None: nobody can say."""
    health: Sequence[Span]
    alarms: Sequence[Alarm]
    said: str
    """What a screen reader hears when it changes: the state, and which alarms there are."""
    spark: str
    error: str | None
    read_at: str
    """When what is shown was read, if it cannot be read now; empty: it never was."""
    is_live: bool
    is_paused: bool


def frame(request: Request, watch: Watch, view: CrawlView, title: str, tab: str = "") -> PageHead:
    poll, snapshot = view.poll, view.poll.snapshot
    query = {name: value for name, value in request.query_params.items() if name != SAID}
    alarms = list_alarms(snapshot, view.status["alarm"]) if snapshot.run is not None else []
    loud = [alarm for alarm in alarms if not alarm.acknowledged]
    groups = snapshot.run.judgement.hosts if snapshot.run is not None and poll.is_live else ()
    failed = format_count(snapshot.jobs["failed"]) if snapshot.jobs["failed"] else ""
    notes = {"failed": failed, "": f"! {len(loud)}" if loud else ""}
    tabs = [
        Tab(name, link("/crawl" + (f"/{part}" if part else ""), data=view.name), notes.get(part, ""), part == tab)
        for part, name in TABS
    ]
    ended = end_span(poll)
    share = progress_of(snapshot, is_live=poll.is_live).share
    state = run_state_span(poll)
    return PageHead(
        name=view.name, key=watch.given.new_key(), given=watch.given.find(request.query_params.get(SAID, "")),
        run_id=snapshot.run.id if snapshot.run is not None else "", title=title, url=link(request.url.path, **query),
        events=link("/events", data=view.name), tabs=tabs,
        brief=[] if view.error is not None else [
            state,
            *([(f" {share:.0%}".replace("%", " %"), "text")] if share is not None else []),
            *([(f" ! {len(loud)}", "warn")] if loud else []),
        ],
        run=_join(run_parts(poll, names_width=_UNLIMITED)) if view.error is None or view.read_at else [],
        end=[ended] if ended is not None else [], dates=_describe_dates(view),
        level=state[1],
        progress=_join(progress_parts(poll, _UNLIMITED)),
        share=share,
        health=health_spans(groups, loud, _UNLIMITED, more_at=" on the overview"),
        alarms=alarms,
        said=", ".join(["cannot be read" if view.error is not None else state[0], *(alarm.key for alarm in loud)]),
        spark=spark_path(list(poll.page_rates)[-_SPARK_VALUES:], SPARK_WIDTH, SPARK_HEIGHT),
        error=view.error, read_at=describe_age(view) if view.error is not None else "",
        is_live=poll.is_live and view.error is None,
        is_paused=snapshot.run is not None and "operator" in (snapshot.run.paused or ""),
    )  # fmt: skip


def _describe_dates(view: CrawlView) -> str:
    run = view.poll.snapshot.run
    if run is None:
        return ""
    ended = view.line["ended"]
    return f"began {format_date_time(run.created_at)}" + (f", ended {format_date_time(ended)}" if ended else "")


def describe_age(view: CrawlView) -> str:
    """When a view was read, and how long ago; empty: nothing was ever read."""
    if not view.read_at:
        return ""
    return f"{format_time(view.read_at)}, {format_elapsed(max(0.0, time.time() - view.read_at))} ago"


def _join(parts: Sequence[tuple[bool, list[Span]]]) -> list[Span]:
    return [span for _, spans in parts for span in spans]
