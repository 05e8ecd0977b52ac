"""Keeps the current alarms of a run, and knows which are new."""

import time
from collections.abc import Iterable

from msgspec.structs import replace

from crawl_engine.model.run import Alarm


class AlarmBook:
    """An acknowledged alarm is quiet until its cause ends; if it comes again, it is new."""

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self._unstored: dict[str, bool] = {}
        """Acknowledgements that the run has not stored yet, by key."""
        self._began: dict[str, float] = {}
        """Since when each alarm lasts or lasted, by key."""

    @property
    def open(self) -> list[Alarm]:
        """Alarms that are not acknowledged."""
        return [alarm for alarm in self.alarms if not alarm.acknowledged]

    def update(self, alarms: Iterable[Alarm]) -> list[Alarm]:
        """Take the current alarms; returns the new ones."""
        before = {alarm.key: alarm.since for alarm in self.alarms}
        now, current = time.time(), {alarm.key: alarm for alarm in alarms}
        self._unstored = {
            key: acknowledged
            for key, acknowledged in self._unstored.items()
            if key in current and current[key].acknowledged is not acknowledged
        }
        self.alarms = [
            replace(
                alarm,
                since=alarm.since or before.get(key, now),
                acknowledged=self._unstored.get(key, alarm.acknowledged),
            )
            for key, alarm in current.items()
        ]
        new = [alarm for alarm in self.alarms if alarm.since != self._began.get(alarm.key) and alarm.key not in before]
        self._began |= {alarm.key: alarm.since for alarm in self.alarms}
        return [alarm for alarm in new if not alarm.acknowledged]

    def acknowledge(self, alarms: Iterable[Alarm], *, acknowledged: bool = True) -> list[str]:
        """Make alarms quiet, or loud again; returns the keys of those that change."""
        keys = [alarm.key for alarm in alarms if alarm.acknowledged is not acknowledged]
        self._unstored |= dict.fromkeys(keys, acknowledged)
        self.update(self.alarms)
        return keys
