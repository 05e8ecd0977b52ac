"""Derives the alarms of a run from its situation, and keeps them. Operator actions raise no alarm."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from engine.model.node import KILLED_BY_OPERATOR
from engine.model.run import Alarm, AlarmLevel, RunState, Stage
from engine.runtime.clock import store_time
from engine.store.db.connector import Database
from engine.store.read.data_warnings import FIELD_WARNINGS, VALUE_WARNINGS
from engine.store.read.situation import HostWork, Situation
from engine.store.tables.run import events, runs
from engine.store.tables.run.events import Event
from engine.store.tables.run.runs import Run
from engine.supervise.analysis.forecast import describe_growth, is_refusing, is_silent

_MAX_HOSTS_LISTED = 5
"""More hosts with the same trouble are one alarm."""
_SEVERE_WARNINGS = ("expectation", "all-rejected")
_OF_SUPERVISOR = (
    "appender-behind", "defs-saved", "disk-low", "host-refused", "host-resting", "host-silent", "node-lost",
    "queue-grows",
)  # fmt: skip
"""Alarms that end with their supervisor, which has its own."""
_LOGGED = ("host-refused", "host-silent", "queue-grows")
"""Alarms without an event of their own."""
_LATE_BEAT_SECONDS = 1.0
_REMEMBERED_SECONDS = 60.0
"""How long after its end an alarm may come again as the same."""
_WITHOUT_SUPERVISOR = ("jobs-ready", "supervisor-lost")
"""Alarms that end as soon as a supervisor is at work."""


def find_alarms(situation: Situation, queue_growth: float = 0.0) -> list[Alarm]:
    """The alarms of a situation, the worst first. `queue_growth`: by how many pages a second the queue grows."""
    alarms = [*_run_alarms(situation)]
    if situation.stage is Stage.RUNNING:
        alarms += [*_node_alarms(situation), *_appender_alarms(situation), *_host_alarms(situation)]
        if queue_growth > 0 and not situation.paused:
            text = f"{describe_growth(queue_growth)}, to {situation.waiting:,}"
            alarms.append(Alarm("queue-grows", f"{text}: new pages are found faster than pages end"))
    alarms += _defs_alarms(situation)
    alarms += _data_alarms(situation)
    return sorted(alarms, key=lambda alarm: alarm.level)


def _run_alarms(situation: Situation) -> Iterator[Alarm]:
    if situation.disk:
        yield Alarm("disk-low", situation.disk, "bad")
    if situation.state is RunState.FAILED:
        yield Alarm("run-failed", f"the run failed: {situation.reason or 'see the log'}", "bad")


def _node_alarms(situation: Situation) -> Iterator[Alarm]:
    replaced = {node.replaces: node for node in situation.nodes if node.replaces}
    for node in situation.nodes:
        if node.state in ("DEAD", "FAILED"):
            by = replaced.get(node.id)
            if node.past or node.reason == KILLED_BY_OPERATOR or (by is not None and by.state != "STARTING"):
                continue  # of an earlier supervisor, killed by the operator, or replaced (which has its own alarm)
            outcome = f"{by.id} is starting" if by else "not replaced"
            text = f"{node.id} dead: {(node.reason or 'unknown reason').removeprefix('died: ')}; {outcome}"
            yield Alarm("node-lost", text, "warn" if by else "bad", subject=node.id)
        elif node.heart == "ARRHYTHMIA":
            text = f"{node.id} has sent no heartbeat for {node.beat_age or 0:.1f} s"
            yield Alarm("node-lost", text, subject=node.id)


def _appender_alarms(situation: Situation) -> Iterator[Alarm]:
    outputs = situation.outputs
    for output in outputs:
        if output.error:
            text = f"{output.name} cannot be written, backlog {output.backlog:,}: {output.error}"
            yield Alarm("appender-behind", text, "bad", subject=output.name)
    if not outputs:
        return
    backlog = f"backlog {max(output.backlog for output in outputs):,}"
    if situation.appender_lost:
        yield Alarm("appender-behind", f"the appender is dead and starts again; {backlog}", "bad")
    elif (age := outputs[0].beat_age or 0.0) > _LATE_BEAT_SECONDS:
        yield Alarm("appender-behind", f"the appender has sent no heartbeat for {age:.1f} s; {backlog}")


def _host_alarms(situation: Situation) -> Iterator[Alarm]:
    now = situation.at
    waiting = [host for host in situation.hosts.values() if host.left]
    waiting.sort(key=lambda host: -(host.backoff_until or 0.0))
    silent = [host for host in waiting if is_silent(host, situation)]
    others = [host for host in waiting if not is_silent(host, situation)]
    refusing = [host for host in others if is_refusing(host)]
    resting = [host for host in others if not is_refusing(host) and host.rest(now) > 0]
    silent.sort(key=lambda host: -host.silent)
    yield from _list_hosts("host-silent", silent, "are silent", lambda host: _describe_silence(host, situation))
    yield from _list_hosts("host-refused", refusing, "refuse the crawler", lambda host: _describe_refusal(host, now))
    yield from _list_hosts("host-resting", resting, "rest", lambda host: _describe_rest(host, now))


def _list_hosts(
    code: str, hosts: Sequence[HostWork], trouble: str, describe: Callable[[HostWork], str]
) -> Iterator[Alarm]:
    """An alarm for each host, or one for many."""
    level: AlarmLevel = "warn" if code == "host-resting" else "bad"
    alarms = [Alarm(code, describe(host), level, host=host.key) for host in hosts]
    if len(hosts) > _MAX_HOSTS_LISTED:
        text, members = f"{len(hosts):,} hosts {trouble}; {alarms[0].text}", tuple(alarm.key for alarm in alarms)
        yield Alarm(code, text, level, count=len(hosts), members=members)
    else:
        yield from alarms


def _describe_silence(host: HostWork, situation: Situation) -> str:
    return f"{host.key} is silent: no answer for {host.silent:.0f} s (deadline {situation.deadline:g} s)"


def _describe_refusal(host: HostWork, now: float) -> str:
    rest = host.rest(now)
    again = f"; asked again in {rest:.0f} s" if rest > 0 else ""
    return f"{host.key} refuses the crawler: {host.rest_reason}{again}"


def _describe_rest(host: HostWork, now: float) -> str:
    after = f" after {host.rest_reason}" if host.rest_reason else ""
    return f"{host.key} rests {host.rest(now):.0f} s{after}"


def _defs_alarms(situation: Situation) -> Iterator[Alarm]:
    if situation.defs_saved is not None:
        text = f"defs saved, not published: {situation.defs_saved['text']}"
        yield Alarm("defs-saved", text, subject=str(situation.defs_saved["hash"]))
    elif situation.defs_problems:
        first = situation.defs_problems[0]
        place = f"{first['file']}:{first['line']}:{first['col']}"
        more = len(situation.defs_problems) - 1
        text = f"{place} {first['message']}{f' (and {more} more)' if more else ''} · the previous defs stay in use"
        yield Alarm("defs-rejected", text, "bad", subject=f"{place} {first['message']}")


def _data_alarms(situation: Situation) -> Iterator[Alarm]:
    """The warnings about the data of the run, but what the alarm of a host says."""
    refusing: set[str | None] = set()
    if situation.stage is Stage.RUNNING:
        refusing = {host.key for host in situation.hosts.values() if host.left and is_refusing(host)}
    for one in situation.warnings:
        if one.ended or (one.code == "blocked" and one.host in refusing):
            continue
        is_field = one.code in (*FIELD_WARNINGS, *VALUE_WARNINGS)
        yield Alarm(
            one.code, one.text, "bad" if one.code in _SEVERE_WARNINGS else "warn", host=one.host, data_def=one.data_def,
            field=one.subject if is_field else None, subject=None if is_field else one.subject,
        )  # fmt: skip


def without_supervisor(alarms: Iterable[Alarm], run: Run) -> list[Alarm]:
    """The alarms of a run whose supervisor has ended."""
    kept = [alarm for alarm in alarms if alarm.code not in _OF_SUPERVISOR]
    if not run.state.is_open:
        return kept
    if run.stage == Stage.SHUTDOWN_COMPLETE:
        return [Alarm("jobs-ready", "jobs are READY again: `crawl-console run` resumes the run"), *kept]
    text = "the supervisor is gone: `crawl-console run` resumes the run; nothing was lost"
    since = time.time() - max(0.0, store_time() - run.recorded_at) if run.recorded_at else run.created_at
    return [Alarm("supervisor-lost", text, "bad", since=since), *kept]


class AlarmKeeper:
    """Keeps the alarms of one run: since when they last, and which an operator acknowledged.

    An alarm is remembered for a minute after its cause has ended: if it comes again, it is the same alarm. An alarm of
    many hosts is acknowledged with those of its hosts, and theirs with it, when one follows the other.
    """

    def __init__(self, db: Database, run: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._run = run
        self._clock = clock
        self.alarms: Sequence[Alarm] = ()
        self._stored: list[Alarm] | None = None
        earlier = {alarm.key: alarm.since for alarm in runs.list_alarms(db, run)}
        kept = earlier.keys() | runs.list_acknowledged(db, run) - {*_WITHOUT_SUPERVISOR}
        self._seen = {key: (earlier.get(key, time.time()), clock()) for key in kept}
        """By key of an alarm: since when it lasts, and when it was found last."""
        self._members: dict[str, tuple[str, ...]] = {}
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
        self.alarms = [replace(alarm, since=self._seen[alarm.key][0], members=()) for alarm in found]

    def record(self) -> None:
        """Store them in the open transaction; a forgotten alarm is no longer acknowledged."""
        acknowledged, stored = runs.list_acknowledged(self._db, self._run), {alarm.key for alarm in self._stored or ()}
        begun = [alarm.key for alarm in self.alarms if alarm.key not in stored]
        added = {key for key in begun if self._follows_acknowledged(key, acknowledged)} - acknowledged
        removed = acknowledged - self._seen.keys()
        if added or removed:
            runs.acknowledge(self._db, self._run, added, removed)
        if self.alarms == self._stored:
            return
        runs.set_alarms(self._db, self._run, list(self.alarms))
        now = time.time()
        new = [alarm for alarm in self.alarms if alarm.code in _LOGGED and alarm.key not in self._logged]
        events.add(self._db, self._run, [Event(now, "WARNING", "supervisor", "host", alarm.text) for alarm in new])

    def confirm(self) -> None:
        """Call it after the commit of `record`."""
        self._stored = list(self.alarms)
        shown = {key for alarm in self.alarms for key in (alarm.key, *self._members.get(alarm.key, ()))}
        self._logged = (self._logged & self._seen.keys()) | shown

    def _follows_acknowledged(self, key: str, acknowledged: frozenset[str]) -> bool:
        """Whether all its hosts were acknowledged, or it comes from an acknowledged alarm of many hosts."""
        if key in self._members:
            return acknowledged.issuperset(self._members[key])
        return any(group in acknowledged and key in members for group, members in self._members.items())
