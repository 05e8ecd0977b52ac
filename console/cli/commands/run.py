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
from engine.runtime.wakeup import Nudge
from engine.settings import Settings
from engine.supervise.lock import Lock

_TICK, _HURRY = 0.1, 0.02
_REST = 0.005
"""Seconds between two ticks at least, however often nodes run out of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headless:
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
    def talks(self) -> bool:
        """Whether stderr takes sentences beside progress and errors."""
        return self.progress not in ("quiet", "json")


def run(asked: Headless) -> int:
    """Run to the end; returns the exit code. Raises CrawlError where nothing could be started."""
    signals = _Signals()
    lock = Lock.take(asked.data)
    try:
        supervisor = _build(asked, lock, signals)
    except BaseException as trouble:
        lock.release()
        if isinstance(trouble, StorageError) and signals.came:
            return signals.exit_code  # it waited for a busy database, and was told not to
        raise
    from console.cli.progress import Progress
    from engine.store.db.connector import Database
    from engine.store.db.schema import CRAWL, fold

    progress = Progress(asked.progress, asked.data / CRAWL)
    db = Database.open(asked.data / CRAWL, read_only=True)
    progress.begin(db, supervisor.run.seq)
    for news in supervisor.upkeep.news:
        progress.say(f"  {news}")
    try:
        while not supervisor.over:
            signals.pass_on(supervisor, progress)
            supervisor.tick()
            progress.alarm(supervisor.disk.alarm)
            progress.show()
            if not supervisor.over:
                signals.sleep(_HURRY if supervisor.hurried else _TICK)
    except BaseException:
        supervisor.crew.kill_all()
        raise
    progress.end(db, supervisor.run.seq, supervisor.reason)
    summary = _summary(db, supervisor.run.seq, supervisor.exit_code)
    db.close()
    fold(asked.data)  # the last who had the database open could only read
    try:
        if asked.json:
            sys.stdout.write(summary + "\n")
            sys.stdout.flush()
    finally:
        if asked.settings.on_end and not supervisor.killed:
            _conclude(asked, summary, signals)
    return int(supervisor.exit_code)


def _build(asked: Headless, lock: Lock, signals: "_Signals") -> Any:
    from engine.defs.loader import load
    from engine.defs.watcher import fingerprint
    from engine.errors import UsageError, suggest
    from engine.supervise.build import Plan, build_supervisor

    seen = fingerprint(asked.defs)  # first: what is saved from here on is noticed
    loaded = load(asked.defs)
    names = [d.name for d in loaded.definitions.data_defs]
    if asked.data_def is not None and asked.data_def not in names:
        raise UsageError(f"unknown dataDef '{asked.data_def}'{suggest(asked.data_def, names)}", "See the defs.")
    for warning in loaded.warnings if asked.talks else ():
        _say(str(warning))
    return build_supervisor(
        Plan(
            folder=asked.data,
            definitions=loaded.definitions,
            settings=asked.settings,
            fresh=asked.fresh,
            output=asked.output,
            watched=asked.defs,
            seen=seen,
            extract_only=asked.extract_only,
            data_def=asked.data_def,
            only_new=asked.only_new,
        ),
        lock,
        given_up=lambda: signals.came,
        nudge=signals.nudge.file,
    )


class _Signals:
    """Signals as flags: handlers note them, the loop acts. The second one kills."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._told = 0
        self.nudge = Nudge()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)
        self._reloads = 0
        signal.signal(signal.SIGHUP, self._note_reload)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only with a handler does a child's end nudge
        self.nudge.heed_signals()

    @property
    def came(self) -> bool:
        """Whether one came that nobody has been told of."""
        return self._told < len(self._seen)

    @property
    def exit_code(self) -> int:
        """What a program ends with that such a signal ends."""
        return 128 + self._seen[0]

    @property
    def count(self) -> int:
        """How many came."""
        return len(self._seen)

    def pass_on(self, supervisor: Any, progress: Any) -> None:
        """Tell the supervisor of signals it does not know yet, and whoever looks on of the first."""
        from engine.supervise.exit_reason import Ending

        if self._reloads:
            self._reloads = 0
            supervisor.upkeep.ask()
        while self._told < len(self._seen):
            number, self._told = self._seen[self._told], self._told + 1
            if self._told == 1:
                progress.say("stopping: jobs under way may finish; once more to kill")
                supervisor.stop(Ending.SIGINT if number == signal.SIGINT else Ending.SIGTERM, "cancelled by signal")
            else:
                supervisor.killed = True

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past a signal, the end of a child, or the moment a node runs out of work."""
        begun = time.monotonic()
        if not self.came:
            self.nudge.wait(seconds)
        if not self.came:
            time.sleep(max(0.0, begun + _REST - time.monotonic()))

    def _note_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reloads += 1

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._seen.append(number)


def _summary(db: Any, run: int, exit_code: int) -> str:
    import orjson

    from engine.store.read import snapshot

    return orjson.dumps(snapshot.whole(snapshot.read(db, run=run), exit_code=exit_code)).decode()


def _conclude(asked: Headless, summary: str, signals: _Signals) -> None:
    """The command of `on_end`: the lock is free by now, so it may use the data dir as it likes."""
    from console.cli.on_end import run_on_end

    assert asked.settings.on_end is not None
    seen = signals.count
    problem = run_on_end(asked.settings.on_end, summary, asked.data, interrupted=lambda: signals.count > seen)
    if problem is not None:
        _say(problem)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
