"""Reload: what the watcher found on disk is published, or refused and shown. The supervisor's tick calls it."""

from collections.abc import Sequence
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
from engine.supervise.reload.publish import PublishHook, PublishResult, publish_defs
from engine.supervise.seeding import find_unseedable

PROBLEMS_KEY = "defs_problems"
"""Under this name the data dir remembers what keeps the defs on disk from being used."""
_MAX_REPORTED = 5
_Outcome = tuple[bool, str]
"""Whether it was done, and a sentence for an operator."""


class Reloader:
    """For one run. `adopt` hears of new defs in the transaction that publishes them; `current` are in force."""

    def __init__(
        self, db: Database, run: int, watcher: DefsWatcher[StepGraph], settings: Settings, *, output_dir: Path,
        output_file: Path | None, on_publish: PublishHook, current: PreparedDefs,
    ) -> None:  # fmt: skip
        self._db = db
        self._run = run
        self._watcher = watcher
        self._settings = settings
        self._output_dir = output_dir
        self._output_file = output_file
        self._on_publish = on_publish
        self._current_edition = current
        self._requests: dict[int, int] = {}
        self._results: dict[int, tuple[bool, str]] = {}
        self._load_result: LoadResult[StepGraph] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._watcher.start()

    def check_now(self) -> None:
        """Look at the defs on disk, whether or not anything changed."""
        self._watcher.request_load()

    def request(self, command: int) -> tuple[bool, str] | None:
        """The same for a command: what came of it, once that is known."""
        if command in self._results:
            return self._results.pop(command)
        if command not in self._requests:
            self._requests[command] = self._watcher.request_load()
        return None

    def is_settled(self) -> bool:
        """Whether what is on disk is what the run is worked with, or was refused."""
        return self._load_result is None and self._watcher.settled()

    def stop(self) -> None:
        """No more looks."""
        self._watcher.stop()

    def tick(self, now: float) -> tuple[Definitions, int] | None:
        """Publish what was found, if anything was; returns new defs and their version, which are to be seeded.

        `now`: wall clock. Raises Busy where the database is: it is tried again.
        """
        self._load_result = self._watcher.take_result() or self._load_result
        look = self._load_result
        if look is None:
            return None
        new = None
        if look.edition is None or look.prepared is None:
            outcome = self._reject(look.problems, now)
        else:
            outcome, new = self._publish(look.edition, look.prepared, look.problems, now)
        self._load_result = None
        for command in [c for c, ticket in self._requests.items() if ticket <= look.ticket]:
            del self._requests[command]
            self._results[command] = outcome
        return new

    def _publish(
        self, edition: PreparedDefs, steps: StepGraph, warnings: Sequence[Problem], now: float
    ) -> tuple[_Outcome, tuple[Definitions, int] | None]:
        db, run = self._db, runs.get(self._db, self._run)
        try:
            told = find_unseedable(edition.definitions, self._settings.base_url or run.base_url)
        except UsageError as error:
            told = (SourcePosition(str(self._output_dir.name), 1, 1), error.message, error.remedy)
        if told is not None:
            place, what, remedy = told
            problem = Problem(
                file=place.file, line=place.line, column=place.column, code="unseedable", message=f"{what}: {remedy}"
            )  # fmt: skip
            return self._reject([problem], now), None
        with db.transaction():
            had = supervisors.get_meta(db, PROBLEMS_KEY) not in (None, "[]")
            change = publish_defs(
                db, run, edition, self._settings, output_dir=self._output_dir, output_file=self._output_file, on_publish=self._on_publish,
                graph=steps, current=self._current_edition,
            )  # fmt: skip
            store_problems(db, [])
            if change.changed:
                events.add(
                    db, run.seq, [Event(now, "WARNING", "supervisor", "defs", str(w)) for w in warnings[:_MAX_REPORTED]]
                )
            elif had:
                events.add(
                    db,
                    run.seq,
                    [Event(now, "INFO", "supervisor", "defs", f"the defs are mended; {_unchanged_text(change)}")],
                )
        self._current_edition = edition
        return (True, change.text), (edition.definitions, change.version) if change.changed else None

    def _reject(self, problems: Sequence[Problem], now: float) -> _Outcome:
        lines = [str(problem) for problem in problems if not problem.warning]
        version = runs.get(self._db, self._run).defs_version
        head = f"the defs on disk are not used, v{version} stays: {len(lines)} problem{'s' if len(lines) > 1 else ''}"
        with self._db.transaction():
            store_problems(self._db, problems)
            told = [head, *lines[:_MAX_REPORTED]]
            events.add(self._db, self._run, [Event(now, "ERROR", "supervisor", "defs", text) for text in told])
        return False, "\n".join([head, *lines])


def store_problems(db: Database, problems: Sequence[Problem]) -> None:
    """Keep them where any viewer finds them; none: the defs are good."""
    told = [
        {"file": p.file, "line": p.line, "col": p.column, "code": p.code, "message": p.message}
        for p in problems
        if not p.warning
    ]
    supervisors.set_meta(db, PROBLEMS_KEY, orjson.dumps(told).decode())


def _unchanged_text(change: PublishResult) -> str:
    return f"v{change.version} stays"
