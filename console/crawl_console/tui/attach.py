"""Runs the console: finds or starts a supervisor, shows the app, prints a summary at the end."""

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from crawl_console import terminal
from crawl_console.format import plural
from crawl_console.sanitize import clean
from crawl_console.tui import spawn
from crawl_engine.errors import LockHeld
from crawl_engine.settings import Settings

_EXIT_TIMEOUT = 5.0
_ERASE_LINE = "\x1b[K"


class AttachOptions(Struct, frozen=True, kw_only=True):
    """Options of the command. `arguments` and `environment`: how to start a supervisor if none runs."""

    data: Path
    defs: Path
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to add; they may hold secrets."""
    hertz: float = 2.0
    read_only: bool = False
    fresh: bool = False
    resumable: bool = True
    """Whether a later supervisor can resume the run. The demo's shop ends with its first one."""
    settings: Settings = field(default_factory=Settings)


def attach(options: AttachOptions) -> int:
    """Show the console until it closes; returns the exit code. Raises CrawlError if no supervisor could be started."""
    from crawl_console.client import lock_holder_pid

    child = None
    sys.stderr.write("starting ...\r")  # on a busy machine the first screen takes seconds
    sys.stderr.flush()
    if not options.read_only:
        pid = lock_holder_pid(options.data)
        if pid is None:
            try:
                child = spawn.start_supervisor(options.data, options.arguments, options.environment)
            except spawn.StartFailed as failure:
                sys.stderr.write(_ERASE_LINE + "".join(f"{clean(line)}\n" for line in failure.output.splitlines()))
                return failure.exit_code
        elif options.fresh:
            raise LockHeld(
                f"{options.data}: a supervisor is running (pid {pid}): no fresh run can start",
                "Attach with `crawl-console`, or stop it with `crawl-console cancel`.",
            )
    try:
        code, signalled = _run_console(options, owner=child is not None, has_list=False)
    finally:
        with contextlib.suppress(OSError):  # a closed terminal
            sys.stderr.write(_ERASE_LINE)
        _print_exit_summary(options, sys.stderr)
    return code if child is None or signalled else _final_exit_code(child, code)


def attach_to_list(options: AttachOptions, folders: Sequence[Path]) -> int:
    """Show the list of several data dirs, and the console of the chosen one; start nothing. Returns the exit code."""
    from crawl_console.tui import config
    from crawl_console.tui.crawls import CrawlList

    chosen: Path | None = None
    while True:
        user_config = config.load(data=folders[0])
        crawls = CrawlList(folders, user_config, options.hertz, selected=chosen, ascii_only=terminal.ascii_only())
        chosen = crawls.run(mouse=user_config.mouse)
        if chosen is None or crawls.signalled:
            return crawls.return_code or 0
        shown = replace(options, data=chosen, resumable=False)
        code, ended = _run_console(shown, owner=False, has_list=True)
        if ended:
            return code


def _final_exit_code(child: "subprocess.Popen[bytes]", code: int) -> int:
    """The exit code of the supervisor if it has ended, else the console's."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child_code = child.wait(_EXIT_TIMEOUT if code else 0)
        return child_code if child_code >= 0 else 128 - child_code
    return code


def _run_console(options: AttachOptions, *, owner: bool, has_list: bool) -> tuple[int, bool]:
    """The console's exit code, and whether a signal ended it; with a list, whether it was not left for that.

    Imports Textual, which headless runs must not load.
    """
    from crawl_console.crawl.source import DataSource
    from crawl_console.tui import config
    from crawl_console.tui.app import Console
    from crawl_console.tui.options import ConsoleOptions
    from crawl_console.tui.state.control import ControlClient

    user_config = config.load(data=options.data)
    app = Console(
        ConsoleOptions(
            data=options.data, defs=options.defs, hertz=options.hertz, config=user_config, owner=owner,
            read_only=options.read_only, has_list=has_list, ascii_only=terminal.ascii_only(), settings=options.settings,
            start_supervisor=partial(_resume, options) if options.resumable else None,
        ),
        DataSource(options.data),
        ControlClient(options.data),
    )  # fmt: skip
    # a character the terminal cannot encode must not end the console
    with contextlib.suppress(AttributeError, ValueError):
        sys.__stderr__.reconfigure(errors="replace")  # type: ignore[union-attr]
    app.run(mouse=user_config.mouse)
    if app.unhandled_error is not None:
        raise app.unhandled_error
    return app.return_code or 0, not app.goes_back if has_list else app.signalled


def _resume(options: AttachOptions) -> tuple[bool, str]:
    """Start a supervisor that resumes the run; returns whether it did, and the answer."""
    arguments = [argument for argument in options.arguments if argument != "--fresh"]
    try:
        child = spawn.start_supervisor(options.data, arguments, options.environment)
    except spawn.StartFailed as failure:
        return False, clean(failure.output.strip().splitlines()[-1] if failure.output.strip() else "it ended at once")
    return True, f"supervisor {child.pid} started"


def _print_exit_summary(options: AttachOptions, stream: TextIO) -> None:
    from crawl_console.client import open_database, read_snapshot, supervisor_pid
    from crawl_console.words.trial import MAX_PAGES as TRIAL_PAGES
    from crawl_console.words.trial import trial_lines
    from crawl_engine.judge.run_verdict import verdict_of

    snapshot = read_snapshot(options.data)
    run = snapshot.run
    if run is None:
        return
    data_flag = "" if options.data == Path("data") else f" --data {options.data}"
    pid = supervisor_pid(snapshot)
    with contextlib.suppress(OSError):
        if pid is not None:
            nodes = sum(node.pid is not None for node in snapshot.nodes)
            stream.write(
                f"Detached; {plural(nodes, 'node')} still running (supervisor {pid}, run {run.id}).\n"
                f"Attach again with `crawl-console run{data_flag}`; stop with `crawl-console cancel{data_flag}`.\n"
            )
        else:
            jobs, rows = snapshot.jobs, sum(snapshot.rows.values())
            result = f"{jobs['done']} done, {jobs['failed']} failed, {plural(rows, 'row')}"
            stream.write(clean(f"run {run.id} {verdict_of(snapshot, is_live=False).text}; {result}") + "\n")
            most = options.settings.max_pages
            db = open_database(options.data) if most is not None and most <= TRIAL_PAGES else None
            if db is not None:
                with contextlib.closing(db):
                    stream.writelines(f"{line}\n" for line in trial_lines(db, snapshot))
            stream.writelines(
                clean(f"  {plural(output.rows, 'row'):>13}  {output.path}") + "\n" for output in snapshot.appenders
            )
            if run.state != "DONE":
                stream.write(f"`crawl-console run{data_flag}` resumes it\n")
        stream.flush()
