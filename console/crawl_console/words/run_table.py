"""The table of runs, and what one gave compared with another."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from crawl_console.format import Span, format_clock, format_count, format_latency
from crawl_console.words.table import Column, Row, item_row
from crawl_engine.judge.run_verdict import RunVerdict, judge_run
from crawl_engine.model.run import RunState
from crawl_engine.store.read.history import PastRun, RunReport

_FALLEN_SHARE = 0.9
"""A number is marked if it falls below this share of the other run's."""


class ShownRun(NamedTuple):
    """A run, and whether a supervisor works on it."""

    report: RunReport
    is_live: bool

    @property
    def past(self) -> PastRun:
        return self.report.past

    @property
    def verdict(self) -> RunVerdict:
        return judge_run(self.past, self.report.shortfall, is_live=self.is_live)

    @property
    def emptied(self) -> str:
        return ", ".join(self.report.emptied_fields)

    @property
    def emptied_role(self) -> str:
        return "warn" if self.report.emptied_fields else "dim"


def _started_span(shown: ShownRun) -> Span:
    return time.strftime("%m-%d %H:%M", time.localtime(shown.past.created_at)), "dim"


def _state_span(shown: ShownRun) -> Span:
    verdict = shown.verdict
    return verdict.word, verdict.level


def _warnings_span(shown: ShownRun) -> Span:
    count = len(shown.report.warnings)
    return str(count), "warn" if count else "dim"


RUN_COLUMNS: Sequence[Column[ShownRun]] = (
    Column("RUN", 6, lambda shown: (shown.past.id, "strong"), lambda shown: shown.past.id, "its id"),
    Column("STARTED", 11, _started_span, lambda shown: shown.past.created_at, "when it began"),
    Column("STATE", 15, _state_span, lambda shown: shown.verdict.word, "how it ended"),
    Column(
        "TIME", 8, lambda shown: (format_clock(shown.past.seconds), "text"), lambda shown: shown.past.seconds,
        "how long it took", right=True,
    ),
    Column(
        "DONE", 6, lambda shown: (format_count(shown.past.done), "text"), lambda shown: shown.past.done, "pages",
        right=True,
    ),
    Column(
        "FAILED", 6, lambda shown: (format_count(shown.past.failed), "bad" if shown.past.failed else "dim"),
        lambda shown: shown.past.failed, "pages", right=True,
    ),
    Column(
        "ROWS", 6, lambda shown: (format_count(shown.past.rows), "strong"), lambda shown: shown.past.rows,
        "that it extracted", right=True,
    ),
    Column("WARN", 4, _warnings_span, lambda shown: len(shown.report.warnings), "its warnings", right=True),
    Column(
        "EMPTIED", 7, lambda shown: (str(len(shown.report.emptied_fields)), shown.emptied_role),
        lambda shown: len(shown.report.emptied_fields), "fields that were filled in the run before", right=True,
    ),
    Column(
        "FIELDS", 0, lambda shown: (shown.emptied or "-", shown.emptied_role), lambda shown: shown.emptied,
        "the names of these fields", min_pane_width=100,
    ),
    Column(
        "DEFS", 5, lambda shown: (f"v{shown.past.defs_version or '-'}", "dim"),
        lambda shown: shown.past.defs_version, "their version", right=True, min_pane_width=100,
    ),
)  # fmt: skip


def compare_runs(run: RunReport, before: RunReport | None) -> Iterator[Span]:
    """What a run gave, with what another gave beside it."""
    if before is not None:
        yield f"{'':<28}{run.past.id:>12}{before.past.id:>12}", "dim"
    earlier = before.rows_by_data_def if before is not None else None
    yield from _compare("rows ", run.rows_by_data_def, earlier, _FALLEN_SHARE)
    shares = _compare(
        "filled ", run.filled, before.filled if before is not None else None, _FALLEN_SHARE, as_share=True
    )
    yield from sorted(shares, key=lambda span: span[1] != "warn")
    failures = [{reason: float(count) for reason, count in one.failures} for one in (run, before) if one is not None]
    yield from _compare("failed ", failures[0], failures[1] if before is not None else None, None)
    p95 = [format_latency(one.p95) for one in (run, before) if one is not None]
    yield f"{'latency p95':<28}" + "".join(f"{text:>12}" for text in p95), "text"


def end_lines(run: RunReport) -> Iterator[Span]:
    """How a run ended, where its state does not say it all, and its warnings."""
    verdict = judge_run(run.past, run.shortfall, is_live=False)
    if not RunState(run.past.state).is_open and verdict.text != verdict.word:
        yield verdict.text, verdict.level
    for text in run.warnings:
        yield f"! {text}", "warn"


def _compare(
    label: str,
    values: Mapping[str, float],
    others: Mapping[str, float] | None,
    fallen: float | None,
    *,
    as_share: bool = False,
) -> Iterator[Span]:
    """A line a name. It is marked if its value is below `fallen` of the other's, or with None if it is higher."""
    for name in dict.fromkeys([*values, *(others or ())]):
        now = values.get(name)
        text = f"{label + name:<28} {_format(now, as_share=as_share):>11}"
        if others is None:
            yield text, "text"
            continue
        then = others.get(name)
        text += f"{_format(then, as_share=as_share):>12}"
        change = (now or 0.0) - (then or 0.0)
        if then and change:
            text += f"  {change * 100:+.1f} points" if as_share else f"  {change / then:+.1%}"
        worse = (now or 0.0) > (then or 0.0) if fallen is None else (now or 0.0) < (then or 0.0) * fallen
        yield text, "warn" if worse else "text"


def _format(value: float | None, *, as_share: bool) -> str:
    return "-" if value is None else f"{value:.1%}" if as_share else f"{value:,.0f}"


def run_row(report: RunReport, *, is_live: bool) -> Row:
    return item_row(RUN_COLUMNS, report.past.id, ShownRun(report, is_live), report)
