"""The command line: names, flags and exit codes are a contract. Imports little, so that commands start at once."""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from console.cli.authoring import AUTHORING_COMMANDS
from console.cli.inspecting import INSPECTION_COMMANDS
from console.cli.options import common_options, load_settings, validate_assignments
from console.cli.output import redirect_to_devnull
from console.cli.steering import CONTROL_COMMANDS
from console.terminal import interactive
from engine import __version__
from engine.errors import CrawlError, DefsError, UsageError

_ENVIRONMENT_ERRORS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE,
}  # fmt: skip
"""A right, a disk, a full output: what is to be mended lies outside of the program."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    _open_missing_streams()
    told = list(sys.argv[1:] if arguments is None else arguments)
    if not told or (told[0].startswith("-") and told[0] not in ("--version", "--help", "-h")):
        told.insert(0, "run")  # a bare `crawl-console` is a run
    code = _invoke(told)
    try:
        sys.stderr.flush()
    except OSError:  # its terminal is gone; how the command ended stays true
        redirect_to_devnull(sys.stderr)
    gc.freeze()  # the system takes all memory back at once; to look through it for garbage first takes 40 ms
    sys.exit(code)


def _open_missing_streams() -> None:
    """Give closed standard streams a place: else a database could be opened under their number, and be written to."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _invoke(told: list[str]) -> int:
    """The exit code of a command; no error ends in a traceback."""
    try:
        return int(crawl_console.main(told, prog_name="crawl-console", standalone_mode=False, obj=told) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except CrawlError as error:
        # problems of the defs start with their place, for editors and eyes to follow
        click.echo(str(error) if isinstance(error, DefsError) else f"error: {error}", err=True)
        return error.exit_code
    except (BrokenPipeError, SystemExit):  # who read our output has read enough; click makes a SystemExit of it
        redirect_to_devnull(sys.stdout)
        return 0
    except Exception as error:
        if "CRAWL_TRACEBACK" in os.environ:
            raise
        if isinstance(error, OSError) and error.errno in _ENVIRONMENT_ERRORS:
            redirect_to_devnull(sys.stdout)
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            click.echo(f"error: {where}{error.strerror}", err=True)
            click.echo("  Check permissions, space, and where the output goes; then run it again.", err=True)
            return 3
        click.echo(f"error: a fault of the program: {type(error).__name__}: {error}", err=True)
        click.echo("  Please report it with what CRAWL_TRACEBACK=1 shows.", err=True)
        return 3


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="crawl-console", message="%(prog)s %(version)s")
def crawl_console() -> None:
    """Crawl and scrape what YAML defs describe; `run` is the default command."""


@crawl_console.command()
@click.option(
    "--defs", type=click.Path(path_type=Path), default=Path("defs"), show_default=True, help="Defs directory."
)
@common_options
@click.option("--nodes", type=click.IntRange(1), help="Node processes.")
@click.option("--backups", type=click.IntRange(0), help="Warm standby nodes.")
@click.option("--base-url", metavar="U", help="What relative locators resolve against.")
@click.option("--fresh", is_flag=True, help="Begin a new run even though one is unfinished.")
@click.option("--no-ui", is_flag=True, help="Headless: progress and errors go to stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary object last on stdout.")
@click.option(
    "--progress",
    type=click.Choice(["auto", "tty", "plain", "json", "quiet"]),
    default="auto",
    show_default=True,
    help="How progress is shown on stderr.",
)
@click.option("--grace", type=click.FloatRange(0), metavar="S", help="Seconds jobs may finish in after a cancel.")
@click.option("--max-failed", type=click.IntRange(0), metavar="N", help="Failed jobs that still exit 0.")
@click.option("-o", "output", type=click.Path(dir_okay=False, path_type=Path), help="Rows to FILE.csv, .jsonl or .db.")
@click.option("--only-new", is_flag=True, help="Files get only rows that no earlier run has.")
@click.option("--max-pages", type=click.IntRange(1), metavar="N", help="Stop in order after N pages.")
@click.option("--max-time", type=click.FloatRange(0.1), metavar="S", help="Stop in order after S seconds.")
@click.option("--read-only", is_flag=True, help="Only look: start nothing, order nothing.")
@click.option("--refresh", type=click.FloatRange(0.1, 10), metavar="HZ", help="Looks a second of the console.")
@click.pass_context
def run(
    context: click.Context, /, defs: Path, data: Path, assign: Sequence[str], fresh: bool, no_ui: bool, as_json: bool,
    progress: str, output: Path | None, only_new: bool, read_only: bool, **flags: Any,
) -> int:  # fmt: skip
    """Resume the unfinished run, else start a new one; attach the console."""
    from console.cli.commands.run import HeadlessOptions
    from console.cli.commands.run import run as run_headless

    settings = load_settings(assign, **flags)
    if not no_ui and not as_json and interactive(read_only=read_only):
        from console.tui.attach import AttachOptions, attach

        return attach(
            AttachOptions(
                data=data, defs=defs, arguments=[*context.obj, "--no-ui"], hertz=settings.refresh, fresh=fresh,
                read_only=read_only, max_failed=settings.max_failed,
            )
        )  # fmt: skip
    if read_only:
        raise UsageError("--read-only is for the console alone", "Look with `crawl-console status`.")
    return run_headless(
        HeadlessOptions(
            defs=defs, data=data, settings=settings, fresh=fresh, output=output, only_new=only_new, json=as_json,
            progress=progress,
        )
    )  # fmt: skip


