"""Runs a supervisor in the foreground: data to stdout, the rest to stderr."""

import gc
import importlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from crawl_console.cli.output import write_stderr
from crawl_engine.errors import Problem, StorageError, UsageError, reason_of, suggest
from crawl_engine.processes.spawner import Spawner
from crawl_engine.runtime.wakeup import Wakeup
from crawl_engine.settings import Settings
from crawl_engine.store.db.file_header import check_data_dir
from crawl_engine.supervise.lock import Lock
from crawl_engine.supervise.nodes import PROCESSES, SHARED

if TYPE_CHECKING:
    from crawl_console.cli.row_stream import RowStream
    from crawl_console.notify.notifier import Notifier
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.tables.run.runs import Run

_TICK_SECONDS, _TICK_SOON_SECONDS = 0.1, 0.02
_FINISH_SECONDS = 3.0
_MIN_TICK_SECONDS = 0.005
"""The least time between two ticks, however often nodes run out of work."""


class HeadlessOptions(Struct, frozen=True, kw_only=True):
    defs: Path
    data: Path
    settings: Settings
    setting_warnings: Sequence[Problem] = ()
    fresh: bool = False
    output: Path | None = None
    rows_to_stdout: str | None = None
    """The format in which the rows go to stdout while the run crawls; None: they do not."""
    only_new: bool = False
    json: bool = False
    progress: str = "auto"
    log_time: bool = False
    """Whether lines of the log begin with their time even on a terminal."""
    extract_only: bool = False
    """Re-extract the stored pages of the latest run, fetch nothing."""
    arguments: dict[str, str] = {}
    """The values of `-a` by name."""
    data_def: str | None = None
    """With `extract_only`: re-extract the pages of this dataDef even if it did not change."""


