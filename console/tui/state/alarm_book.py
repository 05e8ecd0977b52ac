"""Keeps which of the current alarms are new, and which the operator has acknowledged."""

import time
from collections.abc import Iterable, Sequence

from console.alarms import Alarm


class AlarmBook:
    """An acknowledged alarm is quiet until its cause ends; if it comes again, it is new."""

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self._acknowledged: set[str] = set()
        self._since: dict[str, float] = {}

    @property
    def open(self) -> list[Alarm]:
        """Alarms that are not acknowledged."""
        return [alarm for alarm in self.alarms if alarm.key not in self._acknowledged]

    def update(self, alarms: Sequence[Alarm]) -> list[Alarm]:
        """Take the current alarms; returns the new ones."""
        before = {alarm.key for alarm in self.alarms}
        now = time.time()
        self._since = {alarm.key: self._since.get(alarm.key, now) for alarm in alarms}
        self.alarms = list(alarms)
        self._acknowledged &= {alarm.key for alarm in alarms}
        return [alarm for alarm in alarms if alarm.key not in before]

    def since(self, alarm: Alarm) -> float:
        """When this console first showed it: wall-clock seconds."""
        return self._since.get(alarm.key, time.time())

    def is_acknowledged(self, alarm: Alarm) -> bool:
        return alarm.key in self._acknowledged

    def acknowledge(self, alarms: Iterable[Alarm]) -> int:
        """Make alarms quiet; returns how many were loud."""
        keys = {alarm.key for alarm in alarms} - self._acknowledged
        self._acknowledged |= keys
        return len(keys)

    def restore(self, alarm: Alarm) -> None:
        """Make an acknowledged alarm loud again."""
        self._acknowledged.discard(alarm.key)
