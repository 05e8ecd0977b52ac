"""The page of failures: why pages failed, when, and some of them."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from crawl_console.filter_syntax import parse
from crawl_console.format import format_date_time
from crawl_console.web.api import crawls_of
from crawl_console.web.pages.grids import Button, grid
from crawl_console.web.pages.views import find_view, frame_of, jobs_link, page
from crawl_console.web.render import render
from crawl_console.web.watch import Watch
from crawl_console.words.failure_table import FAILURE_COLUMNS, describe_no_failure, failure_row
from crawl_console.words.filters import failure_filter
from crawl_console.words.job_table import redacted_url
from crawl_console.words.table import Column, Row
from crawl_engine.store.read.failures import FailureGroup

_SAMPLED, _SAMPLES = 20, 2
"""Reasons whose pages are told, and how many."""


class _Told(NamedTuple):
    """When the pages of a group failed, and some of them."""

    first: str
    last: str
    pages: str


_TOLD: Sequence[Column[_Told]] = (
    Column("FIRST", 19, lambda told: (told.first, "dim"), None, "when one failed first", min_pane_width=110),
    Column("LAST", 19, lambda told: (told.last, "dim"), None, "when one failed last"),
    Column("PAGES OF IT", 0, lambda told: (told.pages, "dim"), None, "some of them", min_pane_width=110),
)


@page
async def failed(request: Request) -> Response:
    watch, view = await find_view(request)
    run = view.poll.snapshot.run
    rows: list[Row] = []
    if run is not None:
        seq = run.seq
        groups, bounds = await watch.ask(lambda source: (source.failure_groups(seq), source.failure_bounds(seq)))
        for number, group in enumerate(groups):
            first, last = [format_date_time(at) for at in bounds.get((group.host, group.reason), ())] or ["-", "-"]
            told = _Told(first, last, await _sample_pages(watch, seq, group) if number < _SAMPLED else "")
            row = failure_row(group)
            rows.append(replace(row, cells=(*row.cells, *(column.cell(told) for column in _TOLD))))
    shown = grid(
        "failures", "Why pages failed", (*FAILURE_COLUMNS, *_TOLD), rows,
        describe_no_failure(view.poll.snapshot) or "✓ nothing failed", first="REASON",
        href=lambda row: jobs_link(view.name, failure_filter(row.subject.host, row.subject.reason).text),
        buttons=_failure_buttons if crawls_of(request).control else None,
    )  # fmt: skip
    return render(request, "grid.html", top=frame_of(request, view, "Failed", "failed"), grid=shown)


async def _sample_pages(watch: Watch, run: int, group: FailureGroup) -> str:
    """Some pages of a group."""
    filter_ = parse(failure_filter(group.host, group.reason).text)
    jobs = await watch.ask(lambda source: source.jobs(run, filter_, None, _SAMPLES, backwards=False))
    return " ".join(redacted_url(line) for line in jobs.lines)


def _failure_buttons(row: Row) -> Sequence[Button]:
    match = failure_filter(row.subject.host, row.subject.reason).text
    return (Button("Retry…", "retry", {"match": match}, asks=True),)
