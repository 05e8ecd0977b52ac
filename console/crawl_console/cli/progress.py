"""Reports the progress of a headless run on stderr: one line in place, plain lines, JSON, or nothing."""

import contextlib
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from crawl_console.format import (
    describe_pause,
    describe_seeding,
    format_day,
    format_eta,
    format_size,
    plural,
    progress_bar,
)
from crawl_console.sanitize import clean
from crawl_console.words.trial import trial_lines
from crawl_engine.errors import CrawlError
from crawl_engine.judge.rates import speed_of
from crawl_engine.judge.remaining import progress_of
from crawl_engine.judge.run_verdict import verdict_of
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.read import failures, snapshot
from crawl_engine.store.read.snapshot import Snapshot
from crawl_engine.store.tables.run import events, runs
from crawl_engine.urls import without_credentials

LOG_TIME = "%Y-%m-%dT%H:%M:%S%z"
_MAX_LISTED = 5
_BAR = 12
_SHOWN_KINDS = ("seed", "defs", "appender", "host", "tidy")
_LIVE_KINDS = (*_SHOWN_KINDS, "data")
"""Kinds of events printed during the run; the summary at the end has the warnings about data."""
_EVENT_POLL_SECONDS = 0.5
_BUSY_SECONDS = 0.5
"""A database that is away must not delay the supervisor."""
_REFRESH_SECONDS = {"tty": 0.5, "plain": 5.0, "json": 1.0}


