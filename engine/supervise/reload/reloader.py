"""Publishes the defs that the watcher loaded from disk, or rejects them and reports the problems."""

from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from engine.defs.watcher import DefsWatcher, LoadResult
from engine.errors import Problem, UsageError
from engine.model.definition import Definitions, SourcePosition
from engine.model.fingerprint import PreparedDefs
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.tables import events, runs, supervisors
from engine.store.tables.events import Event
from engine.supervise.checkpoints.step_graph import StepGraph
from engine.supervise.reload.publish import PublishHook, publish_defs
from engine.supervise.seeding import find_unseedable

PROBLEMS_KEY = "defs_problems"
"""The metadata key for the problems of rejected defs."""
_MAX_REPORTED = 5
_Outcome = tuple[bool, str]
"""Whether it was done, and a sentence for the operator."""


class Reloader:
    """The reloader of one run.

    It calls `share_secrets` before the publishing transaction and `on_publish` within it; `current` is in force.
    """

    def __init__(
        self,
        db: Database,
        run: int,
        watcher: DefsWatcher[StepGraph],
        settings: Settings,
        *,
        output_dir: Path,
        output_file: Path | None,
        share_secrets: Callable[[], None],
        on_publish: PublishHook,
        current: PreparedDefs,
    ) -> None:
        self._db = db
        self._run = run
        self._watcher = watcher
        self._settings = settings
        self._output_dir = output_dir
        self._output_file = output_file
        self._share_secrets = share_secrets
        self._on_publish = on_publish
        self._current = current
        self._requests: dict[int, int] = {}
        self._results: dict[int, _Outcome] = {}
        self._load_result: LoadResult[StepGraph] | None = None

    def start(self) -> None:
        """Start the watcher."""
        self._watcher.start()

    def check_now(self) -> None:
        """Load the defs from disk, whether or not a file changed."""
        self._watcher.request_load()

    def request(self, command: int) -> tuple[bool, str] | None:
        """Load the defs for a command; returns the outcome once it is available, else None."""
        if command in self._results:
            return self._results.pop(command)
        if command not in self._requests:
            self._requests[command] = self._watcher.request_load()
        return None

    def is_settled(self) -> bool:
        """Whether the defs on disk are in force or were rejected."""
        return self._load_result is None and self._watcher.settled()

    def stop(self) -> None:
        """Stop the watcher."""
        self._watcher.stop()

    def tick(self, now: float) -> tuple[Definitions, int] | None:
        """Publish loaded defs, if there are any; returns new defs and their version, for the caller to seed.

        `now`: wall clock. Raises DatabaseBusy; the next tick retries.
        """
        self._load_result = self._watcher.take_result() or self._load_result
        result = self._load_result
        if result is None:
            return None
        new = None
        if result.edition is None or result.prepared is None:
            outcome = self._reject(result.problems, now)
        else:
            outcome, new = self._publish(result.edition, result.prepared, result.problems, now)
        self._load_result = None
        for command in [c for c, ticket in self._requests.items() if ticket <= result.ticket]:
            del self._requests[command]
            self._results[command] = outcome
        return new

    def _publish(
        self, defs: PreparedDefs, steps: StepGraph, warnings: Sequence[Problem], now: float
    ) -> tuple[_Outcome, tuple[Definitions, int] | None]:
        db, run = self._db, runs.get(self._db, self._run)
        try:
            unseedable = find_unseedable(defs.definitions, self._settings.base_url or run.base_url)
        except UsageError as error:
            unseedable = (SourcePosition(str(self._output_dir.name), 1, 1), error.message, error.remedy)
        if unseedable is not None:
            position, message, remedy = unseedable
            problem = Problem(
                file=position.file, line=position.line, column=position.column, code="unseedable",
                message=f"{message}: {remedy}",
            )  # fmt: skip
            return self._reject([problem], now), None
        self._share_secrets()
        with db.transaction():
            had_problems = supervisors.get_meta(db, PROBLEMS_KEY) not in (None, "[]")
            published = publish_defs(
                db, run, defs, self._settings, output_dir=self._output_dir, output_file=self._output_file,
                on_publish=self._on_publish, graph=steps, current=self._current,
            )  # fmt: skip
            store_problems(db, [])
            if published.changed:
                events.add(
                    db, run.seq, [Event(now, "WARNING", "supervisor", "defs", str(w)) for w in warnings[:_MAX_REPORTED]]
                )
            elif had_problems:
                text = f"the defs have no more problems; v{published.version} stays"
                events.add(db, run.seq, [Event(now, "INFO", "supervisor", "defs", text)])
        self._current = defs
        return (True, published.text), (defs.definitions, published.version) if published.changed else None

    def _reject(self, problems: Sequence[Problem], now: float) -> _Outcome:
        lines = [str(problem) for problem in problems if not problem.warning]
        version = runs.get(self._db, self._run).defs_version
        head = f"the defs on disk are not used, v{version} stays: {len(lines)} problem{'s' if len(lines) > 1 else ''}"
        with self._db.transaction():
            store_problems(self._db, problems)
            texts = [head, *lines[:_MAX_REPORTED]]
            events.add(self._db, self._run, [Event(now, "ERROR", "supervisor", "defs", text) for text in texts])
        return False, "\n".join([head, *lines])


def store_problems(db: Database, problems: Sequence[Problem]) -> None:
    """Record the problems for viewers; none: the defs are valid."""
    records = [
        {"file": p.file, "line": p.line, "col": p.column, "code": p.code, "message": p.message}
        for p in problems
        if not p.warning
    ]
    supervisors.set_meta(db, PROBLEMS_KEY, orjson.dumps(records).decode())
