"""The lines of a run: what it does, how far it is, how fast; in parts, where room is short."""

from collections.abc import Sequence

from crawl_console.crawl.source import PollResult
from crawl_console.format import (
    Span,
    describe_seeding,
    eta_bound,
    eta_obstacle,
    format_clock,
    format_count,
    format_eta,
    format_rate,
    plural,
    shorten_end,
)
from crawl_console.words.health_line import length
from crawl_engine.judge.rates import speed_of
from crawl_engine.judge.remaining import progress_of
from crawl_engine.judge.run_verdict import verdict_of
from crawl_engine.model.run import Stage
from crawl_engine.store.read.data_warnings import FAILING_SHARE
from crawl_engine.store.read.snapshot import OutputRow, Snapshot

_MIN_REASON = 12
_MAX_BACKLOG = 10_000
"""A snapshot counts no more pending rows."""

Part = tuple[bool, list[Span]]
"""Whether it stays when room is short, and its spans."""


def run_parts(poll: PollResult, *, badges: Sequence[Span] = (), note: str = "", names_width: int = 60) -> list[Part]:
    """The run, its state, what is paused, its defs. `badges` stand behind the state, `note` behind the defs."""
    run, snapshot = poll.snapshot.run, poll.snapshot
    parts: list[Part] = []
    if run is None:
        parts.append((True, [("  no run yet", "dim")]))
        return parts + [(True, [("  ", ""), badge]) for badge in badges]
    word, role = run_state_span(poll)
    parts.append((True, [(f"  {word}", role), (f" {format_clock(run.seconds)}", "text")]))
    if run.paused:
        paused = "" if word == "PAUSED" else "  ‖ paused"  # a run that is resumed is paused as before
        by = f"  by {snapshot.paused_by}" if snapshot.paused_by else ""
        disk = "  ‖ the disk is nearly full" if "disk" in run.paused else ""
        parts.append((True, [(f"{paused}{by}{disk}", "warn")]))
    parts += [(True, [("  ", ""), badge]) for badge in badges]
    if (held := _describe_paused(snapshot)) and not run.paused:
        parts.append((True, [(f"  ‖ {held} paused", "warn")]))
        if names := ", ".join(snapshot.paused_names):
            parts.append((False, [(f": {shorten_end(names, names_width)}", "warn")]))
    parts.append((False, [(f"  run {run.id}", "text")]))
    problems = len(snapshot.defs_problems)
    defs_state: Span = (" saved, not published", "warn") if poll.waiting_defs is not None else (" ok", "good")
    if problems:
        defs_state = (f" {plural(problems, 'problem')}", "bad")
    parts.append((False, [(f"  defs v{run.defs_version or '-'}", "text"), defs_state]))
    if snapshot.seeding is not None:
        parts.append((False, [(f"  {describe_seeding(snapshot.seeding)}", "accent")]))
    if snapshot.reextraction is not None:
        done, pending = snapshot.reextraction
        parts.append((False, [(f"  re-extracting {done} of {done + pending}", "accent")]))
    if note:
        parts.append((False, [(f", {note}", "dim")]))
    return parts


def _describe_paused(snapshot: Snapshot) -> str:
    counts = ((snapshot.paused_sequences, "sequence"), (snapshot.paused_hosts, "host"))
    return ", ".join(plural(count, noun) for count, noun in counts if count)


def progress_parts(poll: PollResult, width: int, *, counts_files: bool = True) -> list[Part]:
    """How far a run is, how fast, until when; nothing without a run. In `width` cells the reason is shortened."""
    snapshot, run = poll.snapshot, poll.snapshot.run
    if run is None:
        return []
    is_running = poll.is_live and run.state.is_open and run.stage == Stage.RUNNING
    progress, speed = progress_of(snapshot, is_live=poll.is_live), speed_of(snapshot, is_live=poll.is_live)
    more = "" if progress.exact else "≥ "
    mean = " mean" if speed.is_mean else ""
    files = sum(bool(output.path) for output in snapshot.appenders) if counts_files else 0
    rows = f" rows/s → {plural(files, 'file')}" if files else " rows/s"
    parts: list[Part] = [
        (False, [(f" {progress.ended:,}", "strong"), (f" / {more}{progress.total:,}", "text")]),
        (False, [("  " + format_rate(speed.pages_per_s), "strong"), (f" pg/s{mean}", "dim")]),
        (True, [("  " + format_rate(speed.rows_per_s), "strong"), (rows, "dim")]),
    ]
    if snapshot.appenders:
        parts.append((True, [("  backlog ", "dim"), backlog_span(snapshot.appenders)]))
    if is_running:
        growth = run.judgement.queue_per_s
        if growth >= 1:
            parts.append((False, [("  queue ", "dim"), (f"▲ +{format_rate(growth)}/s", "warn")]))
        obstacle = eta_obstacle(run.eta)
        end: Span = ("cannot say", "warn") if obstacle else (format_eta(run.eta), "strong")
        reason: Span = (f": {obstacle}", "warn") if obstacle else (f" {eta_bound(run.eta)}", "dim")
        parts.append((False, [("  ETA ", "dim"), end]))
        room = width - sum(length(spans) for _, spans in parts)
        if room >= _MIN_REASON:
            parts.append((False, [(shorten_end(reason[0], room), reason[1])]))
    bad_role = "bad" if snapshot.bad_share >= FAILING_SHARE else "text"
    parts += [
        (False, [("  bad answers ", "dim"), (f"{snapshot.bad_share:.1%}", bad_role)]),
        (False, [("  blocked ", "dim"), (format_count(snapshot.blocked), "warn" if snapshot.blocked else "text")]),
        (False, [("  running ", "dim"), (format_count(snapshot.running), "text")]),
    ]
    return parts


def backlog_span(outputs: Sequence[OutputRow]) -> Span:
    """The rows that the files still lack."""
    backlog = sum(output.backlog for output in outputs)
    text = f"{_MAX_BACKLOG // 1000}k+" if backlog > _MAX_BACKLOG else f"{backlog:,}"
    if any(output.error for output in outputs):
        return text, "bad"
    return text, "warn" if backlog > 1000 or any(output.rebuilding for output in outputs) else "text"


def run_state_span(poll: PollResult) -> Span:
    """How the run is, or how it ended, in one word."""
    verdict = verdict_of(poll.snapshot, is_live=poll.is_live)
    return verdict.word, verdict.level


def end_span(poll: PollResult) -> Span | None:
    """How the run ended, and what is to blame; None: it has not, or its state says it all."""
    run = poll.snapshot.run
    verdict = verdict_of(poll.snapshot, is_live=poll.is_live)
    if run is None or run.state.is_open or verdict.text == verdict.word:
        return None
    return verdict.text, verdict.level
