"""The commands that look into a run and try again what failed: none of them needs a supervisor."""

from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.options import common_options, validate_assignments
from engine.store.db.filter import FILTER_STATES, RETRYABLE_STATES

_LEVELS = ("info", "warning", "error")


def _choice(words: Sequence[str]) -> click.Choice[str]:
    return click.Choice(list(words), case_sensitive=False)


@click.command()
@click.option(
    "--state", "states", multiple=True, type=_choice(FILTER_STATES), help="Only in this state; may be repeated."
)
@click.option("--match", "pattern", metavar="RE", help="Only where URL or reason match.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N; default: all.")
@click.option("--json", "as_json", is_flag=True, help="An object a line.")
@common_options
def jobs(
    states: Sequence[str], pattern: str | None, limit: int | None, as_json: bool, data: Path, assign: Sequence[str]
) -> int:
    """List the jobs of the latest run; failed ones the newest first."""
    from console.cli.commands.listing import jobs as list_jobs

    validate_assignments(assign)
    return list_jobs(data, states, pattern, limit, as_json=as_json)


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=_choice(RETRYABLE_STATES),
    help="Jobs in this state (failed); may be repeated.",
)
@click.option("--match", "pattern", metavar="RE", help="Only where URL or reason match.")
@common_options
def retry(states: Sequence[str], pattern: str | None, data: Path, assign: Sequence[str]) -> int:
    """Make failed jobs of the latest run READY again; a DONE run is open again."""
    from console.cli.commands.listing import retry as retry_jobs

    validate_assignments(assign)
    return retry_jobs(data, states, pattern)


@click.command()
@click.option("-f", "follow", is_flag=True, help="Go on with what happens, until the run ends.")
@click.option("--level", type=_choice(_LEVELS), help="Only this level and worse.")
@click.option("--match", "pattern", metavar="RE", help="Only where the text matches.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The last N; default: all, with -f 10.")
@click.option("--json", "as_json", is_flag=True, help="An object a line.")
@common_options
def events(
    follow: bool, level: str | None, pattern: str | None, limit: int | None, as_json: bool, data: Path,
    assign: Sequence[str],
) -> int:  # fmt: skip
    """Tell what happened in the latest run."""
    from console.cli.commands.following import events as tell_events

    validate_assignments(assign)
    return tell_events(data, follow=follow, level=level, pattern=pattern, limit=limit, as_json=as_json)


@click.command()
@click.argument("node", required=False)
@click.option("-f", "follow", is_flag=True, help="Go on with what is written, until the run ends.")
@common_options
def logs(node: str | None, follow: bool, data: Path, assign: Sequence[str]) -> int:
    """Show what the processes wrote to their logs: all, or one NODE (such as n2, or appender)."""
    from console.cli.commands.following import logs as tell_logs

    validate_assignments(assign)
    return tell_logs(data, node, follow=follow)


INSPECTION_COMMANDS = (jobs, retry, events, logs)
