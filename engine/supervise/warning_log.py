"""Logs each warning about the data of a run when it first shows, so that a headless run says it at once."""

import re
import time

from engine.store.db.connector import Database
from engine.store.read.data_warnings import DataWarning, find_warnings
from engine.store.tables import events, health, runs
from engine.store.tables.events import Event, Level

_FIGURES = re.compile(r"[0-9][0-9,.]*")


class WarningLog:
    """The log of one run. A start that resumes it repeats what still holds."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._ended: dict[tuple[str | None, ...], bool] = {}
        """By what a warning says apart from its figures, which grow: whether its end is logged, too."""

    def update(self) -> None:
        """Add an event for each warning that is new or has ended, in the open transaction."""
        new: list[Event] = []
        for warning in find_warnings(self._db, runs.get(self._db, self._run), health.read(self._db, self._run)):
            if warning.code == "expectation":
                continue  # the end of the run logs it as an error
            key = _identity(warning)
            if key not in self._ended or self._ended[key] is not warning.ended:
                self._ended[key] = warning.ended
                level: Level = "INFO" if warning.ended else "WARNING"
                new.append(Event(time.time(), level, "supervisor", "data", warning.text))
        if new:
            events.add(self._db, self._run, new)


def _identity(warning: DataWarning) -> tuple[str | None, ...]:
    text = warning.text.removesuffix(" (it recovered)")
    return warning.code, warning.data_def, warning.host, _FIGURES.sub("", text)
