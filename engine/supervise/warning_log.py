"""Logs each warning about the data of a run when it first shows, so that a headless run says it at once."""

import time

from engine.store.db.connector import Database
from engine.store.read.data_warnings import DataWarning, find_warnings
from engine.store.tables import events, health, runs
from engine.store.tables.events import Event, Level

_Identity = tuple[str | None, ...]


class WarningLog:
    """The log of one run. A start that resumes it repeats what still holds."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._logged: dict[_Identity, bool] = {}
        """By what a warning is about: whether its end is logged, too."""
        self._written: dict[_Identity, bool] = {}

    def update(self) -> None:
        """Add an event for each warning that is new or has ended, in the open transaction; then call `confirm`."""
        self._written = {}
        new: list[Event] = []
        for warning in find_warnings(self._db, runs.get(self._db, self._run), health.read(self._db, self._run)):
            if warning.code == "expectation":
                continue  # the end of the run logs it as an error
            if self._logged.get(_identity(warning)) is not warning.ended:
                self._written[_identity(warning)] = warning.ended
                level: Level = "INFO" if warning.ended else "WARNING"
                new.append(Event(time.time(), level, "supervisor", "data", warning.text))
        if new:
            events.add(self._db, self._run, new)

    def confirm(self) -> None:
        """The transaction of the last update is committed: its warnings are not logged again."""
        self._logged |= self._written
        self._written = {}


def _identity(warning: DataWarning) -> _Identity:
    return warning.code, warning.data_def, warning.host, warning.subject
