"""Publishes the defs that the watcher loaded from disk, or rejects them and reports the problems.

With the setting `on_save` at `ask`, saved defs wait: they are published at the command `reload` or SIGHUP.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
from msgspec.structs import replace

from engine.defs.watcher import DefsWatcher, LoadResult
from engine.errors import Problem, UsageError, plural
from engine.model.definition import Definitions
from engine.model.fingerprint import PreparedDefs
from engine.model.stored_form import SourcePosition
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.tables.run import events, runs, supervisors
from engine.store.tables.run.events import Event
from engine.store.tables.run.runs import Run
from engine.supervise.checkpoints.step_graph import StepGraph
from engine.supervise.reload.diff import describe_changes
from engine.supervise.reload.publish import PublishHook, count_stale_pages, publish_defs
from engine.supervise.seeding.seeder import find_unseedable

PROBLEMS_KEY = "defs_problems"
"""The metadata key for the problems of rejected defs."""
SAVED_KEY = "defs_saved"
"""The metadata key for defs on disk that are not published: their hash, the changes and the time, as JSON."""
_MAX_REPORTED = 5
_Outcome = tuple[bool, str]
"""Whether it was done, and a sentence for the operator."""


class _Request(NamedTuple):
    """A load that a command waits for."""

    ticket: int
    saved: str | None
    """The hash of the defs that the operator saw; None: any."""


class Reloader:
    """The reloader of one run. It calls `on_publish` within the publishing transaction; `current` is in force."""

    def __init__(
        self,
        db: Database,
        run: int,
        watcher: DefsWatcher[StepGraph],
        settings: Settings,
        *,
        output_dir: Path,
        output_file: Path | None,
        on_publish: PublishHook,
        current: PreparedDefs,
    ) -> None:
        self._db = db
        self._run = run
        self._watcher = watcher
        self._settings = settings
        self._output_dir = output_dir
        self._output_file = output_file
        self._on_publish = on_publish
        self._current = current
        self._signal_ticket = 0
        self._requests: dict[int, _Request] = {}
        self._results: dict[int, _Outcome] = {}
        self._load_result: LoadResult[StepGraph] | None = None

    def start(self) -> None:
        self._watcher.start()

    def check_now(self) -> None:
        """Load and publish the defs from disk, whether or not a file changed."""
        self._signal_ticket = self._watcher.request_load()

    def request(self, command: int, saved: str | None = None) -> tuple[bool, str] | None:
        """Load and publish the defs for a command; returns the outcome once it is available, else None.

        `saved`: the hash of the defs that the operator saw; others are not published. None: any defs on disk.
        """
        if command in self._results:
            return self._results.pop(command)
        if command not in self._requests:
            self._requests[command] = _Request(self._watcher.request_load(), saved)
        return None

    def is_settled(self) -> bool:
        """Whether the defs on disk are in force, wait for an operator, or were rejected."""
        return self._load_result is None and self._watcher.settled()

    def stop(self) -> None:
        self._watcher.stop()

    def tick(self, now: float) -> tuple[Definitions, int] | None:
        """Publish loaded defs, if any; returns new defs and their version, for the caller to seed.

        `now`: wall clock. Raises DatabaseBusy; the next tick retries.
        """
        newer, waiting = self._watcher.take_result(), self._load_result
        if newer is not None and waiting is not None:
            newer = replace(newer, ticket=max(newer.ticket, waiting.ticket))  # it also answers the older request
        result = self._load_result = newer or waiting
        if result is None:
            return None
        new = None
        defs, run = result.edition, runs.get(self._db, self._run)
        problems = result.problems if defs is None else self._find_unseedable(defs.definitions, run)
        if defs is None or result.prepared is None or problems:
            outcome = self._reject(problems, now)
        elif self._must_ask(defs, result.ticket):
            outcome = self._hold(defs, now)
        else:
            outcome, new = self._publish(run, defs, result.prepared, result.problems, now)
        self._load_result = None
        if self._signal_ticket <= result.ticket:
            self._signal_ticket = 0
        for command in [c for c, request in self._requests.items() if request.ticket <= result.ticket]:
            del self._requests[command]
            self._results[command] = outcome
        return new

    def _find_unseedable(self, definitions: Definitions, run: Run) -> tuple[Problem, ...]:
        try:
            unseedable = find_unseedable(
                definitions, self._settings.base_url or run.base_url, allow_file=self._settings.allow_file
            )
        except UsageError as error:
            unseedable = (SourcePosition(str(self._output_dir.name), 1, 1), error.message, error.remedy)
        if unseedable is None:
            return ()
        position, message, remedy = unseedable
        problem = Problem(
            file=position.file, line=position.line, column=position.column, code="unseedable",
            message=f"{message}: {remedy}",
        )  # fmt: skip
        return (problem,)

    def _must_ask(self, defs: PreparedDefs, ticket: int) -> bool:
        """Whether these defs wait for an operator: no request publishes them, with their hash or without one."""
        if self._settings.on_save == "publish" or defs.hash == self._current.hash:
            return False
        if 0 < self._signal_ticket <= ticket:
            return False
        answered = [request.saved for request in self._requests.values() if request.ticket <= ticket]
        return all(saved not in (None, defs.hash) for saved in answered)

    def _hold(self, defs: PreparedDefs, now: float) -> _Outcome:
        """Keep the version in force, and tell viewers and the log about the waiting defs."""
        pages = count_stale_pages(self._db, self._run, self._current, defs, self._settings)
        text = describe_changes(self._current, defs, pages)
        outcome = False, f"the defs were saved again since, and wait: {text}"
        earlier = orjson.loads(supervisors.get_meta(self._db, SAVED_KEY) or "null")
        if earlier is not None and earlier["hash"] == defs.hash:
            return outcome  # saved again with the same meaning
        with self._db.transaction():
            store_problems(self._db, [])
            saved = {"hash": defs.hash, "text": text, "at": now}
            supervisors.set_meta(self._db, SAVED_KEY, orjson.dumps(saved).decode())
            event = f"defs saved, not published: {text}; `crawl-console plan` compares the rows, `reload` publishes"
            events.add(self._db, self._run, [Event(now, "WARNING", "supervisor", "defs", event)])
        return outcome

    def _publish(
        self, run: Run, defs: PreparedDefs, steps: StepGraph, warnings: Sequence[Problem], now: float
    ) -> tuple[_Outcome, tuple[Definitions, int] | None]:
        db = self._db
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
        head = f"the defs on disk are not used, v{version} stays: {plural(len(lines), 'problem')}"
        with self._db.transaction():
            store_problems(self._db, problems)
            texts = [head, *lines[:_MAX_REPORTED]]
            events.add(self._db, self._run, [Event(now, "ERROR", "supervisor", "defs", text) for text in texts])
        return False, "\n".join([head, *lines])


def store_problems(db: Database, problems: Sequence[Problem]) -> None:
    """Record the problems for viewers; an empty list means valid defs. Saved defs no longer wait."""
    records = [
        {"file": p.file, "line": p.line, "col": p.column, "code": p.code, "message": p.message}
        for p in problems
        if not p.warning
    ]
    supervisors.set_meta(db, PROBLEMS_KEY, orjson.dumps(records).decode())
    supervisors.set_meta(db, SAVED_KEY, "null")
