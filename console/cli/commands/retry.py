"""The command `retry`: requeues failed jobs of the latest run."""

from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.options import choice, common_options, match_option, run_option, validate_assignments
from engine.store.db.filter import RETRYABLE_STATES


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=choice(RETRYABLE_STATES),
    help="Jobs in this state; default: failed; may be repeated.",
)
@match_option
@run_option
@common_options
def retry(states: Sequence[str], match: str | None, run_id: str | None, data: Path, assign: Sequence[str]) -> int:
    """Make failed jobs READY again; a DONE run is reopened. Only the latest run can be resumed."""
    from console.cli.output import write_lines, write_stderr
    from console.client import has_supervisor, open_latest_run
    from console.filter_syntax import job_filter
    from engine.store.transactions import retry as retries
    from engine.supervise.checkpoints.state_file import StateFile

    validate_assignments(assign)
    filter_ = job_filter(match, [state.lower() for state in states])
    with open_latest_run(data, run_id=run_id, write=True) as (db, run):
        count = retries.retry(db, run.seq, filter_)
        write_lines([retries.retry_message(count)])
        if count and not has_supervisor(db):
            StateFile(db, data, run).refresh()
            write_stderr("`crawl-console run` works them")
    return 0
