"""What is the trouble: derives the alarms of a run from its situations. Orders raise no alarm."""

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from crawl_engine.judge.host_state import HostJudge, HostView, describe_refusals, is_refusing, list_troubled
from crawl_engine.judge.rates import RateMeter
from crawl_engine.judge.remaining import Forecast, describe_growth
from crawl_engine.model.host import HostState
from crawl_engine.model.node import KILLED_BY_OPERATOR
from crawl_engine.model.output_type import is_object, is_whole
from crawl_engine.model.run import Alarm, AlarmLevel, Eta, HostGroup, RunState, Stage
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.read.data_warnings import (
    BLOCKED_SHARE,
    FIELD_WARNINGS,
    HOST_WARNINGS,
    MIN_FAILED,
    VALUE_WARNINGS,
)
from crawl_engine.store.read.situation import Situation
from crawl_engine.store.read.snapshot import OutputRow
from crawl_engine.store.tables.host.host_speeds import HostNow
from crawl_engine.store.tables.run.runs import Run

_MAX_HOSTS_LISTED = 5
"""More hosts with the same trouble are one alarm."""
_TOGETHER = {
    "host-silent": "are silent", "host-refused": "refuse the crawler", "blocked": "refused the crawler",
    "host-resting": "rest", "failing-requests": "fail",
}  # fmt: skip
"""By code, what an alarm of many hosts says of them."""
_UNPROVEN = "has not answered well since this start"
_SEVERE_WARNINGS = ("expectation", "all-rejected", "nothing-fetched")
_OF_SUPERVISOR = (
    "appender-behind", "defs-saved", "disk-low", "host-refused", "host-resting", "host-silent", "node-lost",
    "queue-grows",
)  # fmt: skip
"""Alarms that end with their supervisor, which has its own."""
_OF_PACE = ("queue-grows", "host-resting", "appender-behind")
_LATE_BEAT_SECONDS = 1.0
_LATE_ROW_SECONDS = 10.0
"""A row that waits for longer is missed in its output."""
WITHOUT_SUPERVISOR = ("jobs-ready", "supervisor-lost")
"""Alarms that end as soon as a supervisor is at work."""


class RunJudge:
    """Judges one run by its situations, in their order."""

    def __init__(self, earlier: Iterable[Alarm] = ()) -> None:
        """`earlier`: the alarms that an earlier start of the run left."""
        self._standing: Sequence[Alarm] = [alarm for alarm in earlier if alarm.is_reach]
        """The alarms of the run at work: its start and its stop heal nothing."""
        self._unproven = {one.key: (one, -1) for alarm in self._standing for one in alarm.split(_UNPROVEN)}
        """By key: alarms of an earlier start, with the good answers of the host when it was seen first."""
        self.hosts = HostJudge()
        self.forecast = Forecast()
        self._outputs = _OutputWatch()
        self._meter = RateMeter()
        self.groups: tuple[HostGroup, ...] = ()
        """All hosts by state."""
        self.states: dict[int, HostNow] = {}
        """Of the hosts that the last situation has read: how each is."""

    def update(self, situation: Situation) -> tuple[Eta, list[Alarm]]:
        """The estimate of its end in the next situation, and what is wrong, the worst first."""
        judged = self.hosts.update(situation)
        self._meter.add(situation.at, {str(id_): view.work.done for id_, view in judged.items()})
        self.states = {
            id_: HostNow(
                view.state, self._meter.rate(str(id_)),
                round(situation.at - view.work.silent) if view.state is HostState.SILENT else None,
            )
            for id_, view in judged.items()
        }  # fmt: skip
        self.groups = self.hosts.groups()
        late = self._outputs.update(situation)
        eta = self.forecast.estimate(situation)
        alarms = [*_run_alarms(situation)]
        if situation.stage is Stage.RUNNING:
            working = [*_node_alarms(situation), *_appender_alarms(situation, late)]
            of_hosts = [*_host_alarms(self.hosts.views)]
            working += _tell_together([*of_hosts, *self._list_unproven({alarm.key for alarm in of_hosts})])
            if (growth := self.forecast.growth_per_s) > 0 and not situation.paused:
                text = f"{describe_growth(growth)}, to {situation.waiting:,}"
                working.append(Alarm("queue-grows", f"{text}: new pages are found faster than pages end"))
            self._standing = working
        alarms += self._standing
        alarms += _defs_alarms(situation)
        alarms += _data_alarms(situation)
        ranked = sorted(alarms, key=_rank)
        return eta, list({alarm.key: alarm for alarm in reversed(ranked)}.values())[::-1]

    def _list_unproven(self, found: Container[str]) -> list[Alarm]:
        """The alarms of an earlier start about hosts that have not answered well since."""
        if not self._unproven:
            return []
        works = {view.work.key: view.work for view in self.hosts.views.values()}
        for key, (alarm, before) in list(self._unproven.items()):
            work = works.get(alarm.host or "")
            good = sum(work.answers.values()) - work.bad if work is not None else before
            if key in found or (work is not None and (work.paused or (before >= 0 and good >= before + MIN_FAILED))):
                del self._unproven[key]
            elif before < 0:
                self._unproven[key] = alarm, good
        return [alarm for alarm, _ in self._unproven.values()]


