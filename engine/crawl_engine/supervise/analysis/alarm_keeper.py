"""Keeps the alarms of a run: since when they last, and which an operator acknowledged."""

import time
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from crawl_engine.judge.trouble import WITHOUT_SUPERVISOR
from crawl_engine.model.run import Alarm
from crawl_engine.store.tables.run import runs
from crawl_engine.supervise.run_context import RunContext

_LOGGED = ("blocked", "failing-requests", "host-refused", "host-silent", "output-behind", "queue-grows")
"""Alarms without an event of their own."""
_REMEMBERED_SECONDS = 60.0
"""How long after its end an alarm may come again as the same."""
_MAX_MEMBERS_STORED = 1_000


class AlarmKeeper:
    """Keeps the alarms of one run: since when they last, and which an operator acknowledged.

    An alarm is remembered for a minute after its cause has ended: if it comes again, it is the same alarm. An alarm of
    many hosts is acknowledged with those of its hosts, and theirs with it, when one follows the other.
    """

    def __init__(self, run: RunContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        stored = runs.list_alarms(run.db, run.seq)
        self.alarms: Sequence[Alarm] = [alarm for alarm in stored if alarm.code not in WITHOUT_SUPERVISOR]
        self._stored: list[Alarm] | None = None
        earlier = {key: alarm.since for alarm in stored for key in (alarm.key, *alarm.members)}
        kept = earlier.keys() | runs.list_acknowledged(run.db, run.seq) - {*WITHOUT_SUPERVISOR}
        self._seen = {key: (earlier.get(key, time.time()), clock()) for key in kept}
        """By key of an alarm: since when it lasts, and when it was found last."""
        self._members = {alarm.key: alarm.members for alarm in stored if alarm.members}
        """By key of an alarm of many hosts: the keys of the alarms of these hosts."""
        self._logged = set(earlier)

    def update(self, found: Iterable[Alarm]) -> None:
        """Take the alarms of the newest situation."""
        now, wall, found = self._clock(), time.time(), list(found)
        keys = [key for alarm in found for key in (alarm.key, *alarm.members)]
        seen = self._seen | {key: (self._seen.get(key, (wall, now))[0], now) for key in keys}
        self._seen = {key: times for key, times in seen.items() if now - times[1] <= _REMEMBERED_SECONDS}
        self._members = {key: members for key, members in self._members.items() if key in self._seen}
        self._members |= {alarm.key: alarm.members for alarm in found if alarm.members}
        self.alarms = [replace(alarm, since=self._seen[alarm.key][0]) for alarm in found]

    def record(self) -> None:
        """Store them in the open transaction; a forgotten alarm is no longer acknowledged."""
        acknowledged = runs.list_acknowledged(self._run.db, self._run.seq)
        before = {alarm.key for alarm in self._stored or ()}
        begun = [alarm.key for alarm in self.alarms if alarm.key not in before]
        added = {key for key in begun if self._follows_acknowledged(key, acknowledged)} - acknowledged
        removed = acknowledged - self._seen.keys()
        if added or removed:
            runs.acknowledge(self._run.db, self._run.seq, added, removed)
        if (stored := self._to_store()) == self._stored:
            return
        runs.set_alarms(self._run.db, self._run.seq, stored)
        for alarm in self.alarms:
            if alarm.code in _LOGGED and alarm.key not in self._logged:
                self._run.log("WARNING", "host", alarm.text)

    def confirm(self) -> None:
        """Call it after the commit of `record`."""
        self._stored = self._to_store()
        shown = {key for alarm in self.alarms for key in (alarm.key, *self._members.get(alarm.key, ()))}
        self._logged = (self._logged & self._seen.keys()) | shown

    def _to_store(self) -> list[Alarm]:
        return [replace(alarm, members=alarm.members[:_MAX_MEMBERS_STORED]) for alarm in self.alarms]

    def _follows_acknowledged(self, key: str, acknowledged: frozenset[str]) -> bool:
        """Whether all its hosts were acknowledged, or it comes from an acknowledged alarm of many hosts."""
        if key in self._members:
            return acknowledged.issuperset(self._members[key])
        return any(group in acknowledged and key in members for group, members in self._members.items())
