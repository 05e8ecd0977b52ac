"""The command `results`: shows what plugin steps reported about the pages of a run."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawl_console.cli.options import Number, choice, common_options, empty_without_run, lines_option, run_option
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_engine.errors import UsageError, suggest
from crawl_engine.model.step import OUTCOMES
from crawl_engine.urls import without_credentials

if TYPE_CHECKING:
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.read.step_results import ListedResult, ResultCount, ResultFilter
    from crawl_engine.store.tables.run.runs import Run

_PAGE_SIZE = 500
_HEADING = f"{'JOB':>8}  {'TASK':<20}  {'STEP':<12}  {'OUTCOME':<7}  {'CODE':<14}  {'MS':>8}  {'TEXT':<30}  URL"


@click.command()
@click.argument("job", type=Number(), required=False)
@click.option("--task", metavar="TASK", help="Only of this task: TASK or GROUP/TASK.")
@click.option("--outcome", type=choice(OUTCOMES), help="Only with this outcome.")
@click.option("--limit", type=Number(), metavar="N", help="The last N; default: all.")
@lines_option
@run_option
@common_options("data")
@empty_without_run
def results(
    job: int | None, task: str | None, outcome: str | None, limit: int | None, as_json: bool, run_id: str | None,
    data: Path,
) -> int:  # fmt: skip
    """Show what your own steps reported of pages, newest last; with JOB those of one page."""
    from crawl_console.client import open_latest_run
    from crawl_engine.store.read import step_results

    with open_latest_run(data, run_id=run_id) as (db, run):
        if job is not None:
            run = _find_run(db, data, job, run, run_is_given=run_id is not None)
        filter_ = _to_filter(db, run, job, task, outcome)
        if filter_.outcome == "not_applicable":
            if not as_json:
                write_stderr("not_applicable results are counted, not listed")
            count = _print_counts(_read_counts(db, run, filter_)[-(limit or 0) :], as_json=as_json)
        else:
            iterator = step_results.iter_results(db, run.seq, filter_, backwards=limit is not None)
            lines = iterator if limit is None else reversed(list(islice(iterator, limit)))
            count = _print_results(lines, as_json=as_json)
            if job is not None and not as_json:
                count += _print_unlisted(_read_counts(db, run, filter_))
        if not count and not as_json:
            write_stderr(_explain_empty(db, run))
    return 0


def _find_run(db: "Database", data: Path, job: int, run: "Run", *, run_is_given: bool) -> "Run":
    """The run of a job. Raises UsageError for an unknown job, and for one of another run than the given one."""
    from crawl_engine.store.read.job_range import find_run
    from crawl_engine.store.tables.run import runs

    seq = find_run(db, job)
    own = runs.get(db, seq) if seq is not None else None
    if own is None:
        raise UsageError(f"{data}: no job {job}", "`crawl-console jobs` lists the ids of jobs.")
    if run_is_given and own.seq != run.seq:
        raise UsageError(f"job {job} is of run {own.id}, not of {run.id}", f"Leave out --run, or give --run {own.id}.")
    return own


def _to_filter(db: "Database", run: "Run", job: int | None, task: str | None, outcome: str | None) -> "ResultFilter":
    """Raises UsageError for a task that neither the defs of the run nor its results have."""
    from crawl_engine.store.read.step_results import ResultFilter

    group, name = _find_task(db, run, task) if task is not None else (None, None)
    word = next((word for word in OUTCOMES if outcome is not None and word == outcome.lower()), None)
    return ResultFilter(job=job, group=group, task=name, outcome=word)


def _find_task(db: "Database", run: "Run", text: str) -> tuple[str | None, str]:
    """The group (None: any) and the name of a task."""
    from crawl_engine.store.read import step_results
    from crawl_engine.store.tables.run import versions

    tasks = {(count.group, count.task) for count in step_results.count_by_step(db, run.seq)}
    if run.defs_version:
        groups = versions.read(db, run.defs_version).task_groups
        tasks |= {(group.name, task.name) for group in groups for task in group.tasks}
    if any(name == text for _, name in tasks):
        return None, text
    for group, name in tasks:
        if f"{group}/{name}" == text:
            return group, name
    names = {name for _, name in tasks} | {f"{group}/{name}" for group, name in tasks}
    raise UsageError(f"unknown task '{text}'{suggest(text, sorted(names))}", "Give --task TASK or --task GROUP/TASK.")


def _read_counts(db: "Database", run: "Run", result_filter: "ResultFilter") -> "list[ResultCount]":
    """Counts of the matching results that are not listed: of a page, or the `not_applicable` ones of a run."""
    from crawl_engine.store.read import step_results

    if result_filter.job is not None:
        counts = step_results.count_unlisted(db, result_filter.job)
    else:
        counts = [c for c in step_results.count_by_step(db, run.seq) if c.outcome == "not_applicable"]
    return [
        count for count in counts
        if result_filter.group in (None, count.group)
        and result_filter.task in (None, count.task)
        and result_filter.outcome in (None, count.outcome)
    ]  # fmt: skip


def _print_results(results_: "Iterable[ListedResult]", *, as_json: bool) -> int:
    """Print results in pages; returns how many."""
    iterator, count = iter(results_), 0
    while page := [one._replace(url=without_credentials(one.url)) for one in islice(iterator, _PAGE_SIZE)]:
        if as_json:
            write_json(*(one._asdict() for one in page))
        else:
            write_lines(*([] if count else [_HEADING]), *map(_line, page))
        count += len(page)
    return count


def _print_counts(counts: "Sequence[ResultCount]", *, as_json: bool) -> int:
    """Print counts, a line each; returns how many."""
    if as_json:
        write_json(*(count._asdict() for count in counts))
    else:
        write_lines(*map(_count_line, counts))
    return len(counts)


def _print_unlisted(counts: "Sequence[ResultCount]") -> int:
    if counts:
        write_stderr("counted, not listed:", *map(_count_line, counts))
    return len(counts)


def _explain_empty(db: "Database", run: "Run") -> str:
    from crawl_engine.store.read import step_results
    from crawl_engine.store.tables.run import versions

    if step_results.count_by_step(db, run.seq):
        return f"no such result in run {run.id}"
    groups = versions.read(db, run.defs_version).task_groups if run.defs_version else ()
    if any(step.is_plugin for group in groups for task in group.tasks for step in task.chain):
        return f"no results: no page of run {run.id} has passed a step of your own yet"
    return f"no results: the defs of run {run.id} have no steps of your own; `crawl-console steps` shows their steps"


def _line(result: "ListedResult") -> str:
    return (
        f"{result.job:>8}  {f'{result.group}/{result.task}':<20}  {result.step:<12}  {result.outcome:<7}"
        f"  {result.code:<14}  {result.ms:>8.2f}  {result.text:<30}  {result.url}"
    )


def _count_line(count: "ResultCount") -> str:
    return f"{count.results:>8}  {f'{count.group}/{count.task}':<20}  {count.step:<12}  {count.outcome}"
