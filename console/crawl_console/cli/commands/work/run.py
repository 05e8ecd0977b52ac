"""The commands `run` and `extract`: attach the console, or run headless."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from crawl_console.cli.options import (
    FilePath,
    Nodes,
    Number,
    Seconds,
    arguments_option,
    base_url_option,
    common_options,
    complete_names,
    defs_option,
    hide_passwords,
    load_settings_of,
    summary_option,
    without_option,
)
from crawl_console.cli.output import write_stderr
from crawl_console.terminal import interactive, unsupported_reason
from crawl_engine.errors import UsageError
from crawl_engine.model import bounds


@click.command()
@defs_option
@arguments_option
@common_options("data", "assigned", "folders")
@click.option("--store", metavar="URL", help="PostgreSQL database of the crawl, for several machines.")
@click.option("--project", metavar="NAME", help="Name of the crawl in the store.")
@click.option("--nodes", type=Nodes(), metavar="N", help="Node processes: a number, or a range such as 1-4.")
@click.option("--backups", type=Number(bounds.BACKUPS), help="Warm standby nodes.")
@base_url_option
@click.option("--allow-file", is_flag=True, default=None, help="Read `file:` locators.")
@click.option("--fresh", is_flag=True, help="Start a new run even if one is unfinished.")
@click.option("--no-ui", is_flag=True, help="Headless: progress and errors go to stderr.")
@summary_option
@click.option(
    "--progress",
    type=click.Choice(["auto", "tty", "plain", "json", "quiet"]),
    default="auto",
    show_default=True,
    help="How progress is shown on stderr.",
)
@click.option("--log-time", is_flag=True, help="Begin the lines on stderr with their times, also on a terminal.")
@click.option("--grace", type=Seconds(bounds.GRACE), metavar="S", help="Seconds running jobs may take after a cancel.")
@click.option(
    "--stop-within", type=Seconds(bounds.STOP), metavar="S", help="Seconds a stop may take in all; default 28."
)
@click.option("--max-failed", type=Number(bounds.COUNT), metavar="N", help="Failed jobs that still exit 0.")
@click.option("--min-rows", type=Number(bounds.COUNT), metavar="N", help="Exit 1 if a complete run has fewer rows.")
@click.option("--max-rejected", metavar="P", help="Exit 1 if a greater share of the records is rejected, such as 5%.")
@click.option(
    "-o", "output", type=FilePath(allow_dash=True, dir_okay=False),
    help="Rows to a file, by its ending, such as .csv, .jsonl.gz or .db; - is stdout, while the run crawls.",
)  # fmt: skip
@click.option("--format", "format_", type=click.Choice(["jsonl", "csv"]), help="Of the rows of `-o -`; default jsonl.")
@click.option("--only-new", is_flag=True, help="Write only rows that no earlier run has.")
@click.option("--max-pages", type=Number(), metavar="N", help="Stop gracefully after N requests for pages.")
@click.option(
    "--max-time", type=Seconds(bounds.PERIOD), metavar="S", help="Stop gracefully after S seconds, or 5m, 2h."
)
@click.option("--read-only", is_flag=True, help="View only: start nothing and send no commands.")
@click.option(
    "--refresh",
    type=click.FloatRange(bounds.HERTZ.ge, bounds.HERTZ.le),
    metavar="HZ",
    help="Console updates per second.",
)
@click.pass_context
def run(
    context: click.Context, /, defs: Path, data: Path, assigned: dict[str, str], fresh: bool, no_ui: bool,
    as_json: bool, arguments: dict[str, str], progress: str, log_time: bool, output: Path | None, format_: str | None,
    only_new: bool, read_only: bool, folders: Sequence[Path], **flags: Any,
) -> int:  # fmt: skip
    """Resume the unfinished run, else start a new one; attach the console.

    With several data directories: list their crawls, and start none.
    """
    if len(folders) > 1:
        return _list_crawls(folders, defs, assigned, read_only=read_only, refresh=flags["refresh"], one=no_ui or fresh)
    settings, warnings = load_settings_of(defs, assigned, **flags)
    rows_to_stdout = output is not None and str(output) == "-"
    if rows_to_stdout and only_new:
        raise UsageError("-o - and --only-new exclude each other", "Give -o a file.")
    if format_ is not None and not rows_to_stdout:
        raise UsageError("--format is of `-o -`", "Leave it out: the ending of a file says its format.")
    no_ui = no_ui or rows_to_stdout
    if not no_ui and not as_json and sys.stdout.isatty() and (reason := unsupported_reason()) is not None:
        from crawl_console.client import lock_holder_pid

        if (pid := lock_holder_pid(data)) is not None:
            from crawl_console.cli.commands.look.status import print_status

            write_stderr(f"no console here ({reason}); supervisor {pid} works on a run: this is its status")
            return print_status(data)
    if not no_ui and not as_json and interactive(read_only=read_only):
        from crawl_console.client import choose_arguments
        from crawl_console.tui.attach import AttachOptions, attach

        choose_arguments(data, arguments, fresh=fresh)  # before a console shows a run with others
        urls = {"base_url": settings.base_url, "store": settings.store, "notify": assigned.get("notify")}
        words, environment = hide_passwords(without_option(context.obj, "--refresh"), urls)
        return attach(
            AttachOptions(
                data=data, defs=defs, arguments=[*words, "--no-ui"], environment=environment,
                hertz=settings.refresh, fresh=fresh, read_only=read_only, settings=settings,
            )
        )  # fmt: skip
    from crawl_console.cli.headless import HeadlessOptions, run_headless

    if no_ui and flags.get("refresh") is not None:
        raise UsageError("--refresh needs the console", "Leave it out: a headless run updates nothing.")
    if read_only:
        raise UsageError("--read-only needs the console", "Without one, use `crawl-console status`.")
    return run_headless(
        HeadlessOptions(
            defs=defs, data=data, settings=settings, setting_warnings=warnings, fresh=fresh,
            output=None if rows_to_stdout else output, rows_to_stdout=(format_ or "jsonl") if rows_to_stdout else None,
            only_new=only_new, json=as_json, arguments=arguments,
            progress=progress, log_time=log_time,
        )
    )  # fmt: skip


def _list_crawls(
    folders: Sequence[Path], defs: Path, assigned: dict[str, str], *, read_only: bool, refresh: float | None, one: bool
) -> int:  # fmt: skip
    """The console with a list of several crawls."""
    reason = unsupported_reason()
    if one or reason is not None:
        raise UsageError(
            "several --data need the console" + (f", and there is none here: {reason}" if reason else ""),
            "A run works one data directory; `crawl-console status --all DIR…` prints a line for each.",
        )
    from crawl_console.tui.attach import AttachOptions, attach_to_list

    settings, _ = load_settings_of(defs, assigned, refresh=refresh)
    options = AttachOptions(
        data=folders[0], defs=defs, arguments=(), hertz=settings.refresh, read_only=read_only, settings=settings
    )
    return attach_to_list(options, folders)


@click.command()
@click.argument("data_def", required=False, shell_complete=complete_names("data_def"))
@defs_option
@summary_option
@common_options("data", "assigned")
def extract(data_def: str | None, defs: Path, as_json: bool, data: Path, assigned: dict[str, str]) -> int:
    """Re-extract the stored pages of the latest run with the defs on disk; fetch nothing."""
    from msgspec.structs import replace

    from crawl_console.cli.headless import HeadlessOptions, run_headless
    from crawl_console.client import require_database_path

    require_database_path(data)  # before taking the lock creates the folder
    settings, _ = load_settings_of(defs, assigned)
    settings = replace(settings, on_reload="reextract", max_pages=None)  # nothing is fetched
    return run_headless(
        HeadlessOptions(defs=defs, data=data, settings=settings, json=as_json, extract_only=True, data_def=data_def)
    )