def _rank(alarm: Alarm) -> tuple[str, bool]:
    """The worst first; of equal ones, trouble of the data before trouble of the pace."""
    return alarm.level, alarm.code in _OF_PACE


class _OutputWatch(Struct):
    """Since when outputs lack rows. A row is as old as the first moment at which it was seen."""

    seen: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """By output that lacks rows: moments, and the newest row of each."""

    def update(self, situation: Situation) -> dict[str, float]:
        """How long the oldest row waits that each output lacks, in seconds."""
        seen: dict[str, list[tuple[float, int]]] = {}
        for output in situation.outputs:
            if not output.backlog or is_whole(output.type) or is_object(output.path):
                continue  # whole files are written from time to time
            missing = [moment for moment in self.seen.get(output.name, ()) if moment[1] > output.cursor]
            if not missing or missing[-1][1] < situation.newest_row:
                missing.append((situation.at, situation.newest_row))
            seen[output.name] = missing
        self.seen = seen
        return {name: situation.at - moments[0][0] for name, moments in seen.items()}


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
            if (
                node.past
                or (node.reason or "").startswith(KILLED_BY_OPERATOR)
                or (by is not None and by.state != "STARTING")
            ):
                continue  # of an earlier supervisor, killed by the operator, or replaced (which has its own alarm)
            is_final = node.state == "FAILED" or node.heart == "APPARENT_DEATH"  # crashed too often, or was stopping
            outcome = f"{by.id} is starting" if by else "not replaced" if is_final else "a new node follows"
            text = f"{node.id} dead: {(node.reason or 'unknown reason').removeprefix('died: ')}; {outcome}"
            yield Alarm("node-lost", text, "bad" if is_final and not by else "warn", subject=node.id)
        elif node.heart == "ARRHYTHMIA":
            text = f"{node.id} has sent no heartbeat for {node.beat_age or 0:.1f} s"
            yield Alarm("node-lost", text, subject=node.id)


def _appender_alarms(situation: Situation, late: Mapping[str, float]) -> Iterator[Alarm]:
    outputs = situation.outputs
    for output in outputs:
        if output.error:
            text = f"{output.name} cannot be written, backlog {output.backlog:,}: {output.error}"
            yield Alarm("appender-behind", text, "bad", subject=output.name)
        elif (age := late.get(output.name, 0.0)) >= _LATE_ROW_SECONDS and not situation.appender_lost:
            yield Alarm("appender-behind", _describe_delay(output, age), subject=output.name)
    if not outputs:
        return
    backlog = f"backlog {max(output.backlog for output in outputs):,}"
    if situation.appender_lost:
        yield Alarm("appender-behind", f"the appender is dead and starts again; {backlog}", "bad")
    elif (beat := outputs[0].beat_age or 0.0) > _LATE_BEAT_SECONDS:
        yield Alarm("appender-behind", f"the appender has sent no heartbeat for {beat:.1f} s; {backlog}")


def _describe_delay(output: OutputRow, age: float) -> str:
    why = ", because rows in it were replaced" if output.rebuilding else ""
    return f"{output.name} is {age:.0f} s behind{why}; backlog {output.backlog:,}"


def _host_alarms(views: Mapping[int, HostView]) -> Iterator[Alarm]:
    refusing = list(list_troubled(views, HostState.REFUSED))
    asked = [view for view in refusing if view.work.left and is_refusing(view.work)]
    yield from _of_each("host-silent", list_troubled(views, HostState.SILENT), "bad")
    yield from _of_each("host-refused", asked, "bad")
    yield from _of_each("blocked", [view for view in refusing if view not in asked], "bad")
    yield from _of_each("host-resting", list_troubled(views, HostState.RESTING))
    yield from _of_each("failing-requests", list_troubled(views, HostState.FAILING))
    for view in list_troubled(views, HostState.SHAKY):
        if view.last.has_share(view.last.refused, BLOCKED_SHARE):
            yield Alarm("blocked", describe_refusals(view.work.key, view.last), host=view.work.key)


def _of_each(code: str, views: Iterable[HostView], level: AlarmLevel = "warn") -> Iterator[Alarm]:
    return (Alarm(code, view.text, level, host=view.work.key) for view in views)


def _tell_together(alarms: Iterable[Alarm]) -> Iterator[Alarm]:
    """An alarm for each host, or one for many with the same code."""
    by_code: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        by_code.setdefault(alarm.code, []).append(alarm)
    for code, same in by_code.items():
        if len(same) <= _MAX_HOSTS_LISTED:
            yield from same
            continue
        text, level = f"{len(same):,} hosts {_TOGETHER[code]}; {same[0].text}", min(alarm.level for alarm in same)
        yield Alarm(code, text, level, count=len(same), members=tuple([alarm.key for alarm in same]))


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
    """The warnings about the data of the run. While it crawls, hosts are judged by their last answers instead."""
    for one in situation.warnings:
        if one.ended or (one.code in HOST_WARNINGS and situation.stage is Stage.RUNNING):
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
