"""The pages of a crawl, and the list of crawls."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from crawl_console.crawl.source import DataSource, LogLines
from crawl_console.filter_syntax import parse, parse_hosts, quote_value
from crawl_console.format import Span, format_count
from crawl_console.web.api import crawls_of
from crawl_console.web.pages.charts import draw_charts
from crawl_console.web.pages.events import SEARCH_SECONDS, log_lines
from crawl_console.web.pages.frame import TABS, PageHead, frame
from crawl_console.web.pages.grids import Button, Grid, figures, grid, link
from crawl_console.web.render import render
from crawl_console.web.watch import CrawlView, Watch
from crawl_console.words.alarm_table import (
    ALARM_HISTORY,
    DATED_ALARM_COLUMNS,
    NO_ALARM,
    alarm_row,
    event_row,
    without_current,
)
from crawl_console.words.crawl_table import CRAWL_COLUMNS, crawl_row
from crawl_console.words.filters import host_filter, node_filter, sequence_filter
from crawl_console.words.host_spans import host_rank
from crawl_console.words.host_table import HOST_COLUMNS, ShownHost, host_row
from crawl_console.words.job_lines import (
    attempt_lines,
    error_lines,
    link_lines,
    page_lines,
    payload_lines,
    result_lines,
    row_lines,
)
from crawl_console.words.job_table import JOB_COLUMNS, job_row, redacted_url
from crawl_console.words.node_table import ENDED_STATES, NODE_COLUMNS, count_runners, node_rows
from crawl_console.words.result_lines import DATA_HEADINGS, OUTPUT_HEADINGS, data_lines, data_spans, output_spans
from crawl_console.words.run_table import RUN_COLUMNS, compare_runs, end_lines, run_row
from crawl_console.words.sequence_table import SEQUENCE_COLUMNS, sequence_rows
from crawl_console.words.series import TIME_RANGES, find_range
from crawl_console.words.table import Column, Row, item_row
from crawl_engine.errors import CrawlError, UsageError
from crawl_engine.model.run import Alarm
from crawl_engine.store.db.filter import (
    ALL_EVENTS,
    ALL_HOSTS,
    ALL_JOBS,
    RETRYABLE_STATES,
    EventFilter,
    GlobFilter,
    JobFilter,
)
from crawl_engine.store.read.browse import Cursor, JobLine
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.read.snapshot import NodeRow, SequenceRow
from crawl_engine.store.tables.run.events import EventLine

_PAGE_LINES, _HISTORY = 50, 20
_SHOWN_HOSTS, _SHOWN_SEQUENCES, _TAIL_EVENTS, _TAIL_LINES = 12, 20, 300, 12
_ORDERS = EventFilter(kinds=GlobFilter(("command",)))
_MARKS = 100
"""Orders, and alarms, that the plots mark."""
_MAX_BODY = 200_000
"""Bytes of a body that a page shows; all of it can be saved as text."""


def _count(title: str, width: int, name: str, told: str, min_pane_width: int = 0) -> Column[Mapping[str, Any]]:
    """A column of a count of each group."""

    def cell(group: Mapping[str, Any]) -> Span:
        return format_count(group[name]), "bad" if name == "failed" and group[name] else "text"

    return Column(title, width, cell, None, told, right=True, min_pane_width=min_pane_width)


_GROUP_COLUMNS: Sequence[Column[Mapping[str, Any]]] = (
    Column("GROUP", 0, lambda group: (group["group"], "strong"), None, "its name"),
    _count("DONE", 8, "done", "jobs"), _count("FAILED", 6, "failed", "jobs"),
    _count("SKIPPED", 7, "skipped", "jobs", 90), _count("LEFT", 7, "left", "jobs"),
    _count("FETCHES", 7, "fetches", "requests", 110), _count("RETRIES", 7, "retries", "of jobs", 110),
    Column(
        "BROWSER", 20, lambda group: (group["browser"] or "", "dim"), None, "pages that needed it", min_pane_width=90
    ),
)  # fmt: skip

View = Callable[[Request], Awaitable[Response]]


class Listed(Struct, frozen=True):
    """A list with a filter, of which a page shows a part."""

    grid: Grid
    filter: str
    label: str
    hint: str
    problem: str = ""
    count: str = ""
    newer: str = ""
    """The links to the parts before and behind; empty: there is none."""
    older: str = ""


class _Unreadable(CrawlError):
    """A page that reads more than the last view, of a data dir that cannot be read."""

    def __init__(self, top: PageHead) -> None:
        super().__init__(top.error or "", "It is tried again each second.")
        self.top = top


def page(view: View) -> View:
    """A page that says what cannot be read, in place of a JSON object."""

    @wraps(view)
    async def guarded(request: Request) -> Response:
        try:
            return await view(request)
        except _Unreadable as error:
            return render(request, "unreadable.html", 503, top=error.top)
        except CrawlError as error:
            status = 400 if isinstance(error, UsageError) else 503
            return render(request, "problem.html", status, message=error.message, remedy=error.remedy)

    return guarded


@page
async def crawl_list(request: Request) -> Response:
    """All data dirs."""
    views = await crawls_of(request).views()
    shown = grid(
        "crawls", "Crawls", CRAWL_COLUMNS, [_crawl_row(view) for view in views], "no data directory is served",
        href=lambda row: link("/crawl", data=row.key), minor=("PG/S", "ETA"),
    )  # fmt: skip
    events = "/events" if len(views) > 1 else link("/events", data=views[0].name) if views else "/events"
    return render(request, "crawls.html", crawls=shown, events=events)


@page
async def overview(request: Request) -> Response:
    """All at a glance; of a data dir that cannot be read now, what was read last."""
    watch, view = await find_view(request, shows_last=True)
    snapshot, name = view.poll.snapshot, view.name
    history: LogLines = ()
    tail: Sequence[EventLine] = ()
    if (run := snapshot.run) is not None and view.error is None:
        seq = run.seq

        def read(source: DataSource) -> tuple[Any, Any]:
            last = source.last_event_id() + 1
            return (
                source.last_events(seq, ALARM_HISTORY, _HISTORY),
                source.listed_events(seq, ALL_EVENTS, last, _TAIL_EVENTS).events,
            )

        history, tail = await watch.ask(read)
    top = frame_of(request, view, "Overview")
    unreadable = "not readable" if view.error is not None else ""
    now = view.read_at if view.error is not None else time.time()
    history = without_current(history, top.alarms)
    alarms = [*(alarm_row(alarm, now, DATED_ALARM_COLUMNS) for alarm in top.alarms),
              *(event_row(id_, event, now, DATED_ALARM_COLUMNS) for id_, event in reversed(history))]  # fmt: skip
    hosts = sorted(snapshot.hosts, key=host_rank)[:_SHOWN_HOSTS]
    control = crawls_of(request).control and top.is_live
    sequences = sequence_rows(view.poll)[:_SHOWN_SEQUENCES]
    is_over = run is not None and not run.state.is_open
    groups = [item_row(_GROUP_COLUMNS, group["group"], group) for group in snapshot.metrics["groups"]]
    none_yet, no_rows = ("none", "nothing was extracted") if is_over else ("none yet", "nothing yet")
    grids = {
        "alarms": grid("alarms", "Alarms", DATED_ALARM_COLUMNS, alarms, unreadable or NO_ALARM,
                       buttons=_alarm_buttons if control else None),
        "nodes": grid(
            "nodes", "Nodes", NODE_COLUMNS, node_rows(view.poll), "no nodes",
            href=lambda row: jobs_link(name, node_filter(row.subject.id).text) if row.subject is not None else "",
            buttons=_node_buttons if control else None, minor=("JOB/S", "BEAT"),
        ),
        "groups": grid("groups", "Groups", _GROUP_COLUMNS, groups, none_yet,
                       href=lambda row: jobs_link(name, f"group:{quote_value(str(row.key))}")),
        "sequences": grid(
            "sequences", "Sequences", SEQUENCE_COLUMNS, sequences, none_yet, minor=("HELD",),
            href=lambda row: jobs_link(name, sequence_filter(row.subject.group, row.subject.host).text)
            if row.subject is not None else "",
            buttons=_sequence_buttons if control else None,
        ),
        "data": figures("data", "Data", ["DATA", *_titles(DATA_HEADINGS, "LEAST FILLED")],
                        ((line.name, data_spans(line)[1]) for line in data_lines(snapshot)), no_rows),
        "outputs": figures("outputs", "Output", ["OUTPUT", *_titles(OUTPUT_HEADINGS)],
                           (output_spans(output) for output in snapshot.appenders), none_yet, minor=("BYTES/S",)),
        "hosts": _host_grid(view, hosts, columns=_NARROW_HOSTS),
    }  # fmt: skip
    dropped = [
        f"{name_}: {', '.join(words)}" for name_ in snapshot.data_defs if (words := _describe_drops(view, name_))
    ]
    return render(
        request, "overview.html", top=top, grids=grids, tail=log_lines(tail).lines[:_TAIL_LINES], dropped=dropped,
        more_hosts=max(0, max(snapshot.host_count, len(snapshot.hosts)) - len(hosts)),
        more_sequences=max(0, snapshot.sequence_count - len(sequences)), groups=_group_names(view),
        runners=count_runners(snapshot.nodes), no_lines=unreadable or "nothing here yet",
        hosts_href=link("/crawl/hosts", data=name), jobs_href=link("/crawl/jobs", data=name),
        log_href=link("/crawl/log", data=name),
    )  # fmt: skip


@page
async def hosts(request: Request) -> Response:
    watch, view = await find_view(request)
    text, number = query_of(request, "filter"), number_of(request, "page")
    problem, count, run = "", 0, view.poll.snapshot.run
    chosen: list[HostRow] = []
    try:
        filter_ = parse_hosts(text) if text else ALL_HOSTS
        if run is not None:
            seq = run.seq
            chosen, count = await watch.ask(
                lambda source: source.find_hosts(seq, filter_, number * _PAGE_LINES, _PAGE_LINES)
            )
    except UsageError as error:
        problem = f"{error.message}. {error.remedy}"
    last = min(count, (number + 1) * _PAGE_LINES)
    control = crawls_of(request).control and view.poll.is_live
    listed = Listed(
        _host_grid(view, chosen, control=control),
        text,
        "Hosts",
        "words, host:x, state:resting, !x",
        problem,
        f"{number * _PAGE_LINES + 1:,}–{last:,} of {count:,}" if chosen else "",
        link("/crawl/hosts", data=view.name, filter=text, page=number - 1 or "") if number else "",
        link("/crawl/hosts", data=view.name, filter=text, page=number + 1) if last < count else "",
    )
    return render(request, "list.html", top=frame_of(request, view, "Hosts", "hosts"), listed=listed)


@page
async def jobs(request: Request) -> Response:
    watch, view = await find_view(request)
    text, problem, next_ = query_of(request, "filter"), "", None
    lines: Sequence[JobLine] = ()
    run, after = view.poll.snapshot.run, _cursor(query_of(request, "after"))
    count = ""
    try:
        filter_ = parse(text) if text else ALL_JOBS
        if run is not None:
            seq = run.seq
            lines, next_ = await _find_jobs(watch, seq, filter_, after)
            if filter_.countable:
                count = f"{await watch.ask(lambda source: source.count_jobs(seq, filter_)):,} jobs"
    except UsageError as error:
        problem = f"{error.message}. {error.remedy}"
    now = time.time()
    shown = grid(
        "jobs", "Jobs", JOB_COLUMNS, [job_row(line, now) for line in lines],
        "the search goes on behind the next link" if next_ else "no jobs",
        href=lambda row: link("/crawl/job", data=view.name, id=row.key), minor=("TRY", "AGE"),
    )  # fmt: skip
    listed = Listed(
        shown,
        text,
        "Jobs",
        'state:failed host:x group:g reason:"…" age>5m attempts>2',
        problem,
        count,
        link("/crawl/jobs", data=view.name, filter=text) if after else "",
        link("/crawl/jobs", data=view.name, filter=text, after=f"{next_.at!r},{next_.id}") if next_ else "",
    )
    asks = link("/ask/retry", data=view.name, match=text) if text and not problem and lines else ""
    return render(request, "list.html", top=frame_of(request, view, "Jobs", "jobs"), listed=listed, retry=asks)


async def _find_jobs(
    watch: Watch, run: int, filter_: JobFilter, after: Cursor | None
) -> tuple[list[JobLine], Cursor | None]:  # fmt: skip
    """A page of jobs, and where the next one begins. Each read is short, and searched on for some seconds."""
    found: list[JobLine] = []
    deadline = time.monotonic() + SEARCH_SECONDS
    while True:
        begin, room = after, _PAGE_LINES - len(found)
        listing = await watch.ask(lambda source: source.jobs(run, filter_, begin, room, backwards=False))  # noqa: B023
        found += listing.lines
        after = listing.next
        if after is None or len(found) >= _PAGE_LINES or time.monotonic() > deadline:
            return found, after


@page
async def job(request: Request) -> Response:
    watch, view = await find_view(request)
    id_ = number_of(request, "id")

    def read(source: DataSource) -> Any:
        detail = source.job(id_)
        stored = detail.page.id if detail is not None and detail.page is not None else None
        return detail, source.document_body(stored) if stored is not None else None

    detail, body = await watch.ask(read)
    if detail is None:
        raise UsageError(f"there is no job {id_}", "The page Jobs lists them.")
    parts = {
        "Error": error_lines(detail), "Request": payload_lines(detail), "Attempts": attempt_lines(detail),
        "Links": link_lines(detail), "Rows": row_lines(detail),
    }  # fmt: skip
    if detail.results or detail.unlisted_results:
        parts["Results"] = result_lines(detail)
    head, text = [], ""
    stored = list(page_lines(detail.page, body))
    if body is None:
        head = stored
    else:
        head = stored[: 2 + len(detail.page.headers)] if detail.page is not None else stored
        text = body[:_MAX_BODY].decode("utf-8", "replace")
    url = redacted_url(detail.line)
    return render(
        request, "job.html", top=frame_of(request, view, f"Job {id_}", "jobs"), id=id_,
        parts={name: list(lines) for name, lines in parts.items()}, head=head, lines=text.splitlines(),
        cut=len(body or b"") > _MAX_BODY, url=url, opens=url.startswith(("http://", "https://")),
        body_href=link("/crawl/body", data=view.name, id=id_) if body is not None else "",
        retry=link("/ask/retry", data=view.name, job=id_, back=link("/crawl/job", data=view.name, id=id_))
        if detail.line.state.lower() in RETRYABLE_STATES else "",
    )  # fmt: skip


@page
async def body(request: Request) -> Response:
    """The stored body of a job's page, as text to save, whatever it is."""
    watch, _ = await find_view(request)
    id_ = number_of(request, "id")

    def read(source: DataSource) -> bytes | None:
        detail = source.job(id_)
        return source.document_body(detail.page.id) if detail is not None and detail.page is not None else None

    content = await watch.ask(read)
    if content is None:
        raise UsageError(f"job {id_} has no stored page", "It was not fetched, or its page was deleted.")
    headers = {"Content-Disposition": f'attachment; filename="job-{id_}.txt"'}
    return PlainTextResponse(content.decode("utf-8", "replace"), headers=headers)