def run_headless(options: HeadlessOptions) -> int:
    """Run a supervisor to the end; returns the exit code. Raises CrawlError if it cannot start."""
    if not os.path.exists(options.defs):  # noqa: PTH110 - raises nothing, and the loader reports what is wrong
        from crawl_engine.defs.loader import load

        load(options.defs)  # fails before the data dir is made: a folder without defs stays unchanged
    check_data_dir(options.data)  # the lock writes into it
    if options.output is not None:
        from crawl_engine.supervise.outputs import appender_for_file

        appender_for_file(options.output)  # fails before the data dir is made
    receivers: list[str] = []
    if options.settings.notify:
        from crawl_console.notify.receivers import load_receivers

        receivers = load_receivers(options.settings.notify)
    signals = _Signals()
    lock = Lock.acquire(options.data)
    gc.disable()  # during the imports, which stay in memory
    spawner = Spawner(options.data.absolute(), PROCESSES, wakeup_fd=signals.wakeup.write_fd)
    try:
        for module in SHARED:
            importlib.import_module(module)
        spawner.start_template(forks=True)  # it imports the rest while this process does
        from crawl_console.cli.progress import LOG_TIME, Progress
        from crawl_console.words.trial import MAX_PAGES as TRIAL_PAGES

        if times := options.log_time or not sys.stderr.isatty():  # a fork would keep the format
            logging.basicConfig(format="%(asctime)s %(message)s", datefmt=LOG_TIME)
        supervisor = _build_supervisor(options, lock, spawner, signals)
    except BaseException as error:
        spawner.close()
        lock.release()
        from crawl_engine.store.db.connector import DatabaseBusy, connect

        if isinstance(error, (DatabaseBusy, StorageError)) and signals.pending:
            return signals.exit_code  # a signal ended its wait for a busy database
        raise
    finally:
        gc.freeze()
        gc.enable()
    from crawl_console.cli.user_commands import AlarmCommand, report_failure, run_user_command
    from crawl_engine.judge.summary import read_summary
    from crawl_engine.store.db.connector import DatabaseBusy, connect
    from crawl_engine.store.db.schema import CRAWL, checkpoint_wal

    most = options.settings.max_pages
    is_trial = most is not None and most <= TRIAL_PAGES and not times
    progress = Progress(options.progress, options.data / CRAWL, times=times, is_trial=is_trial)
    db = connect(options.data / CRAWL, read_only=True)
    progress.start(db, supervisor.run.seq, extract_only=options.extract_only)
    for notice in supervisor.notices:
        progress.print_message(f"  {notice}")
    on_alarm, on_end = options.settings.on_alarm, options.settings.on_end
    alarm_command = AlarmCommand(on_alarm, options.data, supervisor.run) if on_alarm else None
    notifier = _start_notifier(options, receivers, db, supervisor.run)
    stream = _start_stream(options, db, supervisor.run.seq)
    try:
        while not supervisor.is_finished:
            signals.dispatch(supervisor, progress)
            supervisor.tick()
            progress.set_alarm(supervisor.alarm)
            if alarm_command is not None:
                alarm_command.check(supervisor.alarms)
            if notifier is not None:
                notifier.check(supervisor.alarms)
            progress.refresh()
            if stream is not None and stream.failure is not None:
                _stop_unread(supervisor)
            if not supervisor.is_finished:
                signals.sleep(_TICK_SOON_SECONDS if supervisor.tick_soon else _TICK_SECONDS)
    except BaseException as error:
        supervisor.kill_processes()
        _tell_end(notifier, signals, 3, reason_of(error) if isinstance(error, Exception) else None)
        raise
    finally:
        spawner.close()
        if alarm_command is not None:
            alarm_command.stop(supervisor.alarms)
    db.busy_seconds = _FINISH_SECONDS
    try:
        progress.finish(db, supervisor.run.seq, int(supervisor.exit_code))
        summary = read_summary(db, supervisor.run.seq, exit_code=supervisor.exit_code)
        vanished = _find_vanished(db, supervisor.run.seq) if notifier is not None else {}
    except DatabaseBusy as busy:  # a machine that is stopped while its database is away
        write_stderr(f"{supervisor.reason}; {busy.message}")
        _tell_end(notifier, signals, int(supervisor.exit_code), supervisor.reason)
        return int(supervisor.exit_code)
    try:
        if stream is not None:
            signals.restore()  # the run has ended: a reader that stalls must not keep it alive
            stream.finish()
        db.close()
        checkpoint_wal(options.data)  # the last process with the database open was read-only and could not do it
        if options.json:
            (sys.stdout if stream is None else sys.stderr).write(summary + "\n")
            sys.stdout.flush()
    finally:
        _tell_end(notifier, signals, int(supervisor.exit_code), supervisor.reason, summary, vanished)
        if on_end and not supervisor.kill_requested:  # the lock is released: the command may use the data dir
            count = signals.count
            failure = run_user_command(
                "on_end", on_end, summary, options.data, interrupted=lambda: signals.count > count
            )
            if failure is not None:
                report_failure(options.data, supervisor.run.seq, "on_end", failure)
    if stream is not None and stream.failure is not None and not isinstance(stream.failure, BrokenPipeError):
        raise StorageError(f"stdout: {reason_of(stream.failure)}", "Run it again: it resumes, and writes all rows.")
    return int(supervisor.exit_code)


def _start_notifier(
    options: HeadlessOptions, receivers: Sequence[str], db: "Database", run: "Run"
) -> "Notifier | None":  # fmt: skip
    """Tells the receivers of the setting `notify`, if it has any."""
    if not receivers:
        return None
    from crawl_console.cli.user_commands import report_failure
    from crawl_console.notify.notifier import Notifier
    from crawl_engine.store.tables.run import runs

    say = partial(report_failure, options.data, run.seq, "notify")
    return Notifier(receivers, options.data, run.id, say, told=runs.list_alarms(db, run.seq))


def _find_vanished(db: "Database", run: int) -> dict[str, str]:
    from crawl_console.notify.vanished import describe_vanished

    return describe_vanished(db, run)


