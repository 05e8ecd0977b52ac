"""The command `job`: shows one job in full, or the body of its document."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson
from msgspec.structs import asdict

from crawl_console.cli.options import Number, common_options, object_option
from crawl_console.cli.output import open_stdout, write_json, write_lines
from crawl_console.format import format_date_time, format_size, mask_header, plural
from crawl_engine.errors import UsageError
from crawl_engine.urls import without_credentials

if TYPE_CHECKING:
    from crawl_engine.store.read.browse import JobDetail


@click.command()
@click.argument("job", metavar="ID", type=Number())
@click.option("--body", is_flag=True, help="Write the body of its document as it was received.")
@object_option
@common_options("data")
def job(job: int, body: bool, as_json: bool, data: Path) -> int:
    """Show one job in full: what it asks for, its attempts, events, document and rows."""
    from crawl_console.client import open_latest_run, read_job

    if body and as_json:
        raise UsageError("--body and --json exclude each other", "Use one of them.")
    with open_latest_run(data) as (db, _):
        detail = read_job(db, data, job)
        if detail is None:
            raise UsageError(f"{data}: no job {job}", "`crawl-console jobs` lists the ids of jobs.")
    if body:
        _write_body(data, detail)
    elif as_json:
        write_json(_as_dict(detail))
    else:
        write_lines(*_lines(detail))
    return 0


def _write_body(data: Path, detail: "JobDetail") -> None:
    from crawl_console.client import read_body

    if detail.page is None:
        raise UsageError(f"job {detail.line.id} has no document", "It got no answer, or its answer was not kept.")
    body = read_body(data, detail.page.id)
    if body is None:
        raise UsageError(
            f"the body of job {detail.line.id} was deleted",
            "`documents: false` or `pages prune` did so; the next run fetches it again.",
        )
    open_stdout().write(body)
    sys.stdout.flush()


def _as_dict(detail: "JobDetail") -> dict[str, Any]:
    """The object of `--json`: the keys of `jobs --json`, and what else is known of the job."""
    from crawl_console.client import job_as_dict
    from crawl_engine.model.link import Carried

    request, page = detail.request, detail.page
    headers = {name: mask_header(name, value) for name, value in request.headers}
    return {
        **job_as_dict(detail.line),
        "why": detail.why,
        "request": {"method": request.method, "headers": headers, "body": request.body},
        "locator": detail.locator,
        "found_on": [without_credentials(one.url) for one in detail.lineage.ancestors],
        "carried": dict(Carried.from_json(detail.carried).values),
        "defs_version": detail.defs,
        "document": page and {**asdict(page), "url": without_credentials(page.url), "headers": dict(page.headers)},
        "events": [{"at": e.at, "level": e.level, "source": e.source, "text": e.text} for _, e in detail.events],
        "rows": [{"id": id_, "data_def": name, "row": orjson.loads(text)} for id_, name, text in detail.rows],
        "results": [one._asdict() for one in detail.results],
    }


def _lines(detail: "JobDetail") -> Iterator[str]:
    line, page = detail.line, detail.page
    reason = f": {line.reason}" if line.reason else ""
    yield f"job {line.id}  {line.state}{reason}"
    yield f"  {detail.request.method} {without_credentials(line.url)}"
    if line.target:
        yield f"  redirected to {without_credentials(line.target)}"
    for name, value in detail.request.headers:
        yield f"    {name}: {mask_header(name, value)}"
    if detail.request.body:
        yield f"    {detail.request.body}"
    attempts = f"{plural(line.attempts, 'attempt')}, {plural(line.crashes, 'crash')}"
    yield f"  {line.kind} of {line.group} on {line.host}, depth {line.depth}, {attempts}"
    for ancestor in detail.lineage.ancestors:
        yield f"  found on {without_credentials(ancestor.url)}"
    if detail.why:
        yield f"  waits: {detail.why}"
    if page is None:
        yield "  no document"
    else:
        fetched = f"{format_size(page.size)}B, fetched {format_date_time(page.fetched_at)}"
        yield f"  document {page.status} {page.content_type} {fetched}; --body writes it"
        for name, value in page.headers:
            yield f"    {name}: {value}"
    for _, event in detail.events:
        yield f"  {format_date_time(event.at)} {event.level:<7} {event.source:<10} {event.text}"
    for _, data_def, text in detail.rows:
        yield f"  row of {data_def}: {text}"
