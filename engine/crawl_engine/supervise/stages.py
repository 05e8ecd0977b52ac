"""The stages of a run, the reasons for its stop, and the deadlines of each stage of a stop."""

import math
import time
from enum import StrEnum

from msgspec import Struct

from crawl_engine.model.run import RunState, Stage
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.tables.run import runs
from crawl_engine.supervise.run_context import RunContext

_RETRY_SECONDS = 1.0
_S = Stage
ACTIVE_STAGES = (
    _S.INIT,
    _S.CHECK_LOCK,
    _S.START_APPENDER,
    _S.START_NODES,
    _S.RUNNING,
    _S.CRAWL_COMPLETE,
    _S.INTERRUPTED,
)
"""Stages in which no process is being stopped yet."""
FORCED_TRANSITIONS: dict[Stage, Stage] = {
    _S.INIT: _S.CHECK_LOCK,
    _S.CHECK_LOCK: _S.ABORT,
    _S.ABORT: _S.RELEASING_LOCK,
    _S.START_APPENDER: _S.INTERRUPTED,
    _S.START_NODES: _S.INTERRUPTED,
    _S.RUNNING: _S.INTERRUPTED,
    _S.CRAWL_COMPLETE: _S.STOPPING_NODES_FORCEFUL,
    _S.INTERRUPTED: _S.STOPPING_NODES_FORCEFUL,
    _S.STOPPING_NODES_GRACEFUL: _S.STOPPING_NODES_FORCEFUL,
    _S.STOPPING_NODES_FORCEFUL: _S.STOPPING_APPENDER_FORCEFUL,
    _S.STOPPING_APPENDER_GRACEFUL: _S.STOPPING_APPENDER_FORCEFUL,
    _S.STOPPING_APPENDER_FORCEFUL: _S.RELEASING_LOCK,
}
"""The next stage on the way to the end of a killed run."""
_FORCE_SECONDS = 10.0
"""Seconds for processes to end after a second request."""
_COMMIT_SECONDS = 5.0
"""Seconds that nodes have beyond the grace of their jobs: to commit and to report their end."""
_MIN_FILE_SECONDS = 30.0


class ExitReason(StrEnum):
    COMPLETE = "complete"
    EXTRACTED = "extracted"
    """Every stored page is up to date; jobs that need a fetch stay for the next run."""
    LIMIT = "limit"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    FAILED = "failed"
    KILLED = "killed"


EXIT_CODES = {
    ExitReason.COMPLETE: 0,
    ExitReason.EXTRACTED: 0,
    ExitReason.LIMIT: 0,
    ExitReason.SIGINT: 130,
    ExitReason.SIGTERM: 143,
    ExitReason.FAILED: 3,
    ExitReason.KILLED: 137,
}


def exit_code_of(reason: ExitReason | None, *, falls_short: bool) -> int:
    """`falls_short`: see RunOutcome."""
    code = EXIT_CODES[reason or ExitReason.FAILED]
    return 1 if code == 0 and falls_short else code


FINAL_STATES = {
    ExitReason.COMPLETE: RunState.DONE,
    ExitReason.EXTRACTED: RunState.CANCELLED,
    ExitReason.LIMIT: RunState.CANCELLED,
    ExitReason.SIGINT: RunState.CANCELLED,
    ExitReason.SIGTERM: RunState.CANCELLED,
    ExitReason.FAILED: RunState.FAILED,
    ExitReason.KILLED: RunState.KILLED,
}


class StageTracker(Struct):
    """The current stage of a supervisor. Neither a busy database nor a full disk delays a stage change."""

    run: RunContext
    current: Stage = Stage.INIT
    _pending: list[tuple[Stage, str]] = []
    """Stages that are not in the tables yet, each with a warning or an empty text."""
    _attempted_at: float = 0.0

    def enter(self, stage: Stage, warning: str = "") -> None:
        """Change to `stage`; `warning` explains an irregular change."""
        self.current = stage
        self._pending.append((stage, warning))
        if len(self._pending) == 1:
            self._attempted_at = 0.0  # a failed attempt does not delay this one
        self.flush()

    def flush(self) -> None:
        """Write pending stages, at most one attempt a second."""
        if not self._pending or time.monotonic() - self._attempted_at < _RETRY_SECONDS:
            return
        self._attempted_at = time.monotonic()
        try:
            with self.run.db.transaction():
                self.write_pending()
        except DatabaseBusy:
            self._attempted_at = time.monotonic()
            return
        self.clear_pending()

    def write_pending(self) -> None:
        """Write pending stages in the open transaction; call `clear_pending` after the commit. Raises DatabaseBusy."""
        for stage, warning in self._pending:
            runs.enter_stage(self.run.db, self.run.seq, stage)
            if warning:
                self.run.log("WARNING", "run", warning)

    def clear_pending(self) -> None:
        """Forget stages that `write_pending` wrote, after the commit."""
        self._pending.clear()


class StopDeadlines(Struct):
    """The deadlines of one supervisor. All times are monotonic seconds."""

    settings: Settings
    _end: float | None = None

    def bound(self, now: float) -> None:
        """Count the time limit from the first request to stop."""
        if self._end is None:
            self._end = now + self.settings.stop_seconds

    def nodes(self, now: float) -> float:
        """The moment until which nodes that are asked to stop now may finish."""
        limit = self.settings.node_drain if self._end is None else self.settings.job_grace + _COMMIT_SECONDS
        return self._before_end(now + limit, 0.75)

    def nodes_forced(self, now: float) -> float:
        """When nodes that get the second request now are killed."""
        return self._before_end(now + _FORCE_SECONDS, 0.5)

    def files(self, now: float) -> float:
        """The moment until which the appender may write remaining rows."""
        limit = self.settings.file_drain if self._end is None else max(self.settings.grace, _MIN_FILE_SECONDS)
        return self._before_end(now + limit, 0.25)

    def files_forced(self, now: float) -> float:
        """When the appender that gets the second request now is killed."""
        return self._before_end(now + _FORCE_SECONDS, 0.15)

    def helpers(self) -> float:
        """When helpers that still run are killed, even within their own `stop` seconds."""
        return self._before_end(math.inf, 0.1)

    def busy(self, deadline: float, *, processes_alive: bool) -> float:
        """The moment until which a busy database may delay a stage with this deadline."""
        return self._before_end(deadline + (_FORCE_SECONDS if processes_alive else 0.0), 0.1)

    def _before_end(self, moment: float, share: float) -> float:
        """A moment, but no later than this share of the reserve before the end."""
        return moment if self._end is None else min(moment, self._end - share * self.settings.stop_reserve)
