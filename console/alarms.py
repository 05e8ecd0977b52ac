"""Derives the operator's alarms from one snapshot. Operator actions raise no alarm."""

from typing import Literal

from msgspec import Struct

from console.format import plural
from engine.model.node import KILLED_BY_OPERATOR
from engine.model.run import Stage
from engine.store.read.snapshot import Snapshot

_AT_WORK = ("READY", "DONE", "STANDBY")
_GROUP_HOSTS_ABOVE = 5
_MAX_WARNINGS = 3
_SEVERE_WARNINGS = ("expectation", "all-rejected")


class Alarm(Struct, frozen=True):
    """An alarm. `key` stays the same while its cause lasts; the text may count seconds."""

    level: Literal["warn", "bad"]
    text: str
    key: str


def current_alarms(
    view: Snapshot, supervisor_pid: int | None, *, stale_seconds: float | None = None, reason: str = "",
    read_only: bool = False, can_start: bool = False,
) -> list[Alarm]:  # fmt: skip
    """All alarms, by area. `supervisor_pid`: None if no supervisor is alive.

    `stale_seconds`: the age of the last good poll, if a later one failed for this reason. `can_start`: whether the
    console can start a supervisor.
    """
    is_alive = supervisor_pid is not None
    return [
        *_staleness_alarms(stale_seconds, reason),
        *_run_alarms(view, is_alive=is_alive, can_start=can_start),
        *(_node_alarms(view) if is_alive else ()),  # nodes end with their supervisor, which has its own alarm
        *_defs_alarms(view, is_alive=is_alive, read_only=read_only),
        *(_output_alarms(view) if is_alive else ()),
        *(_host_alarms(view) if is_alive else ()),
        *_data_alarms(view),
    ]


def _staleness_alarms(stale: float | None, why: str) -> list[Alarm]:
    if stale is None:
        return []
    return [Alarm("bad", f"stale {stale:.0f} s: {why or 'no answer from the database'}; retrying", "stale")]


def _run_alarms(view: Snapshot, *, is_alive: bool, can_start: bool) -> list[Alarm]:
    run = view.run
    if run is None:
        return []
    alarms: list[Alarm] = []
    how = "R resumes the run" if can_start else "`crawl-console run` resumes the run"
    if run.state.is_open and not is_alive:
        if run.stage == Stage.SHUTDOWN_COMPLETE:
            alarms.append(Alarm("warn", f"jobs are READY again: {how}", "resumable"))
        else:
            alarms.append(Alarm("bad", f"the supervisor is gone: {how}; nothing was lost", "supervisor"))
    if run.paused and "disk" in run.paused:
        alarms.append(Alarm("bad", "disk nearly full: the run is paused until there is space", "disk"))
    if run.state == "FAILED":
        alarms.append(Alarm("bad", f"the run failed: {run.reason or 'see the log'}", "run-failed"))
    return alarms


def _node_alarms(view: Snapshot) -> list[Alarm]:
    replaced = {node.replaces: node for node in view.nodes if node.replaces}
    alarms = []
    for node in view.nodes:
        if node.state in ("DEAD", "FAILED"):
            by = replaced.get(node.id)
            if node.past or node.reason == KILLED_BY_OPERATOR or (by is not None and by.state in _AT_WORK):
                continue  # of an earlier supervisor, killed by the operator, or replaced
            outcome = f"{by.id} is starting" if by else "not replaced"
            text = f"{node.id} dead: {node.reason or 'unknown reason'}; {outcome}"
            alarms.append(Alarm("warn" if by else "bad", text, f"node-dead {node.id}"))
        elif node.heart == "ARRHYTHMIA":
            text = f"{node.id} has sent no heartbeat for {node.beat_age or 0:.1f} s"
            alarms.append(Alarm("warn", text, f"node-silent {node.id}"))
    return sorted(alarms, key=lambda alarm: alarm.level)


def _defs_alarms(view: Snapshot, *, is_alive: bool, read_only: bool) -> list[Alarm]:
    saved = view.defs_saved if is_alive else None
    if saved is not None:
        keys = "5 shows" if read_only else "y publishes, 5 shows"
        return [Alarm("warn", f"defs saved, not published ({keys}): {saved['text']}", f"defs-saved {saved['hash']}")]
    problems = view.defs_problems
    if not problems:
        return []
    first = problems[0]
    place = f"{first['file']}:{first['line']}:{first['col']}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    text = f"{place} {first['message']}{more} · the previous defs stay in use"
    return [Alarm("bad", text, f"defs {place} {first['message']}")]


def _output_alarms(view: Snapshot) -> list[Alarm]:
    return [
        Alarm("bad", f"{o.name} cannot be written, backlog {o.backlog}: {o.error}", f"output {o.name}")
        for o in view.appenders
        if o.error
    ]


def _data_alarms(view: Snapshot) -> list[Alarm]:
    """The first warnings about the data of the run, the severe ones before the others."""
    current = [warning for warning in view.warnings if not warning.ended]
    warnings = sorted(current, key=lambda warning: warning.code not in _SEVERE_WARNINGS)
    alarms = [
        Alarm(
            "bad" if one.code in _SEVERE_WARNINGS else "warn",
            one.text,
            " ".join([one.code, *filter(None, (one.data_def, one.host, one.subject))]),
        )
        for one in warnings[:_MAX_WARNINGS]
    ]
    more = len(warnings) - len(alarms)
    rest = Alarm("warn", f"{plural(more, 'more warning')}: `crawl-console status`", "more-warnings")
    return [*alarms, rest] if more else alarms


def _host_alarms(view: Snapshot) -> list[Alarm]:
    backing_off = [host for host in view.hosts if host.backoff]
    backing_off.sort(key=lambda host: -(host.backoff or 0.0))
    if len(backing_off) > _GROUP_HOSTS_ABOVE:
        longest = backing_off[0]
        text = f"{len(backing_off)} hosts answer 429 or 503; {longest.host} backs off {longest.backoff:.0f} s"
        return [Alarm("warn", text, "backoffs")]
    return [
        Alarm("warn", f"{h.host} answers 429 or 503: backing off {h.backoff:.0f} s", f"backoff {h.host}")
        for h in backing_off
    ]
