"""The table of runs, and what one gave compared with another."""

import time
from collections.abc import Iterator, Mapping

from crawl_console.format import Span, format_clock, format_count, format_latency
from crawl_console.words.table import Column, Row
from crawl_engine.judge.run_verdict import judge_run
from crawl_engine.model.run import RunState
from crawl_engine.store.read.history import RunReport

_FALLEN_SHARE = 0.9
"""A number is marked if it falls below this share of the other run's."""
RUN_COLUMNS = (
    Column("RUN", 6), Column("STARTED", 11), Column("STATE", 15), Column("TIME", 8, right=True),
    Column("DONE", 6, right=True), Column("FAILED", 6, right=True), Column("ROWS", 6, right=True),
    Column("WARN", 4, right=True), Column("EMPTIED", 7, right=True), Column("FIELDS", 0, min_pane_width=100),
    Column("DEFS", 5, right=True, min_pane_width=100),
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
    past, warnings = report.past, len(report.warnings)
    verdict = judge_run(past, report.shortfall, is_live=is_live)
    emptied = ", ".join(report.emptied_fields)
    emptied_role = "warn" if emptied else "dim"
    return Row(
        past.id,
        (
            (past.id, "strong"), (time.strftime("%m-%d %H:%M", time.localtime(past.created_at)), "dim"),
            (verdict.word, verdict.level), (format_clock(past.seconds), "text"),
            (format_count(past.done), "text"), (format_count(past.failed), "bad" if past.failed else "dim"),
            (format_count(past.rows), "strong"), (str(warnings), "warn" if warnings else "dim"),
            (str(len(report.emptied_fields)), emptied_role), (emptied or "-", emptied_role),
            (f"v{past.defs_version or '-'}", "dim"),
        ),
        (
            past.id, past.created_at, verdict.word, past.seconds, past.done, past.failed, past.rows, warnings,
            len(report.emptied_fields), emptied, past.defs_version,
        ),
        report,
    )  # fmt: skip
