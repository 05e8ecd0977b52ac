"""What a run gave: totals, files, warnings, failures by reason, and how to resume it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from crawl_console.crawl.source import PollResult
from crawl_console.format import Span, format_clock, format_rate, format_size, plural
from crawl_console.tui.widgets.text_view import TextView
from crawl_engine.judge.run_verdict import RunVerdict, verdict_of
from crawl_engine.model.run import mean_rate
from crawl_engine.store.read.failures import FailureGroup
from crawl_engine.store.read.snapshot import OutputRow, Snapshot
from crawl_engine.store.tables.run.runs import Run

_MAX_LISTED, _MAX_NAMED = 8, 3


class SummaryPane(TextView):
    """Stands below the nodes once the run has ended."""

    failures: Sequence[FailureGroup] = ()

    def update_from(self, poll: PollResult) -> None:
        run = poll.snapshot.run
        if run is not None:
            verdict = verdict_of(poll.snapshot, is_live=poll.is_live)
            self.heading = f"run {run.id} {verdict.word}"
            self.show(list(_lines(poll.snapshot, run, verdict, self.failures)))


def _lines(snapshot: Snapshot, run: Run, verdict: RunVerdict, failures: Sequence[FailureGroup]) -> Iterator[Span]:
    jobs = snapshot.jobs
    rate = format_rate(mean_rate(jobs["done"], run.seconds))
    yield verdict.text, verdict.level
    yield f"{format_clock(run.seconds)}  {rate} pages/s", "text"
    if run.state != "DONE" and not run.state.is_open:
        yield "R, or `crawl-console run`, resumes the run", "accent"
    yield from _paused_lines(snapshot)
    yield "jobs      " + "  ".join(f"{number:,} {name}" for name, number in jobs.items() if number), "text"
    if snapshot.files:
        yield (
            "downloads " + "  ".join(f"{number:,} {name}" for name, number in snapshot.files.items() if number),
            "text",
        )
    for group in snapshot.metrics["groups"]:
        if group["browser"]:
            yield f"browser   {group['group']}: {group['browser']}", "text"
    for name, extracted in snapshot.rows.items():
        rejected = snapshot.rejected.get(name, 0)
        yield f"rows      {extracted:,} {name}" + (f"  {rejected:,} rejected" if rejected else ""), "strong"
    for warning in snapshot.warnings[:_MAX_LISTED]:
        yield f"warning   {warning.text}", "warn"
    if len(snapshot.warnings) > _MAX_LISTED:
        yield f"          and {plural(len(snapshot.warnings) - _MAX_LISTED, 'more warning')}", "warn"
    yield from _output_lines(snapshot.appenders)
    for group in failures[:_MAX_LISTED]:
        yield f"failed    {group.jobs:,}  {group.reason or 'no reason'}  {group.host}", "bad"
    if len(failures) > _MAX_LISTED:
        yield f"          and {plural(len(failures) - _MAX_LISTED, 'more reason')}: 4 lists them", "bad"
    dead = [node for node in snapshot.nodes if node.state in ("DEAD", "FAILED")]
    for node in dead[-_MAX_LISTED:]:
        yield f"{node.id} died: {(node.reason or 'unknown reason').removeprefix('died: ')}", "warn"


def _paused_lines(snapshot: Snapshot) -> Iterator[Span]:
    """What an operator paused, which stays so when the run goes on."""
    sequences = [f"{sequence.group} on {sequence.host}" for sequence in snapshot.sequences if sequence.paused]
    hosts = [host.host for host in snapshot.hosts if host.paused]
    for count, noun, names in (
        (snapshot.paused_sequences, "sequence", sequences),
        (snapshot.paused_hosts, "host", hosts),
    ):
        if count:
            more = f", and {count - _MAX_NAMED} more" if count > _MAX_NAMED else ""
            yield f"paused    {plural(count, noun)} until resumed: {', '.join(names[:_MAX_NAMED])}{more}", "warn"


def _output_lines(outputs: Sequence[OutputRow]) -> Iterator[Span]:
    """Each folder, and its files below it."""
    folder = None
    for output in outputs:
        path = Path(output.path or output.name)
        if output.path and path.parent != folder:
            folder = path.parent
            yield f"files     {folder}/", "text"
        name = path.name if output.path else output.name
        yield f"          {name:<24} {plural(output.rows, 'row')}, {format_size(output.bytes)}B", "text"
