"""Derives the alarms shown to the operator from one poll result."""

from dataclasses import dataclass
from typing import Literal

from console.format import plural
from console.tui.state.source import PollResult
from engine.model.node import KILLED_BY_OPERATOR
from engine.model.run import Stage

_AT_WORK = ("READY", "DONE", "STANDBY")
_MAX_HOST_ALARMS = 3
_GROUP_HOSTS_ABOVE = 5
_MAX_WARNINGS = 3
_SEVERE_WARNINGS = ("expectation", "all-rejected")


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm."""

    level: Literal["warn", "bad"]
    text: str


def current_alarms(
    poll: PollResult, *, stale_seconds: float | None = None, reason: str = "", read_only: bool = False
) -> list[Alarm]:
    """All alarms, by area. `stale_seconds`: the age of the last good poll, if a later one failed."""
    return [
        *_staleness_alarms(stale_seconds, reason),
        *_run_alarms(poll),
        *_node_alarms(poll),
        *_defs_alarms(poll, read_only=read_only),
        *_host_alarms(poll),
        *_data_alarms(poll),
        *_sequence_alarms(poll),
    ]


def _staleness_alarms(stale: float | None, why: str) -> list[Alarm]:
    if stale is None:
        return []
    return [Alarm("bad", f"stale {stale:.0f} s: {why or 'no answer from the database'}; retrying")]


def _run_alarms(poll: PollResult) -> list[Alarm]:
    run = poll.snapshot.run
    alarms: list[Alarm] = []
    if run is None:
        return []
    if run.state.is_open and poll.supervisor_pid is None:
        if run.stage == Stage.SHUTDOWN_COMPLETE:
            alarms.append(Alarm("warn", "jobs are READY again: `crawl-console run` resumes the run"))
        else:
            alarms.append(Alarm("bad", "the supervisor is gone: `crawl-console run` resumes the run; nothing was lost"))
    if run.paused and "disk" in run.paused:
        alarms.append(Alarm("bad", "disk nearly full: the run is paused until there is space"))
    if run.paused and "operator" in run.paused and run.state.is_open:
        alarms.append(Alarm("warn", "an operator paused the run: p resumes it"))
    if run.state == "FAILED":
        alarms.append(Alarm("bad", f"the run failed: {run.reason or 'see the log'}"))
    return alarms


def _node_alarms(poll: PollResult) -> list[Alarm]:
    if poll.supervisor_pid is None:
        return []  # they ended with their supervisor, which has an alarm of its own
    replaced = {node.replaces: node for node in poll.snapshot.nodes if node.replaces}
    alarms = []
    for node in poll.snapshot.nodes:
        if node.state in ("DEAD", "FAILED"):
            by = replaced.get(node.id)
            if node.past or node.reason == KILLED_BY_OPERATOR or (by is not None and by.state in _AT_WORK):
                continue  # the past, an order, or made good
            outcome = f"{by.id} is starting" if by else "not replaced"
            alarms.append(
                Alarm("warn" if by else "bad", f"{node.id} dead: {node.reason or 'unknown reason'}; {outcome}")
            )
        elif node.heart == "ARRHYTHMIA":
            alarms.append(Alarm("warn", f"{node.id} has sent no heartbeat for {node.beat_age or 0:.1f} s"))
    return sorted(alarms, key=lambda alarm: alarm.level)


def _defs_alarms(poll: PollResult, *, read_only: bool) -> list[Alarm]:
    saved = poll.waiting_defs
    if saved is not None:
        keys = "5 shows" if read_only else "y publishes, 5 shows"
        return [Alarm("warn", f"defs saved, not published ({keys}): {saved['text']}")]
    problems = poll.snapshot.defs_problems
    if not problems:
        return []
    first = problems[0]
    place = f"{first['file']}:{first['line']}:{first['col']}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return [Alarm("bad", f"{place} {first['message']}{more} · the previous defs stay in use")]


def _data_alarms(poll: PollResult) -> list[Alarm]:
    """The first warnings about the data of the run, the severe ones before the others."""
    current = [warning for warning in poll.snapshot.warnings if not warning.ended]
    warnings = sorted(current, key=lambda warning: warning.code not in _SEVERE_WARNINGS)
    alarms = [Alarm("bad" if one.code in _SEVERE_WARNINGS else "warn", one.text) for one in warnings[:_MAX_WARNINGS]]
    more = len(warnings) - len(alarms)
    return [*alarms, Alarm("warn", f"{plural(more, 'more warning')}: `crawl-console status`")] if more else alarms


def _host_alarms(poll: PollResult) -> list[Alarm]:
    backing_off = [host for host in poll.snapshot.hosts if host.backoff]
    backing_off.sort(key=lambda host: -(host.backoff or 0.0))
    if len(backing_off) > _GROUP_HOSTS_ABOVE:
        longest = backing_off[0]
        return [
            Alarm(
                "warn",
                f"{len(backing_off)} hosts answer 429 or 503; {longest.host} backs off {longest.backoff:.0f} s",
            )
        ]  # fmt: skip
    return [
        Alarm("warn", f"{h.host} answers 429 or 503: backing off {h.backoff:.0f} s")
        for h in backing_off[:_MAX_HOST_ALARMS]
    ]


def _sequence_alarms(poll: PollResult) -> list[Alarm]:
    count = poll.snapshot.paused_sequences
    if not count or poll.supervisor_pid is None:
        return []
    return [Alarm("warn", f"{plural(count, 'sequence')} paused by name (palette `:`, resume)")]
