"""The commands `jobs`, `retry`, `exclude` and `seed`: list and change the jobs of a run."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from crawl_console.cli.options import (
    FilePath,
    Number,
    choice,
    common_options,
    complete_names,
    empty_without_run,
    lines_option,
    match_option,
    object_option,
    run_option,
)
from crawl_console.cli.output import show_count, write_json, write_lines, write_stderr
from crawl_console.format import format_elapsed, plural
from crawl_engine.errors import UsageError
from crawl_engine.store.db.filter import FILTER_STATES, RETRYABLE_STATES
from crawl_engine.urls import without_credentials

if TYPE_CHECKING:
    from crawl_console.crawl.orders import Done
    from crawl_engine.store.read.browse import JobLine
    from crawl_engine.store.tables.run.runs import Run
    from crawl_engine.supervise.seeding.posted_seeds import PostedSeeds

_PAGE_SIZE = 500
_HEADING = "      ID  STATE       TRIES     AGE  GROUP         URL"


@click.command()
@click.option(
    "--state", "states", multiple=True, type=choice(FILTER_STATES), help="Only in this state; may be repeated."
)
@match_option
@click.option("--limit", type=Number(), metavar="N", help="At most N; default: all.")
@click.option("--why", is_flag=True, help="Say why each waiting job is not fetched now.")
@lines_option
@run_option
@common_options("data")
@empty_without_run
def jobs(
    states: Sequence[str],
    match: str | None,
    limit: int | None,
    why: bool,
    as_json: bool,
    run_id: str | None,
    data: Path,
) -> int:
    """List the jobs of a run; failed ones newest first."""
    from crawl_console.client import explain_waits, job_as_dict, open_latest_run
    from crawl_console.filter_syntax import job_filter
    from crawl_engine.store.read.browse import list_jobs

    filter_ = job_filter(match, [state.lower() for state in states])
    with open_latest_run(data, run_id=run_id) as (db, run):
        count, cursor = 0, None
        while limit is None or count < limit:
            size = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - count)
            page = list_jobs(db, run.seq, filter_, after=cursor, limit=size)
            reasons = explain_waits(db, run.seq, page.lines) if why else {}
            if as_json:
                why_by_id = {id_: {"why": reason} for id_, reason in reasons.items()}
                write_json(*(job_as_dict(line) | why_by_id.get(line.id, {}) for line in page.lines))
            else:
                heading = [_HEADING] if page.lines and not count else []
                write_lines(*heading, *(_line(line, reasons.get(line.id, "")) for line in page.lines))
            count, cursor = count + len(page.lines), page.next
            if cursor is None:
                break
        if not count and not as_json:
            write_stderr(f"no such job in run {run.id}")
    return 0


def _line(line: "JobLine", why: str) -> str:
    age = "-" if line.changed_at is None else format_elapsed(time.time() - line.changed_at)
    details = [
        f"→ {without_credentials(line.target)}" if line.target else "",
        line.reason or "",
        plural(line.crashes, "crash") if line.crashes else "",
        f"waits {format_elapsed(line.wait)}" if line.wait else "",
        f"in {line.node}" if line.state == "TAKEN" else "",
        why,
    ]
    notes = "; ".join(filter(None, details))
    text = f"{line.id:>8}  {line.state:<10}  {line.attempts:>5}  {age:>6}  {line.group:<12}  "
    return text + without_credentials(line.url) + (f"  ({notes})" if notes else "")


@click.command()
@click.option(
    "--state", "states", multiple=True, type=choice(RETRYABLE_STATES),
    help="Jobs in this state; default: failed; may be repeated.",
)  # fmt: skip
@match_option
@object_option
@run_option
@common_options("data")
def retry(states: Sequence[str], match: str | None, as_json: bool, run_id: str | None, data: Path) -> int:
    """Make failed jobs READY again; a DONE run is reopened. Only the latest run can be resumed."""
    from crawl_console.crawl.orders import retry_jobs
    from crawl_engine.store.transactions.retry import retry_message

    done = retry_jobs(data, match, states, run_id=run_id)
    if as_json:
        write_json(done.answer)
    else:
        write_lines(retry_message(done.answer["retried"]))
    _tell_waiting(done)
    return 0


def _tell_waiting(done: "Done") -> None:
    if done.waits:
        write_stderr("`crawl-console run` works them")


@click.command()
@match_option
@click.option("--dry-run", is_flag=True, help="Print how many would be excluded, and change nothing.")
@object_option
@common_options("data")
def exclude(match: str | None, dry_run: bool, as_json: bool, data: Path) -> int:
    """Skip the queued pages that match; pages that a node holds are finished."""
    from crawl_console.crawl.orders import exclude_jobs

    with show_count("jobs excluded", shown=not dry_run) as on_batch:
        done = exclude_jobs(data, match, dry_run=dry_run, on_batch=on_batch)
    count = done.answer["excluded"]
    if as_json:
        write_json(done.answer)
    elif dry_run:
        write_lines(f"{plural(count, 'queued job')} would be excluded")
    else:
        write_lines(f"{plural(count, 'job')} excluded")
    return 0


@click.command()
@click.argument("group", shell_complete=complete_names("group"))
@click.argument("urls", metavar="[URL]... | -", nargs=-1)
@click.option("--from", "lists", type=FilePath(), multiple=True, help="A file with one URL per line; may be repeated.")
@object_option
@common_options("data", "assigned")
def seed(
    group: str, urls: Sequence[str], lists: Sequence[Path], as_json: bool, data: Path, assigned: dict[str, str]
) -> int:  # fmt: skip
    """Add URLs to GROUP of the latest run, as if its defs named them; `-` reads them from stdin.

    A DONE run is reopened, and the next `run` works the new jobs.
    """
    from crawl_console.crawl.orders import seed_urls
    from crawl_engine.settings import load_settings
    from crawl_engine.store.tables.run.runs import Run
    from crawl_engine.supervise.seeding.posted_seeds import PostedSeeds

    settings = load_settings(assigned)
    if not urls and not lists:
        raise UsageError("no URL is given", "Write `seed GROUP URL…`, `--from FILE`, or `-` for stdin.")
    seeds = _read_seeds(urls, lists)
    ended: list[tuple[Run, PostedSeeds]] = []
    try:
        with show_count("URLs read") as on_batch:
            done = seed_urls(
                data, group, seeds, settings, on_batch=on_batch, on_end=lambda *end: ended.append(end)
            )  # fmt: skip
    finally:
        for run, result in ended:
            _report_seeds(run, group, result, as_json)
    _tell_waiting(done)
    if done.answer["unusable"]:
        return 1 if done.answer["created"] or done.answer["known"] else 2
    return 0


def _report_seeds(run: "Run", group: str, result: "PostedSeeds", as_json: bool) -> None:
    if as_json:
        write_json({"run": run.id, "group": group, **asdict(result)})
        return
    known = f"; {result.known:,} are known" if result.known else ""
    write_lines(f"{plural(result.created, 'job')} added to {group}{known}")
    write_stderr(*result.problems)
    if result.unusable > len(result.problems):
        write_stderr(f"{result.unusable - len(result.problems):,} more give no job")


def _read_seeds(given: Sequence[str], lists: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """The URLs, each with its place. Raises UsageError if a list cannot be read."""
    from crawl_engine.defs.url_list import read_urls

    for url in given:
        if url == "-":
            yield from ((f"standard input:{line}", text) for line, text in read_urls("-"))
        else:
            yield "argument", url
    for path in lists:
        yield from ((f"{path}:{line}", text) for line, text in read_urls(str(path)))
