"""The headless way: a supervisor in the foreground. Data goes to stdout; progress and errors go to stderr."""

import contextlib
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from engine.errors import StorageError
from engine.runtime.wakeup import Wakeup
from engine.settings import Settings
from engine.supervise.lock import Lock

_TICK_SECONDS, _TICK_SOON_SECONDS = 0.1, 0.02
_MIN_TICK_SECONDS = 0.005
"""Seconds between two ticks at least, however often nodes run out of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessOptions:
    """What `run --no-ui` was asked for."""

    defs: Path
    data: Path
    settings: Settings
    fresh: bool = False
    output: Path | None = None
    only_new: bool = False
    json: bool = False
    progress: str = "auto"
    extract_only: bool = False
    """Work the stored pages of the latest run anew, fetch nothing."""
    data_def: str | None = None
    """With `extract_only`: the pages of this one, whether or not it changed."""

    @property
    def messages_enabled(self) -> bool:
        """Whether stderr takes sentences beside progress and errors."""
        return self.progress not in ("quiet", "json")


def run(asked: HeadlessOptions) -> int:
    """Run to the end; returns the exit code. Raises CrawlError where nothing could be started."""
    signals = _Signals()
    lock = Lock.acquire(asked.data)
    try:
        supervisor = _build_supervisor(asked, lock, signals)
    except BaseException as trouble:
        lock.release()
        from engine.store.db.connector import DatabaseBusy

        if isinstance(trouble, (DatabaseBusy, StorageError)) and signals.pending:
            return signals.exit_code  # it waited for a busy database, and was told not to
        raise
    from console.cli.progress import Progress
    from engine.store.db.connector import Database
    from engine.store.db.schema import CRAWL, checkpoint_wal

    progress = Progress(asked.progress, asked.data / CRAWL)
    db = Database.open(asked.data / CRAWL, read_only=True)
    progress.start(db, supervisor.run.seq)
    for news in supervisor.defs_sync.notices:
        progress.print_message(f"  {news}")
    try:
        while not supervisor.is_finished:
            signals.dispatch(supervisor, progress)
            supervisor.tick()
            progress.set_alarm(supervisor.disk.alarm)
            progress.refresh()
            if not supervisor.is_finished:
                signals.sleep(_TICK_SOON_SECONDS if supervisor.tick_soon else _TICK_SECONDS)
    except BaseException:
        supervisor.node_pool.kill_all()
        raise
    progress.finish(db, supervisor.run.seq, supervisor.reason)
    summary = _summary(db, supervisor.run.seq, supervisor.exit_code)
    db.close()
    checkpoint_wal(asked.data)  # the last who had the database open could only read
    try:
        if asked.json:
            sys.stdout.write(summary + "\n")
            sys.stdout.flush()
    finally:
        if asked.settings.on_end and not supervisor.kill_requested:
            _run_on_end_command(asked, summary, signals)
    return int(supervisor.exit_code)


def _build_supervisor(asked: HeadlessOptions, lock: Lock, signals: "_Signals") -> Any:
    from engine.defs.loader import load
    from engine.defs.watcher import fingerprint_files
    from engine.errors import UsageError, suggest
    from engine.supervise.build import RunOptions, build_supervisor

    seen = fingerprint_files(asked.defs)  # first: what is saved from here on is noticed
    loaded = load(asked.defs)
    names = [d.name for d in loaded.definitions.data_defs]
    if asked.data_def is not None and asked.data_def not in names:
        raise UsageError(f"unknown dataDef '{asked.data_def}'{suggest(asked.data_def, names)}", "See the defs.")
    for warning in loaded.warnings if asked.messages_enabled else ():
        _write_stderr(str(warning))
    return build_supervisor(
        RunOptions(
            folder=asked.data,
            definitions=loaded.definitions,
            settings=asked.settings,
            fresh=asked.fresh,
            output=asked.output,
            watched_defs=asked.defs,
            defs_fingerprint=seen,
            extract_only=asked.extract_only,
            data_def=asked.data_def,
            only_new=asked.only_new,
        ),
        lock,
        cancelled=lambda: signals.pending,
        wakeup_fd=signals.wakeup.write_fd,
    )


class _Signals:
    """Signals as flags: handlers note them, the loop acts. The second one kills."""

    def __init__(self) -> None:
        self._received: list[int] = []
        self._handled = 0
        self.wakeup = Wakeup()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._record_signal)
        self._reloads = 0
        signal.signal(signal.SIGHUP, self._record_reload)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only with a handler does a child's end nudge
        self.wakeup.install_signal_wakeup()

    @property
    def pending(self) -> bool:
        """Whether one came that nobody has been told of."""
        return self._handled < len(self._received)

    @property
    def exit_code(self) -> int:
        """What a program ends with that such a signal ends."""
        return 128 + self._received[0]

    @property
    def count(self) -> int:
        """How many came."""
        return len(self._received)

    def dispatch(self, supervisor: Any, progress: Any) -> None:
        """Tell the supervisor of signals it does not know yet, and whoever looks on of the first."""
        from engine.supervise.exit_reason import ExitReason

        if self._reloads:
            self._reloads = 0
            supervisor.defs_sync.request_reload()
        while self._handled < len(self._received):
            number, self._handled = self._received[self._handled], self._handled + 1
            if self._handled == 1:
                progress.print_message("stopping: jobs under way may finish; once more to kill")
                supervisor.stop(
                    ExitReason.SIGINT if number == signal.SIGINT else ExitReason.SIGTERM, "cancelled by signal"
                )
            else:
                supervisor.kill_requested = True

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past a signal, the end of a child, or the moment a node runs out of work."""
        begun = time.monotonic()
        if not self.pending:
            self.wakeup.wait(seconds)
        if not self.pending:
            time.sleep(max(0.0, begun + _MIN_TICK_SECONDS - time.monotonic()))

    def _record_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reloads += 1

    def _record_signal(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(number)


def _summary(db: Any, run: int, exit_code: int) -> str:
    import orjson

    from engine.store.read import snapshot

    return orjson.dumps(snapshot.build_report(snapshot.read(db, run=run), exit_code=exit_code)).decode()


def _run_on_end_command(asked: HeadlessOptions, summary: str, signals: _Signals) -> None:
    """The command of `on_end`: the lock is free by now, so it may use the data dir as it likes."""
    from console.cli.on_end import run_on_end

    assert asked.settings.on_end is not None
    seen = signals.count
    problem = run_on_end(asked.settings.on_end, summary, asked.data, interrupted=lambda: signals.count > seen)
    if problem is not None:
        _write_stderr(problem)


def _write_stderr(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