class Progress:
    """Reports progress; its errors never fail the run."""

    def __init__(self, mode: str, path: Path, *, times: bool = False, is_trial: bool = False) -> None:
        """`mode`: auto, tty, plain, json or quiet. `path`: the database to read. `times`: lines begin with theirs.

        `is_trial`: the end shows fields and first rows.
        """
        self._is_trial = is_trial
        if mode == "auto":
            mode = "tty" if sys.stderr.isatty() else "plain"
        self._mode = mode
        self._times = times and mode != "json"
        self._path = path
        self._db: Database | None = None
        self._shown_at = time.monotonic()
        self._start_event = 0
        self._last_events: dict[str, int] = {}
        self._events_checked_at = time.monotonic()
        self._alarm = ""

    def start(self, db: Database, run: int, *, extract_only: bool = False) -> None:
        """Print the first line: which run starts or resumes; without `extract_only`, also how to begin a new one."""
        if self._mode == "quiet":
            return
        self._start_event = events.last_id(db)
        view = snapshot.read(db, run=run, limit=0)
        assert view.run is not None
        self._shown_at = time.monotonic()
        if self._mode == "json":
            return
        left = [f"{plural(view.jobs['ready'], 'job')} left"] if view.jobs["ready"] or view.jobs["done"] else []
        details = ", ".join([f"defs v{view.run.defs_version}", *left, *_pause_notes(view)])
        begins = f"run {view.run.id} starts"
        if left:
            day = format_day(view.run.created_at, time.time())
            hint = "" if extract_only else " (`--fresh` begins a new one)"
            begins = f"resuming run {view.run.id} of {day}{hint}"
        self._write(f"{begins}: {details}\n")
        self._print_new_events(db, run)

    def _print_new_events(self, db: Database, run: int, kinds: Sequence[str] = _LIVE_KINDS) -> None:
        """Print new events of these kinds."""
        with db.snapshot():  # no event may come between the list and the last id
            last = events.last_id(db)
            lists = [
                events.list_texts(db, run, kind, self._last_events.get(kind, self._start_event), _MAX_LISTED)
                for kind in kinds
            ]
        for text in chain.from_iterable(lists):
            self.print_message(f"  {clean(text)}")
        self._last_events.update(dict.fromkeys(kinds, last))

    def _try_print_new_events(self) -> None:
        try:
            if self._db is None:
                self._db = connect(self._path, read_only=True, busy_seconds=_BUSY_SECONDS)
            if (run := runs.latest(self._db)) is not None:
                self._print_new_events(self._db, run.seq)
        except CrawlError:
            return

    def set_alarm(self, text: str) -> None:
        """Print a new alarm, and its end. The alarm comes from memory: the database may be unavailable."""
        before, self._alarm = self._alarm, text
        if bool(text) != bool(before):
            self.print_message(f"PAUSED: {clean(text)}" if text else "there is space again: the run resumes")

    def print_message(self, text: str) -> None:
        """Print a message in place of the progress line; nothing in the modes quiet and json."""
        if self._mode not in ("quiet", "json"):
            self._write(text + "\n", in_place=self._mode == "tty")

    def refresh(self) -> None:
        """Print progress if it is due."""
        now = time.monotonic()
        if self._mode in ("tty", "plain") and now - self._events_checked_at >= _EVENT_POLL_SECONDS:
            self._events_checked_at = now
            self._try_print_new_events()
        if self._mode == "quiet" or now - self._shown_at < _REFRESH_SECONDS[self._mode]:
            return
        try:
            if self._db is None:
                self._db = connect(self._path, read_only=True, busy_seconds=_BUSY_SECONDS)
            view = snapshot.read(self._db, limit=0)
        except CrawlError:
            return
        rate = speed_of(view, is_live=True).pages_per_s
        self._shown_at = now
        if self._mode == "json":
            self._write(
                orjson.dumps(
                    {"at": time.time(), "pages_per_s": round(rate, 1), **_counts(view), "alarm": self._alarm or None}
                ).decode()
                + "\n"
            )
        elif self._mode == "tty":
            self._write(_line_in_place(view, rate), in_place=True)
        else:
            self._write(_line(view, rate) + "\n")

    def finish(self, db: Database, run: int, exit_code: int) -> None:
        """Print how the run ended and where its rows are; in the mode quiet only why the exit code is not 0."""
        if self._db is not None:
            self._db.close()
        if self._mode == "quiet" and not exit_code:
            return
        view = snapshot.read(db, run=run)
        assert view.run is not None
        end = f"run {view.run.id} {verdict_of(view, is_live=view.is_live).text}"
        if self._mode == "quiet":
            self._write(f"{clean(end)}\n")
            return
        if self._mode == "json":
            self._write(orjson.dumps({"at": time.time(), **_counts(view)}).decode() + "\n")
            return
        self._print_new_events(db, run, _SHOWN_KINDS)
        rate = speed_of(view, is_live=False).pages_per_s
        self.print_message(f"{end}; {view.run.seconds:.1f} s\n{_line(view, rate)}")
        for line in report_lines(view):
            self._write(f"{clean(line)}\n")
        for url, failure in failures.list_failures(db, run, _MAX_LISTED) if view.jobs["failed"] else []:
            self._write(f"  FAILED {clean(without_credentials(url))}: {clean(failure)}\n")
        if view.jobs["failed"] > _MAX_LISTED:
            self._write(f"  … and {view.jobs['failed'] - _MAX_LISTED} more failed\n")
        for name, count in view.rejected.items():
            self._write(f"  {name}: {plural(count, 'record')} rejected\n")
        for name, count in view.duplicates.items():
            self._write(f"  {name}: {plural(count, 'duplicate row')} not written\n")
        for text in events.list_texts(db, run, "row", self._start_event, _MAX_LISTED) if view.rejected else []:
            self._write(f"    {clean(text)}\n")
        for warning in view.warnings:
            self._write(f"  WARNING {clean(warning.text)}\n")
        for line in trial_lines(db, view) if self._is_trial else ():
            self._write(f"{line}\n")
        for output in view.appenders:
            line = f"  {plural(output.rows, 'row'):>13}  {output.name}  {output.path}"
            self._write(f"{line.rstrip()}\n")
        if view.run.state in ("CANCELLED", "KILLED", "FAILED"):
            self._write("`crawl-console run` resumes it\n")

    def _write(self, text: str, *, in_place: bool = False) -> None:
        """Write lines, or replace the last line by one."""
        if self._times:
            now = time.strftime(LOG_TIME)
            text = "".join(f"{now} {line}" for line in text.splitlines(keepends=True))
        with contextlib.suppress(OSError):
            sys.stderr.write(f"\r\x1b[K{text}" if in_place else text)
            sys.stderr.flush()


def _counts(view: Snapshot) -> dict[str, Any]:
    counts = {"state": view.run.state if view.run else None, "jobs": view.jobs, "rows": view.rows}
    return counts if view.seeding is None else {**counts, "seeding": view.seeding.as_dict()}


