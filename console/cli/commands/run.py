"""The command `run`: attaches the console, or runs a supervisor in the foreground (headless).

Headless, data goes to stdout; progress and errors go to stderr.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from console.cli.options import (
    FilePath,
    Nodes,
    Number,
    Seconds,
    common_options,
    defs_option,
    hide_base_url,
    load_settings_of,
    summary_option,
    without_option,
)
from console.cli.output import write_stderr
from console.terminal import interactive
from engine.errors import Problem, StorageError, UsageError, suggest
from engine.model import bounds
from engine.processes.spawner import Spawner
from engine.runtime.wakeup import Wakeup
from engine.settings import Settings
from engine.store.db.file_header import check_data_dir
from engine.supervise.lock import Lock

if TYPE_CHECKING:
    from console.cli.on_alarm import AlarmCommand

_TICK_SECONDS, _TICK_SOON_SECONDS = 0.1, 0.02
_MIN_TICK_SECONDS = 0.005
"""The least time between two ticks, however often nodes run out of work."""


@click.command()
@defs_option
@common_options
@click.option("--nodes", type=Nodes(), metavar="N", help="Node processes: a number, or a range such as 1-4.")
@click.option("--backups", type=Number(bounds.BACKUPS), help="Warm standby nodes.")
@click.option("--base-url", metavar="U", help="Base URL of relative locators.")
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
@click.option("--grace", type=Seconds(bounds.GRACE), metavar="S", help="Seconds running jobs may take after a cancel.")
@click.option(
    "--stop-within", type=Seconds(bounds.STOP), metavar="S", help="Seconds a stop may take in all; default 28."
)
@click.option("--max-failed", type=Number(bounds.COUNT), metavar="N", help="Failed jobs that still exit 0.")
@click.option("--min-rows", type=Number(bounds.COUNT), metavar="N", help="Exit 1 if a complete run has fewer rows.")
@click.option("--max-rejected", metavar="P", help="Exit 1 if a greater share of the records is rejected, such as 5%.")
@click.option(
    "-o", "output", type=FilePath(allow_dash=True, dir_okay=False),
    help="Rows to FILE.csv, .jsonl or .db; - is stdout, as CSV, at the end.",
)  # fmt: skip
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
    context: click.Context, /, defs: Path, data: Path, assign: Sequence[str], fresh: bool, no_ui: bool, as_json: bool,
    progress: str, output: Path | None, only_new: bool, read_only: bool, **flags: Any,
) -> int:  # fmt: skip
    """Resume the unfinished run, else start a new one; attach the console."""
    settings, warnings = load_settings_of(defs, assign, **flags)
    rows_to_stdout = output is not None and str(output) == "-"
    if rows_to_stdout and (as_json or only_new):
        raise UsageError(f"-o - and {'--json' if as_json else '--only-new'} exclude each other", "Give -o a file.")
    no_ui = no_ui or rows_to_stdout
    if not no_ui and not as_json and interactive(read_only=read_only):
        from console.tui.attach import AttachOptions, attach

        arguments, environment = hide_base_url(without_option(context.obj, "--refresh"), settings.base_url)
        return attach(
            AttachOptions(
                data=data, defs=defs, arguments=[*arguments, "--no-ui"], environment=environment,
                hertz=settings.refresh, fresh=fresh, read_only=read_only, settings=settings,
            )
        )  # fmt: skip
    if no_ui and flags.get("refresh") is not None:
        raise UsageError("--refresh needs the console", "Leave it out: a headless run updates nothing.")
    if read_only:
        raise UsageError("--read-only needs the console", "Without one, use `crawl-console status`.")
    return run_headless(
        HeadlessOptions(
            defs=defs, data=data, settings=settings, setting_warnings=warnings, fresh=fresh,
            output=None if rows_to_stdout else output, rows_to_stdout=rows_to_stdout, only_new=only_new, json=as_json,
            progress=progress,
        )
    )  # fmt: skip


class HeadlessOptions(Struct, frozen=True, kw_only=True):
    """The options of a headless run."""

    defs: Path
    data: Path
    settings: Settings
    setting_warnings: Sequence[Problem] = ()
    fresh: bool = False
    output: Path | None = None
    rows_to_stdout: bool = False
    only_new: bool = False
    json: bool = False
    progress: str = "auto"
    extract_only: bool = False
    """Re-extract the stored pages of the latest run, fetch nothing."""
    data_def: str | None = None
    """With `extract_only`: re-extract the pages of this dataDef even if it did not change."""

    @property
    def messages_enabled(self) -> bool:
        """Whether messages are written to stderr besides progress and errors."""
        return self.progress not in ("quiet", "json")


def run_headless(options: HeadlessOptions) -> int:
    """Run a supervisor to the end; returns the exit code. Raises CrawlError where nothing could be started."""
    if not os.path.exists(options.defs):  # noqa: PTH110 - it raises nothing, and the loader says what is wrong
        from engine.defs.loader import load

        load(options.defs)  # before the data dir is made: a folder without defs stays as it was
    check_data_dir(options.data)  # the lock writes into it
    signals = _Signals()
    lock = Lock.acquire(options.data)
    gc.disable()  # during the imports, which stay in memory
    spawner = Spawner(options.data.absolute(), wakeup_fd=signals.wakeup.write_fd)
    try:
        spawner.start_early_nodes(options.settings.nodes.least)  # they import while this process does
        supervisor = _build_supervisor(options, lock, spawner, signals)
    except BaseException as error:
        spawner.close()
        lock.release()
        from engine.store.db.connector import DatabaseBusy

        if isinstance(error, (DatabaseBusy, StorageError)) and signals.pending:
            return signals.exit_code  # a signal ended its wait for a busy database
        raise
    finally:
        gc.freeze()
        gc.enable()
    from console.cli.progress import Progress
    from console.cli.stdout_rows import write_rows
    from engine.store.db.connector import Database
    from engine.store.db.schema import CRAWL, checkpoint_wal
    from engine.store.read.snapshot import read_summary

    progress = Progress(options.progress, options.data / CRAWL)
    db = Database.open(options.data / CRAWL, read_only=True)
    progress.start(db, supervisor.run.seq)
    for notice in supervisor.defs_sync.notices:
        progress.print_message(f"  {notice}")
    alarm_command = _start_alarm_command(options)
    try:
        while not supervisor.is_finished:
            signals.dispatch(supervisor, progress)
            supervisor.tick()
            progress.set_alarm(supervisor.disk.alarm)
            if alarm_command is not None:
                alarm_command.check(supervisor.disk.alarm)
            progress.refresh()
            if not supervisor.is_finished:
                signals.sleep(_TICK_SOON_SECONDS if supervisor.tick_soon else _TICK_SECONDS)
    except BaseException:
        supervisor.kill_processes()
        raise
    finally:
        spawner.close()
        if alarm_command is not None:
            alarm_command.stop(supervisor.disk.alarm)
    progress.finish(db, supervisor.run.seq, supervisor.reason, int(supervisor.exit_code))
    summary = read_summary(db, supervisor.run.seq, exit_code=supervisor.exit_code)
    try:
        if options.rows_to_stdout:
            signals.restore()  # the run has ended: a reader that stalls must not make it immortal
            write_rows(db, supervisor.run.seq)
        db.close()
        checkpoint_wal(options.data)  # the last process that had it open was read-only and could not do it
        if options.json:
            sys.stdout.write(summary + "\n")
            sys.stdout.flush()
    finally:
        if options.settings.on_end and not supervisor.kill_requested:
            _run_on_end_command(options, summary, signals)
    return int(supervisor.exit_code)


def _build_supervisor(options: HeadlessOptions, lock: Lock, spawner: Spawner, signals: "_Signals") -> Any:
    from console.cli.stdout_rows import only_data_def
    from engine.defs.checks.secrets import require_secrets
    from engine.defs.loader import load
    from engine.defs.watcher import fingerprint_files
    from engine.supervise.build import RunOptions, build_supervisor

    fingerprint = fingerprint_files(options.defs)  # before loading: every later save is detected
    loaded = load(options.defs, options.settings.default_steps, keep_documents=options.settings.documents)
    if not options.extract_only:
        require_secrets(loaded.root, loaded.definitions.files)
    names = [d.name for d in loaded.definitions.data_defs]
    if options.data_def is not None and options.data_def not in names:
        raise UsageError(
            f"unknown dataDef '{options.data_def}'{suggest(options.data_def, names)}", "Check its name in the defs."
        )
    if options.rows_to_stdout:
        only_data_def(loaded.definitions)  # before anything is fetched
    for warning in (*options.setting_warnings, *loaded.warnings) if options.messages_enabled else ():
        write_stderr(str(warning))
    return build_supervisor(
        RunOptions(
            folder=options.data,
            definitions=loaded.definitions,
            settings=options.settings,
            fresh=options.fresh,
            output=options.output,
            watched_defs=options.defs,
            defs_fingerprint=fingerprint,
            extract_only=options.extract_only,
            data_def=options.data_def,
            only_new=options.only_new,
        ),
        lock,
        spawner,
        cancelled=lambda: signals.pending,
    )


class _Signals:
    """Records signals for the loop to act on. The first one stops the run, the second one kills it."""

    def __init__(self) -> None:
        self._received: list[int] = []
        self._handled = 0
        self.wakeup = Wakeup()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._record_signal)
        self._reloads = 0
        signal.signal(signal.SIGHUP, self._record_reload)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wakeup needs a handler to see a child exit
        self.wakeup.install_signal_wakeup()

    @property
    def pending(self) -> bool:
        """Whether a signal was received and not yet dispatched."""
        return self._handled < len(self._received)

    @property
    def exit_code(self) -> int:
        """The exit code of a program that the first signal ends."""
        return 128 + self._received[0]

    @property
    def count(self) -> int:
        """The number of signals received."""
        return len(self._received)

    def restore(self) -> None:
        """From now on a signal ends the program."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    def dispatch(self, supervisor: Any, progress: Any) -> None:
        """Pass new signals on to the supervisor; print a message for the first."""
        from engine.supervise.stages import ExitReason

        if self._reloads:
            self._reloads = 0
            supervisor.request_reload()
        while self._handled < len(self._received):
            number, self._handled = self._received[self._handled], self._handled + 1
            if self._handled == 1:
                progress.print_message("stopping: running jobs may finish; a second signal kills")
                supervisor.stop(
                    ExitReason.SIGINT if number == signal.SIGINT else ExitReason.SIGTERM, "cancelled by signal"
                )
            else:
                supervisor.request_kill("killed by signal")

    def sleep(self, seconds: float) -> None:
        """Sleep until a signal, the end of a child, or a node that runs out of work, at most `seconds`."""
        started = time.monotonic()
        if not self.pending:
            self.wakeup.wait(seconds)
        if not self.pending:
            time.sleep(max(0.0, started + _MIN_TICK_SECONDS - time.monotonic()))

    def _record_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reloads += 1

    def _record_signal(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)


def _start_alarm_command(options: HeadlessOptions) -> "AlarmCommand | None":
    """What runs the command of `on_alarm`; None without one."""
    if options.settings.on_alarm is None:
        return None
    from console.cli.on_alarm import AlarmCommand

    return AlarmCommand(options.settings.on_alarm, options.data, warn=write_stderr)


def _run_on_end_command(options: HeadlessOptions, summary: str, signals: _Signals) -> None:
    """Run the command of `on_end`. The lock is released by now, so it may use the data dir."""
    from console.cli.user_command import run_user_command

    assert options.settings.on_end is not None
    count = signals.count
    problem = run_user_command(
        "on_end", options.settings.on_end, summary, options.data, interrupted=lambda: signals.count > count
    )
    if problem is not None:
        write_stderr(problem)
