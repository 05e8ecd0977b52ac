"""What messages say: alarms that began and healed, and how a run ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from crawl_console.format import format_clock, format_count, format_time, plural
from crawl_console.sanitize import clean
from crawl_engine.judge.run_verdict import judge_exit
from crawl_engine.model.run import Alarm
from crawl_engine.urls import without_credentials

_MAX_LINES = 40
_LEVELS = {"good": "success", "warn": "warning", "bad": "failure"}
_SHOWN_STATES = ("failed", "skipped", "incomplete")


class Message(Struct, frozen=True):
    """`level`: info, success, warning or failure."""

    title: str
    body: str
    level: str


class EndedRun(Struct, frozen=True, kw_only=True):
    """How a run ended. `summary`: the object of `run --json`; None if the database could not be read."""

    exit_code: int
    reason: str | None = None
    summary: Mapping[str, Any] | None = None
    vanished: Mapping[str, str] = {}
    """By dataDef: what is said of the rows that an earlier run had."""


def describe_alarms(project: str, lines: Sequence[str], *, begun: int) -> Message:
    """The message about alarms. `begun`: how many of the lines are about alarms that last."""
    title = f"{project}: {plural(begun, 'alarm')}" if begun else f"{project}: healed"
    if len(lines) == 1:
        title = f"{project}: {lines[0]}"
    return Message(title, _join(lines), "warning" if begun else "success")


def describe_end(project: str, run_id: str, end: EndedRun, gathered: Sequence[str]) -> Message:
    """The message about the end. `gathered`: lines about alarms that no message had yet."""
    text = f"ended, exit {end.exit_code}" + (f": {end.reason}" if end.reason else "")
    level = judge_exit(end.exit_code)
    counts: list[str] = []
    if end.summary is not None:
        text, level = end.summary["verdict"]["text"], end.summary["verdict"]["level"]
        counts = _count_lines(end.summary, end.vanished)
    text = clean(without_credentials(text))
    return Message(f"{project}: {text}", _join([f"run {run_id} {text}", *counts, *gathered]), _LEVELS[level])


def describe_begin(alarm: Alarm) -> str:
    """One line for an alarm that began."""
    return f"{format_time(alarm.since)} {clean(without_credentials(alarm.text))}"


def describe_heal(alarm: Alarm, now: float) -> str:
    """One line for an alarm whose cause is over."""
    return (
        f"{format_time(now)} healed after {format_clock(now - alarm.since)}: {clean(without_credentials(alarm.text))}"
    )


def describe_standing(alarm: Alarm) -> str:
    """One line for an alarm that the end of the run left as it was."""
    return f"stood at the end, since {format_time(alarm.since)}: {clean(without_credentials(alarm.text))}"


def _count_lines(summary: Mapping[str, Any], vanished: Mapping[str, str]) -> list[str]:
    jobs = summary["jobs"]
    counts = [f"{plural(jobs['done'], 'page')} done"]
    counts += [f"{format_count(jobs[name])} {name}" for name in _SHOWN_STATES if jobs[name]]
    lines = [f"{', '.join(counts)}; {format_clock(summary['seconds'])}"]
    for name, rows in summary["rows"].items():
        rejected = summary["rejected"].get(name)
        parts = [plural(rows, "row"), *([f"{format_count(rejected)} rejected"] if rejected else [])]
        parts += [vanished[name]] if name in vanished else []
        lines.append(f"{name}: {', '.join(parts)}")
    return lines + [f"WARNING {clean(warning['text'])}" for warning in summary["warnings"]]


def _join(lines: Sequence[str]) -> str:
    left = len(lines) - _MAX_LINES
    shown = [*lines[:_MAX_LINES], *([f"… and {plural(left, 'more line')}"] if left > 0 else [])]
    return "\n".join(shown)
