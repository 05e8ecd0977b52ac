"""The command `exclude`: takes queued jobs out of the latest run."""

from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.options import common_options, match_option, validate_assignments
from engine.errors import UsageError


@click.command()
@match_option
@click.option("--dry-run", is_flag=True, help="Print how many would be excluded, and change nothing.")
@common_options
def exclude(match: str | None, dry_run: bool, data: Path, assign: Sequence[str]) -> int:
    """Skip the queued pages that match; those that a node holds go on."""
    from console.cli.output import write_lines
    from console.client import open_latest_run
    from console.filter_syntax import job_filter
    from console.format import plural
    from engine.store.read import browse
    from engine.store.transactions import exclude as exclusions

    validate_assignments(assign)
    if not match:
        raise UsageError("exclude: no --match", "Say which queued jobs, as in --match '/calendar/'.")
    filter_ = exclusions.queued_filter(job_filter(match))
    with open_latest_run(data, write=not dry_run) as (db, run):
        if dry_run:
            write_lines([f"{plural(browse.count_jobs(db, run.seq, filter_), 'queued job')} would be excluded"])
        else:
            exclusion = exclusions.exclude(db, run.seq, filter_)
            write_lines([f"{plural(len(exclusion.ids), 'job')} excluded"])
    return 0