@crawl_console.command()
@click.argument("defs", type=click.Path(path_type=Path), default=Path("defs"))
@click.option("--json", "as_json", is_flag=True, help="Print the problems as one JSON object.")
@common_options
def check(defs: Path, as_json: bool, data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Validate defs; exit 2 with problems."""
    from console.cli.commands.check import check as check_defs

    validate_assignments(assign)
    return check_defs(defs, as_json=as_json)


@crawl_console.command()
@click.option("--json", "as_json", is_flag=True, help="Print the whole snapshot as one JSON object.")
@common_options
def status(as_json: bool, data: Path, assign: Sequence[str]) -> int:
    """Show the run as the console would."""
    from console.cli.commands.status import status as show_status

    validate_assignments(assign)
    return show_status(data, as_json=as_json)


@crawl_console.command()
@click.argument("what", type=click.Choice(["list", "show"]), default="list")
@click.argument("run", required=False)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="At most N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@common_options
def runs(what: str, run: str | None, limit: int, as_json: bool, data: Path, assign: Sequence[str]) -> int:
    """List the runs of the data directory, newest first, or show one."""
    from console.cli.commands.runs import show_runs

    validate_assignments(assign)
    return show_runs(data, what, run, count=limit, as_json=as_json)


@crawl_console.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each step.")
@common_options
def state(as_json: bool, data: Path, assign: Sequence[str]) -> int:
    """Show which steps of the run are complete."""
    from console.cli.commands.state import state as show_state

    validate_assignments(assign)
    return show_state(data, as_json=as_json)


@crawl_console.command()
@click.argument("data_def", required=False)
@click.option(
    "--format", "format_", type=click.Choice(["csv", "jsonl", "sqlite"]), help="Default: by the ending of -o, else csv."
)
@click.option("--since", metavar="RUN", help="Only rows that this run, and all before it, did not have.")
@click.option("-o", "output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout.")
@common_options
def export(
    data_def: str | None, format_: str | None, since: str | None, output: Path | None, data: Path,
    assign: Sequence[str],
) -> int:  # fmt: skip
    """Write rows of the latest run, from the truth, at any time."""
    from console.cli.commands.export import export as export_rows

    validate_assignments(assign)
    return export_rows(data, data_def, format_, output, since)


@crawl_console.command()
@click.argument("data_def", required=False)
@click.option(
    "--defs", type=click.Path(path_type=Path), default=Path("defs"), show_default=True, help="Defs directory."
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary object last on stdout.")
@common_options
def extract(data_def: str | None, defs: Path, as_json: bool, data: Path, assign: Sequence[str]) -> int:
    """Work the stored pages of the latest run anew with the defs on disk; fetch nothing."""
    from dataclasses import replace

    from console.cli.commands.run import HeadlessOptions
    from console.cli.commands.run import run as run_headless
    from console.client import require_database_path

    require_database_path(data)  # before a lock makes the folder
    settings = replace(load_settings(assign), on_reload="reextract", max_pages=None)  # nothing is fetched
    return run_headless(
        HeadlessOptions(defs=defs, data=data, settings=settings, json=as_json, extract_only=True, data_def=data_def)
    )


@crawl_console.command()
@click.option("--no-ui", is_flag=True, help="Headless.")
@click.option("--pages", type=click.IntRange(1), default=500, show_default=True, help="Products the shop sells.")
@click.option("--latency", type=click.FloatRange(0), default=0.0, metavar="MS", help="Milliseconds a page takes.")
@click.option("--errors", type=click.FloatRange(0, 100), default=0.0, metavar="PCT", help="Percent of answers 503.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary object last on stdout.")
@common_options
@click.pass_context
def demo(
    context: click.Context, /, no_ui: bool, pages: int, latency: float, errors: float, as_json: bool, data: Path,
    assign: Sequence[str],
) -> int:  # fmt: skip
    """Serve a small shop on loopback and crawl it; attach the console."""
    from console.cli.commands.demo import demo as run_demo
    from console.cli.commands.demo import demo_defs

    if not no_ui and not as_json and interactive():
        from console.tui.attach import AttachOptions, attach

        settings = load_settings(assign)
        return attach(
            AttachOptions(
                data=data, defs=demo_defs(), arguments=[*context.obj, "--no-ui"], hertz=settings.refresh, fresh=True,
                max_failed=settings.max_failed,
            )
        )  # fmt: skip
    return run_demo(
        data, load_settings(assign), pages=pages, latency=latency / 1000, errors=errors / 100, as_json=as_json
    )  # fmt: skip


for _command in (*AUTHORING_COMMANDS, *INSPECTION_COMMANDS, *CONTROL_COMMANDS):
    crawl_console.add_command(_command)


if __name__ == "__main__":
    main()