@page
async def plots(request: Request) -> Response:
    watch, view = await find_view(request)
    chosen = next((one for one in TIME_RANGES if one[0] == query_of(request, "range")), TIME_RANGES[0])
    samples, run = [], view.poll.snapshot.run
    marked: LogLines = ()
    if run is not None:
        seq, since = run.seq, time.time() - chosen[1] if chosen[1] else 0.0
        samples = await watch.ask(lambda source: source.samples(seq, since))
        marked = await watch.ask(
            lambda source: sorted(
                [*source.last_events(seq, _ORDERS, _MARKS), *source.last_events(seq, ALARM_HISTORY, _MARKS)],
                key=lambda line: line[0],
            )
        )
    name, seconds, ends_at = find_range(samples, *chosen, is_live=view.poll.is_live)
    ranges = [(one[0], link("/crawl/plots", data=view.name, range=one[0]), one is chosen) for one in TIME_RANGES]
    events = [event for _, event in marked]
    charts = draw_charts(samples, name, seconds, ends_at, is_live=view.poll.is_live, events=events)
    top = frame_of(request, view, "Plots", "plots")
    return render(request, "plots.html", top=top, charts=charts, ranges=ranges, range=name)


@page
async def runs(request: Request) -> Response:
    watch, view = await find_view(request)
    reports = await watch.ask(lambda source: source.run_reports())
    live = view.poll.snapshot.run.id if view.poll.is_live and view.poll.snapshot.run is not None else ""
    ids = [report.past.id for report in reports]
    place = ids.index(query_of(request, "run")) if query_of(request, "run") in ids else 0
    other = ids.index(query_of(request, "with")) if query_of(request, "with") in ids else place + 1
    before = reports[other] if other < len(reports) and other != place else None
    rows = [run_row(report, is_live=report.past.id == live) for report in reports]
    shown = grid("runs", "Runs", RUN_COLUMNS, rows, "no run yet", minor=("TIME", "WARN", "EMPTIED"),
                 href=lambda row: link("/crawl/runs", data=view.name, run=row.key))  # fmt: skip
    lines = list(compare_runs(reports[place], before)) if reports else []
    notes = list(end_lines(reports[place])) if reports else []
    compared = f"run {ids[place]} compared with {before.past.id}" if before is not None else ""
    heading = (compared or f"run {ids[place]}, the first run here") if reports else ""
    return render(request, "runs.html", top=frame_of(request, view, "Runs", "runs"), grid=shown, lines=lines,
                  notes=notes, heading=heading, ids=ids, chosen=ids[place] if ids else "",
                  other=before.past.id if before is not None else "")  # fmt: skip


