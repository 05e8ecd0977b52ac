"""Reload: what the watcher found on disk is published, or refused and shown. The supervisor's tick calls it."""

from collections.abc import Sequence
from pathlib import Path

import orjson

from engine.defs.watcher import Look, Watcher
from engine.errors import Problem, UsageError
from engine.model.definition import Definitions, Place
from engine.model.fingerprint import Edition
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.tables import events, runs, supervisors
from engine.store.tables.events import Event
from engine.supervise.checkpoints.step_graph import Blueprint
from engine.supervise.reload.publish import Adopt, Change, publish
from engine.supervise.seeding import unseedable

PROBLEMS = "defs_problems"
"""Under this name the data dir remembers what keeps the defs on disk from being used."""
_TOLD = 5
_Outcome = tuple[bool, str]
"""Whether it was done, and a sentence for an operator."""


class Reload:
    """For one run. `adopt` hears of new defs in the transaction that publishes them; `current` are in force."""

    def __init__(
        self, db: Database, run: int, watcher: Watcher[Blueprint], settings: Settings, *, target: Path,
        flag: Path | None, adopt: Adopt, current: Edition,
    ) -> None:  # fmt: skip
        self._db = db
        self._run = run
        self._watcher = watcher
        self._settings = settings
        self._target = target
        self._flag = flag
        self._adopt = adopt
        self._current = current
        self._orders: dict[int, int] = {}
        self._answers: dict[int, tuple[bool, str]] = {}
        self._look: Look[Blueprint] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._watcher.start()

    def ask(self) -> None:
        """Look at the defs on disk, whether or not anything changed."""
        self._watcher.ask()

    def order(self, command: int) -> tuple[bool, str] | None:
        """The same for a command: what came of it, once that is known."""
        if command in self._answers:
            return self._answers.pop(command)
        if command not in self._orders:
            self._orders[command] = self._watcher.ask()
        return None

    def settled(self) -> bool:
        """Whether what is on disk is what the run is worked with, or was refused."""
        return self._look is None and self._watcher.settled()

    def stop(self) -> None:
        """No more looks."""
        self._watcher.stop()

    def tick(self, now: float) -> tuple[Definitions, int] | None:
        """Publish what was found, if anything was; returns new defs and their version, which are to be seeded.

        `now`: wall clock. Raises Busy where the database is: it is tried again.
        """
        self._look = self._watcher.take() or self._look
        look = self._look
        if look is None:
            return None
        new = None
        if look.edition is None or look.prepared is None:
            outcome = self._refuse(look.problems, now)
        else:
            outcome, new = self._publish(look.edition, look.prepared, look.problems, now)
        self._look = None
        for command in [c for c, ticket in self._orders.items() if ticket <= look.ticket]:
            del self._orders[command]
            self._answers[command] = outcome
        return new

    def _publish(
        self, edition: Edition, steps: Blueprint, warnings: Sequence[Problem], now: float
    ) -> tuple[_Outcome, tuple[Definitions, int] | None]:
        db, run = self._db, runs.get(self._db, self._run)
        try:
            told = unseedable(edition.definitions, self._settings.base_url or run.base_url)
        except UsageError as error:
            told = (Place(str(self._target.name), 1, 1), error.what, error.remedy)
        if told is not None:
            place, what, remedy = told
            problem = Problem(
                file=place.file, line=place.line, column=place.column, code="unseedable", message=f"{what}: {remedy}"
            )  # fmt: skip
            return self._refuse([problem], now), None
        with db.transaction():
            had = supervisors.recall(db, PROBLEMS) not in (None, "[]")
            change = publish(
                db, run, edition, self._settings, target=self._target, flag=self._flag, adopt=self._adopt,
                steps=steps, old=self._current,
            )  # fmt: skip
            remember_problems(db, [])
            if change.changed:
                events.add(db, run.seq, [Event(now, "WARNING", "supervisor", "defs", str(w)) for w in warnings[:_TOLD]])
            elif had:
                events.add(
                    db, run.seq, [Event(now, "INFO", "supervisor", "defs", f"the defs are mended; {_same(change)}")]
                )
        self._current = edition
        return (True, change.text), (edition.definitions, change.version) if change.changed else None

    def _refuse(self, problems: Sequence[Problem], now: float) -> _Outcome:
        lines = [str(problem) for problem in problems if not problem.warning]
        version = runs.get(self._db, self._run).defs_version
        head = f"the defs on disk are not used, v{version} stays: {len(lines)} problem{'s' if len(lines) > 1 else ''}"
        with self._db.transaction():
            remember_problems(self._db, problems)
            told = [head, *lines[:_TOLD]]
            events.add(self._db, self._run, [Event(now, "ERROR", "supervisor", "defs", text) for text in told])
        return False, "\n".join([head, *lines])


def remember_problems(db: Database, problems: Sequence[Problem]) -> None:
    """Keep them where any viewer finds them; none: the defs are good."""
    told = [
        {"file": p.file, "line": p.line, "col": p.column, "code": p.code, "message": p.message}
        for p in problems
        if not p.warning
    ]
    supervisors.remember(db, PROBLEMS, orjson.dumps(told).decode())


def _same(change: Change) -> str:
    return f"v{change.version} stays"
