"""Keeps the alarms that the console shows: those of the run, and those of the console itself."""

import time
from collections.abc import Iterable

from msgspec.structs import replace

from engine.model.run import Alarm


class AlarmBook:
    """An acknowledged alarm is quiet until its cause ends; if it comes again, it is new."""

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self._given: dict[str, bool] = {}
        """By key: what the operator said here, which the run has not stored yet."""
        self._began: dict[str, float] = {}
        """By key: since when alarms lasted, those that ended, too."""

    @property
    def open(self) -> list[Alarm]:
        """Alarms that are not acknowledged."""
        return [alarm for alarm in self.alarms if not alarm.acknowledged]

    def update(self, alarms: Iterable[Alarm]) -> list[Alarm]:
        """Take the current alarms; returns the new ones."""
        before = {alarm.key: alarm.since for alarm in self.alarms}
        now, current = time.time(), {alarm.key: alarm for alarm in alarms}
        self._given = {
            key: said for key, said in self._given.items() if key in current and current[key].acknowledged is not said
        }
        self.alarms = [
            replace(
                alarm,
                since=alarm.since or before.get(key, now),
                acknowledged=self._given.get(key, alarm.acknowledged),
            )
            for key, alarm in current.items()
        ]
        new = [alarm for alarm in self.alarms if alarm.since != self._began.get(alarm.key) and alarm.key not in before]
        self._began |= {alarm.key: alarm.since for alarm in self.alarms}
        return [alarm for alarm in new if not alarm.acknowledged]

    def acknowledge(self, alarms: Iterable[Alarm], *, acknowledged: bool = True) -> list[str]:
        """Make alarms quiet, or loud again; returns the keys of those that change."""
        keys = [alarm.key for alarm in alarms if alarm.acknowledged is not acknowledged]
        self._given |= dict.fromkeys(keys, acknowledged)
        self.update(self.alarms)
        return keys


def with_keys(alarm: Alarm, *, can_start: bool, read_only: bool) -> Alarm:
    """The alarm with the keys of the console that help."""
    text = alarm.text
    if alarm.code in ("supervisor-lost", "jobs-ready") and can_start:
        text = text.replace("`crawl-console run` resumes", "R resumes")
    elif alarm.code == "defs-saved":
        text = text.replace(":", f" ({'5 shows' if read_only else 'y publishes, 5 shows'}):", 1)
    return replace(alarm, text=text)