async def find_view(request: Request, *, shows_last: bool = False) -> tuple[Watch, CrawlView]:
    """The data dir that a page shows. Raises UsageError, and _Unreadable if it cannot be read now.

    `shows_last`: what was read before is enough.
    """
    watch = crawls_of(request).find(request)
    view = await watch.current()
    if view.error is not None and not (shows_last and view.read_at):
        part = request.url.path.removeprefix("/crawl").strip("/")
        raise _Unreadable(frame(request, watch, view, dict(TABS).get(part, part.capitalize()), part))
    return watch, view


def frame_of(request: Request, view: CrawlView, title: str, tab: str = "") -> PageHead:
    return frame(request, crawls_of(request).find(request), view, title, tab)


def query_of(request: Request, name: str) -> str:
    return request.query_params.get(name, "").strip()[:2_000]


def number_of(request: Request, name: str) -> int:
    """A number of the query; 0 for what is none."""
    text = query_of(request, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _cursor(text: str) -> Cursor | None:
    at, _, id_ = text.partition(",")
    try:
        return Cursor(float(at), int(id_))
    except ValueError:
        return None


def jobs_link(name: str, filter_: str) -> str:
    return link("/crawl/jobs", data=name, filter=filter_)


def _titles(headings: str, last: str = "") -> list[str]:
    return [*headings.removesuffix(last).replace(last, "").split(), *([last] if last else [])]


def _crawl_row(view: CrawlView) -> Row:
    row = crawl_row(view.name, view.data, view.poll, view.line["alarms"] or 0, view.last_success, view.error or "")
    return replace(row, key=view.name)


def _host_grid(
    view: CrawlView, hosts: Iterable[HostRow], columns: Sequence[Column[ShownHost]] = HOST_COLUMNS, *,
    control: bool = False,
) -> Grid:  # fmt: skip
    rows = [host_row(host, is_live=view.poll.is_live, columns=columns) for host in hosts]
    return grid(
        "hosts", "Hosts", columns, rows, "no hosts yet", minor=("P50", "ROBOTS", "ETA"),
        href=lambda row: jobs_link(view.name, host_filter(str(row.key)).text),
        buttons=_host_buttons if control else None,
    )  # fmt: skip


_SHOWN_TITLES = ("HOST", "STATE", "DONE", "BAD%", "P95", "NEXT", "WAITING")
_NARROW_HOSTS = [column for column in HOST_COLUMNS if column.title in _SHOWN_TITLES]


def _node_buttons(row: Row) -> Sequence[Button]:
    node: NodeRow | None = row.subject
    if node is None or node.state in ENDED_STATES:
        return ()
    return (Button("Drain", "drain", {"node": node.id}), Button("Kill…", "kill", {"node": node.id}, asks=True))


def _sequence_buttons(row: Row) -> Sequence[Button]:
    sequence: SequenceRow | None = row.subject
    if sequence is None:
        return ()
    name = "resume" if sequence.paused else "pause"
    return (Button(name.capitalize(), name, {"sequence": f"{sequence.group}@{sequence.host}"}),)


def _alarm_buttons(row: Row) -> Sequence[Button]:
    """What can be done about an alarm of a host."""
    if not isinstance(row.subject, Alarm) or row.subject.host is None:
        return ()
    return (Button("Pause host", "host", {"host": row.subject.host, "paused": "yes"}),)


def _host_buttons(row: Row) -> Sequence[Button]:
    return (Button("Set…", "host", {"host": str(row.key)}, asks=True),)


def _group_names(view: CrawlView) -> list[str]:
    return [group["group"] for group in view.poll.snapshot.metrics["groups"]]


def _describe_drops(view: CrawlView, name: str) -> list[str]:
    """What of a dataDef does not reach its output, and why."""
    snapshot = view.poll.snapshot
    counts = (
        (snapshot.rejected.get(name, 0), "rejected"), (snapshot.data_defs[name].filtered, "dropped by a filter"),
        (snapshot.duplicates.get(name, 0), "with the key of another row"),
        (snapshot.waiting_rows.get(name, 0), "wait for files"),
    )  # fmt: skip
    return [f"{count:,} {word}" for count, word in counts if count]