def _tell_end(
    notifier: "Notifier | None", signals: "_Signals", exit_code: int, reason: str | None,
    summary: str | None = None, vanished: Mapping[str, str] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Tell the receivers how the run ended. A further signal ends the attempt."""
    if notifier is None:
        return
    import orjson  # a refused start imports little

    from crawl_console.notify.message import EndedRun

    end = EndedRun(
        exit_code=exit_code, reason=reason, summary=orjson.loads(summary) if summary else None, vanished=vanished
    )
    count = signals.count
    notifier.finish(end, signalled_for=signals.age, interrupted=lambda: signals.count > count)


def _stop_unread(supervisor: Any) -> None:
    """Stop a run whose rows nobody reads, as a limit does: it can be resumed."""
    from crawl_engine.supervise.stages import ExitReason

    if supervisor.exit_reason is None:
        supervisor.stop(ExitReason.LIMIT, "stdout takes no more rows")


def _start_stream(options: HeadlessOptions, db: "Database", run: int) -> "RowStream | None":
    """The stream of the rows to stdout, if they go there."""
    if options.rows_to_stdout is None:
        return None
    from crawl_console.cli.row_stream import RowStream
    from crawl_engine.store.db.schema import CRAWL
    from crawl_engine.store.tables.run import versions

    definitions = versions.read(db, versions.current(db, run))
    return RowStream(options.data / CRAWL, run, definitions, options.rows_to_stdout)


def _build_supervisor(options: HeadlessOptions, lock: Lock, spawner: Spawner, signals: "_Signals") -> Any:
    from crawl_console.client import choose_arguments
    from crawl_engine.browser.find import require_browser
    from crawl_engine.defs.arguments import require_used
    from crawl_engine.defs.checks.secrets import require_secrets
    from crawl_engine.defs.loader import load_to_run
    from crawl_engine.defs.watcher import fingerprint_files
    from crawl_engine.store.db.location import read_location
    from crawl_engine.supervise.build import RunOptions, build_supervisor

    fingerprint = fingerprint_files(options.defs)  # before loading: every later save is detected
    arguments = choose_arguments(options.data, options.arguments, fresh=options.fresh, finished=options.extract_only)
    loaded = load_to_run(
        options.defs, options.settings.default_steps, keep_documents=options.settings.documents, arguments=arguments
    )
    require_used(options.arguments, loaded.arguments)
    if not options.extract_only:
        require_browser(loaded.definitions, options.settings)
        require_secrets(loaded.root, loaded.definitions.files)
    names = [d.name for d in loaded.definitions.data_defs]
    if options.data_def is not None and options.data_def not in names:
        raise UsageError(
            f"unknown dataDef '{options.data_def}'{suggest(options.data_def, names)}", "Check its name in the defs."
        )
    if options.rows_to_stdout is not None:
        from crawl_console.cli.row_stream import check_streamable

        check_streamable(loaded.definitions, options.rows_to_stdout)  # before anything is fetched
    if options.progress not in ("quiet", "json"):
        write_stderr(*map(str, (*options.setting_warnings, *loaded.warnings)))
    run_options = RunOptions(
        folder=options.data, definitions=loaded.definitions, settings=options.settings, fresh=options.fresh,
        output=options.output, watched_defs=options.defs, defs_fingerprint=fingerprint,
        extract_only=options.extract_only, data_def=options.data_def, only_new=options.only_new,
        arguments=arguments,
    )  # fmt: skip
    if options.settings.page_store is not None:
        from crawl_engine.store.pages.objects import check_page_store

        check_page_store(options.data, options.settings.page_store)
    if read_location(options.data) is None:
        return build_supervisor(run_options, lock, spawner, cancelled=lambda: signals.pending)
    from crawl_engine.supervise.machines.machine import Machine

    machine = Machine(run_options, lock, spawner)
    machine.wait_for_run(cancelled=lambda: signals.pending, say=write_stderr)
    return machine


class _Signals:
    """Records signals for the loop to act on. The first one stops the run, the second one kills it."""

    def __init__(self) -> None:
        self._received: list[int] = []
        self._first_at = 0.0
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
        return self._handled < len(self._received)

    @property
    def exit_code(self) -> int:
        """The exit code if the first signal ends the program."""
        return 128 + self._received[0]

    @property
    def count(self) -> int:
        return len(self._received)

    @property
    def age(self) -> float | None:
        """Seconds since the first signal."""
        return time.monotonic() - self._first_at if self._received else None

    def restore(self) -> None:
        """From now on a signal ends the program."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    def dispatch(self, supervisor: Any, progress: Any) -> None:
        """Pass new signals on to the supervisor; print a message for the first."""
        from crawl_engine.supervise.stages import ExitReason

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
        """Sleep until a signal, the end of a child, or a node without work; at most `seconds`."""
        started = time.monotonic()
        if not self.pending:
            self.wakeup.wait(seconds)
        if not self.pending:
            time.sleep(max(0.0, started + _MIN_TICK_SECONDS - time.monotonic()))

    def _record_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reloads += 1

    def _record_signal(self, number: int, _frame: FrameType | None) -> None:
        self._first_at = self._first_at or time.monotonic()
        self._received.append(number)
