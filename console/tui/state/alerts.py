"""What an operator must not miss, seen from one look. Pure."""

from dataclasses import dataclass
from typing import Literal

from console.format import plural
from console.tui.state.source import PollResult
from engine.model.run import Stage

_MAX_HOST_ALARMS = 3
_GROUP_HOSTS_ABOVE = 5


@dataclass(frozen=True, slots=True)
class Alarm:
    """One line of trouble. `about` is the node, host or file it concerns; empty: the run."""

    level: Literal["warn", "bad"]
    text: str
    about: str = ""


def current_alarms(look: PollResult, *, stale_seconds: float | None = None, reason: str = "") -> list[Alarm]:
    """The worst first. `stale`: seconds since the last good look, where there was a bad one."""
    return [
        *_staleness_alarms(stale_seconds, reason),
        *_run_alarms(look),
        *_node_alarms(look),
        *_defs_alarms(look),
        *_host_alarms(look),
        *_sequence_alarms(look),
    ]


def _staleness_alarms(stale: float | None, why: str) -> list[Alarm]:
    if stale is None:
        return []
    return [Alarm("bad", f"stale {stale:.0f} s: {why or 'no answer from the database'}; it is tried again")]


def _run_alarms(look: PollResult) -> list[Alarm]:
    run, found = look.snapshot.run, []
    if run is None:
        return []
    if run.state.is_open and look.supervisor_pid is None:
        if run.stage == Stage.SHUTDOWN_COMPLETE:
            found.append(Alarm("warn", "jobs are READY again: `crawl-console run` goes on with them"))
        else:
            found.append(Alarm("bad", "the supervisor is gone: `crawl-console run` goes on; nothing was lost"))
    if run.paused and "disk" in run.paused:
        found.append(Alarm("bad", "disk nearly full: intake pauses until there is space"))
    if run.paused and "operator" in run.paused and run.state.is_open:
        found.append(Alarm("warn", "intake is paused by an operator: p resumes it"))
    if run.state == "FAILED":
        found.append(Alarm("bad", f"the run failed: {run.reason or 'see the log'}"))
    return found


def _node_alarms(look: PollResult) -> list[Alarm]:
    replaced = {node.replaces: node.id for node in look.snapshot.nodes if node.replaces}
    found = []
    for node in look.snapshot.nodes:
        if node.state in ("DEAD", "FAILED"):
            by = replaced.get(node.id)
            then = f"replaced by {by}" if by else "not replaced"
            found.append(
                Alarm("warn" if by else "bad", f"{node.id} dead: {node.reason or 'no reason told'}; {then}",
                      node.id)
            )  # fmt: skip
        elif node.heart == "ARRHYTHMIA":
            found.append(Alarm("warn", f"{node.id} has not beaten for {node.beat_age or 0:.1f} s", node.id))
    return sorted(found, key=lambda alarm: alarm.level)


def _defs_alarms(look: PollResult) -> list[Alarm]:
    problems = look.snapshot.defs_problems
    if not problems:
        return []
    first = problems[0]
    place = f"{first['file']}:{first['line']}:{first['col']}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return [Alarm("bad", f"{place} {first['message']}{more} · old defs kept", place)]


def _host_alarms(look: PollResult) -> list[Alarm]:
    resting = [host for host in look.snapshot.hosts if host.backoff]
    resting.sort(key=lambda host: -(host.backoff or 0.0))
    if len(resting) > _GROUP_HOSTS_ABOVE:
        longest = resting[0]
        return [
            Alarm("warn", f"{len(resting)} hosts answer 429 or 503; {longest.host} rests {longest.backoff:.0f} s")
        ]  # fmt: skip
    return [
        Alarm("warn", f"{h.host} answers 429 or 503: left alone for {h.backoff:.0f} s", h.host)
        for h in resting[:_MAX_HOST_ALARMS]
    ]


def _sequence_alarms(look: PollResult) -> list[Alarm]:
    count = look.snapshot.paused_sequences
    if not count or look.supervisor_pid is None:
        return []
    return [Alarm("warn", f"paused by name: {plural(count, 'sequence')} (palette `:`, resume)")]