def _line(view: Snapshot, rate: float) -> str:
    jobs = view.jobs
    parts = [f"{jobs['done']} done", f"{view.running} running", f"{view.waiting} waiting"]
    parts += [f"{jobs[name]} {name}" for name in ("failed", "skipped", "incomplete") if jobs[name]]
    parts += [f"{plural(view.files['left'], 'file')} left"] if view.files.get("left") else []
    parts += [describe_seeding(view.seeding)] if view.seeding is not None else []
    return f"{', '.join(parts + _pause_notes(view))}; {plural(sum(view.rows.values()), 'row')}; {rate:.1f} pages/s"


def _line_in_place(view: Snapshot, rate: float) -> str:
    eta = format_eta(view.run.eta) if view.run is not None else "-"
    return f"{progress_bar(progress_of(view, is_live=True).share, _BAR)} {_line(view, rate)}; ETA {eta}"


def _pause_notes(view: Snapshot) -> list[str]:
    """Paused things, and the command that resumes each."""
    notes = []
    if view.run is not None and view.run.paused:
        remedy = "; `crawl-console resume`" if "operator" in view.run.paused else ""
        notes.append(f"PAUSED ({describe_pause(view.run.paused, view.paused_by)}{remedy})")
    if view.paused_sequences:
        names = ", ".join(view.paused_names)
        notes.append(f"{plural(view.paused_sequences, 'sequence')} PAUSED: {names} (`crawl-console resume SEQ`)")
    if view.paused_hosts:
        notes.append(f"{plural(view.paused_hosts, 'host')} PAUSED (`crawl-console host NAME --resume`)")
    return notes


def report_lines(view: Snapshot) -> list[str]:
    """The metrics of a run: a line per group, totals, reports of plugin steps; empty before a page ended."""
    metrics = view.metrics
    if not metrics["groups"]:
        return []
    width = max(5, *(len(g["group"]) for g in metrics["groups"]))
    lines = [
        f"  {'group':<{width}}{'done':>9}{'failed':>8}{'skipped':>9}{'incomplete':>12}{'left':>9}{'fetches':>9}"
        f"{'ms each':>9}{'bytes':>10}{'retries':>9}"
    ]
    lines += [
        f"  {g['group']:<{width}}{g['done']:>9}{g['failed']:>8}{g['skipped']:>9}{g['incomplete']:>12}{g['left']:>9}"
        f"{g['fetches']:>9}{_format_or_dash(g['fetch_ms'], '.1f'):>9}{format_size(g['bytes']):>10}{g['retries']:>9}"
        for g in metrics["groups"]
    ]
    lines += [f"  {g['group']}: {g['browser']}" for g in metrics["groups"] if g["browser"]]
    totals = [
        f"{_format_or_dash(metrics['success'], '.1f')} % success" if any(view.rows.values()) else "no rows",
        f"{metrics['seconds']:.1f} s",
        f"{metrics['pages_per_min']:.0f} pages/min",
        f"{_format_or_dash(metrics['fetch_ms'], '.1f')} ms per fetch",
        f"{format_size(metrics['bytes'])}B fetched",
        plural(metrics["retries"], "retry"),
        plural(metrics["takeovers"], "takeover"),
    ]
    lines.append("  " + ", ".join(totals))
    shares = [f"{s['node']} {s['share']:.0f} %" for s in metrics["shares"] if s["share"]]
    if shares:
        lines.append("  share by node: " + ", ".join(shares))
    return lines + _file_lines(view) + _result_lines(view)


def _file_lines(view: Snapshot) -> list[str]:
    """The files that pages name, by state; empty without files."""
    if not view.files:
        return []
    counts = ", ".join(f"{count:,} {name}" for name, count in view.files.items())
    waiting = sum(view.waiting_rows.values())
    return [f"  files: {counts}" + (f"; rows that wait for files: {waiting:,}" if waiting else "")]


def _result_lines(view: Snapshot) -> list[str]:
    """The reports of plugin steps, a line each."""
    steps = [(task, step, counts) for task, by_step in view.results.items() for step, counts in by_step.items()]
    if not steps:
        return []
    task_width = max(4, *(len(task) for task, _, _ in steps))
    step_width = max(4, *(len(step) for _, step, _ in steps))
    lines = [
        f"  {'task':<{task_width}}  {'step':<{step_width}}{'ok':>9}{'warning':>9}{'error':>8}{'not applicable':>16}"
    ]
    return lines + [
        f"  {task:<{task_width}}  {step:<{step_width}}{counts['ok']:>9}{counts['warning']:>9}{counts['error']:>8}"
        f"{counts['not_applicable']:>16}"
        for task, step, counts in steps
    ]


def _format_or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
